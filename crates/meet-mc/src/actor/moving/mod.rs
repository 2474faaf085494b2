//! Moving a meeting to another controller while its participants stay connected.
//!
//! ```text
//! MC1 (Departure)                    MC2 (Arrival)                      client
//!  AnnounceMigration ───────────────▶ reads the records, waits for the lease
//!  PrepareMove ─────────────────────────────────────────────────────────▶ connects to MC2 and waits there
//!  freeze: flush, then Frozen{S} ───────────────────────────────────────▶ queues requests
//!  PrepareMeetingMigration{S} ──────▶ finds event S
//!  transfer the lease to MC2 ───────▶ holds it with a greater generation, opens the meeting
//!                                     resumes the clients that wait ─────▶ goes on at MC2, closes MC1
//!  ◀──────────────── MigrationResumed
//!  REDIRECT for all other clients
//! ```
//!
//! Until the transfer MC1 can abort: it thaws the meeting and tries another target. A transfer without an answer is
//! settled by [`Keeper::replace`](tenure_keeper::Keeper::replace) with the own generation, which either gets the lease
//! back or finds that MC2 has it. After the transfer MC1 waits in the queue of the lease: if MC2 cannot open the
//! meeting, it releases the lease and MC1 continues.

mod arrival;
mod departure;
mod drain;
mod remote;

use tenure_meet_rpc::history::MoveReason;
use tenure_meet_wire::MeetingId;
use tokio::sync::oneshot;

pub use arrival::{Announced, Arriving};
pub(crate) use arrival::{Arrival, MeetingWaiter, OpeningMeeting, TicketCheck};
pub(crate) use departure::{Departure, MoveContext, RunningState};
pub(crate) use drain::DrainControl;
pub use drain::{DrainOrder, DrainReason, DrainReport};
pub use remote::{Announcement, Controllers, DrainNotice, GcUnavailable, NoControllers, Resumed};

/// A controller that meetings move to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Its id.
    pub mc_id: String,
    /// Its endpoint for other controllers.
    pub grpc_endpoint: String,
    /// Its endpoint for clients.
    pub webtransport_endpoint: String,
    /// Hashes of its certificates.
    pub certificates: Vec<Vec<u8>>,
}

/// How the order to move a meeting ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveOutcome {
    /// Another controller runs the meeting.
    Moved,
    /// It still runs here: no target took it.
    Stayed,
    /// No other controller is available.
    NoTarget,
    /// It already moves, or has moved.
    Conflict,
    /// It does not run here, or was lost meanwhile.
    Gone,
}

/// An order to move a meeting.
pub(crate) struct MoveOrder {
    /// The first target; none to ask GC for one.
    pub(crate) to: Option<Destination>,
    pub(crate) reason: MoveReason,
    pub(crate) reply: oneshot::Sender<MoveOutcome>,
}

/// A meeting that runs here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeetingSummary {
    /// The meeting.
    pub meeting: MeetingId,
    /// Its seats.
    pub participants: usize,
    /// The generation under which it is held.
    pub generation: u64,
}

/// The name of a reason in metrics.
pub(crate) const fn reason_label(reason: MoveReason) -> &'static str {
    match reason {
        MoveReason::Drain => "drain",
        MoveReason::Overload => "overload",
        MoveReason::Unreachable => "unreachable",
        MoveReason::Panic => "panic",
        MoveReason::Operator => "operator",
        MoveReason::ControllerLost => "controller_lost",
    }
}
