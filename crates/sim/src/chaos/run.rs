//! One run: the plan carried out, the histories brought together, the judgement.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure_lease::Tick;
use tenure_testkit::wait;

use super::cluster::{ChaosCluster, Engine, LIMIT};
use super::plan::{Fault, plan};
use super::verdict::Verdict;
use super::{clock, cluster, holder, log};
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
    /// Whether the first holder does not ask before it acts; then it is provoked and nothing else goes wrong.
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
            // One machine, one clock; it is not stepped.
            clocks_hold: true,
            // Clients send what has a token again when a connection breaks.
            resends: true,
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
    let mut cluster = ChaosCluster::start(chaos.engine, chaos.holders, args)?;
    let mut events = Vec::new();
    let done = carry_out(chaos, &mut cluster, &keys, &mut events);
    done.with_context(|| {
        format!("seed {} on {}; the server said: {}", chaos.seed, chaos.engine, cluster.said())
    })?;
    for path in cluster.logs()? {
        events.extend(log::read(&path, 0)?);
    }
    let mut history = History { setting: chaos.setting(), events };
    history.sort();
    Ok(Verdict::of(history))
}

fn carry_out(
    chaos: &Chaos,
    cluster: &mut ChaosCluster,
    keys: &[String],
    events: &mut Vec<Event>,
) -> Result<()> {
    // Faults begin once there is something to disturb.
    wait_for_permits(cluster, keys, "each key is held")?;
    if chaos.broken {
        provoke(cluster)?;
        cluster.finish()?;
        return Ok(());
    }
    let start = clock::now();
    let steps = plan(chaos.seed, chaos.length, chaos.holders, chaos.ttl);
    let mut moments: Vec<(Duration, usize, bool)> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        moments.extend([(step.from, i, true), (step.until, i, false)]);
    }
    moments.sort_by_key(|(at, i, begins)| (*at, *i, !begins));
    for (at, i, begins) in moments {
        clock::sleep_until(start + at);
        let fault = steps[i].fault;
        match begins {
            true if !cluster.can_begin(fault) => {}
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
                cluster.begin(fault).with_context(|| format!("begin {fault}"))?;
            }
            false => cluster.end(fault).with_context(|| format!("end {fault}"))?,
        }
    }
    cluster.heal()?;
    events.push(Event { at: clock::now().as_nanos(), what: What::Healed });
    wait_for_permits(cluster, keys, "each key is held again after all is healed")?;
    cluster.finish()?;
    events.push(Event { at: clock::now().as_nanos(), what: What::End });
    Ok(())
}

/// Stops the first holder while it holds, lets another one take its key, and wakes it up: a sound one does nothing
/// more with it. Every step waits for what it needs, so a slow machine only takes longer.
fn provoke(cluster: &mut ChaosCluster) -> Result<()> {
    let permit = |event: &Event| match &event.what {
        What::Permit { client, key, .. } => Some((cluster::seat(*client), key.clone())),
        _ => None,
    };
    let mut held = String::new();
    let since = clock::now();
    wait_for(cluster, since, "the first holder holds", |event| {
        let found = permit(event).filter(|(seat, _)| *seat == 0);
        found.map(|(_, key)| held = key).is_some()
    })?;
    let stopped = clock::now();
    cluster.begin(Fault::StopHolder(0))?;
    let other = |event: &Event| permit(event).is_some_and(|(seat, key)| seat != 0 && key == held);
    wait_for(cluster, stopped, "another holder has its key", other)?;
    let woken = clock::now();
    cluster.end(Fault::StopHolder(0))?;
    let again = |event: &Event| permit(event).is_some_and(|(seat, key)| seat == 0 && key == held);
    wait_for(cluster, woken, "the first holder acts again", again)?;
    wait_for(cluster, clock::now(), "another holder has its key again", other)
}

/// Waits until there was a permit for every key from now on.
fn wait_for_permits(cluster: &ChaosCluster, keys: &[String], what: &str) -> Result<()> {
    let mut missing: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
    let waited = wait_for(cluster, clock::now(), what, |event| {
        if let What::Permit { key, .. } = &event.what {
            missing.remove(key.as_str());
        }
        missing.is_empty()
    });
    waited.with_context(|| format!("without a permit: {missing:?}"))
}

/// Waits until an event of a holder after `since` is the one.
fn wait_for(
    cluster: &ChaosCluster,
    since: Tick,
    what: &str,
    mut done: impl FnMut(&Event) -> bool,
) -> Result<()> {
    let mut lengths = BTreeMap::new();
    for path in cluster.logs()? {
        // Lines are appended whole, so the rest of a file begins with a line.
        lengths.insert(path.clone(), fs::metadata(&path)?.len());
    }
    wait::until(what, LIMIT, || {
        let logs = cluster.logs().unwrap_or_default();
        let rest =
            |path: &PathBuf| log::read(path, lengths.get(path).copied().unwrap_or(0)).unwrap_or_default();
        let events = logs.iter().flat_map(rest).filter(|event| event.at > since.as_nanos());
        events.into_iter().any(|event| done(&event))
    })
}
