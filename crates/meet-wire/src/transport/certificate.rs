//! The self-signed certificate of an endpoint, which clients pin by its hash.
//!
//! Browsers accept such a certificate only if it uses P-256 and is valid for at most 14 days. A pair is kept: the current one and
//! the next one. The next one becomes valid when the current one has served nine days. Both hashes are always published, so a
//! client never sees a certificate whose hash it does not have.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tenure_lease::Wall;

const DAY: Duration = Duration::from_secs(86_400);
/// Validity of a certificate, including the backdated time.
const VALID: Duration = Duration::from_secs(13 * 86_400);
/// How long a certificate is served.
const SERVES: Duration = Duration::from_secs(9 * 86_400);
/// How far a certificate is backdated, for clients with slow clocks.
const EARLY: Duration = Duration::from_secs(300);

/// A certificate could not be created or used.
#[derive(Debug, thiserror::Error)]
#[error("WebTransport certificate: {0}")]
pub struct CertificateError(String);

/// A certificate and its private key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    not_before_s: u64,
    /// DER, in base64.
    certificate: String,
    /// PKCS #8, in base64.
    key: String,
}

/// The current certificate and the next one. This is also the stored form; it is secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Pair {
    current: Certificate,
    next: Certificate,
}

impl Certificate {
    fn new(names: &[String], not_before_s: u64) -> Result<Self, CertificateError> {
        let failed = |error: rcgen::Error| CertificateError(error.to_string());
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "tenure meetings");
        let moment = |seconds: u64| {
            let seconds =
                i64::try_from(seconds).map_err(|_| CertificateError("time out of range".to_owned()))?;
            time::OffsetDateTime::from_unix_timestamp(seconds)
                .map_err(|error| CertificateError(error.to_string()))
        };
        params.not_before = moment(not_before_s)?;
        params.not_after = moment(not_before_s + VALID.as_secs())?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self {
            not_before_s,
            certificate: STANDARD.encode(certificate.der()),
            key: STANDARD.encode(key.serialize_der()),
        })
    }

    /// When it stops being served, in seconds since the Unix epoch.
    const fn serves_until(&self) -> u64 {
        self.not_before_s + EARLY.as_secs() + SERVES.as_secs()
    }

    /// The certificate in DER.
    pub fn der(&self) -> Result<CertificateDer<'static>, CertificateError> {
        STANDARD
            .decode(&self.certificate)
            .map(CertificateDer::from)
            .map_err(|error| CertificateError(error.to_string()))
    }

    /// The private key.
    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, CertificateError> {
        let key = STANDARD.decode(&self.key).map_err(|error| CertificateError(error.to_string()))?;
        Ok(PrivatePkcs8KeyDer::from(key).into())
    }

    /// The SHA-256 hash that clients pin.
    pub fn sha256(&self) -> Result<[u8; 32], CertificateError> {
        Ok(Sha256::digest(self.der()?).into())
    }
}

impl Pair {
    /// Creates a pair for these names and addresses.
    pub fn new(names: &[String], now: Wall) -> Result<Self, CertificateError> {
        let start = (now.as_micros() / 1_000_000).saturating_sub(EARLY.as_secs());
        let current = Certificate::new(names, start)?;
        let next = Certificate::new(names, start + SERVES.as_secs())?;
        Ok(Self { current, next })
    }

    /// The current certificate.
    pub fn current(&self) -> &Certificate {
        &self.current
    }

    /// The hashes to publish, of the current and of the next certificate.
    pub fn hashes(&self) -> Result<[[u8; 32]; 2], CertificateError> {
        Ok([self.current.sha256()?, self.next.sha256()?])
    }

    /// When to call [`Pair::turned`] again.
    pub fn due(&self) -> Wall {
        Wall::from_micros(self.current.serves_until().saturating_mul(1_000_000))
    }

    /// The pair after a rotation, if one is due: the next certificate becomes current and a new next one is created. If the next
    /// certificate has expired too, or the clock was set back, both are replaced.
    pub fn turned(&self, names: &[String], now: Wall) -> Result<Option<Self>, CertificateError> {
        let seconds = now.as_micros() / 1_000_000;
        if seconds < self.current.not_before_s || seconds >= self.next.serves_until() {
            return Self::new(names, now).map(Some);
        }
        if seconds < self.current.serves_until() {
            return Ok(None);
        }
        let next = Certificate::new(names, self.next.not_before_s + SERVES.as_secs())?;
        Ok(Some(Self { current: self.next.clone(), next }))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate(from day {})", self.not_before_s / DAY.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000;

    fn at(days: u64, seconds: u64) -> Wall {
        Wall::from_micros((START + days * 86_400 + seconds) * 1_000_000)
    }

    fn names() -> Vec<String> {
        vec!["127.0.0.1".to_owned(), "localhost".to_owned()]
    }

    #[test]
    fn a_client_with_both_hashes_knows_the_certificate_after_a_rotation() {
        let pair = Pair::new(&names(), at(0, 0)).unwrap();
        assert!(pair.turned(&names(), at(9, 0)).unwrap().is_some());
        assert_eq!(pair.turned(&names(), at(8, 86_399)).unwrap(), None);
        let turned = pair.turned(&names(), at(9, 0)).unwrap().unwrap();
        assert_eq!(turned.hashes().unwrap()[0], pair.hashes().unwrap()[1]);
        assert_eq!(turned.due(), at(18, 0));
        assert!(turned.turned(&names(), at(17, 86_399)).unwrap().is_none());
    }

    #[test]
    fn the_current_certificate_is_always_valid_for_days() {
        let mut pair = Pair::new(&names(), at(0, 0)).unwrap();
        for hour in 0..24 * 40 {
            let now = START + hour * 3_600;
            if let Some(turned) = pair.turned(&names(), Wall::from_micros(now * 1_000_000)).unwrap() {
                pair = turned;
            }
            let from = pair.current().not_before_s;
            assert!(from + 300 <= now && now + 3 * 86_400 < from + VALID.as_secs(), "hour {hour}");
        }
    }

    #[test]
    fn a_stale_pair_or_one_from_the_future_is_replaced() {
        let pair = Pair::new(&names(), at(20, 0)).unwrap();
        for now in [at(39, 0), at(0, 0)] {
            let fresh = pair.turned(&names(), now).unwrap().unwrap();
            let old = pair.hashes().unwrap();
            assert!(fresh.hashes().unwrap().iter().all(|hash| !old.contains(hash)));
        }
    }

    #[test]
    fn a_pair_round_trips_and_hides_its_keys() {
        let pair = Pair::new(&names(), at(0, 0)).unwrap();
        let kept = serde_json::to_string(&pair).unwrap();
        assert_eq!(serde_json::from_str::<Pair>(&kept).unwrap(), pair);
        let shown = format!("{pair:?}");
        assert!(!shown.contains(&pair.current.key[..16]), "{shown}");
        assert!(pair.current().private_key().is_ok());
    }
}
