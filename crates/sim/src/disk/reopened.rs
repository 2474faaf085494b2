//! What a store must show when it was opened again.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tenure_lease::{Key, Leases, LogEntry, Mode, Op, Phase, Records, Reign, Status, Verified};
use tenure_store::Local;

use super::judge::{Judge, KeyFacts};
use super::simulation::DiskSimulation;

/// What a future gives that has nothing to wait for.
fn at_once<T>(future: impl Future<Output = tenure_lease::Result<T>>) -> Result<T, String> {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(seen)) => Ok(seen),
        Poll::Ready(Err(error)) => Err(format!("a store that was just opened says: {error}")),
        Poll::Pending => Err(String::from("a store that was just opened keeps a reader waiting")),
    }
}

impl DiskSimulation {
    /// Compares what the store has with what it answered before.
    pub(crate) fn settled(&mut self) {
        // The events of opening itself come first.
        if let Some(store) = &mut self.store {
            let _ = store.take() && store.put();
        }
        let Some(store) = self.local() else { return };
        let now = self.time.now();
        let mut found = leases(&self.judge, &store, now);
        if found.is_ok() {
            found = records(&self.judge, &store);
        }
        if let Err(words) = found {
            self.judge.fail(format!("after a restart: {words}"));
        }
    }
}

fn leases(judge: &Judge, store: &Arc<Local>, now: u64) -> Result<(), String> {
    for (name, facts) in judge.keys.iter().filter(|(name, _)| name.starts_with("k/")) {
        let key = Key::new(name).map_err(|e| e.to_string())?;
        let status = at_once(store.inspect(&key))?;
        let past = at_once(store.history(&key))?;
        let top = status.generation.map_or(0, tenure_lease::Generation::get);
        if top < facts.top {
            return Err(format!("{name}: {top} is the last generation, {} was answered", facts.top));
        }
        delays(name, facts, &status, now)?;
        for reign in &facts.reigns {
            let live = match at_once(store.verify(&key, &reign.token))? {
                Verified::Live { generation, remaining } if generation.get() == reign.generation => {
                    Some(remaining)
                }
                _ => None,
            };
            let g = reign.generation;
            if let (Some((how, _)), Some(_)) = (reign.ended, live) {
                return Err(format!("{name}: {g} is live, it had been answered {how}"));
            }
            if reign.local && live.is_some() {
                return Err(format!("{name}: {g} is live, its process is dead"));
            }
            if reign.believed(now) {
                let owed = reign.until - now;
                let has = live.map_or(0, |left| left.as_nanos() as u64);
                if has < owed {
                    let ms = 1_000_000.0;
                    let (has, owed) = (has as f64 / ms, owed as f64 / ms);
                    return Err(format!("{name}: {g} has {has} ms left, its holder may believe in {owed}"));
                }
            }
            ends(name, reign, &past)?;
        }
    }
    Ok(())
}

fn delays(name: &str, facts: &KeyFacts, status: &Status, now: u64) -> Result<(), String> {
    let Some((after, until)) = facts.delay.filter(|(_, until)| *until > now) else { return Ok(()) };
    let left = status.remaining.map_or(0, |left| left.as_nanos() as u64);
    if status.phase == Phase::Delayed && now + left >= until {
        return Ok(());
    }
    Err(format!("{name}: {:?} for {left} ns, a lock-delay after {after} is not over", status.phase))
}

fn ends(name: &str, reign: &super::judge::ReignFacts, past: &[Reign]) -> Result<(), String> {
    let expected = match (reign.ended, reign.died && !reign.maybe_ended) {
        (Some((how, _)), _) if !matches!(how, "lost" | "expired") => how,
        (None, true) => "holder_died",
        _ => return Ok(()),
    };
    // Only the last ones are kept.
    if past.first().is_none_or(|oldest| oldest.generation.get() > reign.generation) && past.len() >= 32 {
        return Ok(());
    }
    let found = past.iter().find(|p| p.generation.get() == reign.generation).map(|p| p.end);
    match found {
        Some(Some(end)) if end.as_str() == expected => Ok(()),
        other => Err(format!("{name}: the history of {} says {other:?}, not {expected}", reign.generation)),
    }
}

fn records(judge: &Judge, store: &Arc<Local>) -> Result<(), String> {
    let log = Key::new("log").map_err(|e| e.to_string())?;
    let entries = at_once(store.read_log(&log, 0, 1_000))?;
    let order = numbers(&entries)?;
    let place: BTreeMap<usize, usize> = order.iter().enumerate().map(|(at, n)| (*n, at)).collect();
    if place.len() != order.len() {
        return Err(String::from("a commit is in the log twice"));
    }
    let mut last = 0;
    for (n, commit) in judge.commits.iter().enumerate() {
        match place.get(&n) {
            None if commit.answered.is_some() => return Err(format!("commit {n} was answered and is lost")),
            Some(_) if commit.refused => return Err(format!("commit {n} was refused and is there")),
            _ => {}
        }
    }
    for n in &order {
        let commit = judge.commits.get(*n).ok_or("a commit that was never sent")?;
        // An operation that was answered before another began comes before it.
        if commit.answered.is_some_and(|answered| answered < last) {
            return Err(format!("commit {n} came after one that was asked later than it was answered"));
        }
        last = last.max(commit.sent);
    }
    fences(judge, store, &order)?;
    let mut expected: BTreeMap<&Key, Option<usize>> = BTreeMap::new();
    for n in &order {
        for op in &judge.commits[*n].ops {
            match op {
                Op::Put { key, .. } => drop(expected.insert(key, Some(*n))),
                Op::Delete { key } => drop(expected.insert(key, None)),
                _ => {}
            }
        }
    }
    for (key, n) in expected {
        let found = at_once(store.get(key))?;
        let has = found.map(|record| number(&record.value)).transpose()?;
        if has != n {
            return Err(format!("{key}: of commit {has:?}, the log says {n:?}"));
        }
    }
    Ok(())
}

/// Numbers never go back under a fence that allows none, and a fence that survived had a lease.
fn fences(judge: &Judge, store: &Arc<Local>, order: &[usize]) -> Result<(), String> {
    let mut marks: BTreeMap<&str, u64> = BTreeMap::new();
    for n in order {
        let Some((key, generation, mode)) = &judge.commits[*n].fence else { continue };
        let status = at_once(store.inspect(&Key::new(key).map_err(|e| e.to_string())?))?;
        if status.generation.is_none_or(|top| top.get() < *generation) {
            return Err(format!("{key}: commit {n} was made under {generation}, which is forgotten"));
        }
        if *mode == Mode::Monotonic {
            let mark = marks.entry(key).or_default();
            if *generation < *mark {
                return Err(format!("{key}: commit {n} of {generation} after one of {mark}"));
            }
            *mark = *generation;
        }
    }
    Ok(())
}

fn numbers(entries: &[LogEntry]) -> Result<Vec<usize>, String> {
    for (n, entry) in entries.iter().enumerate() {
        if entry.seq != n as u64 + 1 {
            return Err(format!("the log goes on with {} after {n}", entry.seq));
        }
    }
    entries.iter().map(|entry| number(&entry.value)).collect()
}

fn number(value: &[u8]) -> Result<usize, String> {
    let head: [u8; 8] = value.get(..8).and_then(|head| head.try_into().ok()).ok_or("a value is cut short")?;
    let n = u64::from_be_bytes(head) as usize;
    match value[8..].iter().all(|byte| *byte == n as u8) {
        true => Ok(n),
        false => Err(format!("the value of commit {n} is torn")),
    }
}
