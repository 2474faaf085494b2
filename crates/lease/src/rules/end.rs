//! How a reign ends without its holder: expiry, revocation, wipe.

use std::time::Duration;

use super::{Entry, State};
use crate::{Generation, Key, Proof, Revoke, Tick, Wipe};

/// What has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Nothing.
    NotYet,
    /// The reign.
    Reign,
    /// The lock-delay or the reservation.
    Hold,
}

/// Decides what of a key has expired at `now`.
pub fn expire(entry: &Entry, now: Tick) -> Expiry {
    match &entry.state {
        State::Held(reign) if now >= reign.expires => Expiry::Reign,
        State::Delayed { until } | State::Reserved { until, .. } if now >= *until => Expiry::Hold,
        _ => Expiry::NotYet,
    }
}

/// The lock-delay of a revocation at `now`, or the generation that makes it stale.
pub fn revoke(entry: &Entry, revoke: &Revoke, now: Tick) -> Result<Duration, Option<Generation>> {
    match entry.live(now) {
        Some(reign) if reign.generation == revoke.generation => {
            Ok(revoke.delay.unwrap_or_else(|| reign.expires.since(now)))
        }
        live => Err(live.map(|t| t.generation)),
    }
}

/// Whether the gate is held with this proof at `now`.
pub fn is_gate_proven(gate: &Entry, proof: &Proof, now: Tick) -> bool {
    super::release(gate, proof.token.digest(), Some(proof.generation), now)
}

/// Whether a proven wipe ends the reign over `key` at `now`. The gate itself is exempt.
pub fn is_wiped(key: &Key, entry: &Entry, wipe: &Wipe, now: Tick) -> bool {
    *key != wipe.gate.key && key.starts_with(&wipe.prefix) && entry.live(now).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prefix;
    use crate::rules::fixture::{at, generation, held, holder, token};

    #[test]
    fn time_ends_reigns_delays_and_reservations_at_their_deadline() {
        let delayed = Entry { state: State::Delayed { until: at(5) }, ..Entry::default() };
        let reserved = Entry { state: State::Reserved { to: holder("h"), until: at(5) }, ..Entry::default() };
        let table = [
            (Entry::default(), 9, Expiry::NotYet),
            (held(), 999, Expiry::NotYet),
            (held(), 1_000, Expiry::Reign),
            (delayed.clone(), 4, Expiry::NotYet),
            (delayed, 5, Expiry::Hold),
            (reserved.clone(), 4, Expiry::NotYet),
            (reserved, 5, Expiry::Hold),
        ];
        for (i, (entry, now, expected)) in table.into_iter().enumerate() {
            assert_eq!(expire(&entry, at(now)), expected, "row {i}");
        }
    }

    #[test]
    fn revoke_ends_the_generation_it_names_and_delays_by_what_was_left() {
        let with = |g, delay| Revoke {
            key: Key::new("k").unwrap(),
            generation: generation(g),
            delay,
            reason: crate::RevokeReason::default(),
        };
        assert_eq!(revoke(&held(), &with(7, None), at(400)), Ok(Duration::from_millis(600)));
        assert_eq!(revoke(&held(), &with(7, Some(Duration::ZERO)), at(400)), Ok(Duration::ZERO));
        assert_eq!(revoke(&held(), &with(6, None), at(400)), Err(Some(generation(7))));
        assert_eq!(revoke(&held(), &with(7, None), at(1_000)), Err(None));
    }

    #[test]
    fn a_wipe_needs_a_live_gate_and_spares_it() {
        let key = |k: &str| Key::new(k).unwrap();
        let proof = |n, g| Proof { key: key("gate"), token: token(n), generation: generation(g) };
        assert!(is_gate_proven(&held(), &proof(1, 7), at(999)));
        for (n, g, now) in [(1, 7, 1_000), (2, 7, 0), (1, 6, 0)] {
            assert!(!is_gate_proven(&held(), &proof(n, g), at(now)));
        }
        let wipe = Wipe { prefix: Prefix::new("t/").unwrap(), gate: proof(1, 7) };
        assert!(is_wiped(&key("t/1"), &held(), &wipe, at(0)));
        assert!(!is_wiped(&key("t/1"), &held(), &wipe, at(1_000)));
        assert!(!is_wiped(&key("u/1"), &held(), &wipe, at(0)));
        let all = Wipe { prefix: Prefix::default(), gate: proof(1, 7) };
        assert!(!is_wiped(&key("gate"), &held(), &all, at(0)));
    }
}
