//! The door of a meeting: who says where it is and gives the token for a seat.

mod rest;

use async_trait::async_trait;

use crate::dial::Place;

pub use rest::{Made, Rest, create, create_with};

/// What a door gives to somebody who may join.
#[derive(Clone, PartialEq, Eq)]
pub struct Admission {
    /// The meeting.
    pub meeting_id: String,
    /// The token for a seat.
    pub token: String,
    /// The controller that has it.
    pub mc_id: String,
    /// Where that is.
    pub place: Place,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Admission({} at {} {}, token hidden)", self.meeting_id, self.mc_id, self.place.url)
    }
}

/// Why a door gives nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DoorError {
    /// It says no, and will say so again.
    #[error("{code}: {message}")]
    Refused {
        /// The stable word.
        code: String,
        /// In words.
        message: String,
    },
    /// There is no such meeting, or not any more.
    #[error("there is no such meeting: {0}")]
    NotFound(String),
    /// It does not answer now, or asks to come again.
    #[error("not now: {0}")]
    Unavailable(String),
}

/// Where a client asks before each connection: tokens end, controllers move, certificates turn.
#[async_trait]
pub trait Door: Send + Sync + 'static {
    /// The token and the place, as of now.
    async fn admit(&self) -> Result<Admission, DoorError>;

    /// The controller of this admission could not be reached. Nothing depends on whether this is heard.
    async fn unreachable(&self, _admission: &Admission, _why: &str) {}
}
