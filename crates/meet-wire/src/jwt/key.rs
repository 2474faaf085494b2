//! Signing keys and published keys.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::limits;

/// A signing key. Its `kid` is the thumbprint of its public key (RFC 7638).
pub struct SigningKey {
    kid: String,
    pair: Ed25519KeyPair,
}

/// A published key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Jwk {
    /// Always `OKP`.
    pub kty: String,
    /// Always `Ed25519`.
    pub crv: String,
    /// The key id.
    pub kid: String,
    /// The public key.
    pub x: String,
    /// Always `EdDSA`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// Always `sig`.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// The content of `/.well-known/jwks.json`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Jwks {
    /// The keys.
    pub keys: Vec<Jwk>,
}

/// The keys that verify signatures, by `kid`.
#[derive(Clone, Default, Debug)]
pub struct KeySet(BTreeMap<String, [u8; 32]>);

impl SigningKey {
    /// Derives the key from 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let kid = thumbprint(pair.public_key().as_ref());
        Some(Self { kid, pair })
    }

    /// The key id.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The public key.
    pub fn public(&self) -> Jwk {
        Jwk {
            kty: "OKP".to_owned(),
            crv: "Ed25519".to_owned(),
            kid: self.kid.clone(),
            x: URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref()),
            alg: Some("EdDSA".to_owned()),
            purpose: Some("sig".to_owned()),
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

/// The `kid` of a public key.
fn thumbprint(public: &[u8]) -> String {
    let x = URL_SAFE_NO_PAD.encode(public);
    let canonical = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(canonical))
}

impl Jwks {
    /// Parses a published set of at most 16 keys. [`KeySet::from`] skips keys of other types.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let set: Self = serde_json::from_slice(json).ok()?;
        (set.keys.len() <= limits::KEYS).then_some(set)
    }
}

impl From<&Jwks> for KeySet {
    fn from(set: &Jwks) -> Self {
        let ours = set.keys.iter().filter(|key| {
            let alg = key.alg.as_deref().is_none_or(|alg| alg == "EdDSA");
            let purpose = key.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
            key.kty == "OKP" && key.crv == "Ed25519" && alg && purpose && !key.kid.is_empty()
        });
        let raw = |key: &Jwk| <[u8; 32]>::try_from(URL_SAFE_NO_PAD.decode(&key.x).ok()?).ok();
        Self(ours.filter_map(|key| Some((key.kid.clone(), raw(key)?))).take(limits::KEYS).collect())
    }
}

impl KeySet {
    /// Whether the set contains this key.
    pub fn knows(&self, kid: &str) -> bool {
        self.0.contains_key(kid)
    }

    /// Whether the key with this `kid` made the signature. `None` if the key is unknown.
    pub(super) fn verify(&self, kid: &str, message: &[u8], signature: &[u8]) -> Option<bool> {
        let public = self.0.get(kid)?;
        Some(UnparsedPublicKey::new(&ED25519, public).verify(message, signature).is_ok())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.kid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8037, appendix A.
    fn known() -> SigningKey {
        let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
        SigningKey::from_seed(&seed.try_into().unwrap()).unwrap()
    }

    #[test]
    fn kid_and_signature_match_the_rfc_vectors() {
        let key = known();
        assert_eq!(key.public().x, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(key.kid(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let signed = key.sign(b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc");
        assert_eq!(
            URL_SAFE_NO_PAD.encode(signed),
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
        );
    }

    #[test]
    fn a_published_set_round_trips_without_foreign_keys() {
        let own = known().public();
        let foreign = [
            Jwk { kty: "RSA".to_owned(), kid: "a".to_owned(), ..own.clone() },
            Jwk { crv: "X25519".to_owned(), kid: "b".to_owned(), ..own.clone() },
            Jwk { alg: Some("HS256".to_owned()), kid: "c".to_owned(), ..own.clone() },
            Jwk { purpose: Some("enc".to_owned()), kid: "d".to_owned(), ..own.clone() },
            Jwk { x: "AAAA".to_owned(), kid: "e".to_owned(), ..own.clone() },
            Jwk { kid: String::new(), ..own.clone() },
        ];
        let set = Jwks { keys: [vec![own], foreign.to_vec()].concat() };
        let read = Jwks::parse(&serde_json::to_vec(&set).unwrap()).unwrap();
        assert_eq!(read, set);
        let keys = KeySet::from(&read);
        assert!(keys.knows(known().kid()));
        assert_eq!(keys.0.len(), 1);
        let many = Jwks { keys: vec![known().public(); limits::KEYS + 1] };
        assert_eq!(Jwks::parse(&serde_json::to_vec(&many).unwrap()), None);
    }

    #[test]
    fn debug_output_hides_the_signing_key() {
        let shown = format!("{:?}", known());
        assert_eq!(shown, "SigningKey(kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k)");
    }
}
