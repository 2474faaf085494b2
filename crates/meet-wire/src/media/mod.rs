//! Media on the wire, between a participant and a media handler.
//!
//! - [`message`] are the messages of the control stream, framed as in signaling ([`crate::frame`]).
//! - [`group`] is video and screen sharing: one unidirectional stream per group of frames.
//! - [`audio`] is audio: one datagram per Opus packet.
//! - [`grant`] admits a participant to a handler.
//! - [`relay`] are the messages between two handlers of one meeting.
//!
//! A handler never looks into a payload: what is in a frame concerns only the clients.

pub mod audio;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod grant;
pub mod group;
pub mod message;
pub mod relay;
mod varint;

/// Limits of the media protocol.
pub mod limits {
    use std::time::Duration;

    /// Maximum payload of a frame, in bytes.
    pub const FRAME: usize = 1024 * 1024;
    /// Maximum length of a group, in bytes, headers included.
    pub const GROUP: usize = 8 * 1024 * 1024;
    /// Maximum time from the first frame of a group to its last.
    pub const GROUP_SPAN: Duration = Duration::from_secs(10);
    /// Maximum length of a datagram, in bytes.
    pub const DATAGRAM: usize = 1_150;
    /// How long a grant may be used to connect.
    pub const GRANT: Duration = Duration::from_secs(60);
    /// Clock skew tolerated between the controller that issues a grant and the handler.
    pub const GRANT_SKEW: Duration = Duration::from_secs(5);
}

/// Why bytes of media cannot be decoded or encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MediaError {
    /// The bytes do not have the expected form.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// A frame, group or datagram exceeds its limit.
    #[error("{0} exceeds its limit")]
    TooLarge(&'static str),
    /// The stream ended inside a header or a frame.
    #[error("the stream ended inside a frame")]
    Truncated,
    /// The first frame of a group is not a key frame.
    #[error("the group does not begin with a key frame")]
    NoKeyframe,
}

/// Why a media stream was reset or stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamCode {
    /// The receiver fell behind and continues with a newer group.
    Stale,
    /// The participant is muted.
    Muted,
    /// Another copy of the stream replaced this one, or its source was lost.
    Superseded,
    /// The subscriber continues with another rendition.
    RenditionSwitched,
    /// A frame or group exceeds its limit in bytes or time.
    TooLarge,
    /// The alias is not subscribed or published.
    NotSubscribed,
}

impl StreamCode {
    /// The code on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::Stale => 1,
            Self::Muted => 2,
            Self::Superseded => 3,
            Self::RenditionSwitched => 4,
            Self::TooLarge => 5,
            Self::NotSubscribed => 6,
        }
    }

    /// The reason that a code stands for.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Stale),
            2 => Some(Self::Muted),
            3 => Some(Self::Superseded),
            4 => Some(Self::RenditionSwitched),
            5 => Some(Self::TooLarge),
            6 => Some(Self::NotSubscribed),
            _ => None,
        }
    }
}

/// Identifies a publication or subscription in a session: 1 to 65535.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Alias(u16);

impl Alias {
    /// An alias, unless the number is out of range.
    pub fn new(number: u64) -> Option<Self> {
        u16::try_from(number).ok().filter(|number| *number > 0).map(Self)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::message::{MediaEvent, MediaRequest, Subscribe, media_event, media_request};
    use super::*;
    use crate::signaling::ErrorMessage;

    #[test]
    fn a_stream_code_has_one_number() {
        for number in 1..=6 {
            assert_eq!(StreamCode::from_number(number).unwrap().number(), number);
        }
        assert_eq!((StreamCode::from_number(0), StreamCode::from_number(7)), (None, None));
    }

    #[test]
    fn an_alias_is_from_1_to_65535() {
        assert_eq!(Alias::new(0), None);
        assert_eq!(Alias::new(65_535).unwrap().number(), 65_535);
        assert_eq!(Alias::new(65_536), None);
    }

    #[test]
    fn control_messages_match_the_known_bytes() {
        let subscribe = Subscribe {
            participant_id: "p".into(),
            max_rendition: Some(0),
            priority: 200,
            ..Subscribe::default()
        };
        let request = MediaRequest { payload: Some(media_request::Payload::Subscribe(subscribe)), seq: 300 };
        // Field 4 (subscribe): field 1 = "p", field 3 = 0 although it is the default, field 5 = 200; field 22 = 300.
        let bytes = [0x22, 8, 0x0a, 1, b'p', 0x18, 0, 0x28, 0xc8, 1, 0xb0, 0x01, 0xac, 0x02];
        assert_eq!(request.encode_to_vec(), bytes);
        let error = ErrorMessage { message: "x".into(), ..ErrorMessage::default() };
        let event = MediaEvent { payload: Some(media_event::Payload::Error(error)), seq: 0 };
        assert_eq!(event.encode_to_vec(), [0x5a, 3, 0x12, 1, b'x']);
    }
}
