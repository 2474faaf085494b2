//! One run: the plan carried out, the histories brought together, the judgement.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::wait;

use super::plan::{Fault, plan};
use super::rig::{Engine, LIMIT, Rig};
use super::verdict::Verdict;
use super::{clock, holder, log};
use crate::history::{Event, History, Setting, What};

/// What to run.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// The engine.
    pub engine: Engine,
    /// Where the plan and the holders' choices come from.
    pub seed: u64,
    /// For how long things go wrong.
    pub length: Duration,
    /// How many holders there are.
    pub holders: usize,
    /// How many keys they pursue.
    pub keys: usize,
    /// The TTL.
    pub ttl: Duration,
    /// Whether the first holder does not ask before it acts.
    pub broken: bool,
}

impl Chaos {
    /// Five holders on three keys with a TTL of one second.
    pub const fn new(engine: Engine, seed: u64, length: Duration) -> Self {
        let ttl = Duration::from_secs(1);
        Self { engine, seed, length, holders: 5, keys: 3, ttl, broken: false }
    }

    fn setting(&self) -> Setting {
        Setting {
            seed: self.seed,
            engine: self.engine.to_string().into(),
            // One machine, one clock; nobody steps it.
            clocks_hold: true,
            ..Setting::default()
        }
    }
}

/// Runs it and judges what was recorded.
pub fn run(chaos: &Chaos) -> Result<Verdict> {
    let keys: Vec<String> = (0..chaos.keys).map(|n| format!("chaos/{n}")).collect();
    let args = holder::Args {
        url: String::new(),
        api_token: None,
        client: 0,
        host: 0,
        keys: keys.clone(),
        ttl: chaos.ttl,
        history: PathBuf::new(),
        resource: PathBuf::new(),
        seed: chaos.seed,
        broken: chaos.broken,
    };
    let mut rig = Rig::start(chaos.engine, chaos.holders, args)?;
    let mut events = Vec::new();
    let done = carry_out(chaos, &mut rig, &keys, &mut events);
    done.with_context(|| {
        format!("seed {} on {}; the server said: {}", chaos.seed, chaos.engine, rig.said())
    })?;
    for path in rig.logs()? {
        events.extend(log::read(&path, 0)?);
    }
    let mut history = History { setting: chaos.setting(), events };
    history.sort();
    Ok(Verdict::of(history))
}

fn carry_out(chaos: &Chaos, rig: &mut Rig, keys: &[String], events: &mut Vec<Event>) -> Result<()> {
    // Faults begin once there is something to disturb.
    wait_for_permits(rig, keys, "somebody holds each key")?;
    let start = clock::now();
    // A broken holder is given every occasion: nothing but long stops of it.
    let steps = match chaos.broken {
        false => plan(chaos.seed, chaos.length, chaos.holders, chaos.ttl),
        true => stops(chaos),
    };
    let mut moments: Vec<(Duration, usize, bool)> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        moments.extend([(step.from, i, true), (step.until, i, false)]);
    }
    moments.sort_by_key(|(at, i, begins)| (*at, *i, !begins));
    for (at, i, begins) in moments {
        clock::sleep_until(start + at);
        let fault = steps[i].fault;
        match begins {
            true => {
                let host = match fault {
                    Fault::StopServer | Fault::KillServer => 0,
                    Fault::StopHolder(who)
                    | Fault::KillHolder(who)
                    | Fault::Cut(who)
                    | Fault::Delay(who, ..)
                    | Fault::Stall(who, _)
                    | Fault::Lose(who, _)
                    | Fault::Refuse(who)
                    | Fault::CutReply(who) => who as u32 + 1,
                };
                let name = match fault {
                    Fault::KillServer | Fault::KillHolder(_) => "crash".into(),
                    fault => fault.to_string().into(),
                };
                let until = (start + steps[i].until).as_nanos();
                events.push(Event {
                    at: clock::now().as_nanos(),
                    what: What::Fault { name, host: Some(host), until },
                });
                rig.begin(fault).with_context(|| format!("begin {fault}"))?;
            }
            false => rig.end(fault).with_context(|| format!("end {fault}"))?,
        }
    }
    rig.heal()?;
    events.push(Event { at: clock::now().as_nanos(), what: What::Healed });
    wait_for_permits(rig, keys, "each key is held again after all is healed")?;
    rig.finish()?;
    events.push(Event { at: clock::now().as_nanos(), what: What::End });
    Ok(())
}

fn stops(chaos: &Chaos) -> Vec<super::plan::Step> {
    let mut from = Duration::ZERO;
    let mut steps = Vec::new();
    while from < chaos.length {
        let until = from + chaos.ttl * 3 / 2;
        steps.push(super::plan::Step { from, until, fault: Fault::StopHolder(0) });
        from = until + chaos.ttl * 2;
    }
    steps
}

/// Waits until there was a permit for every key from now on.
fn wait_for_permits(rig: &Rig, keys: &[String], what: &str) -> Result<()> {
    let begun = clock::now().as_nanos();
    let mut lengths = std::collections::BTreeMap::new();
    for path in rig.logs()? {
        let length = fs::metadata(&path)?.len();
        // From the start of the line that is being written at the earliest: what is before is of no interest.
        lengths.insert(path, length);
    }
    let mut missing: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
    wait::until(what, LIMIT, || {
        let logs = rig.logs().unwrap_or_default();
        for path in logs {
            let from = lengths.get(&path).copied().unwrap_or(0);
            for event in log::read(&path, from).unwrap_or_default() {
                if let What::Permit { key, .. } = &event.what
                    && event.at >= begun
                {
                    missing.remove(key.as_str());
                }
            }
        }
        missing.is_empty()
    })
    .with_context(|| format!("without a permit: {missing:?}"))
}
