//! A media handler: it receives the audio and video of participants and forwards what each subscriber asked for.
//!
//! - [`MediaHandler`] holds the registered meetings, serves controllers ([`grpc`]), accepts clients
//!   ([`SessionAcceptor`]) and reports its load ([`HandlerRegistration`]).
//! - [`RegisteredMeeting`] is what controllers have said: owner, masks, seats, who left. It admits participants.
//! - `media` is the data plane. A meeting has one lock over its members, tracks and subscriptions, and one tree of
//!   tasks: a ticker, and per session a reader of the control stream, a writer, a reader of datagrams, a reader per
//!   incoming group and a pump per video subscription.
//! - Video: the reader of a group appends it to a `Group`; pumps follow it piece by piece, each at its own pace. A slow
//!   one skips to the newest group and holds up no other. Audio: a datagram goes through `Selection` into the outbox
//!   of each listener, which is flushed every 3 ms.
//! - Handlers that serve the same meeting connect to each other. Each offers what is published at it, and sends what the
//!   viewers of the other one need, once.
//! - Mute: the mask is set under the lock, outboxes and groups are emptied, and the call returns after the last pump
//!   let go of them. Without a mask or without an owner nothing is forwarded.
//! - Decisions are pure and have table tests: `RegisteredMeeting::admit`, `selection`, `rate`, `layers`, `keyframe`,
//!   `bucket`, `choice`.

mod acceptor;
mod grpc;
mod handler;
mod load_reporter;
mod media;
mod metric;
mod registration;
mod registry;

pub use acceptor::{PATH, SessionAcceptor};
pub use grpc::grpc;
pub use handler::{MediaHandler, Options, RefuseMeetings};
pub use load_reporter::LoadReporter;
pub use media::{RelayAcceptor, RelayDialer};
pub use registration::HandlerRegistration;
pub use registry::{
    Admitted, HandlerPeer, MediaRights, MuteMask, Owner, Refusal, RegisteredMeeting, RegisteredSeat,
    Registration,
};

/// Bounds of a handler.
pub mod limits {
    use std::time::Duration;

    /// Registered meetings.
    pub const MEETINGS: usize = 10_000;
    /// Participants with a mask, per meeting.
    pub const PARTICIPANTS: usize = 2_000;
    /// Participants that left, per meeting. Beyond it, those whose grants have expired are forgotten.
    pub const LEFT: usize = 4_000;
    /// Used grants, per meeting, within the life of a grant. Beyond it, no participant is admitted.
    pub const SPENT_GRANTS: usize = 8_000;
    /// How long a grant can be used, with skew on both sides.
    pub const GRANT_LIFE: Duration = Duration::from_secs(75);
    /// How long a registration holds when its owner does not say.
    pub const LEASE: Duration = Duration::from_secs(30);
    /// How long a registration holds at most.
    pub const LEASE_MAX: Duration = Duration::from_secs(120);
    /// How long a client waits for its meeting to be registered and for its mask.
    pub const UNREGISTERED: Duration = Duration::from_secs(15);
    /// How long a client may take to send Hello.
    pub const HELLO: Duration = Duration::from_secs(5);
    /// How long a client that is not accepted may take to read the HTTP status.
    pub const READ_REJECTION: Duration = Duration::from_secs(5);
    /// Between the answer to a refused grant and the close.
    pub const READ_REFUSAL: Duration = Duration::from_millis(500);
    /// Sessions of one address that are not admitted yet.
    pub const PENDING_PER_ADDRESS: usize = 64;
    /// Sessions that are not admitted yet.
    pub const PENDING: usize = 1_024;
    /// A load change of this many percent is reported at once.
    pub const LOAD_CHANGE: u32 = 10;
    /// How long a meeting without a registration is kept.
    pub const IDLE: Duration = Duration::from_secs(24 * 3_600);
    /// How long a mute waits until nothing more is forwarded.
    pub const MUTE: Duration = Duration::from_secs(1);
    /// Between Goaway and the end of a draining handler.
    pub const DRAIN: Duration = Duration::from_secs(5);

    /// Publications of a session.
    pub const PUBLICATIONS: usize = 4;
    /// Publications of video and screens of a session.
    pub const VIDEO_PUBLICATIONS: usize = 2;
    /// Subscriptions of a session.
    pub const SUBSCRIPTIONS: usize = 64;
    /// Subscriptions of a session to what is not published.
    pub const WAITING_SUBSCRIPTIONS: usize = 16;
    /// Audio subscriptions of a session that are always forwarded.
    pub const ALWAYS_FORWARDED: usize = 4;
    /// Control messages per second.
    pub const MESSAGES: u64 = 50;
    /// Events that wait for a session. A session that does not read them is closed.
    pub const EVENTS: usize = 512;
    /// Incoming groups of a session at once.
    pub const INCOMING_GROUPS: usize = 64;
    /// How long a stream of an unknown alias waits for it to be published.
    pub const UNKNOWN_STREAM: Duration = Duration::from_secs(1);
    /// How long a datagram of an unknown alias waits.
    pub const UNKNOWN_DATAGRAM: Duration = Duration::from_millis(200);
    /// Datagrams of unknown aliases that wait.
    pub const UNKNOWN_DATAGRAMS: usize = 32;
    /// Violations after which a session is closed.
    pub const VIOLATIONS: u32 = 8;
    /// Cached bytes of a rendition.
    pub const RENDITION_CACHE: usize = 4 * 1024 * 1024;
    /// Cached bytes of a rendition whose publisher states a low bitrate.
    pub const RENDITION_CACHE_MIN: usize = 256 * 1024;
    /// Cached bytes of a session.
    pub const SESSION_CACHE: usize = 16 * 1024 * 1024;
    /// Bits per second that a session may publish.
    pub const INGEST: u64 = 12_000_000;
    /// Bytes that a session may send at once: two of the longest frames.
    pub const INGEST_BURST: u64 = 2 * 1024 * 1024;
    /// Audio datagrams per second and publication.
    pub const AUDIO_DATAGRAMS: u64 = 110;
    /// Audio bits per second and publication.
    pub const AUDIO_BITS: u64 = 256_000;
    /// Length of a stream id, in bytes.
    pub const STREAM_ID: usize = 128;
    /// Length of a codec string, in bytes.
    pub const CODEC: usize = 64;
    /// How long datagrams of one subscriber are collected.
    pub const COALESCE: Duration = Duration::from_millis(3);
    /// Collected datagrams are sent at once from this many bytes on.
    pub const COALESCE_BYTES: usize = 1_100;
    /// The latency of a subscription that names none.
    pub const LATENCY: Duration = Duration::from_millis(300);
    /// The greatest latency of a subscription.
    pub const LATENCY_MAX: Duration = Duration::from_secs(5);
    /// Finished groups of a subscription that are not acknowledged. Beyond it, the oldest one is abandoned.
    pub const UNACKNOWLEDGED: usize = 64;
    /// How long a report of speakers may take.
    pub const SPEAKER_CALL: Duration = Duration::from_secs(2);
    /// Between two reports of speakers.
    pub const SPEAKER_PAUSE: Duration = Duration::from_millis(250);
    /// Between a report of speakers that failed and the next one.
    pub const SPEAKER_RETRY: Duration = Duration::from_secs(2);
    /// Other handlers of a meeting.
    pub const PEERS: usize = 16;
    /// How long a connection to another handler may take.
    pub const RELAY_CONNECT: Duration = Duration::from_secs(5);
    /// The first and the longest pause before another handler is dialled again.
    pub const RELAY_RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
    /// Connections of other handlers that are not accepted yet.
    pub const PENDING_RELAYS: usize = 256;
    /// Streams that another handler may offer for one meeting.
    pub const RELAYED: usize = 8_192;
    /// Incoming groups of another handler at once.
    pub const RELAY_GROUPS: usize = 1_024;
    /// Cached bytes of another handler, per meeting.
    pub const RELAY_CACHE: usize = 64 * 1024 * 1024;
    /// Data that waits to be sent or acknowledged on the connection to another handler, in bytes.
    pub const RELAY_WINDOW: u64 = 8 * 1024 * 1024;
    /// Groups per second and publication, over all renditions.
    pub const GROUPS: u64 = 10;
    /// Groups of a publication at once.
    pub const GROUPS_BURST: u64 = 20;
    /// Audio tracks of a participant over the life of a meeting.
    pub const AUDIO_TRACKS: u16 = 256;
    /// Percent of the streams or of the bandwidth from which subscriptions are refused.
    pub const FULL: u64 = 95;
    /// Percent of the capacity from which controllers prefer other handlers.
    pub const BUSY: u32 = 80;
    /// Between two measurements of the load.
    pub const MEASURE: Duration = Duration::from_millis(500);
    /// Between two reports of the load to a controller.
    pub const LOAD_PAUSE: Duration = Duration::from_secs(1);
    /// How long a report of the load may take.
    pub const LOAD_CALL: Duration = Duration::from_secs(2);
    /// Reports of the load in progress. Further controllers wait for the next second.
    pub const LOAD_CALLS: usize = 64;
}
