//! What each verb does to a key, as pure functions of the key's state and the time.
//!
//! Engines in process apply these functions; Redis repeats them in its scripts, and the conformance suite tests both. The
//! simulator uses them as its oracle. Every function checks expiry itself: a sweep only cleans up.

mod acquire;
mod end;
mod hold;

use std::time::Duration;

pub use acquire::{ClaimContext, Verdict, acquire};
pub use end::{Expiry, expire, is_gate_proven, is_wiped, revoke};
pub use hold::{fence, release, renew, transfer, verify};

use crate::breaks::{Break, broken};
use crate::{Digest, Generation, Holder, Meta, Origin, Phase, Tick, Ttl, Wall};

/// The state of one key.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The last generation minted.
    pub last: Option<Generation>,
    /// The state as of the last change; it may have expired since.
    pub state: State,
}

/// The state of a key as of its last change.
#[derive(Clone, Debug, Default)]
pub enum State {
    /// Not held.
    #[default]
    Free,
    /// Held until the TTL expires.
    Held(ActiveReign),
    /// Not granted before `until`.
    Delayed {
        /// The end of the lock-delay.
        until: Tick,
    },
    /// Reserved for one holder until `until`.
    Reserved {
        /// The successor.
        to: Holder,
        /// The end of the reservation.
        until: Tick,
    },
}

/// The running reign over a key.
#[derive(Clone, Debug)]
pub struct ActiveReign {
    /// The holder.
    pub holder: Holder,
    /// The digest of the token that proves it.
    pub digest: Digest,
    /// The generation of the reign.
    pub generation: Generation,
    /// The TTL that a renewal restores.
    pub ttl: Ttl,
    /// When the reign ends without renewal.
    pub expires: Tick,
    /// When it began, for display.
    pub since: Wall,
    /// The holder's public text.
    pub meta: Meta,
    /// Whether the holder runs in the store's process.
    pub origin: Origin,
}

impl Entry {
    /// The live reign at `now`, if any.
    pub fn live(&self, now: Tick) -> Option<&ActiveReign> {
        match &self.state {
            State::Held(reign) if now < reign.expires || broken(Break::SweeperOnly) => Some(reign),
            _ => None,
        }
    }

    /// The phase of the key at `now` and its remaining time.
    pub fn phase(&self, now: Tick) -> (Phase, Option<Duration>) {
        let left = |until: Tick| Some(until.since(now)).filter(|left| !left.is_zero());
        let (phase, left) = match &self.state {
            State::Free => return (Phase::Free, None),
            State::Held(reign) => (Phase::Held, left(reign.expires)),
            State::Delayed { until } => (Phase::Delayed, left(*until)),
            State::Reserved { until, .. } => (Phase::Reserved, left(*until)),
        };
        if left.is_none() { (Phase::Free, None) } else { (phase, left) }
    }

    /// When the state next expires.
    pub fn next_change(&self) -> Option<Tick> {
        match &self.state {
            State::Free => None,
            State::Held(reign) => Some(reign.expires),
            State::Delayed { until } | State::Reserved { until, .. } => Some(*until),
        }
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    //! Entries and claims for the table tests.

    use super::*;
    use crate::{Claim, Entropy, Key, Token};

    pub(crate) struct Fixed(pub u8);

    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    pub(crate) fn token(n: u8) -> Token {
        Token::random(&Fixed(n))
    }

    pub(crate) fn at(ms: u64) -> Tick {
        Tick::from_nanos(ms * 1_000_000)
    }

    pub(crate) fn generation(n: u64) -> Generation {
        Generation::new(n).unwrap()
    }

    pub(crate) fn holder(name: &str) -> Holder {
        Holder::new(name).unwrap()
    }

    /// Held by `a` with token 1 and generation 7 until 1,000 ms.
    pub(crate) fn held() -> Entry {
        let reign = ActiveReign {
            holder: holder("a"),
            digest: *token(1).digest(),
            generation: generation(7),
            ttl: Ttl::from_millis(1_000).unwrap(),
            expires: at(1_000),
            since: Wall::from_micros(1),
            meta: Meta::default(),
            origin: Origin::Local,
        };
        Entry { last: Some(generation(7)), state: State::Held(reign) }
    }

    pub(crate) fn claim(name: &str, token_number: u8) -> Claim {
        Claim::new(
            Key::new("k").unwrap(),
            holder(name),
            token(token_number),
            Ttl::from_millis(1_000).unwrap(),
        )
    }
}
