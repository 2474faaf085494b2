//! Meetings on the wire: every byte that a client or a peer sees.
//!
//! - [`signaling`] and [`internal`] are the messages, generated from `proto/tenure/meet`. Services turn them into words of their own at
//!   their edge.
//! - [`frame`] puts messages on a stream, [`seq`] says which request of a client is new.
//! - [`binding`] proves that who comes back to a seat is who left it; [`jwt`] says who somebody is.
//! - [`transport`] is a session with streams: WebTransport over QUIC, or a pair in memory for tests.
//!
//! Nothing here reads a clock or draws randomness: both are handed in, but for the keys of certificates and what TLS draws for itself.

pub mod binding;
mod close;
pub mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod id;
pub mod internal;
pub mod jwt;
pub mod seq;
pub mod signaling;
mod trace;
pub mod transport;

pub use close::CloseCode;
pub use id::{Id, MeetingId};
pub use trace::TraceParent;

/// Bounds of the protocol, by name.
pub mod limits {
    use std::time::Duration;

    /// The longest frame, without its length.
    pub const FRAME: usize = 64 * 1024;
    /// The longest name of a participant, in bytes.
    pub const NAME: usize = 256;
    /// The longest id of a meeting, in bytes.
    pub const MEETING_ID: usize = 64;
    /// The longest id of a user, in bytes.
    pub const USER_ID: usize = 128;
    /// The longest id of an attempt to join, in bytes.
    pub const ATTEMPT_ID: usize = 64;
    /// The longest token, in bytes.
    pub const TOKEN: usize = 8 * 1024;
    /// The longest chat message, in bytes.
    pub const CHAT: usize = 4 * 1024;
    /// The longest data message, in bytes.
    pub const DATA: usize = 32 * 1024;
    /// The longest topic of a data message, in bytes.
    pub const TOPIC: usize = 128;
    /// The longest reason that somebody gives, in bytes.
    pub const REASON: usize = 256;
    /// How far ahead of us a token's issuer may be.
    pub const SKEW: Duration = Duration::from_secs(300);
    /// How far ahead it may be set to.
    pub const SKEW_MAX: Duration = Duration::from_secs(600);
    /// The shortest master secret of bindings, in bytes.
    pub const SECRET: usize = 32;
    /// Most keys in a key set.
    pub const KEYS: usize = 16;
    /// Handshakes under way at once on one listener; beyond, new connections wait.
    pub const HANDSHAKES: usize = 256;
    /// Connections that wait on one listener; beyond, new ones are refused.
    pub const WAITING: usize = 4_096;
    /// What the system is asked to keep of datagrams that were not read yet, or not sent, in bytes: a first datagram takes 2 KiB of it, and twice
    /// this is what Linux gives.
    pub const BUFFER: usize = 4 * 1024 * 1024;
    /// How long a way is taken to be before it is known: a first datagram that is lost is sent again after three times this.
    pub const FIRST_RTT: Duration = Duration::from_millis(100);
    /// How long a handshake may take.
    pub const HANDSHAKE: Duration = Duration::from_secs(10);
    /// A connection that says nothing for so long is lost.
    pub const IDLE: Duration = Duration::from_secs(5);
    /// How often a quiet connection says that it is there.
    pub const KEEP_ALIVE: Duration = Duration::from_millis(1_250);
    /// Streams that a client may have open at once.
    pub const STREAMS: u32 = 16;
}
