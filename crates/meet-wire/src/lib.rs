//! The wire protocol of meetings: every byte that a client or a peer sees.
//!
//! - [`signaling`] and [`internal`] are the messages, generated from `proto/tenure/meet`. Services convert them to their own types at
//!   their edge.
//! - [`frame`] frames messages on a stream. [`seq`] recognizes repeated requests of a client.
//! - [`binding`] proves that a resuming client is the one that left. [`jwt`] identifies users, guests and services.
//! - [`media`] is what participants and media handlers exchange: video, audio and who may send them.
//! - [`transport`] is a session with streams: WebTransport over QUIC, or an in-memory pair for tests.
//!
//! The crate reads no clock and draws no randomness: callers pass both in. Certificate keys and TLS are the exception.

pub mod binding;
mod close;
pub mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod id;
pub mod internal;
pub mod jwt;
pub mod media;
pub mod move_ticket;
mod redacted;
pub mod seq;
pub mod signaling;
mod trace;
pub mod transport;

pub use close::CloseCode;
pub use id::{Id, MeetingId};
pub use trace::TraceParent;

/// Limits of the protocol.
pub mod limits {
    use std::time::Duration;

    /// Maximum length of a frame, without its header.
    pub const FRAME: usize = 64 * 1024;
    /// Maximum length of a display name, in bytes.
    pub const NAME: usize = 256;
    /// Maximum length of a meeting id, in bytes.
    pub const MEETING_ID: usize = 64;
    /// Maximum length of a user id, in bytes.
    pub const USER_ID: usize = 128;
    /// Maximum length of a join attempt id, in bytes.
    pub const ATTEMPT_ID: usize = 64;
    /// Maximum length of a token, in bytes.
    pub const TOKEN: usize = 8 * 1024;
    /// Maximum length of a chat message, in bytes.
    pub const CHAT: usize = 4 * 1024;
    /// Maximum length of a data message, in bytes.
    pub const DATA: usize = 32 * 1024;
    /// Maximum length of the topic of a data message, in bytes.
    pub const TOPIC: usize = 128;
    /// Maximum length of a reason, in bytes.
    pub const REASON: usize = 256;
    /// Default clock skew tolerated for token issuers.
    pub const SKEW: Duration = Duration::from_secs(300);
    /// Maximum configurable clock skew.
    pub const SKEW_MAX: Duration = Duration::from_secs(600);
    /// Minimum length of the master secret of bindings, in bytes.
    pub const SECRET: usize = 32;
    /// Maximum keys in a key set.
    pub const KEYS: usize = 16;
    /// Concurrent handshakes on one listener. Further connections wait.
    pub const HANDSHAKES: usize = 256;
    /// Connections waiting on one listener. Further ones are refused.
    pub const WAITING: usize = 4_096;
    /// Requested socket buffer size, in bytes. Linux accounts 2 KiB for a first datagram and doubles the requested
    /// size.
    pub const BUFFER: usize = 4 * 1024 * 1024;
    /// Initial RTT estimate. A lost first datagram is retransmitted after three times this.
    pub const FIRST_RTT: Duration = Duration::from_millis(100);
    /// Timeout of a handshake.
    pub const HANDSHAKE: Duration = Duration::from_secs(10);
    /// Idle timeout of a connection.
    pub const IDLE: Duration = Duration::from_secs(5);
    /// Keep-alive interval of an idle connection.
    pub const KEEP_ALIVE: Duration = Duration::from_millis(1_250);
    /// Bidirectional streams that a peer may open, the one of the connect request included.
    pub const BIDI_STREAMS: u32 = 4;
    /// Unread data of one stream, in bytes. The window of the connection is shorter until the peer is authenticated.
    pub const STREAM_WINDOW: u32 = 1024 * 1024;
    /// Data that a server buffers for a client, in bytes.
    pub const SEND_WINDOW: u64 = 1024 * 1024;
    /// Unread datagrams that a server buffers, in bytes.
    pub const DATAGRAMS_IN: usize = 32 * 1024;
    /// Datagrams that wait to be sent, in bytes.
    pub const DATAGRAMS_OUT: usize = 16 * 1024;
    /// Unidirectional streams that a server may open.
    pub const CLIENT_UNI_STREAMS: u32 = 256;
    /// Unread data that a client buffers, in bytes.
    pub const CLIENT_WINDOW: u32 = 16 * 1024 * 1024;
    /// Unread datagrams that a client buffers, in bytes.
    pub const CLIENT_DATAGRAMS_IN: usize = 256 * 1024;
    /// Addresses whose sessions are counted. Sessions from further ones share one count.
    pub const ADDRESSES: usize = 16 * 1024;
}
