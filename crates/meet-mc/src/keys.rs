//! The names of what a meeting has in the store.

use lease::{Key, Prefix, Result};
use meet_wire::binding::Nonce;
use meet_wire::{Id, MeetingId};

/// The names of one meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keys {
    meeting: MeetingId,
}

impl Keys {
    /// Those of this meeting.
    pub fn new(meeting: &MeetingId) -> Self {
        Self { meeting: meeting.clone() }
    }

    fn part(&self, part: &str) -> Result<Key> {
        Key::new(format!("meeting:{}:{part}", self.meeting))
    }

    /// The lease. Its holder is the assignment.
    pub fn lease(&self) -> Result<Key> {
        Key::new(format!("meeting:{}", self.meeting))
    }

    /// The generation that wrote last, in decimal, for operators.
    pub fn generation(&self) -> Result<Key> {
        self.part("gen")
    }

    /// The controller that wrote last, for operators.
    pub fn controller(&self) -> Result<Key> {
        self.part("mc")
    }

    /// What the meeting was made with and where it stands.
    pub fn state(&self) -> Result<Key> {
        self.part("state")
    }

    /// When its controller was last alive.
    pub fn alive(&self) -> Result<Key> {
        self.part("alive")
    }

    /// What happened.
    pub fn log(&self) -> Result<Key> {
        self.part("log")
    }

    /// One seat.
    pub fn seat(&self, participant: Id) -> Result<Key> {
        self.part(&format!("seat:{participant}"))
    }

    /// All seats.
    pub fn seats(&self) -> Result<Prefix> {
        Prefix::new(format!("meeting:{}:seat:", self.meeting))
    }

    /// A spent nonce.
    pub fn nonce(&self, nonce: &Nonce) -> Result<Key> {
        self.part(&format!("nonce:{}", nonce.to_hex()))
    }
}
