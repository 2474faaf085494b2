//! Meetings that are being opened here: assigned by GC, or announced by the controller that they leave.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use tenure_lease::Wall;
use tenure_meet_wire::binding::Secrets;
use tenure_meet_wire::move_ticket::Move;
use tenure_meet_wire::{Id, MeetingId};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::SeatTimeouts;
use crate::actor::Rejection;
use crate::actor::controller::AssignReply;
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::Envelope;
use crate::convert::UnverifiedJoin;

/// A move to this controller, as the previous owner announces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arriving {
    /// The meeting.
    pub meeting: MeetingId,
    /// The generation that it leaves.
    pub generation: u64,
    /// The controller that it leaves.
    pub from_mc: String,
    /// That controller's endpoint for others.
    pub from_endpoint: String,
    /// How long seats are kept; the other settings are stored.
    pub timeouts: SeatTimeouts,
}

/// The answer to an announcement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Announced {
    /// The controller waits for the lease.
    Accepted {
        /// Clients that wait here with a valid ticket.
        parked: usize,
    },
    /// The meeting is not taken.
    Rejected(Rejection),
}

/// A meeting that is being opened.
pub(crate) struct OpeningMeeting {
    /// Distinguishes it from an earlier opening of the same meeting.
    pub(crate) number: u64,
    /// Assignments that wait for it.
    pub(crate) replies: Vec<oneshot::Sender<AssignReply>>,
    /// Set once it runs; closed if it cannot be opened.
    pub(crate) opened: watch::Sender<Option<Mailbox<Envelope>>>,
    /// The move that brings it here; none if GC assigned it.
    pub(crate) arrival: Option<Arc<Arrival>>,
    pub(crate) cancel: CancellationToken,
}

/// A move to this controller.
pub(crate) struct Arrival {
    pub(crate) from_mc: String,
    pub(crate) from_endpoint: String,
    /// The generation that the meeting leaves.
    pub(crate) generation: u64,
    /// Participants by the correlation id of their connections, as of the announcement.
    pub(crate) seats: RwLock<HashMap<Id, Id>>,
    /// Clients that wait here with a valid ticket.
    pub(crate) parked: AtomicUsize,
}

impl Arrival {
    pub(crate) fn new(arriving: &Arriving) -> Self {
        Self {
            from_mc: arriving.from_mc.clone(),
            from_endpoint: arriving.from_endpoint.clone(),
            generation: arriving.generation,
            seats: RwLock::default(),
            parked: AtomicUsize::new(0),
        }
    }

    /// Whether the ticket of a join was issued for this move.
    fn admits(&self, meeting: &MeetingId, join: &UnverifiedJoin, check: &TicketCheck<'_>) -> bool {
        let correlation = join.resume.as_ref().map(|proof| proof.correlation);
        let participant = correlation.and_then(|id| self.seats.read().get(&id).copied());
        let Some(participant) = participant else { return false };
        let moved = Move { meeting, participant, target: check.mc_id, generation: self.generation };
        moved.verify(check.secrets, &join.move_ticket, check.now.as_millis())
    }
}

/// What is needed to verify a ticket.
pub(crate) struct TicketCheck<'a> {
    pub(crate) mc_id: &'a str,
    pub(crate) secrets: &'a Secrets,
    pub(crate) now: Wall,
}

/// Waits for a meeting that is being opened.
pub(crate) struct MeetingWaiter {
    opened: watch::Receiver<Option<Mailbox<Envelope>>>,
    arrival: Option<Arc<Arrival>>,
}

impl OpeningMeeting {
    pub(crate) fn waiter(&self) -> MeetingWaiter {
        MeetingWaiter { opened: self.opened.subscribe(), arrival: self.arrival.clone() }
    }
}

/// A client that waits with a ticket is counted, so that the controller that the meeting leaves knows it.
struct Parked<'a>(&'a Arrival);

impl<'a> Parked<'a> {
    fn new(arrival: &'a Arrival) -> Self {
        arrival.parked.fetch_add(1, Ordering::Relaxed);
        Self(arrival)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MeetingWaiter {
    /// Whether the client has a ticket for the move and may wait for longer.
    pub(crate) fn has_ticket(&self, join: &UnverifiedJoin, check: &TicketCheck<'_>) -> bool {
        self.arrival.as_ref().is_some_and(|arrival| arrival.admits(&join.meeting, join, check))
    }

    /// Waits until the meeting runs here; none if it cannot be opened. `counted` for a client with a ticket.
    pub(crate) async fn wait(mut self, counted: bool) -> Option<Mailbox<Envelope>> {
        let arrival = self.arrival.filter(|_| counted);
        let _parked = arrival.as_deref().map(Parked::new);
        self.opened.wait_for(Option::is_some).await.ok()?.clone()
    }
}
