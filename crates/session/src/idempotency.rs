//! Idempotency keys: identical intents share one session.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tenure_breaks::{Break, broken};

use crate::{Error, Result, StartIntent};

/// Identifies an intent: a keyed hash in lower-case hex.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

/// The key of the hash. Never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

/// The current secret and, during a rotation, the previous one.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Generates new keys.
    pub current: Secret,
    /// Keys generated with this secret are still found.
    pub previous: Option<Secret>,
}

impl IdempotencyKey {
    /// Parses a key read from a store.
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
    /// Accepts a secret of any length except zero.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self> {
        match bytes.as_ref() {
            [] => Err(Error::invalid("XG2G_IDEM_SECRET", "must not be empty")),
            bytes => Ok(Self(Arc::from(bytes))),
        }
    }

    fn key(&self, start: &StartIntent) -> IdempotencyKey {
        // The constructors of all fields reject `|`, so two intents never produce the same message.
        let target = &start.target;
        let parts = [
            "v3_intent",
            StartIntent::TYPE,
            target.id(),
            start.profile.as_str(),
            &target.bucket().to_string(),
        ]
        .join("|");
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { unreachable!() };
        mac.update(parts.as_bytes());
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        IdempotencyKey(hex.into())
    }
}

impl Secrets {
    /// The key of a new session.
    pub fn key(&self, start: &StartIntent) -> IdempotencyKey {
        self.current.key(start)
    }

    /// The keys a session may be mapped under: current secret first, then the previous one.
    pub fn candidates(&self, start: &StartIntent) -> Vec<IdempotencyKey> {
        let previous = self.previous.as_ref().filter(|previous| **previous != self.current);
        std::iter::once(&self.current).chain(previous).map(|secret| secret.key(start)).collect()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match broken(Break::ShowsSecrets) {
            true => f.write_str(&String::from_utf8_lossy(&self.0)),
            false => f.write_str("(hidden)"),
        }
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

    fn start(target: Target, profile: &str) -> StartIntent {
        StartIntent { target, profile: ProfileId::new(profile).unwrap(), correlation: None }
    }

    fn live(profile: &str) -> StartIntent {
        start(Target::new(Some("1:0:1:445D:453:1:C00000:0:0:0:"), None, None).unwrap(), profile)
    }

    fn recording(start_ms: u64) -> StartIntent {
        start(Target::new(None, Some("rec-1"), Some(start_ms)).unwrap(), "high")
    }

    fn secrets(current: &str, previous: Option<&str>) -> Secrets {
        let secret = |text: &str| Secret::new(text).unwrap();
        Secrets { current: secret(current), previous: previous.map(secret) }
    }

    #[test]
    fn keys_match_the_documented_formula() {
        // hmac-sha256 by openssl over "v3_intent|stream.start|1:0:1:445D:453:1:C00000:0:0:0:|high|0" with key "k1".
        let expected = include_str!("../tests/golden/live-high.hex").trim();
        assert_eq!(secrets("k1", None).key(&live("high")).as_str(), expected);
        // The same over "v3_intent|stream.start|rec-1|high|60".
        let expected = include_str!("../tests/golden/recording-60.hex").trim();
        assert_eq!(secrets("k1", None).key(&recording(60_000)).as_str(), expected);
    }

    #[test]
    fn another_profile_target_or_second_gives_another_key() {
        let secrets = secrets("k1", None);
        assert_ne!(secrets.key(&live("high")), secrets.key(&live("low")));
        assert_ne!(secrets.key(&live("high")), secrets.key(&recording(0)));
        assert_eq!(secrets.key(&recording(10_000)), secrets.key(&recording(10_500)));
        assert_ne!(secrets.key(&recording(10_999)), secrets.key(&recording(11_000)));
    }

    #[test]
    fn during_a_rotation_both_keys_are_candidates_and_new_keys_use_the_current_secret() {
        let (old, both) = (secrets("k1", None), secrets("k2", Some("k1")));
        let intent = live("high");
        assert_eq!(both.candidates(&intent), [both.key(&intent), old.key(&intent)]);
        assert_ne!(both.key(&intent), old.key(&intent));
        assert_eq!(secrets("k1", Some("k1")).candidates(&intent).len(), 1);
    }

    #[test]
    fn a_secret_is_never_displayed_and_never_empty() {
        assert!(!format!("{:?}", secrets("k1", Some("k0"))).contains("k1"));
        assert!(Secret::new("").is_err());
    }

    #[test]
    fn a_stored_key_is_64_hex_digits() {
        let key = secrets("k1", None).key(&live("high"));
        assert_eq!(IdempotencyKey::from_hex(key.as_str()).unwrap(), key);
        for bad in ["", "00", &key.as_str().to_uppercase(), &"g".repeat(64)] {
            assert!(IdempotencyKey::from_hex(bad).is_err(), "{bad}");
        }
    }
}
