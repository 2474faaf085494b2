//! Who owns what: a controller supervises meetings, a meeting supervises its connections. They talk by bounded mailboxes and end by cancellation,
//! never by force.

mod cause;
mod connection;
mod controller;
mod exit;
mod mailbox;
mod meeting;
mod outbox;
mod port;

pub use controller::{Assigned, Assignment, Controller, Counts, Options, Rejection, Running};
pub use exit::Exit;
pub use mailbox::{ActorType, Level};
pub use port::{Home, MediaPort, MuteOrder, NoHandlers, NoHome};

/// Bounds of actors, by name.
pub mod limits {
    use std::time::Duration;

    /// Mails that wait for a meeting or for the controller; whoever sends more waits.
    pub const MAILBOX: usize = 1_000;
    /// Parcels that wait for a client; one more and it is too slow.
    pub const OUTBOX: usize = 256;
    /// How long a client may take to open its stream and ask to join.
    pub const KNOCK: Duration = Duration::from_secs(10);
    /// How long a join is waited for.
    pub const JOIN: Duration = Duration::from_secs(15);
    /// How long settings that a running meeting takes over are waited for.
    pub const SETTINGS: Duration = Duration::from_secs(8);
    /// How long a client that gets no seat may take to read why.
    pub const FAREWELL: Duration = Duration::from_secs(5);
    /// How long a client that is done may take to read so.
    pub const PARTING: Duration = Duration::from_secs(1);
    /// How long what nobody waits for may stay unwritten.
    pub const FLUSH: Duration = Duration::from_millis(5);
    /// How long until a write that failed is tried again.
    pub const RETRY: Duration = Duration::from_millis(500);
    /// How often a controller says that it is alive.
    pub const ALIVE: Duration = Duration::from_secs(5);
    /// Panics of a meeting that are survived.
    pub const PANICS: u32 = 1;
    /// Participants that a new meeting is taken to have.
    pub const ESTIMATE: usize = 10;
    /// How long a claim of a meeting's lease may take.
    pub const CLAIM: Duration = Duration::from_secs(2);
    /// Most media handlers of a meeting.
    pub const HANDLERS: usize = 16;
    /// How full a controller is that others are better for what is new, in percent.
    pub const NEARLY_FULL: usize = 80;
    /// How full a controller is that it says it is not ready, in percent.
    pub const FULL: usize = 95;
    /// How long the end of a meeting may take to be told.
    pub const GOODBYE: Duration = Duration::from_secs(10);
    /// How long media handlers may take to be told that a meeting is over.
    pub const RELEASE: Duration = Duration::from_secs(2);
    /// How often media handlers are replaced because none takes the meeting.
    pub const REPLACEMENTS: u32 = 3;
}
