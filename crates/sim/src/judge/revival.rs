//! I4: a renewal never revives, never creates, never moves a generation.

use std::collections::{BTreeMap, BTreeSet};

use super::{Invariant, Violation};
use crate::history::{
    Belief, Call, CallVerb, Client, Event, History, Nanos, OpId, Outcome, Step, TokenId, What,
};

/// What true time and a store's ticks may differ by through rounding.
const ROUNDING: Nanos = 2_000;

/// I4: in the store, a reign that ended or whose time is over is never prolonged; for callers, what was once
/// answered as over never renews again; a guard that is lost stays lost.
pub fn nothing_revives(history: &History) -> Vec<Violation> {
    let mut found = in_the_store(history);
    found.extend(for_callers(history));
    found.extend(in_guards(history));
    found
}

/// What the store last said of a reign.
#[derive(Default)]
struct Life {
    until: Option<Nanos>,
    ended: bool,
}

fn in_the_store(history: &History) -> Vec<Violation> {
    let mut lives: BTreeMap<(u32, &str, u64), Life> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        let What::Store { store, key, step, generation, .. } = what else { continue };
        let place = (*store, key.as_str(), *generation);
        match step {
            Step::Granted => drop(lives.insert(place, Life::default())),
            Step::Ended(_) => lives.entry(place).or_default().ended = true,
            Step::Renewed { until } => {
                let life = lives.entry(place).or_insert(Life { until: None, ended: true });
                let late = life.until.is_some_and(|until| *at > until + ROUNDING);
                if life.ended || late {
                    let text = format!("{key}: {generation} was prolonged after its end");
                    found.push(Violation::new(Invariant::NothingRevives, *at, text));
                }
                life.until = Some(*until);
            }
            Step::Parked | Step::Left | Step::Successor { .. } | Step::Closed { .. } => {}
        }
    }
    found
}

fn for_callers(history: &History) -> Vec<Violation> {
    let mut calls: BTreeMap<OpId, (Nanos, &Call)> = BTreeMap::new();
    let mut over: BTreeMap<(&str, u64, TokenId), Nanos> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        let (op, answer) = match what {
            What::Invoked { op, call, .. } => {
                calls.insert(*op, (*at, call));
                continue;
            }
            What::Returned { op, answer } => (op, answer),
            _ => continue,
        };
        let Some((asked, call)) = calls.get(op) else { continue };
        let (Some(token), Some(generation)) = (call.token, call.generation) else { continue };
        let reign = (call.key.as_str(), generation, token);
        match (call.verb, &*answer.word) {
            (CallVerb::Renew, "lost")
            | (CallVerb::Release, "released")
            | (CallVerb::Transfer, "transferred" | "not_held") => {
                over.entry(reign).or_insert(*at);
            }
            (CallVerb::Renew, "renewed")
                if answer.outcome == Outcome::Ok && over.get(&reign).is_some_and(|end| end < asked) =>
            {
                let text =
                    format!("{}: {generation} was renewed after it had been answered as over", call.key);
                found.push(Violation::new(Invariant::NothingRevives, *at, text));
            }
            _ => {}
        }
    }
    found
}

fn in_guards(history: &History) -> Vec<Violation> {
    let mut lost: BTreeSet<(Client, &str, u64)> = BTreeSet::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        let What::Guard { client, key, generation, state, .. } = what else { continue };
        let guard = (*client, key.as_str(), *generation);
        if *state == Belief::Lost {
            lost.insert(guard);
        } else if lost.contains(&guard) {
            let text = format!("{key}: client {client} holds {generation} again after it was lost");
            found.push(Violation::new(Invariant::NothingRevives, *at, text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    #[test]
    fn renewals_within_the_reign_are_good() {
        let good = history([
            (0, granted("k", 1, 11)),
            (0, renewed("k", 1, 100)),
            (50, renewed("k", 1, 150)),
            (150, ended("k", 1, "expired")),
        ]);
        assert_eq!(nothing_revives(&good), []);
    }

    #[test]
    fn a_renewal_after_the_end_is_found() {
        let bad =
            history([(0, granted("k", 1, 11)), (5, ended("k", 1, "expired")), (6, renewed("k", 1, 100))]);
        assert_eq!(nothing_revives(&bad).len(), 1);
    }

    #[test]
    fn a_renewal_past_the_time_is_found_though_nobody_swept() {
        let bad =
            history([(0, granted("k", 1, 11)), (0, renewed("k", 1, 100)), (5_000, renewed("k", 1, 9_000))]);
        assert_eq!(nothing_revives(&bad).len(), 1);
    }

    #[test]
    fn a_renewal_that_creates_is_found() {
        let bad = history([(6, renewed("k", 1, 100))]);
        assert_eq!(nothing_revives(&bad).len(), 1);
    }

    #[test]
    fn callers_never_hear_yes_after_no() {
        let story = |asked| {
            history([
                (0, renew(1, 1, "k", 11, 1)),
                (3, answer(1, "lost", 0)),
                (asked, renew(2, 1, "k", 11, 1)),
                (9, answer(2, "renewed", 1)),
            ])
        };
        assert_eq!(nothing_revives(&story(4)).len(), 1);
        assert_eq!(nothing_revives(&story(2)), []);
    }

    #[test]
    fn a_lost_guard_stays_lost() {
        let good = history([(0, guard(1, "k", 1, Belief::Suspended)), (1, guard(1, "k", 1, Belief::Held))]);
        assert_eq!(nothing_revives(&good), []);
        let bad = history([(0, guard(1, "k", 1, Belief::Lost)), (1, guard(1, "k", 1, Belief::Held))]);
        assert_eq!(nothing_revives(&bad).len(), 1);
    }
}
