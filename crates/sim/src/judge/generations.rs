//! I2: generations rise strictly per key, over everything.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::history::{Call, Event, History, Nanos, OpId, Outcome, Step, TokenId, What};

/// I2: generations rise in the store's order of grants and in real time for callers; no number is given to two
/// tokens. Where only uniqueness is promised, only that is judged.
pub fn generations_rise(history: &History) -> Vec<Violation> {
    let mut found = in_store_order(history);
    found.extend(as_callers_see_it(history));
    found
}

fn in_store_order(history: &History) -> Vec<Violation> {
    let mut seen: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        let What::Store { key, step: Step::Granted, generation, .. } = what else { continue };
        let before = seen.entry(key).or_default();
        let greatest = before.iter().max().copied().unwrap_or(0);
        let wrong = match history.setting.generations_rise {
            true => *generation <= greatest,
            false => before.contains(generation),
        };
        if wrong || *generation == 0 || *generation >= 1 << 53 {
            let text = format!("{key}: {generation} was granted after {greatest}");
            found.push(Violation::new(Invariant::GenerationsRise, *at, text));
        }
        before.push(*generation);
    }
    found
}

fn as_callers_see_it(history: &History) -> Vec<Violation> {
    let mut calls: BTreeMap<OpId, (Nanos, &Call)> = BTreeMap::new();
    let mut owners: BTreeMap<(&str, u64), TokenId> = BTreeMap::new();
    // Per key, what was known at which moment: answers come in order of time.
    let mut known: BTreeMap<&str, Vec<(Nanos, u64, TokenId)>> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        let (op, answer) = match what {
            What::Invoked { op, call, .. } => {
                calls.insert(*op, (*at, call));
                continue;
            }
            What::Returned { op, answer } if answer.outcome == Outcome::Ok => (op, answer),
            _ => continue,
        };
        let (Some((asked, call)), Some(generation)) = (calls.get(op), answer.generation) else { continue };
        let (Some(token), "granted" | "parked") = (call.token, &*answer.word) else { continue };
        let key = call.key.as_str();
        let owner = *owners.entry((key, generation)).or_insert(token);
        if owner != token {
            let text = format!("{key}: {generation} was given to two tokens");
            found.push(Violation::new(Invariant::GenerationsRise, *at, text));
        }
        let earlier = known.entry(key).or_default();
        if history.setting.generations_rise
            && let Some((when, greater, _)) = earlier
                .iter()
                .find(|(when, g, t)| when < asked && (*g > generation || *g == generation && *t != token))
        {
            let text = format!(
                "{key}: {generation} was asked for after {greater} had been answered at {:.6} s",
                *when as f64 / 1e9
            );
            found.push(Violation::new(Invariant::GenerationsRise, *at, text));
        }
        earlier.push((*at, generation, token));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    #[test]
    fn rising_generations_are_good_with_gaps_and_per_key() {
        let good = history([(0, granted("a", 5, 1)), (1, granted("b", 2, 2)), (2, granted("a", 1_000, 3))]);
        assert_eq!(generations_rise(&good), []);
    }

    #[test]
    fn a_generation_that_repeats_or_falls_is_found() {
        for second in [5, 4, 0, 1 << 53] {
            let bad = history([(0, granted("a", 5, 1)), (1, granted("a", second, 2))]);
            assert_eq!(generations_rise(&bad).len(), 1, "{second}");
        }
    }

    #[test]
    fn with_two_masters_numbers_may_fall_and_never_repeat() {
        let mut seen = history([(0, granted("a", 5, 1)), (1, granted("a", 4, 2))]);
        seen.setting.generations_rise = false;
        assert_eq!(generations_rise(&seen), []);
        seen.events.push(Event { at: 2, what: granted("a", 5, 3) });
        assert_eq!(generations_rise(&seen).len(), 1);
    }

    #[test]
    fn one_number_for_two_tokens_is_found_in_answers_alone() {
        let bad = history([
            (0, acquire(1, 1, "a", 11)),
            (1, answer(1, "granted", 5)),
            (0, acquire(2, 2, "a", 12)),
            (2, answer(2, "granted", 5)),
        ]);
        assert!(!generations_rise(&bad).is_empty());
    }

    #[test]
    fn an_answer_that_goes_back_in_real_time_is_found() {
        let story = |asked| {
            history([
                (0, acquire(1, 1, "a", 11)),
                (5, answer(1, "granted", 7)),
                (asked, acquire(2, 2, "a", 12)),
                (9, answer(2, "granted", 6)),
            ])
        };
        assert_eq!(generations_rise(&story(6)).len(), 1);
        // OpKind before the greater one was known: their order is open.
        assert_eq!(generations_rise(&story(4)), []);
    }
}
