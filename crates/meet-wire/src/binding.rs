//! Binding tokens: a client that resumes proves possession of its participant.
//!
//! `HMAC-SHA256(meeting_key, correlation_id, participant_id, nonce)`. Each field has a length prefix (two bytes, big-endian); the
//! ids are text. `meeting_key = HKDF-SHA256(ikm: master secret, salt: meeting id, info: "session-binding")`, 32 bytes. A token is 64
//! lowercase hex digits. It proves possession only. A JWT proves the user, and a resume needs both.

use std::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};
use tenure_lease::Entropy;

use crate::{Id, MeetingId, limits};

pub(crate) const INFO: &[u8] = b"session-binding";

/// The secret is too short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the binding secret has {0} bytes; at least {min} are required", min = limits::SECRET)]
pub struct WeakSecret(usize);

/// The secret shared by the controllers of a region.
#[derive(Clone)]
pub struct MasterSecret(Vec<u8>);

/// The secret that issues tokens, and the previous one, which still verifies them.
#[derive(Clone, Debug)]
pub struct Secrets {
    current: MasterSecret,
    previous: Option<MasterSecret>,
}

/// Distinguishes the tokens of one participant. Each nonce is accepted once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Nonce([u8; 16]);

/// A token in its wire form.
#[derive(Clone, PartialEq, Eq)]
pub struct BindingToken(String);

/// The fields that a token binds.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a> {
    /// The meeting.
    pub meeting: &'a MeetingId,
    /// The connection that the token was issued to.
    pub correlation: Id,
    /// The participant.
    pub participant: Id,
    /// The one-time value.
    pub nonce: &'a Nonce,
}

impl MasterSecret {
    /// Accepts a secret of at least 32 bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, WeakSecret> {
        let bytes = bytes.into();
        if bytes.len() < limits::SECRET {
            return Err(WeakSecret(bytes.len()));
        }
        Ok(Self(bytes))
    }

    /// Derives the key of a meeting for one purpose.
    pub(crate) fn derive(&self, meeting: &MeetingId, info: &[u8]) -> [u8; 32] {
        let mut key = [0; 32];
        let derived = Hkdf::<Sha256>::new(Some(meeting.as_str().as_bytes()), &self.0).expand(info, &mut key);
        debug_assert!(derived.is_ok(), "32 bytes can always be derived");
        key
    }

    fn token(&self, bound: &Bound<'_>) -> [u8; 32] {
        let key = self.derive(bound.meeting, INFO);
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return [0; 32] };
        let ids = [bound.correlation.to_string(), bound.participant.to_string()];
        for field in [ids[0].as_bytes(), ids[1].as_bytes(), &bound.nonce.0] {
            mac.update(&(field.len() as u16).to_be_bytes());
            mac.update(field);
        }
        mac.finalize().into_bytes().into()
    }
}

impl Secrets {
    /// A single secret.
    pub fn new(current: MasterSecret) -> Self {
        Self { current, previous: None }
    }

    /// A secret and the one it replaced. The owner drops the old one an hour after the rotation.
    pub fn rotated(current: MasterSecret, previous: MasterSecret) -> Self {
        Self { current, previous: Some(previous) }
    }

    /// The current secret and, after a rotation, the one before.
    pub(crate) fn both(&self) -> (&MasterSecret, Option<&MasterSecret>) {
        (&self.current, self.previous.as_ref())
    }

    /// Drops the previous secret.
    #[must_use]
    pub fn without_previous(self) -> Self {
        Self { previous: None, ..self }
    }

    /// Issues a token with the current secret.
    pub fn issue(&self, bound: &Bound<'_>) -> BindingToken {
        BindingToken(hex(&self.current.token(bound)))
    }

    /// Whether either secret issued this token for the binding. Runs in constant time.
    pub fn verify(&self, bound: &Bound<'_>, token: &str) -> bool {
        let shown = unhex::<32>(token);
        let bytes = shown.unwrap_or([0; 32]);
        let mut good = bytes.ct_eq(&self.current.token(bound));
        if let Some(previous) = &self.previous {
            good |= bytes.ct_eq(&previous.token(bound));
        }
        (good & Choice::from(u8::from(shown.is_some()))).into()
    }
}

impl Nonce {
    /// Generates a nonce.
    pub fn new(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// Parses a stored nonce from hex.
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }

    /// Encodes the nonce in hex for storage.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }
}

impl BindingToken {
    /// The 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes lowercase hex of exactly this many bytes.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let raw = text.as_bytes();
    if raw.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(raw.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret(hidden)")
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(hidden)")
    }
}

impl fmt::Debug for BindingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BindingToken(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORRELATION: &str = "018bcfe5-6800-7fff-bfff-ffffffffffff";
    const PARTICIPANT: &str = "018bcfe5-6801-7000-8000-000000000000";
    const NONCE: &str = "000102030405060708090a0b0c0d0e0f";

    fn secret(byte: u8) -> MasterSecret {
        MasterSecret::new(vec![byte; 32]).unwrap()
    }

    fn check(secrets: &Secrets, token: &str, change: impl Fn(&mut (String, String, String, String))) -> bool {
        let mut parts = ("abc".to_owned(), CORRELATION.to_owned(), PARTICIPANT.to_owned(), NONCE.to_owned());
        change(&mut parts);
        let (meeting, nonce) = (MeetingId::parse(&parts.0).unwrap(), Nonce::parse(&parts.3).unwrap());
        let (correlation, participant) = (Id::parse(&parts.1).unwrap(), Id::parse(&parts.2).unwrap());
        secrets.verify(&Bound { meeting: &meeting, correlation, participant, nonce: &nonce }, token)
    }

    fn issue(secrets: &Secrets) -> String {
        let (meeting, nonce) = (MeetingId::parse("abc").unwrap(), Nonce::parse(NONCE).unwrap());
        let (correlation, participant) = (Id::parse(CORRELATION).unwrap(), Id::parse(PARTICIPANT).unwrap());
        secrets
            .issue(&Bound { meeting: &meeting, correlation, participant, nonce: &nonce })
            .as_str()
            .to_owned()
    }

    /// Computed independently with Python's hmac and hashlib.
    #[test]
    fn a_binding_token_matches_the_known_vector() {
        assert_eq!(
            issue(&Secrets::new(secret(7))),
            "57f65da851ceb509e3366edbf56919e681641e7a6109d65bd77747c675f29bb1"
        );
    }

    #[test]
    fn a_token_binds_correlation_participant_nonce_and_meeting() {
        let secrets = Secrets::new(secret(7));
        let token = issue(&secrets);
        assert!(check(&secrets, &token, |_| ()));
        assert!(!check(&secrets, &token, |parts| parts.0 = "abd".to_owned()));
        assert!(!check(&secrets, &token, |parts| parts.1 = PARTICIPANT.to_owned()));
        assert!(!check(&secrets, &token, |parts| parts.2 = CORRELATION.to_owned()));
        assert!(!check(&secrets, &token, |parts| parts.3 = "ff".repeat(16)));
        assert!(!check(&Secrets::new(secret(8)), &token, |_| ()), "another region's secret");
    }

    #[test]
    fn only_64_lowercase_hex_digits_are_a_token() {
        let secrets = Secrets::new(secret(7));
        let token = issue(&secrets);
        for bad in [
            "".to_owned(),
            token[..63].to_owned(),
            format!("{token}0"),
            token.to_uppercase(),
            "0".repeat(64),
            "g".repeat(64),
        ] {
            assert!(!check(&secrets, &bad, |_| ()), "{bad}");
        }
        for at in 0..64 {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert!(!check(&secrets, std::str::from_utf8(&changed).unwrap(), |_| ()), "digit {at}");
        }
    }

    #[test]
    fn tokens_survive_a_rotation_in_both_directions_until_it_ends() {
        let (old, new) = (Secrets::new(secret(7)), Secrets::rotated(secret(8), secret(7)));
        let before = issue(&old);
        assert!(check(&new, &before, |_| ()), "issued before, verified after");
        let after = issue(&new);
        assert!(
            !check(&old, &after, |_| ()),
            "a controller that has not rotated yet does not know the new secret"
        );
        let ahead = Secrets::rotated(secret(7), secret(8));
        assert!(check(&ahead, &after, |_| ()), "a controller that has both secrets does");
        assert!(!check(&new.without_previous(), &before, |_| ()), "the grace period is over");
    }

    #[test]
    fn a_short_secret_is_rejected() {
        assert_eq!(MasterSecret::new(vec![1; 31]).unwrap_err(), WeakSecret(31));
        assert!(MasterSecret::new(vec![1; 32]).is_ok());
    }

    #[test]
    fn debug_output_hides_secrets_and_nonces() {
        let secrets = Secrets::rotated(secret(0x61), secret(0x62));
        let shown = format!("{secrets:?} {:?}", Nonce::parse(NONCE).unwrap());
        assert!(!shown.contains("aaaa") && !shown.contains("97, 97") && !shown.contains("0001"), "{shown}");
    }
}
