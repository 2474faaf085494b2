//! Whether a claim is granted.

use super::{Entry, State};
use crate::breaks::{Break, broken};
use crate::{Busy, BusyReason, Claim, Holder, Tick};

/// What decides a claim besides the key's own state.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimContext {
    /// Whether the token is spent on this key.
    pub spent: bool,
    /// The number of parked claims before this one.
    pub ahead: u32,
    /// Whether the key has a value that is not a lease.
    pub foreign: bool,
}

/// The decision on a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A new reign with the next generation.
    Grant,
    /// The reign that this token already has, renewed.
    Refresh,
    /// A new reign with the next generation; the live one ends superseded.
    Supersede,
    /// No grant, for this reason.
    Busy(Busy),
    /// No grant: the token is spent.
    Spent,
}

/// Decides a claim at `now`.
pub fn acquire(entry: &Entry, claim: &Claim, now: Tick, context: ClaimContext) -> Verdict {
    if let Some(reign) = entry.live(now)
        && (reign.digest == *claim.token.digest()
            || (broken(Break::NameOnly) && reign.holder == claim.holder))
    {
        return Verdict::Refresh;
    }
    if context.spent {
        return Verdict::Spent;
    }
    let busy = |holder: Option<&Holder>, reason| {
        Verdict::Busy(Busy {
            holder: holder.cloned(),
            generation: entry.last,
            remaining: entry.phase(now).1,
            position: context.ahead + 1,
            reason,
        })
    };
    if context.foreign {
        return busy(None, BusyReason::Foreign);
    }
    if let Some(dead) = claim.instead_of {
        return match entry.live(now) {
            Some(reign) if reign.generation == dead => Verdict::Supersede,
            live => busy(live.map(|t| &t.holder), BusyReason::NotThatGeneration),
        };
    }
    match &entry.state {
        State::Held(reign) if now < reign.expires || broken(Break::SweeperOnly) => {
            busy(Some(&reign.holder), BusyReason::Held)
        }
        State::Delayed { until } if now < *until => busy(None, BusyReason::Delayed),
        State::Reserved { to, until } if now < *until => match *to == claim.holder {
            true => Verdict::Grant,
            false => busy(Some(to), BusyReason::Reserved),
        },
        _ if context.ahead > 0 => busy(None, BusyReason::Queued),
        _ => Verdict::Grant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixture::{at, claim, generation, held, holder};

    fn reason(verdict: Verdict) -> BusyReason {
        match verdict {
            Verdict::Busy(busy) => busy.reason,
            other => panic!("expected busy, got {other:?}"),
        }
    }

    fn decide(entry: &Entry, claim: &Claim, now: u64) -> Verdict {
        acquire(entry, claim, at(now), ClaimContext::default())
    }

    #[test]
    fn a_free_key_is_granted() {
        assert_eq!(decide(&Entry::default(), &claim("a", 1), 0), Verdict::Grant);
    }

    #[test]
    fn the_same_token_gets_the_same_reign_again() {
        assert_eq!(decide(&held(), &claim("a", 1), 999), Verdict::Refresh);
        assert_eq!(decide(&held(), &claim("renamed", 1), 999), Verdict::Refresh);
    }

    #[test]
    fn another_token_gets_the_holder_and_the_remaining_time() {
        for name in ["b", "a"] {
            let Verdict::Busy(busy) = decide(&held(), &claim(name, 2), 400) else { panic!("{name}") };
            assert_eq!(busy.holder, Some(holder("a")));
            assert_eq!(busy.generation, Some(generation(7)));
            assert_eq!(busy.remaining.unwrap().as_millis(), 600);
            assert_eq!((busy.position, busy.reason), (1, BusyReason::Held));
        }
    }

    #[test]
    fn an_expired_reign_is_over_at_its_deadline_without_any_sweep() {
        assert_eq!(decide(&held(), &claim("b", 2), 1_000), Verdict::Grant);
        // The expired token itself starts anew, it is not refreshed.
        assert_eq!(decide(&held(), &claim("a", 1), 1_000), Verdict::Grant);
    }

    #[test]
    fn a_spent_token_is_refused_even_when_the_key_is_free() {
        let context = ClaimContext { spent: true, ..ClaimContext::default() };
        assert_eq!(acquire(&Entry::default(), &claim("a", 1), at(0), context), Verdict::Spent);
    }

    #[test]
    fn a_claim_never_overtakes_the_queue() {
        let context = ClaimContext { ahead: 2, ..ClaimContext::default() };
        let Verdict::Busy(busy) = acquire(&Entry::default(), &claim("b", 2), at(0), context) else {
            panic!()
        };
        assert_eq!((busy.reason, busy.position), (BusyReason::Queued, 3));
    }

    #[test]
    fn a_lock_delay_blocks_every_claim_until_it_ends() {
        let entry = Entry { state: State::Delayed { until: at(500) }, ..held() };
        assert_eq!(reason(decide(&entry, &claim("b", 2), 499)), BusyReason::Delayed);
        assert_eq!(decide(&entry, &claim("b", 2), 500), Verdict::Grant);
    }

    #[test]
    fn a_reservation_is_for_the_successor_alone_and_ends() {
        let entry = Entry { state: State::Reserved { to: holder("successor"), until: at(500) }, ..held() };
        assert_eq!(reason(decide(&entry, &claim("b", 2), 499)), BusyReason::Reserved);
        assert_eq!(decide(&entry, &claim("successor", 3), 499), Verdict::Grant);
        assert_eq!(decide(&entry, &claim("b", 2), 500), Verdict::Grant);
    }

    #[test]
    fn instead_of_replaces_exactly_the_generation_it_names() {
        let dead = |n| claim("b", 2).instead_of(generation(n));
        assert_eq!(decide(&held(), &dead(7), 0), Verdict::Supersede);
        for (entry, claim, now) in
            [(held(), dead(6), 0), (held(), dead(7), 1_000), (Entry::default(), dead(7), 0)]
        {
            assert_eq!(reason(decide(&entry, &claim, now)), BusyReason::NotThatGeneration);
        }
    }

    #[test]
    fn a_key_with_a_foreign_value_is_never_granted() {
        let context = ClaimContext { foreign: true, ..ClaimContext::default() };
        assert_eq!(reason(acquire(&Entry::default(), &claim("a", 1), at(0), context)), BusyReason::Foreign);
    }
}
