//! The task of a running meeting: it owns the meeting's lease, runs its actor, and moves it away when ordered to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tenure_keeper::Guard;
use tenure_meet_wire::MeetingId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::actor::exit::{Exit, supervise};
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{EndReason, Envelope, MeetingActor};
use crate::actor::moving::{Departure, MoveContext, MoveOrder, RunningState};
use crate::actor::{ActorType, limits};
use crate::metric;

pub(super) struct MeetingTask {
    pub(super) meeting: MeetingId,
    pub(super) guard: Guard,
    pub(super) actor: MeetingActor,
    pub(super) mailbox: Mailbox<Envelope>,
    pub(super) messages: mpsc::Receiver<Envelope>,
    pub(super) orders: mpsc::Receiver<MoveOrder>,
    pub(super) state: Arc<RunningState>,
    pub(super) context: MoveContext,
    pub(super) cancel: CancellationToken,
}

impl MeetingTask {
    /// Runs until the meeting ends at this controller, then releases its lease.
    pub(super) async fn run(self) -> EndReason {
        let Self { meeting, guard, actor, mailbox, messages, mut orders, state, context, cancel } = self;
        let mut guard = Some(guard);
        let mut actor = Box::pin(supervise(ActorType::Meeting, actor.run(messages, cancel)));
        let exit = loop {
            let order = tokio::select! {
                biased;
                exit = &mut actor => break exit,
                Some(order) = orders.recv() => order,
            };
            let MoveOrder { to, reason, reply } = order;
            let mut departure = Departure {
                meeting: &meeting,
                context: &context,
                state: &state,
                actor: &mailbox,
                guard: &mut guard,
                reason,
            };
            let mut moving = Box::pin(departure.run(to));
            let (outcome, exit) = tokio::select! {
                biased;
                outcome = &mut moving => (outcome, None),
                exit = &mut actor => match exit {
                    // The actor ends once its clients have left; the move still has to be recorded.
                    Exit::Clean(EndReason::Moved) => (moving.await, Some(exit)),
                    exit => break exit,
                },
            };
            state.moving.store(false, Ordering::Release);
            let _caller_gone = reply.send(outcome);
            if let Some(exit) = exit {
                break exit;
            }
        };
        let reason = match exit {
            Exit::Clean(reason) => reason,
            Exit::Panicked(_) => EndReason::Panicked,
        };
        // The lease was transferred.
        let Some(guard) = guard else { return reason };
        let generation = guard.generation().get();
        if let Err(error) = guard.release().await {
            tracing::debug!(target: metric::TARGET, %meeting, %error, "lease not released; it expires by its TTL");
        } else if reason == EndReason::Ended {
            let clock = context.keeper.clock();
            tokio::select! {
                () = context.global_controller.meeting_ended(&meeting, generation) => {}
                () = clock.sleep_until(clock.now() + limits::END_NOTIFICATION) => {}
            }
        }
        reason
    }
}
