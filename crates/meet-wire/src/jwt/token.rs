//! Issues and verifies tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tenure_lease::Wall;

use crate::jwt::{Claims, KeySet, SigningKey};
use crate::limits;

/// Why a token was rejected. The caller sees the same message for every reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("The access token is invalid or expired")]
pub enum JwtError {
    /// Longer than 8 KiB.
    TooLong,
    /// Not three base64url segments, or not the expected JSON.
    Malformed,
    /// An algorithm other than EdDSA, or a critical header extension.
    Algorithm,
    /// Signed with an unknown key.
    UnknownKey,
    /// The signature does not verify.
    Signature,
    /// A token of another kind.
    Kind,
    /// Expired.
    Expired,
    /// Issued in the future.
    Future,
}

impl JwtError {
    /// The label for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Kind => "token_type",
            Self::Expired => "expired",
            Self::Future => "future",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    alg: &'a str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    typ: Option<&'a str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crit: Option<serde_json::Value>,
}

/// Signs a token with these claims.
pub fn sign<C: Claims>(key: &SigningKey, claims: &C) -> Result<String, JwtError> {
    let header = Header { alg: "EdDSA", kid: Some(key.kid()), typ: Some("JWT"), crit: None };
    let part = |json: Result<Vec<u8>, _>| json.map(|json| URL_SAFE_NO_PAD.encode(json));
    let header = part(serde_json::to_vec(&header)).map_err(|_| JwtError::Malformed)?;
    let body = part(serde_json::to_vec(claims)).map_err(|_| JwtError::Malformed)?;
    let mut token = format!("{header}.{body}");
    let signature = URL_SAFE_NO_PAD.encode(key.sign(token.as_bytes()));
    token.push('.');
    token.push_str(&signature);
    if token.len() > limits::TOKEN { Err(JwtError::TooLong) } else { Ok(token) }
}

/// Verifies tokens against a set of keys.
#[derive(Clone, Debug)]
pub struct Checker {
    keys: KeySet,
    skew: Duration,
}

impl Checker {
    /// Creates a checker that tolerates five minutes of clock skew.
    pub fn new(keys: KeySet) -> Self {
        Self { keys, skew: limits::SKEW }
    }

    /// Sets the tolerated clock skew of issuers, up to ten minutes.
    #[must_use]
    pub fn skew(self, skew: Duration) -> Self {
        Self { skew: skew.min(limits::SKEW_MAX), ..self }
    }

    /// The keys.
    pub fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// Verifies a token and returns its claims.
    pub fn check<C: Claims>(&self, token: &str, now: Wall) -> Result<C, JwtError> {
        self.check_ended(token, now, Duration::ZERO)
    }

    /// Also accepts a token that expired less than `since` ago. Use it only to recognize the bearer, never to authorize.
    pub fn check_ended<C: Claims>(&self, token: &str, now: Wall, since: Duration) -> Result<C, JwtError> {
        let claims = self.signed::<C>(token)?;
        let now = now.as_micros() / 1_000_000;
        if claims.iat() > now.saturating_add(self.skew.as_secs()) {
            return Err(JwtError::Future);
        }
        if claims.exp().saturating_add(since.as_secs()) <= now {
            return Err(JwtError::Expired);
        }
        Ok(claims)
    }

    /// Verifies the signature and returns the claims.
    fn signed<C: Claims>(&self, token: &str) -> Result<C, JwtError> {
        if token.len() > limits::TOKEN {
            return Err(JwtError::TooLong);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, body) = message.split_once('.').ok_or(JwtError::Malformed)?;
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| JwtError::Malformed);
        let (header, signature) = (part(header)?, part(signature)?);
        let header: Header<'_> = serde_json::from_slice(&header).map_err(|_| JwtError::Malformed)?;
        if header.alg != "EdDSA" || header.crit.is_some() {
            return Err(JwtError::Algorithm);
        }
        let kid = header.kid.ok_or(JwtError::UnknownKey)?;
        match self.keys.verify(kid, message.as_bytes(), &signature) {
            None => return Err(JwtError::UnknownKey),
            Some(false) => return Err(JwtError::Signature),
            Some(true) => {}
        }
        let body = part(body)?;
        let kind: OnlyKind = serde_json::from_slice(&body).map_err(|_| JwtError::Malformed)?;
        if kind.token_type != C::KIND {
            return Err(JwtError::Kind);
        }
        serde_json::from_slice(&body).map_err(|_| JwtError::Malformed)
    }
}

#[derive(Deserialize)]
struct OnlyKind {
    token_type: crate::jwt::Kind,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::{Jwks, Kind, MeetingClaims, ParticipantType, Role, ServiceClaims, ServiceType};

    const NOW: u64 = 1_700_000_000;

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&[byte; 32]).unwrap()
    }

    fn checker(keys: &[&SigningKey]) -> Checker {
        Checker::new(KeySet::from(&Jwks { keys: keys.iter().map(|key| key.public()).collect() }))
    }

    fn at(seconds: u64) -> Wall {
        Wall::from_micros(seconds * 1_000_000)
    }

    fn claims() -> MeetingClaims {
        MeetingClaims {
            sub: "u_1".to_owned(),
            token_type: Kind::Meeting,
            meeting_id: "abc".to_owned(),
            home_org_id: None,
            meeting_org_id: "org".to_owned(),
            participant_type: ParticipantType::Member,
            role: Role::Host,
            capabilities: Vec::new(),
            iat: NOW,
            exp: NOW + 900,
            jti: "j".to_owned(),
        }
    }

    fn forge(header: &str, body: &str, key: &SigningKey) -> String {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(body));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    #[test]
    fn a_token_matches_the_known_vector_and_round_trips() {
        let token = sign(&key(1), &claims()).unwrap();
        let (message, _) = token.rsplit_once('.').unwrap();
        assert_eq!(
            URL_SAFE_NO_PAD.decode(message.split_once('.').unwrap().1).unwrap(),
            br#"{"sub":"u_1","token_type":"meeting","meeting_id":"abc","meeting_org_id":"org","participant_type":"member","role":"host","capabilities":[],"iat":1700000000,"exp":1700000900,"jti":"j"}"#
        );
        assert_eq!(checker(&[&key(1)]).check::<MeetingClaims>(&token, at(NOW)), Ok(claims()));
    }

    #[test]
    fn a_token_is_valid_from_its_issue_time_minus_skew_until_it_expires() {
        let checker = checker(&[&key(1)]);
        let token = sign(&key(1), &claims()).unwrap();
        let check = |seconds| checker.check::<MeetingClaims>(&token, at(seconds)).map(|_| ());
        assert_eq!(check(NOW - 301), Err(JwtError::Future));
        assert_eq!(check(NOW - 300), Ok(()));
        assert_eq!(check(NOW + 899), Ok(()));
        assert_eq!(check(NOW + 900), Err(JwtError::Expired));
        let wide = checker.clone().skew(Duration::from_secs(3_600));
        assert_eq!(wide.check::<MeetingClaims>(&token, at(NOW - 601)).map(|_| ()), Err(JwtError::Future));
        assert_eq!(wide.check::<MeetingClaims>(&token, at(NOW - 600)).map(|_| ()), Ok(()));
        let ended = |seconds| {
            checker.check_ended::<MeetingClaims>(&token, at(seconds), Duration::from_secs(60)).is_ok()
        };
        assert!(ended(NOW + 959) && !ended(NOW + 960));
    }

    #[test]
    fn only_eddsa_with_a_known_key_is_accepted() {
        let checker = checker(&[&key(1)]);
        let kid = key(1).kid().to_owned();
        let body = serde_json::to_string(&claims()).unwrap();
        let check = |token: &str| checker.check::<MeetingClaims>(token, at(NOW)).unwrap_err();
        let header = |alg: &str| format!(r#"{{"alg":"{alg}","kid":"{kid}"}}"#);
        assert!(checker.check::<MeetingClaims>(&forge(&header("EdDSA"), &body, &key(1)), at(NOW)).is_ok());
        assert_eq!(check(&forge(&header("none"), &body, &key(1))), JwtError::Algorithm);
        assert_eq!(check(&forge(&header("HS256"), &body, &key(1))), JwtError::Algorithm);
        let crit = format!(r#"{{"alg":"EdDSA","kid":"{kid}","crit":["b64"]}}"#);
        assert_eq!(check(&forge(&crit, &body, &key(1))), JwtError::Algorithm);
        assert_eq!(check(&forge(r#"{"alg":"EdDSA"}"#, &body, &key(1))), JwtError::UnknownKey);
        assert_eq!(check(&sign(&key(2), &claims()).unwrap()), JwtError::UnknownKey);
        assert_eq!(check(&forge(&header("EdDSA"), &body, &key(2))), JwtError::Signature);
        let unsigned = forge(&header("none"), &body, &key(1));
        assert_eq!(check(&format!("{}.", unsigned.rsplit_once('.').unwrap().0)), JwtError::Algorithm);
        for bad in ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", "=.=.="] {
            assert_eq!(check(bad), JwtError::Malformed, "{bad}");
        }
    }

    #[test]
    fn any_changed_bit_invalidates_a_token() {
        let checker = checker(&[&key(1)]);
        let token = sign(&key(1), &claims()).unwrap();
        for at_byte in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at_byte] = if bytes[at_byte] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(checker.check::<MeetingClaims>(&changed, at(NOW)).is_err(), "byte {at_byte}");
        }
    }

    #[test]
    fn one_kind_of_token_is_never_accepted_as_another() {
        let checker = checker(&[&key(1)]);
        let token = sign(&key(1), &claims()).unwrap();
        assert_eq!(checker.check::<ServiceClaims>(&token, at(NOW)), Err(JwtError::Kind));
        let service = ServiceClaims {
            sub: "mc-1".to_owned(),
            token_type: Kind::Service,
            scope: "service.write.gc internal:meeting-token".to_owned(),
            service_type: ServiceType::MeetingController,
            iat: NOW,
            exp: NOW + 3_600,
            jti: "j".to_owned(),
        };
        let token = sign(&key(1), &service).unwrap();
        assert_eq!(checker.check::<MeetingClaims>(&token, at(NOW)), Err(JwtError::Kind));
        let read = checker.check::<ServiceClaims>(&token, at(NOW)).unwrap();
        assert!(read.allows("service.write.gc") && read.allows("internal:meeting-token"));
        assert!(!read.allows("service.write") && !read.allows("service.write.mc") && !read.allows(""));
    }

    #[test]
    fn a_token_of_8192_bytes_is_accepted_and_a_longer_one_is_not() {
        let checker = checker(&[&key(1)]);
        let sized = |len| MeetingClaims { meeting_org_id: "x".repeat(len), ..claims() };
        let longest = (5_000..7_000).rev().find_map(|len| sign(&key(1), &sized(len)).ok()).unwrap();
        assert!((limits::TOKEN - 2..=limits::TOKEN).contains(&longest.len()));
        assert!(checker.check::<MeetingClaims>(&longest, at(NOW)).is_ok());
        let over = format!("{longest}{}", "A".repeat(limits::TOKEN + 1 - longest.len()));
        assert_eq!(checker.check::<MeetingClaims>(&over, at(NOW)), Err(JwtError::TooLong));
    }

    #[test]
    fn every_rejection_has_the_same_message() {
        let texts = [JwtError::TooLong, JwtError::Signature, JwtError::Expired, JwtError::Kind]
            .map(|e| e.to_string());
        assert!(texts.iter().all(|text| text == "The access token is invalid or expired"));
    }
}
