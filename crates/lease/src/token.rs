//! The secret that proves a reign.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::breaks::{Break, broken};
use crate::{Entropy, Error};

/// The secret of one reign: 22 to 128 characters of base64url, made by the client before the first send.
///
/// It serves one reign. Its `Debug` shows nothing, and it has no `Display`: a token leaves the process only
/// through [`Token::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: Box<str>,
    digest: Digest,
}

/// The SHA-256 of a token: what stores keep and compare.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Token {
    /// A fresh token of 128 random bits.
    pub fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        Self::from_text(URL_SAFE_NO_PAD.encode(bytes).into_boxed_str())
    }

    /// Validates a token that a client made.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let shape = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !shape || !(22..=128).contains(&text.len()) {
            return Err(Error::invalid("token", "must be 22 to 128 characters of base64url"));
        }
        Ok(Self::from_text(text.into()))
    }

    fn from_text(text: Box<str>) -> Self {
        let digest = Digest(Sha256::digest(text.as_bytes()).into());
        Self { text, digest }
    }

    /// The secret itself, for the wire and nothing else.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The digest that stores keep.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

impl Digest {
    /// A digest from storage.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first half, enough to recognise a spent token.
    pub fn short(&self) -> [u8; 16] {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0[..16]);
        half
    }
}

/// Compares in constant time, so that timing does not reveal how much of a guess was right.
impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match broken(Break::ShowsTokens) {
            true => f.write_str(&self.text),
            false => f.write_str("Token(hidden)"),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u8);
    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn a_token_shows_nothing_of_itself() {
        let token = Token::random(&Fixed(7));
        let shown = format!("{token:?} {:?}", token.digest());
        assert_eq!(shown, "Token(hidden) Digest(hidden)");
        assert_eq!(token.reveal().len(), 22);
    }

    #[test]
    fn equal_tokens_have_equal_digests() {
        let token = Token::random(&Fixed(7));
        assert_eq!(Token::parse(token.reveal()).unwrap().digest(), token.digest());
        assert_ne!(Token::random(&Fixed(8)).digest(), token.digest());
    }

    #[test]
    fn a_short_or_strange_token_is_refused() {
        for bad in ["", "short", &"a".repeat(21), &"a".repeat(129), &format!("{}=", "a".repeat(22))] {
            assert!(Token::parse(bad).is_err(), "{bad:?}");
        }
    }
}
