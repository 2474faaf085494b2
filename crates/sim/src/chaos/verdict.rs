//! What a run of real processes amounts to.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{Call, CallVerb, Event, History, Nanos, OpId, Outcome, TokenId, What};
use crate::judge::{Invariant, Violation, judge};
use crate::linear::{self, NotLinearizable, SearchStats};

/// How often what must have happened in a run.
const MINIMUM: [(&str, u64); 11] = [
    ("grants", 5),
    ("renewals", 5),
    ("permits", 5),
    ("writes to files", 5),
    ("writes to records", 5),
    ("servers killed", 1),
    ("servers stopped", 1),
    ("holders killed", 1),
    ("holders stopped", 2),
    ("connections cut", 2),
    ("connections slow or silent", 2),
];

/// The judgement and what it rests on.
#[derive(Debug)]
pub struct Verdict {
    /// Everything that did not hold.
    pub violations: Vec<Violation>,
    /// The history itself.
    pub history: History,
    /// What happened how often.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Verdict {
    /// Judges a history.
    pub fn of(history: History) -> Self {
        let mut violations = judge(&history);
        violations.extend(records_never_go_back(&history));
        let counts = count(&history);
        violations.sort_by_key(|violation| violation.at);
        Self { violations, history, counts }
    }

    /// Looks for an order that explains what the store answered. On a long history the search may take long.
    pub fn order(&self) -> Result<SearchStats, NotLinearizable> {
        linear::check(&self.history)
    }

    /// How often something happened.
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// What happened too seldom for the run to count: each with how often it did and how often it must.
    pub fn missing(&self) -> Vec<(&'static str, u64, u64)> {
        let counted = MINIMUM.iter().map(|(what, least)| (*what, self.count(what), *least));
        counted.filter(|(_, count, least)| count < least).collect()
    }

    /// Whether enough was done, and enough went wrong, for the run to count as one.
    pub fn is_meaningful(&self) -> bool {
        self.missing().is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.counts.iter().map(|(what, n)| format!("{n} {what}")).collect();
        writeln!(f, "{} events: {}", self.history.events.len(), counts.join(", "))?;
        for (what, count, least) in self.missing() {
            writeln!(f, "{count} {what} are too few, {least} are the least")?;
        }
        match self.violations.len() {
            0 => write!(f, "nothing is wrong"),
            n => {
                writeln!(f, "{n} violations:")?;
                self.violations.iter().take(20).try_for_each(|violation| writeln!(f, "{violation}"))
            }
        }
    }
}

fn count(history: &History) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for Event { what, .. } in &history.events {
        let word = match what {
            What::Returned { answer, .. } => match (answer.outcome, &*answer.word) {
                (Outcome::Ok, "granted" | "parked") => "grants",
                (Outcome::Ok, "renewed") => "renewals",
                (Outcome::Ok, "written") => "writes to records",
                (_, "lost") => "losses",
                (_, "fenced_out") => "records fenced out",
                (Outcome::Unknown, _) => "unknown outcomes",
                _ => continue,
            },
            What::Permit { .. } => "permits",
            What::Wrote { accepted: true, .. } => "writes to files",
            What::Wrote { accepted: false, .. } => "writes kept out of files",
            What::Fault { name, host, .. } => fault_kind(name, *host == Some(0)),
            What::Started { .. } => "lives",
            _ => continue,
        };
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// The kind of a fault, by its name in the history.
fn fault_kind(name: &str, server: bool) -> &'static str {
    match (name.split('(').next().unwrap_or(name), server) {
        ("crash", true) => "servers killed",
        ("crash", false) => "holders killed",
        ("StopServer", _) => "servers stopped",
        ("StopHolder", _) => "holders stopped",
        ("Cut" | "CutReply" | "Refuse", _) => "connections cut",
        ("Delay" | "Stall" | "Lose", _) => "connections slow or silent",
        _ => "other faults",
    }
}

/// Generation, token, and when it was answered.
type Write = (u64, Option<TokenId>, Nanos);

/// In the store's own order of writes to a record, generations never fall, and no two tokens write under one.
fn records_never_go_back(history: &History) -> Vec<Violation> {
    let mut calls: BTreeMap<OpId, &Call> = BTreeMap::new();
    let mut written: BTreeMap<&str, BTreeMap<u64, Write>> = BTreeMap::new();
    for Event { at, what } in &history.events {
        match what {
            What::Invoked { op, call, .. } => drop(calls.insert(*op, call)),
            What::Returned { op, answer } if answer.word == "written" => {
                let revision = answer.why.as_ref().and_then(|why| why.parse().ok());
                let call = calls
                    .get(op)
                    .filter(|call| matches!(call.verb, CallVerb::WriteStrict | CallVerb::WriteMonotonic));
                if let (Some(call), Some(revision)) = (call, revision) {
                    let by = (call.generation.unwrap_or(0), call.token, *at);
                    written.entry(&call.key).or_default().insert(revision, by);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (key, writes) in written {
        for ((_, before), (revision, after)) in writes.iter().zip(writes.iter().skip(1)) {
            if after.0 < before.0 || (after.0 == before.0 && after.1 != before.1) {
                let text =
                    format!("{key}: revision {revision} was written under {} after {}", after.0, before.0);
                let (invariant, at) = (Invariant::FencedWrites, after.2);
                found.push(Violation { invariant, at, text });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, Setting};

    fn wrote(op: OpId, generation: u64, revision: &'static str) -> [Event; 2] {
        let call = Call {
            verb: CallVerb::WriteStrict,
            key: "k".into(),
            token: Some(generation),
            generation: Some(generation),
            holder: None,
            ttl: None,
            wait: None,
        };
        let (outcome, why) = (Outcome::Ok, Some(revision.into()));
        let answer = Answer { outcome, word: "written".into(), generation: None, why };
        let invoked = What::Invoked { op, client: 1, call };
        [Event { at: op, what: invoked }, Event { at: op, what: What::Returned { op, answer } }]
    }

    fn judged(writes: [[Event; 2]; 2]) -> usize {
        let events = writes.into_iter().flatten().collect();
        records_never_go_back(&History { setting: Setting::default(), events }).len()
    }

    #[test]
    fn the_order_of_writes_is_the_stores_own() {
        // Answered in another order than written: what counts is the revision.
        assert_eq!(judged([wrote(1, 6, "11"), wrote(2, 5, "10")]), 0);
        assert_eq!(judged([wrote(1, 5, "11"), wrote(2, 6, "10")]), 1);
    }

    /// A grant for ten seconds.
    fn granted(op: OpId, from: Nanos) -> [Event; 2] {
        let call = Call {
            verb: CallVerb::Acquire,
            key: "k".into(),
            token: Some(op),
            generation: None,
            holder: Some(format!("h{op}")),
            ttl: Some(10_000_000_000),
            wait: None,
        };
        let answer = Answer { outcome: Outcome::Ok, word: "granted".into(), generation: Some(op), why: None };
        let invoked = What::Invoked { op, client: op as u32, call };
        let returned = What::Returned { op, answer };
        [Event { at: from, what: invoked }, Event { at: from + 1_000_000, what: returned }]
    }

    fn fault(name: &str, host: u32) -> Event {
        Event { at: 0, what: What::Fault { name: name.to_owned().into(), host: Some(host), until: 1 } }
    }

    #[test]
    fn faults_are_counted_by_kind_and_a_run_in_which_no_server_was_killed_does_not_count() {
        let others = ["StopServer", "crash", "StopHolder(1)", "Cut(0)", "CutReply(1)", "Stall(1, ToServer)"];
        let mut events: Vec<Event> = others.iter().map(|name| fault(name, 1)).collect();
        let missing = |events: &[Event]| -> Vec<&str> {
            let history = History { setting: Setting::default(), events: events.to_vec() };
            Verdict::of(history).missing().iter().map(|(what, ..)| *what).collect()
        };
        let without = missing(&events);
        assert!(without.contains(&"servers killed") && without.contains(&"grants"), "{without:?}");
        assert!(!without.contains(&"holders killed") && !without.contains(&"connections cut"), "{without:?}");
        events.push(fault("crash", 0));
        assert!(!missing(&events).contains(&"servers killed"));
        assert!(Verdict::of(History { setting: Setting::default(), events }).count("other faults") == 0);
    }

    #[test]
    fn answers_that_no_order_explains_are_found_though_nobody_acted() {
        for (after, expected) in [(11, false), (5, true)] {
            let setting = Setting { resends: true, ..Setting::default() };
            let events = [granted(1, 0), granted(2, after * 1_000_000_000)].into_iter().flatten().collect();
            let verdict = Verdict::of(History { setting, events });
            assert_eq!(verdict.order().is_err(), expected, "{verdict}");
        }
    }
}
