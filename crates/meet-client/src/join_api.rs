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
    /// The generation under which it owns the meeting; zero if unknown.
    pub generation: u64,
}

impl Admission {
    /// The same admission at another home.
    #[must_use]
    pub(crate) fn at(&self, home: Home) -> Self {
        let Home { mc_id, place, generation } = home;
        Self { mc_id, place, generation, ..self.clone() }
    }
}

/// A controller that owns the meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    /// Its id.
    pub mc_id: String,
    /// Its endpoint.
    pub place: Endpoint,
    /// The generation under which it owns the meeting; zero if unknown.
    pub generation: u64,
}

/// Why a controller seems unreachable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnreachableReason {
    /// Another reason.
    Unspecified,
    /// The connection was refused.
    ConnectionRefused,
    /// There was no answer in time.
    Timeout,
    /// The TLS handshake failed.
    TlsError,
}

impl UnreachableReason {
    /// The word in the REST API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "UNSPECIFIED",
            Self::ConnectionRefused => "CONNECTION_REFUSED",
            Self::Timeout => "TIMEOUT",
            Self::TlsError => "TLS_ERROR",
        }
    }
}

/// A report of an unreachable controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnreachableReport {
    /// The observed failure.
    pub reason: UnreachableReason,
    /// Whether the connection is only silent and not lost yet.
    pub suspect: bool,
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

    /// Reports that the controller of this admission is unreachable. Returns once the global controller has decided, with
    /// the home to connect to if it named one.
    async fn unreachable(
        &self,
        _admission: &Admission,
        _report: UnreachableReport,
    ) -> Result<Option<Home>, JoinApiError> {
        Ok(None)
    }
}
