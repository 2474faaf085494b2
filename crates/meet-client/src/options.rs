//! What a client is made with, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Entropy};
use meet_wire::signaling::ParticipantCapabilities;

/// What a client is made with.
#[derive(Clone)]
pub struct Options {
    /// The name that others see; a guest's is in its token.
    pub name: String,
    /// What it can show and send.
    pub capabilities: Option<ParticipantCapabilities>,
    /// Requests that wait while there is no connection; one more is refused.
    pub queue: usize,
    /// Events that wait for whoever takes them. When there are so many the client reads no further, and is too slow in the end.
    /// Zero: nobody takes them, and none is kept.
    pub events: usize,
    /// Chat lines that the view keeps; the oldest go first.
    pub lines: usize,
    /// How long a connection is looked for before the client ends; also the first one.
    pub give_up: Duration,
    /// The trace that the client belongs to; a new one if there is none.
    pub traceparent: Option<String>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for attempts, traces and waits.
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// The defaults: 64 requests and 1,024 events wait, 500 lines are kept, and a connection is looked for for five minutes.
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

    /// For load: nothing is kept and nobody takes events.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { events: 0, lines: 0, ..self }
    }
}

/// How a client ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ending {
    /// It left.
    #[error("left the meeting")]
    Left,
    /// The meeting is over.
    #[error("the meeting is over: {0}")]
    MeetingOver(String),
    /// A host sent it away.
    #[error("a host sent this participant away")]
    Kicked,
    /// Another connection took the seat.
    #[error("the seat was taken over by another connection of the same participant")]
    Superseded,
    /// It may not join.
    #[error("refused: {code}: {message}")]
    Refused {
        /// The stable word.
        code: String,
        /// In words.
        message: String,
    },
    /// The controller does not understand it.
    #[error("the controller refused the protocol of this client")]
    Protocol,
    /// No connection could be had for too long.
    #[error("gave up: {0}")]
    GaveUp(String),
}

/// How a client stands with its meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// It has not been there yet.
    Connecting,
    /// It is there.
    Connected,
    /// It was there and looks for the way back; requests wait.
    Reconnecting,
    /// It is over.
    Over(Ending),
}
