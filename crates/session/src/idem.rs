//! The same wish is the same session.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Error, Result, Start};

/// The name of a wish: a keyed hash, in lower-case hex.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

/// What the hash is keyed with. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

/// The secret in use, and the one before it while it is being replaced.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// New keys are made with this one.
    pub current: Secret,
    /// Keys made with this one are still found.
    pub previous: Option<Secret>,
}

impl IdempotencyKey {
    /// Takes a key that a store kept.
    pub fn from_hex(text: &str) -> Result<Self> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == 64 && text.bytes().all(hex) {
            true => Ok(Self(Arc::from(text))),
            false => Err(Error::invalid("idempotencyKey", "is not 64 lower-case hex digits")),
        }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Secret {
    /// Takes a secret of any length but none.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self> {
        match bytes.as_ref() {
            [] => Err(Error::invalid("XG2G_IDEM_SECRET", "must not be empty")),
            bytes => Ok(Self(Arc::from(bytes))),
        }
    }

    fn key(&self, start: &Start) -> IdempotencyKey {
        // No field may hold a `|`: its constructors refuse it, so two wishes never make one message.
        let target = &start.target;
        let parts =
            ["v3_intent", Start::WORD, target.id(), start.profile.as_str(), &target.bucket().to_string()]
                .join("|");
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { unreachable!() };
        mac.update(parts.as_bytes());
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        IdempotencyKey(hex.into())
    }
}

impl Secrets {
    /// The key under which a fresh session is found.
    pub fn key(&self, start: &Start) -> IdempotencyKey {
        self.current.key(start)
    }

    /// The keys under which a session may be found: the current first, then the previous.
    pub fn candidates(&self, start: &Start) -> Vec<IdempotencyKey> {
        let previous = self.previous.as_ref().filter(|previous| **previous != self.current);
        std::iter::once(&self.current).chain(previous).map(|secret| secret.key(start)).collect()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileId, Target};

    fn start(target: Target, profile: &str) -> Start {
        Start { target, profile: ProfileId::new(profile).unwrap(), correlation: None }
    }

    fn live(profile: &str) -> Start {
        start(Target::new(Some("1:0:1:445D:453:1:C00000:0:0:0:"), None, None).unwrap(), profile)
    }

    fn recording(start_ms: u64) -> Start {
        start(Target::new(None, Some("rec-1"), Some(start_ms)).unwrap(), "high")
    }

    fn secrets(current: &str, previous: Option<&str>) -> Secrets {
        let secret = |text: &str| Secret::new(text).unwrap();
        Secrets { current: secret(current), previous: previous.map(secret) }
    }

    #[test]
    fn keys_are_those_of_the_formula() {
        // hmac-sha256 by openssl over "v3_intent|stream.start|1:0:1:445D:453:1:C00000:0:0:0:|high|0" with key "k1".
        let expected = include_str!("../tests/golden/live-high.hex").trim();
        assert_eq!(secrets("k1", None).key(&live("high")).as_str(), expected);
        // The same over "v3_intent|stream.start|rec-1|high|60".
        let expected = include_str!("../tests/golden/recording-60.hex").trim();
        assert_eq!(secrets("k1", None).key(&recording(60_000)).as_str(), expected);
    }

    #[test]
    fn profile_target_and_second_make_another_wish() {
        let secrets = secrets("k1", None);
        assert_ne!(secrets.key(&live("high")), secrets.key(&live("low")));
        assert_ne!(secrets.key(&live("high")), secrets.key(&recording(0)));
        assert_eq!(secrets.key(&recording(10_000)), secrets.key(&recording(10_500)));
        assert_ne!(secrets.key(&recording(10_999)), secrets.key(&recording(11_000)));
    }

    #[test]
    fn while_a_secret_is_replaced_both_keys_are_looked_for_and_the_current_one_is_made() {
        let (old, both) = (secrets("k1", None), secrets("k2", Some("k1")));
        let wish = live("high");
        assert_eq!(both.candidates(&wish), [both.key(&wish), old.key(&wish)]);
        assert_ne!(both.key(&wish), old.key(&wish));
        assert_eq!(secrets("k1", Some("k1")).candidates(&wish).len(), 1);
    }

    #[test]
    fn a_secret_is_not_shown_and_not_empty() {
        assert!(!format!("{:?}", secrets("k1", Some("k0"))).contains("k1"));
        assert!(Secret::new("").is_err());
    }

    #[test]
    fn a_key_from_a_store_is_64_digits() {
        let key = secrets("k1", None).key(&live("high"));
        assert_eq!(IdempotencyKey::from_hex(key.as_str()).unwrap(), key);
        for bad in ["", "00", &key.as_str().to_uppercase(), &"g".repeat(64)] {
            assert!(IdempotencyKey::from_hex(bad).is_err(), "{bad}");
        }
    }
}
