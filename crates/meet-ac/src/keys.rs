//! The signing keys and their rotation.
//!
//! A key is published ten minutes before it signs, signs for a week and stays published for another week. A verifier whose copy of
//! the set is a few minutes old can therefore check every valid token.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tenure_lease::{Entropy, Wall};
use tenure_meet_wire::jwt::{Jwks, SigningKey};

use crate::limits;

/// A stored key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredKey {
    /// 32 random bytes in base64url.
    seed: String,
    /// Creation time, in seconds since the Unix epoch.
    made_s: u64,
}

/// All published keys, oldest first. This is also the stored form; it is secret.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Keys {
    keys: Vec<StoredKey>,
}

impl StoredKey {
    fn new(now_s: u64, entropy: &dyn Entropy) -> Self {
        let mut seed = [0; 32];
        entropy.fill(&mut seed);
        Self { seed: URL_SAFE_NO_PAD.encode(seed), made_s: now_s }
    }

    fn key(&self) -> Option<SigningKey> {
        let seed = URL_SAFE_NO_PAD.decode(&self.seed).ok()?;
        SigningKey::from_seed(&seed.try_into().ok()?)
    }

    fn signs_from(&self) -> u64 {
        self.made_s + limits::LEAD.as_secs()
    }
}

impl Keys {
    /// The keys after a rotation, if one is due: expired keys are removed, and a new one is added once the newest has signed for a week.
    pub fn turned(&self, now: Wall, entropy: &dyn Entropy) -> Option<Self> {
        let now = seconds(now);
        let life = (limits::LEAD + limits::SIGNS + limits::OVERLAP).as_secs();
        // A key from the future comes from a clock that was set back. It would sign forever.
        let mut keys: Vec<StoredKey> = self
            .keys
            .iter()
            .filter(|key| key.made_s <= now + 86_400 && now < key.made_s + life)
            .cloned()
            .collect();
        let newest = keys.last().map(|key| key.made_s);
        if newest.is_none_or(|made| now >= made + limits::SIGNS.as_secs()) {
            keys.push(StoredKey::new(now, entropy));
        }
        (keys != self.keys).then_some(Self { keys })
    }

    /// The signing key: the newest one that has been published long enough, or else the oldest one.
    pub fn signing(&self, now: Wall) -> Option<SigningKey> {
        let now = seconds(now);
        let ripe = self.keys.iter().rev().find(|key| now >= key.signs_from());
        ripe.or(self.keys.first())?.key()
    }

    /// The public keys.
    pub fn published(&self) -> Jwks {
        Jwks { keys: self.keys.iter().filter_map(|kept| Some(kept.key()?.public())).collect() }
    }

    /// Whether every stored key is valid.
    pub(crate) fn whole(&self) -> bool {
        self.keys.iter().all(|kept| kept.key().is_some())
    }
}

fn seconds(wall: Wall) -> u64 {
    wall.as_micros() / 1_000_000
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made: Vec<u64> = self.keys.iter().map(|key| key.made_s).collect();
        f.debug_struct("Keys").field("made_s", &made).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    const START: u64 = 1_700_000_000;
    const DAY: u64 = 86_400;

    /// A different seed for every key.
    #[derive(Default)]
    struct Counting(AtomicU8);

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0.fetch_add(1, Ordering::Relaxed));
        }
    }

    fn at(seconds: u64) -> Wall {
        Wall::from_micros((START + seconds) * 1_000_000)
    }

    fn kid(keys: &Keys, seconds: u64) -> String {
        keys.signing(at(seconds)).unwrap().kid().to_owned()
    }

    #[test]
    fn a_key_is_published_before_it_signs_and_long_after() {
        let entropy = Counting::default();
        let first = Keys::default().turned(at(0), &entropy).unwrap();
        assert_eq!(first.turned(at(7 * DAY - 1), &entropy), None);
        let second = first.turned(at(7 * DAY), &entropy).unwrap();
        assert_eq!(second.published().keys.len(), 2);
        assert_eq!(
            kid(&second, 7 * DAY + 599),
            kid(&first, 0),
            "the new key does not sign until it has been published long enough"
        );
        assert_ne!(kid(&second, 7 * DAY + 600), kid(&first, 0));
        assert_eq!(second.turned(at(14 * DAY - 1), &entropy), None);
        let third = second.turned(at(14 * DAY + 600), &entropy).unwrap();
        assert_eq!(third.published().keys.len(), 2, "the first key is removed, a third is added");
    }

    #[test]
    fn for_six_weeks_every_valid_token_can_be_verified() {
        let entropy = Counting::default();
        let mut keys = Keys::default();
        let mut signed: Vec<(u64, String)> = Vec::new();
        for hour in 0..24 * 42 {
            let now = hour * 3_600;
            keys = keys.turned(at(now), &entropy).unwrap_or(keys);
            signed.push((now, kid(&keys, now)));
            let published = keys.published();
            for (_, kid) in signed.iter().rev().take_while(|(when, _)| now - when <= 2 * 3_600) {
                assert!(published.keys.iter().any(|key| key.kid == *kid), "hour {hour}");
            }
            assert!((1..=3).contains(&published.keys.len()));
        }
    }

    #[test]
    fn stale_keys_or_keys_from_the_future_are_replaced() {
        let entropy = Counting::default();
        let first = Keys::default().turned(at(0), &entropy).unwrap();
        let slept = first.turned(at(60 * DAY), &entropy).unwrap();
        assert_eq!(slept.published().keys.len(), 1);
        assert_ne!(kid(&slept, 60 * DAY), kid(&first, 0));
        let ahead = Keys::default().turned(at(60 * DAY), &entropy).unwrap();
        let back = ahead.turned(at(0), &entropy).unwrap();
        assert_ne!(kid(&back, 0), kid(&ahead, 60 * DAY));
    }

    #[test]
    fn debug_output_hides_the_seeds() {
        let keys = Keys::default().turned(at(0), &Counting::default()).unwrap();
        assert_eq!(format!("{keys:?}"), "Keys { made_s: [1700000000] }");
    }
}
