//! Whether what sessions claim is what they hold. Pure: no store, no clock.

use std::collections::{BTreeMap, BTreeSet};

use session::{Session, SessionId};

/// What must hold of a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Rule {
    /// A tuner is claimed by one session.
    DuplicateSlotClaim,
    /// Who claims a tuner holds its lease.
    LeaseMismatch,
}

impl Rule {
    pub(crate) const ALL: [Self; 2] = [Self::DuplicateSlotClaim, Self::LeaseMismatch];

    /// The word in metrics.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::DuplicateSlotClaim => "duplicate_slot_claim",
            Self::LeaseMismatch => "lease_mismatch",
        }
    }
}

/// One claim that breaks a rule.
pub(crate) type Violation = (SessionId, u32, Rule);

/// What follows from the sessions and from who holds which tuner.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Truth {
    /// Tuners held by live leases of sessions that are not over.
    pub(crate) in_use: usize,
    pub(crate) violations: BTreeSet<Violation>,
}

/// Compares claims with leases.
pub(crate) fn judge<'s>(
    sessions: impl Iterator<Item = &'s Session>,
    holders: &BTreeMap<u32, String>,
) -> Truth {
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
        // Whoever holds it is right; without one, the first is no worse than the others.
        let first = claimants.iter().position(|id| Some(id.as_str()) == holder).unwrap_or(0);
        for (index, id) in claimants.iter().enumerate() {
            if index != first {
                violations.insert(((*id).clone(), slot, Rule::DuplicateSlotClaim));
            } else if Some(id.as_str()) != holder {
                violations.insert(((*id).clone(), slot, Rule::LeaseMismatch));
            }
        }
    }
    Truth { in_use, violations }
}

/// Violations that are going on: each is told once, until it is over.
#[derive(Default, Debug)]
pub(crate) struct Episodes {
    running: BTreeSet<Violation>,
}

impl Episodes {
    /// Takes what is broken now, and answers what is new of it.
    pub(crate) fn begin(&mut self, now: BTreeSet<Violation>) -> Vec<Violation> {
        let new = now.difference(&self.running).cloned().collect();
        self.running = now;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{CorrelationId, IdempotencyKey, ProfileId, State, Target, UnixMs};

    fn session(id: &str, state: State, slot: Option<u32>) -> Session {
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

    fn truth(sessions: &[Session], holders: &[(u32, &str)]) -> (usize, Vec<(String, u32, &'static str)>) {
        let holders = holders.iter().map(|(slot, holder)| (*slot, (*holder).to_owned())).collect();
        let Truth { in_use, violations } = judge(sessions.iter(), &holders);
        let violations = violations.into_iter().map(|(id, slot, rule)| (id.to_string(), slot, rule.word()));
        (in_use, violations.collect())
    }

    fn broken(id: &str, slot: u32, rule: &'static str) -> (String, u32, &'static str) {
        (id.to_owned(), slot, rule)
    }

    #[test]
    fn claims_and_leases_that_agree_are_counted_and_break_nothing() {
        use State::*;
        let all = [session("s1", Ready, Some(0)), session("s2", Priming, Some(1)), session("s3", New, None)];
        assert_eq!(truth(&all, &[(0, "s1"), (1, "s2")]), (2, vec![]));
        assert_eq!(truth(&[session("s1", Starting, None)], &[(0, "s1")]), (1, vec![]), "not yet recorded");
        assert_eq!(truth(&[session("s1", Stopping, Some(0))], &[(0, "s1")]), (1, vec![]));
    }

    #[test]
    fn two_claims_on_one_tuner_are_one_violation_and_the_tuner_counts_once() {
        let all = [session("s1", State::Ready, Some(1)), session("s2", State::Ready, Some(1))];
        assert_eq!(truth(&all, &[(1, "s1")]), (1, vec![broken("s2", 1, "duplicate_slot_claim")]));
        assert_eq!(truth(&all, &[(1, "s2")]), (1, vec![broken("s1", 1, "duplicate_slot_claim")]));
    }

    #[test]
    fn a_claim_without_its_lease_is_not_counted_and_is_a_violation() {
        let claim = [session("s1", State::Ready, Some(1))];
        assert_eq!(truth(&claim, &[]), (0, vec![broken("s1", 1, "lease_mismatch")]));
        assert_eq!(truth(&claim, &[(1, "thief")]), (0, vec![broken("s1", 1, "lease_mismatch")]));
        assert_eq!(truth(&claim, &[(0, "s1")]), (1, vec![broken("s1", 1, "lease_mismatch")]));
    }

    #[test]
    fn only_states_that_may_hold_a_tuner_are_judged() {
        for state in State::ALL {
            let (_, violations) = truth(&[session("s1", *state, Some(1))], &[]);
            assert_eq!(!violations.is_empty(), state.may_hold(), "{state}");
        }
    }

    #[test]
    fn what_is_over_holds_nothing_that_counts() {
        assert_eq!(truth(&[session("s1", State::Failed, Some(1))], &[(1, "s1")]), (0, vec![]));
        assert_eq!(truth(&[], &[(1, "s1")]), (0, vec![]));
    }

    #[test]
    fn a_violation_is_told_once_until_it_is_over() {
        let violation = || (SessionId::new("s1").unwrap(), 1, Rule::LeaseMismatch);
        let mut episodes = Episodes::default();
        assert_eq!(episodes.begin([violation()].into()).len(), 1);
        assert_eq!(episodes.begin([violation()].into()).len(), 0);
        assert_eq!(episodes.begin(BTreeSet::new()).len(), 0);
        assert_eq!(episodes.begin([violation()].into()).len(), 1, "it came back");
    }
}
