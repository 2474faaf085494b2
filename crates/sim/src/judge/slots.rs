//! I6: slots in use never exceed the offer, each has one owner.

use std::collections::BTreeMap;

use super::permits::permits;
use super::{Invariant, Violation};
use crate::history::{Event, History, Nanos, What};

/// I6: under each prefix at no instant more slots are acted under than were ever offered, none outside of the
/// offer, and none by two.
pub fn slots_are_bounded(history: &History) -> Vec<Violation> {
    if !history.setting.clocks_hold || !history.setting.single_holding {
        return Vec::new();
    }
    let mut offers: BTreeMap<&str, u32> = BTreeMap::new();
    for Event { what, .. } in &history.events {
        if let What::Slots { prefix, offered } = what {
            let most = offers.entry(prefix).or_default();
            *most = (*most).max(*offered);
        }
    }
    let mut found = Vec::new();
    for (prefix, offered) in offers {
        found.extend(under(history, prefix, offered));
    }
    found
}

fn under(history: &History, prefix: &str, offered: u32) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut edges: Vec<(Nanos, i32, (&str, u64))> = Vec::new();
    for permit in permits(history) {
        let Some(number) = permit.key.strip_prefix(prefix) else { continue };
        if number.parse::<u32>().map_or(true, |number| number >= offered) {
            let text = format!("{} is not one of {offered} slots", permit.key);
            found.push(Violation::new(Invariant::Slots, permit.from, text));
        }
        if permit.from < permit.until {
            edges.push((permit.from, 1, (permit.key, permit.token)));
            edges.push((permit.until, -1, (permit.key, permit.token)));
        }
    }
    edges.sort_unstable();
    let mut acting: BTreeMap<(&str, u64), i32> = BTreeMap::new();
    for (at, change, who) in edges {
        let count = acting.entry(who).or_default();
        *count += change;
        if *count == 0 {
            acting.remove(&who);
        }
        if acting.len() > offered as usize {
            let text = format!("{} act in {offered} slots of {prefix}", acting.len());
            found.push(Violation::new(Invariant::Slots, at, text));
        }
        let owners = acting.keys().filter(|(key, _)| *key == who.0).count();
        if owners > 1 {
            let text = format!("{} has {owners} owners", who.0);
            found.push(Violation::new(Invariant::Slots, at, text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    fn offer() -> What {
        What::Slots { prefix: "s/".into(), offered: 2 }
    }

    #[test]
    fn slots_within_the_offer_are_good() {
        let good = history([
            (0, offer()),
            (1, permit(1, 1, "s/0", 1, 100)),
            (2, permit(2, 2, "s/1", 1, 100)),
            (100, permit(3, 3, "s/0", 2, 200)),
        ]);
        assert_eq!(slots_are_bounded(&good), []);
    }

    #[test]
    fn one_slot_too_many_is_found() {
        let bad = history([(0, offer()), (1, permit(1, 1, "s/2", 1, 100))]);
        assert_eq!(slots_are_bounded(&bad).len(), 1);
    }

    #[test]
    fn a_slot_with_two_owners_is_found() {
        let bad = history([(0, offer()), (1, permit(1, 1, "s/0", 1, 100)), (2, permit(2, 2, "s/0", 2, 90))]);
        assert_eq!(slots_are_bounded(&bad).len(), 1);
    }
}
