//! The actors: a controller supervises meetings, a meeting supervises its connections.
//!
//! They communicate through bounded mailboxes and end by cancellation, never by abort.

mod admission;
mod connection;
mod controller;
mod exit;
mod mailbox;
mod meeting;
mod moving;
mod outbox;
mod remote;
mod trace;

pub use controller::{Assigned, Assignment, Controller, Counts, Options, Rejection, Running};
pub use exit::Exit;
pub use mailbox::{ActorType, Level};
pub use moving::{
    Announced, Announcement, Arriving, Controllers, Destination, DrainNotice, DrainOrder, DrainReason,
    DrainReport, GcUnavailable, MeetingSummary, MoveOutcome, NoControllers, Resumed,
};
pub use remote::{
    GlobalController, MediaHandlers, MuteOrder, MuteOutcome, NoGlobalController, ParticipantRelease,
    RegisterOutcome, Registration, ReplaceReason, Replacement, ScriptedHandlers, SeatMask,
};

/// Bounds of actors.
pub mod limits {
    use std::time::Duration;

    /// Messages queued for a meeting or the controller; further senders wait.
    pub const MAILBOX: usize = 1_000;
    /// Items queued for a client; with one more the client is closed as too slow.
    pub const OUTBOX: usize = 256;
    /// How long a client may take to open its stream and send the join request.
    pub const JOIN_REQUEST: Duration = Duration::from_secs(10);
    /// How long the meeting may take to answer a join.
    pub const JOIN_ANSWER: Duration = Duration::from_secs(15);
    /// How long a running meeting may take to adopt settings.
    pub const SETTINGS: Duration = Duration::from_secs(8);
    /// How long a rejected client may take to read the reason.
    pub const READ_REJECTION: Duration = Duration::from_secs(5);
    /// How long a client that left may take to read the confirmation.
    pub const READ_CLOSE: Duration = Duration::from_secs(1);
    /// How long asynchronous changes are collected before they are written.
    pub const FLUSH: Duration = Duration::from_millis(5);
    /// How long the claim of an expired lease may take: the meeting answers nothing meanwhile.
    pub const RECLAIM: Duration = Duration::from_secs(1);
    /// How long a meeting whose lease is not confirmed waits for the store: in effect forever.
    pub const PAUSED: Duration = Duration::from_secs(365 * 86_400);
    /// How long until a failed write is retried.
    pub const RETRY: Duration = Duration::from_millis(500);
    /// How often a meeting records that its controller is alive.
    pub const HEARTBEAT: Duration = Duration::from_secs(5);
    /// Panics of a meeting that are survived.
    pub const PANICS: u32 = 1;
    /// Participants that a new meeting is expected to have.
    pub const ESTIMATED_PARTICIPANTS: usize = 10;
    /// How long the claim of a meeting's lease may take.
    pub const CLAIM: Duration = Duration::from_secs(2);
    /// How long another controller may take to answer a probe.
    pub const PROBE: Duration = Duration::from_millis(500);
    /// Media handlers of a meeting.
    pub const HANDLERS: usize = 16;
    /// Percentage of capacity from which a controller is degraded.
    pub const DEGRADED_PERCENT: usize = 80;
    /// Percentage of capacity from which a controller is not ready.
    pub const FULL_PERCENT: usize = 95;
    /// How long the notification of GC about an ended meeting may take.
    pub const END_NOTIFICATION: Duration = Duration::from_secs(10);
    /// How long the release of an ended meeting at its handlers may take.
    pub const RELEASE: Duration = Duration::from_secs(2);
    /// How often the registration at media handlers is renewed.
    pub const RENEWAL: Duration = Duration::from_secs(10);
    /// How long a handler forwards media of a meeting whose registration is not renewed.
    pub const HANDLER_LEASE: Duration = Duration::from_secs(30);
    /// Attempts of a first registration at a handler.
    pub const REGISTER_ATTEMPTS: usize = 3;
    /// Renewals that a handler may miss before it is replaced.
    pub const MISSED_RENEWALS: u32 = 2;
    /// Replacements of media handlers in a minute.
    pub const REPLACEMENTS: u32 = 3;
    /// Calls to media handlers in progress for one meeting.
    pub const HANDLER_CALLS: usize = 256;
    /// How long after a change the assignments of layouts follow.
    pub const LAYOUT: Duration = Duration::from_millis(100);
    /// Targets of one order to move a meeting.
    pub const MOVE_TARGETS: usize = 3;
    /// How long a call that belongs to a move may take, before the meeting is frozen.
    pub const MOVE_CALL: Duration = Duration::from_secs(3);
    /// How long a move waits for clients to connect to the target.
    pub const PARKING: Duration = Duration::from_secs(1);
    /// How often it counts them.
    pub const PARKING_POLL: Duration = Duration::from_millis(50);
    /// How long after the freeze the lease must be transferred; otherwise the move is aborted.
    pub const FREEZE: Duration = Duration::from_secs(2);
    /// How often the transfer is tried while the target does not wait for the lease yet.
    pub const TRANSFER_POLL: Duration = Duration::from_millis(20);
    /// How long the outcome of a transfer in doubt is looked for.
    pub const SETTLE: Duration = Duration::from_secs(10);
    /// How much longer than the TTL a move waits for the target to open the meeting.
    pub const RESUME_MARGIN: Duration = Duration::from_secs(5);
    /// How long clients are redirected after a move.
    pub const REDIRECT: Duration = Duration::from_secs(10);
    /// How long an announced meeting may take to arrive.
    pub const ARRIVAL: Duration = Duration::from_secs(10);
    /// How long a client with a move ticket may wait for a meeting to arrive.
    pub const PARKED: Duration = Duration::from_secs(5);
    /// How long any other client may wait for a meeting to open.
    pub const OPENING: Duration = Duration::from_millis(500);
    /// Pause between the starts of two moves of a drain.
    pub const DRAIN_PACE: Duration = Duration::from_millis(10);
    /// Pause before a drain tries again.
    pub const DRAIN_RETRY: Duration = Duration::from_secs(1);
    /// How long a participant may wait for a host.
    pub const WAITING: Duration = Duration::from_secs(4 * 3_600);
}
