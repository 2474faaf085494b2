//! Intents: requests to start or stop a session.

use crate::{CorrelationId, Error, ProfileId, RecordingId, Result, ServiceRef, SessionId, limits};

/// A validated intent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Start watching a channel or a recording.
    Start(StartIntent),
    /// Stop a session.
    Stop {
        /// The session to stop.
        session: SessionId,
        /// The client's name for this request.
        correlation: Option<CorrelationId>,
    },
}

/// A validated intent to start a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartIntent {
    /// The channel or recording.
    pub target: Target,
    /// The quality.
    pub profile: ProfileId,
    /// The client's name for this request.
    pub correlation: Option<CorrelationId>,
}

/// What a session plays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A live channel.
    Live(ServiceRef),
    /// A recording from a given position.
    Recording {
        /// The recording.
        id: RecordingId,
        /// The start position in milliseconds.
        start_ms: u64,
    },
}

/// The kind of a target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TargetKind {
    /// A channel.
    Live,
    /// A recording.
    Recording,
}

impl TargetKind {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "LIVE",
            Self::Recording => "RECORDING",
        }
    }
}

impl Intent {
    /// The name on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Start(_) => StartIntent::TYPE,
            Self::Stop { .. } => "stream.stop",
        }
    }
}

impl StartIntent {
    /// The name on the wire.
    pub const TYPE: &'static str = "stream.start";
}

impl Target {
    /// Builds the target from the fields of a request: either a channel or a recording, and only a recording has a start.
    pub fn new(service_ref: Option<&str>, recording: Option<&str>, start_ms: Option<u64>) -> Result<Self> {
        match (service_ref, recording) {
            (Some(service_ref), None) => match start_ms {
                None | Some(0) => Ok(Self::Live(ServiceRef::new(service_ref)?)),
                Some(_) => {
                    Err(Error::invalid("startMs", "a live channel has no start position; omit this field"))
                }
            },
            (None, Some(recording)) => {
                let (id, start_ms) = (RecordingId::new(recording)?, start_ms.unwrap_or(0));
                match start_ms <= limits::START_MS {
                    true => Ok(Self::Recording { id, start_ms }),
                    false => Err(Error::invalid("startMs", format!("must be at most {}", limits::START_MS))),
                }
            }
            (Some(_), Some(_)) => {
                Err(Error::invalid("recordingId", "serviceRef and recordingId are mutually exclusive"))
            }
            (None, None) => Err(Error::invalid(
                "serviceRef",
                "is missing; send serviceRef for a channel or recordingId for a recording",
            )),
        }
    }

    /// Live or recording.
    pub const fn kind(&self) -> TargetKind {
        match self {
            Self::Live(_) => TargetKind::Live,
            Self::Recording { .. } => TargetKind::Recording,
        }
    }

    /// The id that goes into the idempotency key.
    pub fn id(&self) -> &str {
        match self {
            Self::Live(service_ref) => service_ref.as_str(),
            Self::Recording { id, .. } => id.as_str(),
        }
    }

    /// Starts in the same bucket share a session: all starts of a channel, and starts within one second of a recording.
    pub const fn bucket(&self) -> u64 {
        match self {
            Self::Live(_) => 0,
            Self::Recording { start_ms, .. } => *start_ms / 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_either_a_channel_or_a_recording() {
        assert_eq!(Target::new(Some("1:0:1"), None, None).unwrap().kind(), TargetKind::Live);
        assert_eq!(Target::new(None, Some("rec-1"), Some(60_000)).unwrap().bucket(), 60);
        let refused = [
            (Some("1:0:1"), Some("rec-1"), None),
            (None, None, None),
            (None, None, Some(5)),
            (Some("1:0:1"), None, Some(5)),
            (Some("a|b"), None, None),
            (None, Some("a|b"), None),
            (None, Some("rec-1"), Some(limits::START_MS + 1)),
        ];
        for (service_ref, recording, start_ms) in refused {
            assert!(
                Target::new(service_ref, recording, start_ms).is_err(),
                "{service_ref:?} {recording:?} {start_ms:?}"
            );
        }
    }

    #[test]
    fn a_bucket_is_one_second() {
        let bucket = |start_ms| Target::new(None, Some("rec-1"), Some(start_ms)).unwrap().bucket();
        assert_eq!((bucket(10_000), bucket(10_500), bucket(10_999), bucket(11_000)), (10, 10, 10, 11));
    }
}
