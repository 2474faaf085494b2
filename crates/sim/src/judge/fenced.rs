//! I3: no fenced write goes back.

use std::collections::BTreeMap;

use super::reigns::reigns;
use super::{Invariant, Violation};
use crate::history::{Event, History, TokenId, What};

/// I3: after a write of one generation was let in, none of a smaller one is, nor one of the same generation by
/// another token. A strict write is let in only while the store counts the reign as live.
pub fn fenced_writes_never_go_back(history: &History) -> Vec<Violation> {
    let reigns = reigns(history);
    let mut marks: BTreeMap<&str, (u64, TokenId)> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        let What::Wrote { key, generation, token, accepted: true, strict, client } = what else { continue };
        if *strict {
            let live = reigns.iter().any(|r| r.key == *key && r.generation == *generation && r.live(*at));
            if !reigns.is_empty() && !live {
                let text = format!("{key}: client {client} wrote under {generation}, which did not reign");
                found.push(Violation::new(Invariant::FencedWrites, *at, text));
            }
            continue;
        }
        let mark = marks.entry(key).or_insert((*generation, *token));
        if *generation < mark.0 || (*generation == mark.0 && *token != mark.1) {
            let text = format!("{key}: client {client} wrote under {generation} after {}", mark.0);
            found.push(Violation::new(Invariant::FencedWrites, *at, text));
        }
        *mark = (*mark).max((*generation, *token));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    fn wrote(key: &str, generation: u64, token: TokenId, accepted: bool, strict: bool) -> What {
        What::Wrote { key: key.into(), client: 1, generation, token, accepted, strict }
    }

    #[test]
    fn writes_that_rise_are_good_and_refusals_do_not_count() {
        let good = history([
            (0, wrote("k", 1, 11, true, false)),
            (1, wrote("k", 3, 13, true, false)),
            (2, wrote("k", 1, 11, false, false)),
            (3, wrote("k", 3, 13, true, false)),
            (4, wrote("other", 1, 11, true, false)),
        ]);
        assert_eq!(fenced_writes_never_go_back(&good), []);
    }

    #[test]
    fn a_write_that_goes_back_is_found() {
        let bad = history([(0, wrote("k", 3, 13, true, false)), (1, wrote("k", 1, 11, true, false))]);
        assert_eq!(fenced_writes_never_go_back(&bad).len(), 1);
    }

    #[test]
    fn two_writers_under_one_number_are_found() {
        let bad = history([(0, wrote("k", 3, 13, true, false)), (1, wrote("k", 3, 14, true, false))]);
        assert_eq!(fenced_writes_never_go_back(&bad).len(), 1);
    }

    #[test]
    fn a_strict_write_needs_a_live_reign() {
        let story = |at| {
            history([
                (0, granted("k", 1, 11)),
                (10, ended("k", 1, "expired")),
                (at, wrote("k", 1, 11, true, true)),
            ])
        };
        assert_eq!(fenced_writes_never_go_back(&story(10)), []);
        assert_eq!(fenced_writes_never_go_back(&story(11)).len(), 1);
    }
}
