//! Sealing: encrypts records in a shared store.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hkdf::Hkdf;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;
use tenure_lease::Entropy;

use crate::limits;

/// The secret is too short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("TENURE_SEAL_KEY has {0} bytes; at least {min} are required", min = limits::SEAL)]
pub struct WeakSeal(usize);

/// Encrypts with AES-256-GCM and a key derived from a secret. The record name is authenticated: a record does not open under another name.
pub struct Seal(Box<LessSafeKey>);

impl Seal {
    /// Creates a seal from a secret of at least 32 bytes.
    pub fn new(secret: &[u8]) -> Result<Self, WeakSeal> {
        if secret.len() < limits::SEAL {
            return Err(WeakSeal(secret.len()));
        }
        let mut key = [0; 32];
        let derived = Hkdf::<Sha256>::new(None, secret).expand(b"tenure seal v1", &mut key);
        let key = derived.ok().and_then(|()| UnboundKey::new(&AES_256_GCM, &key).ok());
        key.map(|key| Self(Box::new(LessSafeKey::new(key)))).ok_or(WeakSeal(secret.len()))
    }

    /// Seals the content as text.
    pub fn seal(&self, name: &str, content: &[u8], entropy: &dyn Entropy) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        entropy.fill(&mut nonce);
        let mut sealed = content.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(unique, Aad::from(name.as_bytes()), &mut sealed).ok()?;
        Some(STANDARD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// Opens a record. `None` if the name, the secret or any bit differs.
    pub fn open(&self, name: &str, sealed: &str) -> Option<Vec<u8>> {
        let raw = STANDARD.decode(sealed).ok()?;
        let (nonce, sealed) = raw.split_first_chunk::<NONCE_LEN>()?;
        let mut content = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(name.as_bytes()), &mut content).ok()?;
        Some(opened.to_vec())
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_keeper::OsEntropy;

    #[test]
    fn a_record_opens_only_unchanged_with_the_same_secret_and_name() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let sealed = seal.seal("keys", b"secret", &OsEntropy).unwrap();
        assert_eq!(seal.open("keys", &sealed).as_deref(), Some(b"secret".as_slice()));
        assert_eq!(seal.open("other", &sealed), None);
        assert_eq!(Seal::new(&[8; 32]).unwrap().open("keys", &sealed), None);
        let raw = STANDARD.decode(&sealed).unwrap();
        for at in 0..raw.len() {
            let mut changed = raw.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open("keys", &STANDARD.encode(changed)), None, "byte {at}");
        }
        assert_eq!(seal.open("keys", ""), None);
        assert_ne!(seal.seal("keys", b"secret", &OsEntropy).unwrap(), sealed, "never the same twice");
    }

    #[test]
    fn a_short_secret_is_rejected() {
        assert_eq!(Seal::new(&[7; 31]).unwrap_err(), WeakSeal(31));
    }
}
