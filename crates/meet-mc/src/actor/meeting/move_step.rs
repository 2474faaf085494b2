//! The steps of a move, as the meeting that moves performs them.

use tenure_keeper::{Guard, LeaseHandle};
use tenure_lease::Tick;
use tokio::sync::oneshot;

use super::writer::Durability;
use super::{Caller, EndReason, MeetingActor};
use crate::actor::limits;
use crate::convert;
use crate::meeting::{Input, MoveTarget, Phase, Refusal};

/// A step of a move. The controller that drives the move waits for each.
pub(crate) enum MoveStep {
    /// Ask clients to connect to the target. Replies with the number of connected clients; none if the meeting is not
    /// active.
    Prepare { target: MoveTarget, reply: oneshot::Sender<Option<usize>> },
    /// Stop all changes and persist what is queued. Replies none if that is not possible. Without a receiver of the
    /// reply the meeting thaws at once.
    Freeze { reply: oneshot::Sender<Option<FrozenMeeting>> },
    /// Allow changes again, under a new lease if there is one.
    Thaw { lease: Option<LeaseHandle>, reply: oneshot::Sender<()> },
    /// Another controller runs the meeting: redirect clients.
    Redirect { target: MoveTarget, reply: oneshot::Sender<()> },
    /// The lease is lost.
    Lose { reply: oneshot::Sender<()> },
}

/// A meeting that stopped all changes.
pub(crate) struct FrozenMeeting {
    pub(crate) last_event: u64,
    /// The lease, if the meeting acquired it anew; otherwise its task has it.
    pub(crate) regained: Option<Guard>,
}

impl MeetingActor {
    pub(super) async fn on_move_step(&mut self, step: MoveStep) -> Result<(), EndReason> {
        match step {
            MoveStep::Prepare { target, reply } => {
                let active = self.state.phase == Phase::Active;
                self.process(Input::PrepareMove(target), Caller::None).await?;
                let clients = active.then(|| self.connections.participants().len());
                let _caller_gone = reply.send(clients);
                Ok(())
            }
            MoveStep::Freeze { reply } => self.freeze(reply).await,
            MoveStep::Thaw { lease, reply } => {
                if let Some(lease) = lease {
                    self.continue_under(lease).await?;
                }
                self.process(Input::Thaw, Caller::None).await?;
                let _caller_gone = reply.send(());
                Ok(())
            }
            MoveStep::Redirect { target, reply } => {
                let MoveTarget { endpoint, certificates, .. } = target;
                self.process(Input::Move { endpoint, certificates }, Caller::None).await?;
                self.redirect_until = Some(self.clock.now() + limits::REDIRECT);
                if let Err(refusal) = self.state.phase.refuse_change() {
                    self.waiting.refuse_all(&convert::refusal_to_wire(&self.state, &refusal));
                }
                let _caller_gone = reply.send(());
                Ok(())
            }
            MoveStep::Lose { reply } => {
                let _caller_gone = reply.send(());
                Err(EndReason::OwnershipLost)
            }
        }
    }

    /// Clients receive `Frozen` after the last event is persisted.
    async fn freeze(&mut self, reply: oneshot::Sender<Option<FrozenMeeting>>) -> Result<(), EndReason> {
        self.process(Input::Freeze, Caller::None).await?;
        if self.state.phase != Phase::ShuttingDown {
            let _caller_gone = reply.send(None);
            return Ok(());
        }
        let flushed = match self.writer.flush().await {
            Ok(()) => true,
            Err(error) if error.ends_ownership() => return Err(EndReason::OwnershipLost),
            Err(_) => false,
        };
        self.adopt_doubtful()?;
        self.publish(if flushed { Durability::Durable } else { Durability::Volatile })?;
        let regained = self.ownership.regained.take_if(|_| flushed);
        let frozen = flushed.then(|| FrozenMeeting { last_event: self.state.log.last(), regained });
        let unheard = reply.send(frozen).err().flatten();
        if unheard.is_some() || !flushed {
            self.ownership.regained =
                unheard.and_then(|frozen| frozen.regained).or(self.ownership.regained.take());
            self.process(Input::Thaw, Caller::None).await?;
        }
        Ok(())
    }

    /// Reads the state again under a lease of a greater generation. The meeting stays frozen.
    async fn continue_under(&mut self, lease: LeaseHandle) -> Result<(), EndReason> {
        let generation = lease.generation().get();
        self.ownership.continue_under(lease);
        self.grants.generation = generation;
        self.handlers.set_generation(generation, self.clock.now());
        self.reload().await.map_err(|_| EndReason::OwnershipLost)?;
        self.state.phase = Phase::ShuttingDown;
        Ok(())
    }

    /// Whether the meeting runs elsewhere and no client is left to redirect.
    pub(super) fn has_departed(&self) -> bool {
        matches!(self.state.phase, Phase::Migrating { .. })
            && (self.connections.is_empty() || self.redirect_until.is_some_and(|at| self.clock.now() >= at))
    }

    /// When the actor must act without a message. A frozen meeting waits for the next step of its move.
    pub(super) fn next_wake(&self) -> Option<Tick> {
        match self.state.phase {
            Phase::Active | Phase::Complete => Some(self.next_work()),
            Phase::ShuttingDown => None,
            Phase::Migrating { .. } => self.redirect_until,
        }
    }
}

impl Phase {
    /// The refusal of a change in this phase.
    fn refuse_change(&self) -> Result<(), Refusal> {
        self.refusal(self.rule(crate::meeting::Trigger::Change))
    }
}
