//! The keys of a meeting in the store.

use sha2::{Digest, Sha256};
use tenure_lease::{Key, Prefix, Result};
use tenure_meet_wire::binding::Nonce;
use tenure_meet_wire::{Id, MeetingId};

/// The keys of one meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeetingKeys {
    meeting: MeetingId,
}

impl MeetingKeys {
    /// The keys of this meeting.
    pub fn new(meeting: &MeetingId) -> Self {
        Self { meeting: meeting.clone() }
    }

    fn key(&self, suffix: &str) -> Result<Key> {
        Key::new(format!("meeting:{}:{suffix}", self.meeting))
    }

    /// The lease. Its holder owns the meeting.
    pub fn lease(&self) -> Result<Key> {
        Key::new(format!("meeting:{}", self.meeting))
    }

    /// The generation of the last writer, in decimal.
    pub fn generation(&self) -> Result<Key> {
        self.key("gen")
    }

    /// The controller id of the last writer.
    pub fn controller(&self) -> Result<Key> {
        self.key("mc")
    }

    /// Settings, mute epoch and media handlers.
    pub fn state(&self) -> Result<Key> {
        self.key("state")
    }

    /// Present after a host ended the meeting, until a host joins again. The global controller reads it.
    pub fn ended(&self) -> Result<Key> {
        self.key("ended")
    }

    /// The last heartbeat of the owner.
    pub fn alive(&self) -> Result<Key> {
        self.key("alive")
    }

    /// The event log.
    pub fn log(&self) -> Result<Key> {
        self.key("log")
    }

    /// One seat.
    pub fn seat(&self, participant: Id) -> Result<Key> {
        self.key(&format!("seat:{participant}"))
    }

    /// All seats.
    pub fn seats(&self) -> Result<Prefix> {
        Prefix::new(format!("meeting:{}:seat:", self.meeting))
    }

    /// What hosts decided about one user. User ids are any text: the key has their hash.
    pub fn user(&self, user: &str) -> Result<Key> {
        let hash: String = Sha256::digest(user.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        self.key(&format!("user:{hash}"))
    }

    /// What hosts decided about all users.
    pub fn users(&self) -> Result<Prefix> {
        Prefix::new(format!("meeting:{}:user:", self.meeting))
    }

    /// A spent nonce.
    pub fn nonce(&self, nonce: &Nonce) -> Result<Key> {
        self.key(&format!("nonce:{}", nonce.to_hex()))
    }
}
