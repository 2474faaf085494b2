//! The control plane of a media handler: registered meetings and mute masks. It forwards no media yet.
//!
//! - [`MeetingRegistry`] holds the registered meetings: their owner and their mute masks.
//! - [`MediaHandler`] serves controllers ([`grpc`]), accepts clients ([`SessionAcceptor`]) and reports its load
//!   ([`HandlerRegistration`]).

mod acceptor;
mod grpc;
mod handler;
mod metric;
mod registration;
mod registry;

pub use acceptor::{PATH, SessionAcceptor};
pub use grpc::grpc;
pub use handler::{MediaHandler, Options, RefuseMeetings};
pub use registration::HandlerRegistration;
pub use registry::{MeetingRegistry, MuteMask, RegisteredMeeting};

/// Bounds of a handler.
pub mod limits {
    use std::time::Duration;

    /// Registered meetings.
    pub const MEETINGS: usize = 10_000;
    /// Participants with a mask, per meeting.
    pub const PARTICIPANTS: usize = 2_000;
    /// How long a client waits for its meeting to be registered.
    pub const UNREGISTERED: Duration = Duration::from_secs(15);
    /// How long a client may take to send its connect request.
    pub const CONNECT_REQUEST: Duration = Duration::from_secs(10);
    /// How long a rejected client may take to read the reason.
    pub const READ_REJECTION: Duration = Duration::from_secs(5);
    /// A load change of this many percent is reported at once.
    pub const LOAD_CHANGE: u32 = 10;
    /// How long an idle meeting is kept.
    pub const IDLE: Duration = Duration::from_secs(24 * 3_600);
}
