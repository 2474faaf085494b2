//! The join API of a meeting: returns its controller and a token for it.

mod rest;

use async_trait::async_trait;

use crate::dial::Endpoint;

pub use rest::{CreatedMeeting, RestJoinApi, RestRequest, RestTransport, create, create_with};

/// The admission to a meeting.
#[derive(Clone, PartialEq, Eq)]
pub struct Admission {
    /// The meeting id.
    pub meeting_id: String,
    /// The token for the controller.
    pub token: String,
    /// The controller that owns the meeting.
    pub mc_id: String,
    /// The endpoint of the controller.
    pub place: Endpoint,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Admission({} at {} {}, token hidden)", self.meeting_id, self.mc_id, self.place.url)
    }
}

/// Why the join API did not admit the client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JoinApiError {
    /// A final rejection.
    #[error("{code}: {message}")]
    Refused {
        /// The stable code.
        code: String,
        /// The message.
        message: String,
    },
    /// The meeting does not exist, or no longer.
    #[error("meeting not found: {0}")]
    NotFound(String),
    /// Temporarily unavailable; retry.
    #[error("join API unavailable: {0}")]
    Unavailable(String),
}

/// Called before each connection, because tokens expire, controllers move and certificates rotate.
#[async_trait]
pub trait JoinApi: Send + Sync + 'static {
    /// Returns a token and the current controller.
    async fn admit(&self) -> Result<Admission, JoinApiError>;

    /// Reports that the controller of this admission is unreachable. Best effort.
    async fn unreachable(&self, _admission: &Admission, _why: &str) {}
}
