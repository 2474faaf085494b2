//! Compares the tuners that sessions claim with the leases they hold. Pure: no store, no clock.

use std::collections::{BTreeMap, BTreeSet};

use tenure_lease::breaks::{Break, broken};
use tenure_session::{Session, SessionId};

/// A rule that every claim must satisfy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Rule {
    /// At most one session claims a tuner.
    DuplicateSlotClaim,
    /// A session that claims a tuner holds its lease.
    LeaseMismatch,
}

impl Rule {
    pub(crate) const ALL: [Self; 2] = [Self::DuplicateSlotClaim, Self::LeaseMismatch];

    /// The label in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateSlotClaim => "duplicate_slot_claim",
            Self::LeaseMismatch => "lease_mismatch",
        }
    }
}

/// A claim that violates a rule.
pub(crate) type Violation = (SessionId, u32, Rule);

/// The result of comparing claims with leases.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reconciliation {
    /// Tuners leased to active sessions.
    pub(crate) in_use: usize,
    pub(crate) violations: BTreeSet<Violation>,
}

/// Compares claims with leases.
pub(crate) fn compare_claims<'s>(
    sessions: impl Iterator<Item = &'s Session>,
    holders: &BTreeMap<u32, String>,
) -> Reconciliation {
    let mut live = BTreeSet::new();
    let mut claims: BTreeMap<u32, Vec<&SessionId>> = BTreeMap::new();
    for session in sessions.filter(|session| !session.state.is_terminal()) {
        live.insert(session.id.as_str());
        if let Some(slot) = session.slot
            && session.state.may_hold()
        {
            claims.entry(slot).or_default().push(&session.id);
        }
    }
    let in_use = holders.values().filter(|holder| live.contains(holder.as_str())).count();
    let mut violations = BTreeSet::new();
    for (slot, mut claimants) in claims {
        let holder = holders.get(&slot).map(String::as_str);
        claimants.sort_unstable();
        // The holder's claim is the valid one. Without a holder the first claim is taken as such.
        let first = claimants.iter().position(|id| Some(id.as_str()) == holder).unwrap_or(0);
        for (index, id) in claimants.iter().enumerate() {
            if index != first && !broken(Break::IgnoresDoubleClaim) {
                violations.insert(((*id).clone(), slot, Rule::DuplicateSlotClaim));
            } else if Some(id.as_str()) != holder {
                violations.insert(((*id).clone(), slot, Rule::LeaseMismatch));
            }
        }
    }
    Reconciliation { in_use, violations }
}

/// Tracks ongoing violations, so that each is reported once per episode.
#[derive(Default, Debug)]
pub(crate) struct ViolationTracker {
    ongoing: BTreeSet<Violation>,
}

impl ViolationTracker {
    /// Replaces the ongoing violations and returns the new ones.
    pub(crate) fn update(&mut self, now: BTreeSet<Violation>) -> Vec<Violation> {
        let new = now.difference(&self.ongoing).cloned().collect();
        self.ongoing = now;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_session::{CorrelationId, IdempotencyKey, ProfileId, SessionState, Target, UnixMs};

    fn session(id: &str, state: SessionState, slot: Option<u32>) -> Session {
        let session = Session::new(
            SessionId::new(id).unwrap(),
            Target::new(Some("1:0:1:"), None, None).unwrap(),
            ProfileId::new("high").unwrap(),
            CorrelationId::new("c").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(0),
        );
        Session { state, slot, ..session }
    }

    fn compare(sessions: &[Session], holders: &[(u32, &str)]) -> (usize, Vec<(String, u32, &'static str)>) {
        let holders = holders.iter().map(|(slot, holder)| (*slot, (*holder).to_owned())).collect();
        let Reconciliation { in_use, violations } = compare_claims(sessions.iter(), &holders);
        let violations = violations.into_iter().map(|(id, slot, rule)| (id.to_string(), slot, rule.as_str()));
        (in_use, violations.collect())
    }

    fn violation(id: &str, slot: u32, rule: &'static str) -> (String, u32, &'static str) {
        (id.to_owned(), slot, rule)
    }

    #[test]
    fn matching_claims_are_counted_without_violations() {
        use SessionState::*;
        let all = [session("s1", Ready, Some(0)), session("s2", Priming, Some(1)), session("s3", New, None)];
        assert_eq!(compare(&all, &[(0, "s1"), (1, "s2")]), (2, vec![]));
        assert_eq!(
            compare(&[session("s1", Starting, None)], &[(0, "s1")]),
            (1, vec![]),
            "the slot is not recorded yet"
        );
        assert_eq!(compare(&[session("s1", Stopping, Some(0))], &[(0, "s1")]), (1, vec![]));
    }

    #[test]
    fn two_claims_on_one_tuner_are_one_violation_and_the_tuner_counts_once() {
        let all = [session("s1", SessionState::Ready, Some(1)), session("s2", SessionState::Ready, Some(1))];
        assert_eq!(compare(&all, &[(1, "s1")]), (1, vec![violation("s2", 1, "duplicate_slot_claim")]));
        assert_eq!(compare(&all, &[(1, "s2")]), (1, vec![violation("s1", 1, "duplicate_slot_claim")]));
    }

    #[test]
    fn a_claim_without_its_lease_is_not_counted_and_is_a_violation() {
        let claim = [session("s1", SessionState::Ready, Some(1))];
        assert_eq!(compare(&claim, &[]), (0, vec![violation("s1", 1, "lease_mismatch")]));
        assert_eq!(compare(&claim, &[(1, "other")]), (0, vec![violation("s1", 1, "lease_mismatch")]));
        assert_eq!(compare(&claim, &[(0, "s1")]), (1, vec![violation("s1", 1, "lease_mismatch")]));
    }

    #[test]
    fn only_states_that_may_hold_a_tuner_are_compared() {
        for state in SessionState::ALL {
            let (_, violations) = compare(&[session("s1", *state, Some(1))], &[]);
            assert_eq!(!violations.is_empty(), state.may_hold(), "{state}");
        }
    }

    #[test]
    fn ended_sessions_do_not_count() {
        assert_eq!(compare(&[session("s1", SessionState::Failed, Some(1))], &[(1, "s1")]), (0, vec![]));
        assert_eq!(compare(&[], &[(1, "s1")]), (0, vec![]));
    }

    #[test]
    fn a_violation_is_reported_once_per_episode() {
        let ongoing = || (SessionId::new("s1").unwrap(), 1, Rule::LeaseMismatch);
        let mut violations_seen = ViolationTracker::default();
        assert_eq!(violations_seen.update([ongoing()].into()).len(), 1);
        assert_eq!(violations_seen.update([ongoing()].into()).len(), 0);
        assert_eq!(violations_seen.update(BTreeSet::new()).len(), 0);
        assert_eq!(violations_seen.update([ongoing()].into()).len(), 1, "a new episode");
    }
}
