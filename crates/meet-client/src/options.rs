//! Client options and endings.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Entropy};
use tenure_meet_wire::signaling::ParticipantCapabilities;

/// The options of a client.
#[derive(Clone)]
pub struct Options {
    /// The display name. A guest's name is in its token.
    pub name: String,
    /// The media capabilities.
    pub capabilities: Option<ParticipantCapabilities>,
    /// Requests queued while disconnected. Further ones are rejected.
    pub queue: usize,
    /// Capacity of the event queue. When it is full, the client stops reading and is eventually closed as too slow.
    /// Zero disables events.
    pub events: usize,
    /// Chat messages that the view keeps. The oldest are dropped first.
    pub lines: usize,
    /// How long the client tries to connect before it gives up, also initially.
    pub give_up: Duration,
    /// The trace context. Generated if absent.
    pub traceparent: Option<String>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness for attempt ids, traces and waits.
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// The defaults: 64 queued requests, 1,024 events, 500 chat messages, and five minutes of connection attempts.
    pub fn new(name: &str, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            name: name.to_owned(),
            capabilities: None,
            queue: 64,
            events: 1_024,
            lines: 500,
            give_up: Duration::from_secs(300),
            traceparent: None,
            clock,
            entropy,
        }
    }

    /// For load tests: keeps no chat and no events.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { events: 0, lines: 0, ..self }
    }
}

/// How a client ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ending {
    /// The client left.
    #[error("left the meeting")]
    Left,
    /// The meeting ended.
    #[error("the meeting ended: {0}")]
    MeetingOver(String),
    /// A host removed the participant.
    #[error("removed by a host")]
    Kicked,
    /// Another connection took over the participant.
    #[error("superseded by another connection of the same participant")]
    Superseded,
    /// The join was rejected.
    #[error("rejected: {code}: {message}")]
    Refused {
        /// The stable code.
        code: String,
        /// The message.
        message: String,
    },
    /// The controller closed the connection for a protocol violation.
    #[error("the controller reported a protocol violation")]
    Protocol,
    /// No connection was possible for too long.
    #[error("gave up: {0}")]
    GaveUp(String),
}

/// The connection state of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Not joined yet.
    Connecting,
    /// Connected.
    Connected,
    /// Disconnected and reconnecting. Requests are queued.
    Reconnecting,
    /// Ended.
    Over(Ending),
}
