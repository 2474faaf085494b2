//! What somebody wants.

use crate::{CorrelationId, Error, ProfileId, RecordingId, Result, ServiceRef, SessionId, limits};

/// A wish, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Intent {
    /// To watch something.
    Start(Start),
    /// To end a session.
    Stop {
        /// Which.
        session: SessionId,
        /// What the client calls this request.
        correlation: Option<CorrelationId>,
    },
}

/// A wish to watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// What.
    pub target: Target,
    /// In which quality.
    pub profile: ProfileId,
    /// What the client calls this request.
    pub correlation: Option<CorrelationId>,
}

/// What can be watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A channel, as it is now.
    Live(ServiceRef),
    /// A recording from a moment on.
    Recording {
        /// Which.
        id: RecordingId,
        /// From where, in milliseconds.
        start_ms: u64,
    },
}

/// The words for the two kinds of target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A channel.
    Live,
    /// A recording.
    Recording,
}

impl Kind {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Live => "LIVE",
            Self::Recording => "RECORDING",
        }
    }
}

impl Intent {
    /// The word on the wire.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Start(_) => Start::WORD,
            Self::Stop { .. } => "stream.stop",
        }
    }
}

impl Start {
    /// The word on the wire.
    pub const WORD: &'static str = "stream.start";
}

impl Target {
    /// The target that these fields of a request name: a channel or a recording, and only a recording has a start.
    pub fn new(service_ref: Option<&str>, recording: Option<&str>, start_ms: Option<u64>) -> Result<Self> {
        match (service_ref, recording) {
            (Some(service_ref), None) => match start_ms {
                None | Some(0) => Ok(Self::Live(ServiceRef::new(service_ref)?)),
                Some(_) => Err(Error::invalid("startMs", "a live channel has no start; leave it out")),
            },
            (None, Some(recording)) => {
                let (id, start_ms) = (RecordingId::new(recording)?, start_ms.unwrap_or(0));
                match start_ms <= limits::START_MS {
                    true => Ok(Self::Recording { id, start_ms }),
                    false => {
                        Err(Error::invalid("startMs", format!("at most {} is allowed", limits::START_MS)))
                    }
                }
            }
            (Some(_), Some(_)) => Err(Error::invalid(
                "recordingId",
                "serviceRef and recordingId exclude each other; give one of them",
            )),
            (None, None) => Err(Error::invalid(
                "serviceRef",
                "is missing; give serviceRef for live or recordingId for a recording",
            )),
        }
    }

    /// Live or recording.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Live(_) => Kind::Live,
            Self::Recording { .. } => Kind::Recording,
        }
    }

    /// What is hashed as the target.
    pub fn id(&self) -> &str {
        match self {
            Self::Live(service_ref) => service_ref.as_str(),
            Self::Recording { id, .. } => id.as_str(),
        }
    }

    /// Starts in one bucket are one wish: all of a channel, those within a second of a recording.
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
    fn a_target_is_a_channel_or_a_recording_and_never_both_or_none() {
        assert_eq!(Target::new(Some("1:0:1"), None, None).unwrap().kind(), Kind::Live);
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
    fn a_bucket_is_a_whole_second() {
        let bucket = |start_ms| Target::new(None, Some("rec-1"), Some(start_ms)).unwrap().bucket();
        assert_eq!((bucket(10_000), bucket(10_500), bucket(10_999), bucket(11_000)), (10, 10, 10, 11));
    }
}
