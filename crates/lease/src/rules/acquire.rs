//! Who may have a key.

use super::{Entry, State};
use crate::breaks::{Break, broken};
use crate::{Busy, Claim, Holder, Reason, Tick};

/// What surrounds a claim besides the key's own state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around {
    /// The token was spent on this key before.
    pub spent: bool,
    /// How many parked claims come before this one.
    pub ahead: u32,
    /// The key carries something that is not a lease.
    pub foreign: bool,
}

/// What a claim gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A new reign with the next generation.
    Grant,
    /// The reign this token already has, prolonged.
    Refresh,
    /// A new reign with the next generation; the live one ends superseded.
    Supersede,
    /// Nothing, for this reason.
    Busy(Busy),
    /// Nothing: the token is spent.
    Spent,
}

/// Decides a claim at `now`.
pub fn acquire(entry: &Entry, claim: &Claim, now: Tick, around: Around) -> Verdict {
    if let Some(tenant) = entry.live(now)
        && (tenant.digest == *claim.token.digest()
            || (broken(Break::NameOnly) && tenant.holder == claim.holder))
    {
        return Verdict::Refresh;
    }
    if around.spent {
        return Verdict::Spent;
    }
    let busy = |holder: Option<&Holder>, reason| {
        Verdict::Busy(Busy {
            holder: holder.cloned(),
            generation: entry.last,
            remaining: entry.phase(now).1,
            position: around.ahead + 1,
            reason,
        })
    };
    if around.foreign {
        return busy(None, Reason::Foreign);
    }
    if let Some(dead) = claim.instead_of {
        return match entry.live(now) {
            Some(tenant) if tenant.generation == dead => Verdict::Supersede,
            live => busy(live.map(|t| &t.holder), Reason::NotThatGeneration),
        };
    }
    match &entry.state {
        State::Held(tenant) if now < tenant.expires || broken(Break::SweeperOnly) => {
            busy(Some(&tenant.holder), Reason::Held)
        }
        State::Delayed { until } if now < *until => busy(None, Reason::Delayed),
        State::Reserved { to, until } if now < *until => match *to == claim.holder {
            true => Verdict::Grant,
            false => busy(Some(to), Reason::Reserved),
        },
        _ if around.ahead > 0 => busy(None, Reason::Queued),
        _ => Verdict::Grant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixture::{at, claim, generation, held, holder};

    fn reason(verdict: Verdict) -> Reason {
        match verdict {
            Verdict::Busy(busy) => busy.reason,
            other => panic!("expected busy, got {other:?}"),
        }
    }

    fn decide(entry: &Entry, claim: &Claim, now: u64) -> Verdict {
        acquire(entry, claim, at(now), Around::default())
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
    fn another_token_is_told_who_holds_it_and_how_long() {
        for name in ["b", "a"] {
            let Verdict::Busy(busy) = decide(&held(), &claim(name, 2), 400) else { panic!("{name}") };
            assert_eq!(busy.holder, Some(holder("a")));
            assert_eq!(busy.generation, Some(generation(7)));
            assert_eq!(busy.remaining.unwrap().as_millis(), 600);
            assert_eq!((busy.position, busy.reason), (1, Reason::Held));
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
        let around = Around { spent: true, ..Around::default() };
        assert_eq!(acquire(&Entry::default(), &claim("a", 1), at(0), around), Verdict::Spent);
    }

    #[test]
    fn a_claim_never_overtakes_the_queue() {
        let around = Around { ahead: 2, ..Around::default() };
        let Verdict::Busy(busy) = acquire(&Entry::default(), &claim("b", 2), at(0), around) else { panic!() };
        assert_eq!((busy.reason, busy.position), (Reason::Queued, 3));
    }

    #[test]
    fn a_lock_delay_keeps_everybody_out_until_it_is_over() {
        let entry = Entry { state: State::Delayed { until: at(500) }, ..held() };
        assert_eq!(reason(decide(&entry, &claim("b", 2), 499)), Reason::Delayed);
        assert_eq!(decide(&entry, &claim("b", 2), 500), Verdict::Grant);
    }

    #[test]
    fn a_reservation_is_for_the_heir_alone_and_ends() {
        let entry = Entry { state: State::Reserved { to: holder("heir"), until: at(500) }, ..held() };
        assert_eq!(reason(decide(&entry, &claim("b", 2), 499)), Reason::Reserved);
        assert_eq!(decide(&entry, &claim("heir", 3), 499), Verdict::Grant);
        assert_eq!(decide(&entry, &claim("b", 2), 500), Verdict::Grant);
    }

    #[test]
    fn instead_of_replaces_exactly_the_generation_it_names() {
        let dead = |n| claim("b", 2).instead_of(generation(n));
        assert_eq!(decide(&held(), &dead(7), 0), Verdict::Supersede);
        for (entry, claim, now) in
            [(held(), dead(6), 0), (held(), dead(7), 1_000), (Entry::default(), dead(7), 0)]
        {
            assert_eq!(reason(decide(&entry, &claim, now)), Reason::NotThatGeneration);
        }
    }

    #[test]
    fn a_foreign_key_is_never_taken() {
        let around = Around { foreign: true, ..Around::default() };
        assert_eq!(reason(acquire(&Entry::default(), &claim("a", 1), at(0), around)), Reason::Foreign);
    }
}
