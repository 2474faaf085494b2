//! The media handler: which meetings it serves, and what it may forward of whom. It forwards nothing yet.
//!
//! - [`Register`] is what it knows of meetings, as plain rules: who owns one, and which mutes hold.
//! - A [`Handler`] offers that to meeting controllers ([`grpc`]), takes clients in ([`Front`]) and says how much it has to do
//!   ([`Attendance`]).

mod attendance;
mod front;
mod grpc;
mod handler;
mod metric;
mod register;

pub use attendance::Attendance;
pub use front::{Front, PATH};
pub use grpc::grpc;
pub use handler::{Handler, Options, Refuse};
pub use register::{Held, Mask, Register};

/// Bounds, by name.
pub mod limits {
    use std::time::Duration;

    /// Meetings at once.
    pub const MEETINGS: usize = 10_000;
    /// Participants of a meeting whose mutes are known.
    pub const PARTICIPANTS: usize = 2_000;
    /// How long a client whose meeting nobody has registered may wait for that.
    pub const UNREGISTERED: Duration = Duration::from_secs(15);
    /// How long a client may take to say who it is.
    pub const KNOCK: Duration = Duration::from_secs(10);
    /// How long a client that is sent away may take to read why.
    pub const FAREWELL: Duration = Duration::from_secs(5);
    /// A change of the load by so many percent is told at once.
    pub const STIR: u32 = 10;
    /// How long a meeting of which nobody speaks, and which nobody is connected to, is remembered.
    pub const FORGET: Duration = Duration::from_secs(24 * 3_600);
}
