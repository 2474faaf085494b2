//! What each verb does to a key, as pure functions of the key's state and the time.
//!
//! Engines in process apply these; Redis repeats them in its scripts and the conformance suite holds both
//! to the same sentences; the simulator uses them as its oracle. Every function checks expiry itself: a
//! sweeper only tidies up.

mod acquire;
mod end;
mod hold;

use std::time::Duration;

pub use acquire::{Around, Verdict, acquire};
pub use end::{Expiry, expire, proven, revoke, wiped};
pub use hold::{fence, release, renew, transfer, verify};

use crate::breaks::{Break, broken};
use crate::{Digest, Generation, Holder, Meta, Origin, Phase, Tick, Ttl, Wall};

/// What a store knows of one key.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The last generation minted.
    pub last: Option<Generation>,
    /// What the key is doing, as of the last change; time may have overtaken it.
    pub state: State,
}

/// What a key is doing.
#[derive(Clone, Debug, Default)]
pub enum State {
    /// Nobody has it.
    #[default]
    Free,
    /// Somebody has it until their TTL runs out.
    Held(Tenant),
    /// Nobody may have it before `until`.
    Delayed {
        /// The end of the lock-delay.
        until: Tick,
    },
    /// Kept for one holder until `until`.
    Reserved {
        /// The heir.
        to: Holder,
        /// The end of the reservation.
        until: Tick,
    },
}

/// The holder of a key and the terms of its reign.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Who.
    pub holder: Holder,
    /// The digest of the token that proves it.
    pub digest: Digest,
    /// The generation of the reign.
    pub generation: Generation,
    /// The TTL that a renewal restores.
    pub ttl: Ttl,
    /// When the reign ends without renewal.
    pub expires: Tick,
    /// When it began, for people.
    pub since: Wall,
    /// What the holder says about itself.
    pub meta: Meta,
    /// Whether the holder lives in the store's process.
    pub origin: Origin,
}

impl Entry {
    /// The live tenant at `now`, if any.
    pub fn live(&self, now: Tick) -> Option<&Tenant> {
        match &self.state {
            State::Held(tenant) if now < tenant.expires || broken(Break::SweeperOnly) => Some(tenant),
            _ => None,
        }
    }

    /// What the key is doing at `now`, and for how much longer.
    pub fn phase(&self, now: Tick) -> (Phase, Option<Duration>) {
        let left = |until: Tick| Some(until.since(now)).filter(|left| !left.is_zero());
        let (phase, left) = match &self.state {
            State::Free => return (Phase::Free, None),
            State::Held(tenant) => (Phase::Held, left(tenant.expires)),
            State::Delayed { until } => (Phase::Delayed, left(*until)),
            State::Reserved { until, .. } => (Phase::Reserved, left(*until)),
        };
        if left.is_none() { (Phase::Free, None) } else { (phase, left) }
    }

    /// When time alone will next change this key.
    pub fn next_change(&self) -> Option<Tick> {
        match &self.state {
            State::Free => None,
            State::Held(tenant) => Some(tenant.expires),
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
        let tenant = Tenant {
            holder: holder("a"),
            digest: *token(1).digest(),
            generation: generation(7),
            ttl: Ttl::from_millis(1_000).unwrap(),
            expires: at(1_000),
            since: Wall::from_micros(1),
            meta: Meta::default(),
            origin: Origin::Local,
        };
        Entry { last: Some(generation(7)), state: State::Held(tenant) }
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
