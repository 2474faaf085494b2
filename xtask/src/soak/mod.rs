//! `cargo xtask soak media`: bots join and leave a meeting for a while. Nothing may leak and no subscription may get stuck.
mod judge;
mod processes;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::judge::{End, Sample, judge};
use self::processes::{Bots, Server};
use crate::workspace::Workspace;
use crate::{clock, step};

/// Between two samples.
const SAMPLE: Duration = Duration::from_secs(10);
/// Bots that stay from the beginning to the end and watch the others.
const ANCHORS: u64 = 4;
/// How long the last bots may take to leave, and the handler to forget them.
const LEAVE: Duration = Duration::from_secs(60);

struct Args {
    minutes: u64,
    bots: u64,
}

impl Args {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut args = Self { minutes: 30, bots: 20 };
        let mut words = words.iter();
        ensure!(words.next() == Some(&"media"), "name what to soak: `cargo xtask soak media`");
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name} needs a number"))?;
            let value: u64 = value.parse().with_context(|| format!("{name} {value}"))?;
            match *name {
                "--minutes" => args.minutes = value.max(1),
                "--bots" => args.bots = value.clamp(ANCHORS + 1, 100),
                unknown => bail!("unknown argument {unknown}; see `cargo xtask help`"),
            }
        }
        Ok(args)
    }
}

/// Runs the soak and fails if the judge finds a leak.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<()> {
    let args = Args::parse(words)?;
    // A leak does not depend on the profile, and this build is there after the tests.
    step::command(&mut workspace.cargo(&["build", "--workspace", "--bins"]))?;
    let server = Server::start(workspace)?;
    let anchors = Bots::start(&server, ANCHORS, None, None)?;
    let meeting = anchors.meeting()?;
    println!("soak of {} min with {} bots in {meeting}", args.minutes, args.bots);
    let (begun, mut samples, mut random) = (clock::start(), Vec::new(), Random(0x9e37_79b9_7f4a_7c15));
    let mut visitors: Vec<Bots> = Vec::new();
    while begun.elapsed() < Duration::from_secs(args.minutes * 60) {
        visitors = still_there(visitors)?;
        let mut people: u64 = ANCHORS + visitors.iter().map(|bots| bots.people).sum::<u64>();
        while people < args.bots {
            let count = (1 + random.below(4)).min(args.bots - people);
            // An address gets a guest token every two seconds.
            let stay = Duration::from_secs(30 + random.below(60));
            visitors.push(Bots::start(&server, count, Some(&meeting), Some(stay))?);
            people += count;
        }
        clock::pause(SAMPLE);
        ensure!(anchors.are_running()?, "the bots that stay ended");
        let sample = Sample {
            resident: server.resident()?,
            forwarded: server.metric("mh_frames_forwarded_total")?,
            cached: server.metric("mh_cache_bytes")?,
            received: anchors.received(),
            people,
        };
        println!("{:>5} s  {sample}", begun.elapsed().as_secs());
        samples.push(sample);
    }
    anchors.leave()?;
    for bots in &visitors {
        bots.leave()?;
    }
    let end = settle(&server)?;
    let verdict = judge(&samples, &end);
    for line in &verdict.lines {
        println!("{line}");
    }
    ensure!(verdict.failures.is_empty(), "the soak failed: {}", verdict.failures.join("; "));
    println!("the soak passed");
    Ok(())
}

/// Those that have not left yet. One that failed ends the soak.
fn still_there(visitors: Vec<Bots>) -> Result<Vec<Bots>> {
    let mut there = Vec::new();
    for bots in visitors {
        if bots.are_running()? {
            there.push(bots);
        }
    }
    Ok(there)
}

/// Waits until the handler has forgotten all participants, within a bound.
fn settle(server: &Server) -> Result<End> {
    let begun = clock::start();
    loop {
        let end = End {
            sessions: server.metric("mh_sessions_active")?,
            publications: server.metric("mh_publications_active")?,
            subscriptions: server.metric("mh_subscriptions_active")?,
            cached: server.metric("mh_cache_bytes")?,
            resident: server.resident()?,
        };
        if end.is_empty() || begun.elapsed() > LEAVE {
            return Ok(end);
        }
        clock::pause(Duration::from_secs(1));
    }
}

/// A fixed sequence (xorshift): every soak has the same visits.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_defaults_and_bounds() {
        let args = Args::parse(&["media"]).unwrap();
        assert_eq!((args.minutes, args.bots), (30, 20));
        let args = Args::parse(&["media", "--minutes", "0", "--bots", "1"]).unwrap();
        assert_eq!((args.minutes, args.bots), (1, ANCHORS + 1));
        for words in [vec![], vec!["leases"], vec!["media", "--minutes"], vec!["media", "--people", "3"]] {
            assert!(Args::parse(&words).is_err(), "{words:?}");
        }
    }
}
