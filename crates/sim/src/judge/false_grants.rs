//! I9: lost, late, doubled or reordered answers never make a false yes.

use std::collections::{BTreeMap, BTreeSet};

use super::reigns::reigns;
use super::{Invariant, Violation};
use crate::history::{Belief, Call, Client, Event, History, Nanos, OpId, Outcome, TokenId, What};

/// What true time and ticks may differ by through rounding.
const ROUNDING: Nanos = 5_000;

/// I9: no client believes to hold what no answer gave it; a parked grant counts after a renewal; and no permit
/// reaches beyond what the store had promised by then.
pub fn no_false_yes(history: &History) -> Vec<Violation> {
    let mut found = beliefs_rest_on_answers(history);
    found.extend(permits_rest_on_promises(history));
    found
}

fn beliefs_rest_on_answers(history: &History) -> Vec<Violation> {
    let mut calls: BTreeMap<OpId, (Client, &Call)> = BTreeMap::new();
    let mut answered: BTreeSet<(Client, &str, u64, TokenId)> = BTreeSet::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        match what {
            What::Invoked { op, client, call } => drop(calls.insert(*op, (*client, call))),
            What::Returned { op, answer } if answer.outcome == Outcome::Ok => {
                let Some((client, call)) = calls.get(op) else { continue };
                let generation = match &*answer.word {
                    "granted" => answer.generation,
                    "renewed" => call.generation,
                    "parked" if !history.setting.keeper => answer.generation,
                    _ => None,
                };
                if let (Some(generation), Some(token)) = (generation, call.token) {
                    answered.insert((*client, &call.key, generation, token));
                }
            }
            What::Guard { client, key, generation, token, state: Belief::Held | Belief::Jeopardy }
            | What::Permit { client, key, generation, token, .. }
                if !answered.contains(&(*client, key, *generation, *token)) =>
            {
                let text =
                    format!("{key}: client {client} believes in {generation}, which no answer gave it");
                found.push(Violation::new(Invariant::NoFalseYes, *at, text));
            }
            _ => {}
        }
    }
    found
}

fn permits_rest_on_promises(history: &History) -> Vec<Violation> {
    let reigns = reigns(history);
    if reigns.is_empty() || !history.setting.clocks_hold || !history.setting.single_holding {
        return Vec::new();
    }
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        let What::Permit { client, key, generation, token, until, .. } = what else { continue };
        let mut own = reigns.iter().filter(|r| r.key == *key && r.generation == *generation);
        let promised = own.find(|r| r.token.is_none_or(|t| t == *token)).map(|reign| reign.promised(*at));
        let text = match promised {
            None => format!("{key}: client {client} acts under {generation}, which was never granted to it"),
            Some(Some(promised)) if *until > promised + ROUNDING => format!(
                "{key}: client {client} may act until {:.6} s, the store promised {:.6} s",
                *until as f64 / 1e9,
                promised as f64 / 1e9
            ),
            Some(_) => continue,
        };
        found.push(Violation::new(Invariant::NoFalseYes, *at, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    fn asked(word: &'static str) -> Vec<(Nanos, What)> {
        vec![
            (0, acquire(1, 1, "k", 101)),
            (1, granted("k", 1, 101)),
            (1, renewed("k", 1, 1_000_000)),
            (2, answer(1, word, 1)),
        ]
    }

    fn then(mut story: Vec<(Nanos, What)>, more: impl IntoIterator<Item = (Nanos, What)>) -> History {
        story.extend(more);
        history(story)
    }

    #[test]
    fn a_belief_that_rests_on_an_answer_is_good() {
        let good =
            then(asked("granted"), [(3, guard(1, "k", 1, Belief::Held)), (4, permit(1, 1, "k", 1, 900_000))]);
        assert_eq!(no_false_yes(&good), []);
    }

    #[test]
    fn a_belief_without_an_answer_is_found() {
        for word in ["busy", "parked"] {
            let bad = then(asked(word), [(3, guard(1, "k", 1, Belief::Held))]);
            assert_eq!(no_false_yes(&bad).len(), 1, "{word}");
        }
    }

    #[test]
    fn a_parked_grant_counts_after_a_renewal() {
        let more = [
            (3, renew(2, 1, "k", 101, 1)),
            (4, answer(2, "renewed", 1)),
            (5, guard(1, "k", 1, Belief::Held)),
        ];
        assert_eq!(no_false_yes(&then(asked("parked"), more)), []);
    }

    #[test]
    fn an_answer_to_another_client_does_not_count() {
        let bad = then(asked("granted"), [(3, guard(2, "k", 1, Belief::Held))]);
        assert_eq!(no_false_yes(&bad).len(), 1);
    }

    #[test]
    fn a_permit_beyond_the_promise_is_found() {
        let bad = then(asked("granted"), [(4, permit(1, 1, "k", 1, 1_100_000))]);
        assert_eq!(no_false_yes(&bad).len(), 1);
        let mut excused = bad;
        excused.setting.clocks_hold = false;
        assert_eq!(no_false_yes(&excused), []);
    }

    #[test]
    fn a_promise_made_later_does_not_count() {
        let more = [(4, permit(1, 1, "k", 1, 1_100_000)), (5, renewed("k", 1, 2_000_000))];
        assert_eq!(no_false_yes(&then(asked("granted"), more)).len(), 1);
    }
}
