//! Grants: a participant proves to a media handler what its controller allows it.
//!
//! A sealed grant is the version byte 1, a `MediaGrant`, and the HMAC-SHA256 of both under the key of the handler.
//! `media_key = HKDF-SHA256(ikm: master secret, salt: meeting id, info: "media-grant")` and
//! `handler_key = HMAC-SHA256(media_key, "tenure-media-grant-1" ‖ handler id)`. A handler gets only its own key, so it
//! cannot make grants for another one.
//!
//! [`HandlerKeys::open`] checks what a grant says about itself. That a grant is used once, and that its epoch and
//! generation are not older than what the handler knows, is for the handler to check.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use prost::Message;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::limits;
use super::message::MediaGrant;
use crate::MeetingId;
use crate::binding::{MasterSecret, Secrets};

const VERSION: u8 = 1;
const INFO: &[u8] = b"media-grant";
const LABEL: &[u8] = b"tenure-media-grant-1";
const SEAL: usize = 32;
const GRANT_ID: usize = 16;

/// Why a grant is refused. For logs only: a client gets the same answer for every reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GrantError {
    /// It has another version, or bytes are missing or do not decode.
    #[error("malformed grant")]
    Malformed,
    /// It was not sealed with a key of this handler.
    #[error("the grant has no valid seal")]
    Seal,
    /// It is for another handler or another meeting.
    #[error("the grant is for another handler or meeting")]
    Elsewhere,
    /// It is too old, or from the future.
    #[error("the grant is not valid at this time")]
    Time,
}

/// Seals the grants of one meeting at one handler.
#[derive(Clone, PartialEq, Eq)]
pub struct HandlerKey([u8; 32]);

impl HandlerKey {
    /// Derives the key of a handler for a meeting.
    pub fn derive(secret: &MasterSecret, meeting: &MeetingId, handler_id: &str) -> Self {
        Self(seal(&secret.derive(meeting, INFO), &[LABEL, handler_id.as_bytes()]))
    }

    /// The key as a controller sent it, or `None` if it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The key, for the handler that it belongs to.
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Seals a grant.
    pub fn seal(&self, grant: &MediaGrant) -> Bytes {
        let mut bytes = BytesMut::with_capacity(1 + grant.encoded_len() + SEAL);
        bytes.put_u8(VERSION);
        bytes.extend_from_slice(&grant.encode_to_vec());
        let mac = seal(&self.0, &[&bytes]);
        bytes.extend_from_slice(&mac);
        bytes.freeze()
    }

    fn sealed(&self, content: &[u8], mac: &[u8]) -> bool {
        seal(&self.0, &[content]).ct_eq(mac).into()
    }
}

impl fmt::Debug for HandlerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandlerKey(hidden)")
    }
}

/// The keys of one meeting that a handler accepts: the current one and, after a rotation, the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandlerKeys {
    /// The key that seals.
    pub current: HandlerKey,
    /// The key before.
    pub previous: Option<HandlerKey>,
}

impl HandlerKeys {
    /// Derives the keys of a handler for a meeting.
    pub fn derive(secrets: &Secrets, meeting: &MeetingId, handler_id: &str) -> Self {
        let (current, previous) = secrets.both();
        let key = |secret| HandlerKey::derive(secret, meeting, handler_id);
        Self { current: key(current), previous: previous.map(key) }
    }

    /// Opens a grant for this meeting and handler at `now_ms`, in Unix time.
    pub fn open(
        &self,
        bytes: &[u8],
        meeting: &MeetingId,
        handler_id: &str,
        now_ms: u64,
    ) -> Result<MediaGrant, GrantError> {
        let (content, mac) = bytes
            .len()
            .checked_sub(SEAL)
            .and_then(|at| bytes.split_at_checked(at))
            .ok_or(GrantError::Malformed)?;
        let [VERSION, payload @ ..] = content else { return Err(GrantError::Malformed) };
        let previous = self.previous.as_ref().is_some_and(|key| key.sealed(content, mac));
        if !(self.current.sealed(content, mac) || previous) {
            return Err(GrantError::Seal);
        }
        let grant = MediaGrant::decode(payload).map_err(|_| GrantError::Malformed)?;
        if grant.grant_id.len() != GRANT_ID {
            return Err(GrantError::Malformed);
        }
        if grant.meeting_id != meeting.as_str() || grant.handler_id != handler_id {
            return Err(GrantError::Elsewhere);
        }
        is_current(&grant, now_ms).then_some(grant).ok_or(GrantError::Time)
    }
}

/// The meeting that a sealed grant names. Nothing of it is verified: it only says whose keys open the grant.
pub fn meeting_of(bytes: &[u8]) -> Option<MeetingId> {
    let content = bytes.split_at_checked(bytes.len().checked_sub(SEAL)?)?.0;
    let [VERSION, payload @ ..] = content else { return None };
    MeetingId::parse(&MediaGrant::decode(payload).ok()?.meeting_id)
}

fn is_current(grant: &MediaGrant, now_ms: u64) -> bool {
    let skew = limits::GRANT_SKEW.as_millis() as u64;
    let longest = grant.issued_at_ms.saturating_add(limits::GRANT.as_millis() as u64);
    let end = grant.expires_at_ms.min(longest);
    grant.issued_at_ms <= now_ms.saturating_add(skew) && now_ms <= end.saturating_add(skew)
}

fn seal(key: &[u8; 32], fields: &[&[u8]]) -> [u8; SEAL] {
    // HMAC accepts keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; SEAL] };
    for field in fields {
        mac.update(field);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn meeting(name: &str) -> MeetingId {
        MeetingId::parse(name).unwrap()
    }

    fn key(secret: u8, handler: &str) -> HandlerKey {
        HandlerKey::derive(&MasterSecret::new(vec![secret; 32]).unwrap(), &meeting("abc"), handler)
    }

    fn keys() -> HandlerKeys {
        HandlerKeys { current: key(7, "mh-1"), previous: Some(key(6, "mh-1")) }
    }

    fn grant() -> MediaGrant {
        MediaGrant {
            meeting_id: "abc".into(),
            participant_id: "p".into(),
            epoch: 3,
            may_receive: true,
            issued_at_ms: NOW,
            expires_at_ms: NOW + 60_000,
            handler_id: "mh-1".into(),
            generation: 9,
            grant_id: vec![5; 16].into(),
            ..MediaGrant::default()
        }
    }

    fn open(bytes: &[u8], now_ms: u64) -> Result<MediaGrant, GrantError> {
        keys().open(bytes, &meeting("abc"), "mh-1", now_ms)
    }

    #[test]
    fn a_grant_opens_under_the_current_key_and_the_one_before() {
        assert_eq!(open(&key(7, "mh-1").seal(&grant()), NOW), Ok(grant()));
        assert_eq!(open(&key(6, "mh-1").seal(&grant()), NOW), Ok(grant()));
        assert_eq!(open(&key(5, "mh-1").seal(&grant()), NOW), Err(GrantError::Seal));
    }

    #[test]
    fn a_changed_or_cut_grant_is_refused() {
        let sealed = key(7, "mh-1").seal(&grant()).to_vec();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(open(&changed, NOW).is_err(), "bit of byte {at}");
            assert!(open(&sealed[..at], NOW).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_grant_is_for_one_handler_and_one_meeting() {
        let elsewhere = MediaGrant { handler_id: "mh-2".into(), ..grant() };
        assert_eq!(open(&key(7, "mh-2").seal(&elsewhere), NOW), Err(GrantError::Seal));
        assert_eq!(open(&key(7, "mh-1").seal(&elsewhere), NOW), Err(GrantError::Elsewhere));
        let other = MediaGrant { meeting_id: "xyz".into(), ..grant() };
        assert_eq!(open(&key(7, "mh-1").seal(&other), NOW), Err(GrantError::Elsewhere));
    }

    #[test]
    fn a_grant_lasts_a_minute_with_five_seconds_of_skew() {
        let sealed = key(7, "mh-1").seal(&grant());
        for (now_ms, good) in
            [(NOW - 5_000, true), (NOW - 5_001, false), (NOW + 65_000, true), (NOW + 65_001, false)]
        {
            assert_eq!(open(&sealed, now_ms).is_ok(), good, "{now_ms}");
        }
        let long = MediaGrant { expires_at_ms: NOW + 3_600_000, ..grant() };
        assert_eq!(open(&key(7, "mh-1").seal(&long), NOW + 65_001), Err(GrantError::Time));
    }

    #[test]
    fn the_meeting_of_a_grant_is_read_before_it_is_opened() {
        assert_eq!(meeting_of(&key(7, "mh-1").seal(&grant())), Some(meeting("abc")));
        assert_eq!(meeting_of(&[]), None);
        assert_eq!(meeting_of(&[2; 40]), None);
    }

    #[test]
    fn a_grant_without_an_id_is_refused() {
        let bare = MediaGrant { grant_id: Bytes::new(), ..grant() };
        assert_eq!(open(&key(7, "mh-1").seal(&bare), NOW), Err(GrantError::Malformed));
    }

    #[test]
    fn a_key_does_not_show_itself() {
        assert_eq!(format!("{:?}", key(7, "mh-1")), "HandlerKey(hidden)");
    }
}
