//! Moves and drains, as GC, other controllers and the process order them.

use std::sync::atomic::Ordering;

use tenure_meet_rpc::history::MoveReason;
use tenure_meet_wire::MeetingId;
use tokio::sync::oneshot;

use super::{Controller, ControllerMessage};
use crate::actor::Rejection;
use crate::actor::moving::{
    Announced, Arriving, Destination, DrainOrder, DrainReport, MeetingSummary, MoveOrder, MoveOutcome,
    Resumed,
};
use crate::ledger;

impl Controller {
    /// Waits for a meeting that another controller moves here.
    pub async fn announce(&self, arriving: Arriving) -> Announced {
        let announced = self.call(|reply| ControllerMessage::Announce { arriving, reply }).await;
        announced.unwrap_or(Announced::Rejected(Rejection::Unhealthy))
    }

    /// Whether this controller can continue a meeting that left this generation after `last_event`.
    pub async fn is_prepared(&self, meeting: &MeetingId, generation: u64, last_event: u64) -> bool {
        let id = meeting.clone();
        let expected = self.call(|reply| ControllerMessage::Expects { meeting: id, generation, reply }).await;
        expected == Some(true) && ledger::ends_with(&self.shared, meeting, last_event).await.unwrap_or(false)
    }

    /// Another controller runs a meeting that left this one.
    pub async fn on_resumed(&self, resumed: Resumed) {
        let _stopped = self.mailbox.send(ControllerMessage::Resumed(resumed)).await;
    }

    /// Moves a meeting to `to`, or to a controller that GC names. Returns when the move has ended.
    pub async fn move_meeting(
        &self,
        meeting: &MeetingId,
        to: Option<Destination>,
        reason: MoveReason,
    ) -> MoveOutcome {
        let (reply, answer) = oneshot::channel();
        let order = MoveOrder { to, reason, reply };
        let message = ControllerMessage::Move { meeting: meeting.clone(), order };
        if self.mailbox.send(message).await.is_err() {
            return MoveOutcome::Gone;
        }
        answer.await.unwrap_or(MoveOutcome::Gone)
    }

    /// Like [`Controller::move_meeting`], without waiting for the end. Returns whether the move began.
    pub async fn start_move(&self, meeting: &MeetingId, to: Option<Destination>, reason: MoveReason) -> bool {
        let (reply, mut answer) = oneshot::channel();
        let order = MoveOrder { to, reason, reply };
        let message = ControllerMessage::Move { meeting: meeting.clone(), order };
        if self.mailbox.send(message).await.is_err() {
            return false;
        }
        // The supervisor refuses an order before it answers the next message.
        self.counts().await;
        !matches!(answer.try_recv(), Ok(MoveOutcome::Conflict | MoveOutcome::Gone))
    }

    /// The meetings that run here.
    pub async fn meetings(&self) -> Vec<MeetingSummary> {
        self.call(|reply| ControllerMessage::List { reply }).await.unwrap_or_default()
    }

    /// Takes no more meetings, also none that are about to arrive.
    pub(crate) async fn stop_accepting(&self) {
        self.drain();
        let _stopped = self.mailbox.send(ControllerMessage::Withdraw).await;
    }

    pub(crate) fn accept_again(&self) {
        self.draining.store(false, Ordering::Relaxed);
        self.drain_started.notify_one();
    }

    /// Moves all meetings away, and closes those that are left at the end. A drain that already runs is waited for.
    pub async fn drain_meetings(&self, order: DrainOrder) -> DrainReport {
        loop {
            if let Some(cancel) = self.drain.begin() {
                return self.drain.run(self, &*self.global_controller, order, cancel).await;
            }
            // After a drain that was cancelled, this one begins.
            if let Some(report) = self.drain.wait().await {
                return report;
            }
        }
    }

    /// Starts a drain in the background. Returns false if one already runs.
    pub fn start_drain(&self, order: DrainOrder) -> bool {
        if self.is_stopped() {
            return false;
        }
        let Some(cancel) = self.drain.begin() else { return false };
        let controller = self.clone();
        self.tasks.spawn(async move {
            let gc = controller.global_controller.clone();
            let report = controller.drain.run(&controller, &*gc, order, cancel).await;
            tracing::info!(target: crate::metric::TARGET, ?report, "drain ended");
        });
        true
    }

    /// Ends a drain while meetings are left. Meetings that moved stay where they are.
    pub async fn cancel_drain(&self) -> bool {
        !self.meetings().await.is_empty() && self.drain.cancel()
    }

    /// Waits until a drain has moved or closed all meetings.
    pub async fn wait_until_drained(&self) {
        self.drain.wait_until_drained().await;
    }
}
