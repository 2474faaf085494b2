//! I1: at no instant two unexpired permits on one key.

use std::collections::BTreeMap;

use super::reigns::reigns;
use super::{Invariant, Violation};
use crate::history::{Client, Event, History, Nanos, PermitId, TokenId, What};

/// A permit as it could be used.
#[derive(Clone, Debug)]
pub(crate) struct Allowed<'h> {
    pub(crate) key: &'h str,
    pub(crate) client: Client,
    pub(crate) generation: u64,
    pub(crate) token: TokenId,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
}

/// All permits, each up to its deadline or to where it was given up.
pub(crate) fn permits(history: &History) -> Vec<Allowed<'_>> {
    let mut permits = Vec::new();
    let mut number: BTreeMap<PermitId, usize> = BTreeMap::new();
    for Event { at, what } in &history.events {
        match what {
            What::Permit { permit, client, key, generation, token, until } => {
                number.insert(*permit, permits.len());
                permits.push(Allowed {
                    key,
                    client: *client,
                    generation: *generation,
                    token: *token,
                    from: *at,
                    until: *until,
                });
            }
            What::PermitOver { permit } => {
                if let Some(permit) = number.get(permit).and_then(|i| permits.get_mut(*i)) {
                    permit.until = permit.until.min(*at);
                }
            }
            _ => {}
        }
    }
    permits
}

/// I1: no two unexpired permits on one key, unless a wipe ended the earlier reign: that is force, and only
/// fencing stands behind it.
pub fn one_holder(history: &History) -> Vec<Violation> {
    if !history.setting.clocks_hold || !history.setting.single_holding {
        return Vec::new();
    }
    let mut permits = permits(history);
    for reign in reigns(history) {
        if let Some((end, why)) = &reign.ended
            && why == "wiped"
        {
            let same = |p: &&mut Allowed<'_>| p.key == reign.key && p.generation == reign.generation;
            permits.iter_mut().filter(same).for_each(|p| p.until = p.until.min(*end));
        }
    }
    permits.retain(|permit| permit.from < permit.until);
    permits.sort_by(|a, b| (a.key, a.from).cmp(&(b.key, b.from)));
    let mut found = Vec::new();
    let mut reaching: Option<Allowed<'_>> = None;
    for permit in permits {
        let Some(before) = reaching.as_ref().filter(|before| before.key == permit.key) else {
            reaching = Some(permit);
            continue;
        };
        let same = before.client == permit.client && before.token == permit.token;
        if !same && permit.from < before.until {
            let text = format!(
                "{}: client {} may act under {} until {:.6} s, and client {} under {} from {:.6} s",
                permit.key,
                before.client,
                before.generation,
                before.until as f64 / 1e9,
                permit.client,
                permit.generation,
                permit.from as f64 / 1e9,
            );
            found.push(Violation::new(Invariant::OneHolder, permit.from, text));
        }
        if !same || permit.until > before.until {
            reaching = Some(permit);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    #[test]
    fn permits_that_follow_each_other_are_good() {
        let good = history([
            (0, permit(1, 1, "k", 1, 100)),
            (50, permit(2, 1, "k", 1, 150)),
            (60, permit(3, 2, "other", 9, 500)),
            (150, permit(4, 2, "k", 2, 300)),
        ]);
        assert_eq!(one_holder(&good), []);
    }

    #[test]
    fn two_unexpired_permits_on_one_key_are_found() {
        let bad = history([(0, permit(1, 1, "k", 1, 100)), (99, permit(2, 2, "k", 2, 300))]);
        assert_eq!(one_holder(&bad).len(), 1);
    }

    #[test]
    fn a_permit_given_up_is_over() {
        let good = history([
            (0, permit(1, 1, "k", 1, 100)),
            (20, What::PermitOver { permit: 1 }),
            (21, permit(2, 2, "k", 2, 300)),
        ]);
        assert_eq!(one_holder(&good), []);
    }

    #[test]
    fn a_long_permit_is_seen_behind_a_short_one() {
        let bad = history([
            (0, permit(1, 1, "k", 1, 1_000)),
            (10, permit(2, 1, "k", 1, 20)),
            (500, permit(3, 2, "k", 2, 700)),
        ]);
        assert_eq!(one_holder(&bad).len(), 1);
    }

    #[test]
    fn outside_of_the_clock_bound_it_is_not_judged() {
        let mut bad = history([(0, permit(1, 1, "k", 1, 100)), (99, permit(2, 2, "k", 2, 300))]);
        bad.setting.clocks_hold = false;
        assert_eq!(one_holder(&bad), []);
    }

    #[test]
    fn a_wipe_is_force_and_a_revocation_is_not() {
        for (why, count) in [("wiped", 0), ("revoked", 1)] {
            let seen = history([
                (0, granted("k", 1, 1)),
                (1, permit(1, 1, "k", 1, 100)),
                (50, ended("k", 1, why)),
                (51, granted("k", 2, 2)),
                (52, permit(2, 2, "k", 2, 300)),
            ]);
            assert_eq!(one_holder(&seen).len(), count, "{why}");
        }
    }
}
