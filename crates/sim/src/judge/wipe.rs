//! I7: a wipe without proof changes nothing.

use std::collections::BTreeMap;

use super::reigns::reigns;
use super::{Invariant, Violation};
use crate::history::{Call, CallVerb, Event, History, Nanos, OpId, Outcome, Step, What};

/// I7: what was wiped was wiped by a request whose gate reigned at that moment, with that token and generation,
/// and that was not answered as unproven.
pub fn wipes_are_proven(history: &History) -> Vec<Violation> {
    let reigns = reigns(history);
    let mut refused: BTreeMap<OpId, bool> = BTreeMap::new();
    for Event { what, .. } in &history.events {
        if let What::Returned { op, answer } = what {
            refused.insert(*op, answer.outcome == Outcome::Refused);
        }
    }
    let mut wipes: Vec<(OpId, &Call)> = Vec::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        match what {
            What::Invoked { op, call, .. } if call.verb == CallVerb::Wipe => wipes.push((*op, call)),
            What::Store { key, step: Step::Ended(why), generation, .. } if why == "wiped" => {
                let proven = |call: &Call, at: Nanos| {
                    reigns.iter().any(|gate| {
                        Some(gate.key.as_str()) == call.holder.as_deref()
                            && Some(gate.generation) == call.generation
                            && gate.token.is_none_or(|token| Some(token) == call.token)
                            && gate.live(at)
                    })
                };
                let covered = wipes.iter().any(|(op, call)| {
                    let allowed = !refused.get(op).copied().unwrap_or(false);
                    allowed
                        && key.starts_with(&call.key)
                        && Some(key) != call.holder.as_ref()
                        && proven(call, *at)
                });
                if !covered {
                    let text = format!("{key}: {generation} was wiped without proof of a gate");
                    found.push(Violation::new(Invariant::WipeIsProven, *at, text));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    fn story(gate_end: Nanos, word: &'static str) -> History {
        let wipe =
            Call { verb: CallVerb::Wipe, generation: Some(9), holder: Some("gate".into()), ..bare("k/", 77) };
        let mut events = vec![
            (0, granted("gate", 9, 77)),
            (1, granted("k/1", 1, 11)),
            (2, What::Invoked { op: 1, client: 1, call: wipe }),
            (gate_end, ended("gate", 9, "expired")),
            (5, ended("k/1", 1, "wiped")),
            (6, answer(1, word, 0)),
        ];
        events.sort_by_key(|(at, _)| *at);
        history(events)
    }

    #[test]
    fn a_wipe_under_a_live_gate_is_good() {
        assert_eq!(wipes_are_proven(&story(8, "wiped")), []);
    }

    #[test]
    fn a_wipe_after_the_gate_is_found() {
        assert_eq!(wipes_are_proven(&story(4, "wiped")).len(), 1);
    }

    #[test]
    fn a_wipe_that_was_refused_and_still_wiped_is_found() {
        assert_eq!(wipes_are_proven(&story(8, "unproven")).len(), 1);
    }

    #[test]
    fn a_wipe_that_nobody_asked_for_is_found() {
        let bad = history([(1, granted("k/1", 1, 11)), (5, ended("k/1", 1, "wiped"))]);
        assert_eq!(wipes_are_proven(&bad).len(), 1);
    }
}
