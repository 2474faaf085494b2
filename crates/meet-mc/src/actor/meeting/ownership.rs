//! The lease of a running meeting: paused while it is suspended, acquired anew after it expired, given up when another
//! controller has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_keeper::{Error as KeeperError, Guard, GuardState, Keeper, LeaseHandle, Terms};
use tenure_lease::{BusyReason, Clock, Tick};
use tenure_meet_wire::signaling::Paused;
use tenure_meet_wire::signaling::server_message::Payload;

use super::{EndReason, MeetingActor};
use crate::actor::limits;
use crate::actor::outbox::encode_frame;
use crate::ledger::may_regain;
use crate::meeting::Phase;
use crate::metric;

/// How a meeting's lease is acquired anew.
#[derive(Clone)]
pub(crate) struct LeaseTerms {
    pub(crate) keeper: Keeper,
    pub(crate) terms: Terms,
}

pub(super) struct Ownership {
    pub(super) held: LeaseHandle,
    lease_terms: LeaseTerms,
    generation: Arc<AtomicU64>,
    /// Acquired anew after the first lease had expired.
    pub(super) regained: Option<Guard>,
    /// When the expired lease is claimed again.
    claim_at: Option<Tick>,
    /// Whether clients were told that the meeting is paused.
    paused: bool,
}

impl Ownership {
    pub(super) fn new(held: LeaseHandle, lease_terms: LeaseTerms) -> Self {
        let generation = Arc::new(AtomicU64::new(held.generation().get()));
        Self { held, lease_terms, generation, regained: None, claim_at: None, paused: false }
    }

    /// The generation under which the meeting is held, for the controller.
    pub(super) fn generation(&self) -> Arc<AtomicU64> {
        self.generation.clone()
    }

    /// Continues under a lease that a move got back.
    pub(super) fn continue_under(&mut self, held: LeaseHandle) {
        self.generation.store(held.generation().get(), Ordering::Relaxed);
        (self.held, self.regained, self.claim_at) = (held, None, None);
    }

    /// When [`MeetingActor::regain`] has something to do.
    pub(super) fn next_wake(&self) -> Option<Tick> {
        self.claim_at
    }

    /// Releases a lease that was acquired anew. The first one is released by the controller.
    pub(super) async fn release(&mut self) {
        if let Some(guard) = self.regained.take()
            && let Err(error) = guard.release().await
        {
            tracing::debug!(target: metric::TARGET, %error, "lease not released; it expires by its TTL");
        }
    }

    /// Claims the expired lease. None if the store does not answer yet.
    async fn claim(&self, clock: &dyn Clock) -> Result<Option<Guard>, EndReason> {
        let LeaseTerms { keeper, terms } = &self.lease_terms;
        let claimed = tokio::select! {
            biased;
            claimed = keeper.try_acquire(self.held.key().clone(), terms.clone()) => claimed,
            () = clock.sleep_until(clock.now() + limits::RECLAIM) => return Ok(None),
        };
        match claimed {
            Ok(guard) => Ok(Some(guard)),
            Err(KeeperError::Busy { busy, .. }) if busy.reason == BusyReason::Held => {
                Err(EndReason::OwnershipLost)
            }
            Err(error) => {
                tracing::debug!(target: metric::TARGET, %error, "expired lease not acquired yet");
                Ok(None)
            }
        }
    }
}

impl MeetingActor {
    /// Whether this owner may act on the meeting now. A paused owner issues no grants and renews no registration.
    pub(super) fn may_act(&self) -> bool {
        self.ownership.held.permit(Duration::ZERO).is_ok()
    }

    /// Notices that the lease is suspended, held again, or lost.
    pub(super) fn check_lease(&mut self) -> Result<(), EndReason> {
        if self.state.phase != Phase::Active {
            // While the meeting moves, the move finds out who holds the lease.
            return Ok(());
        }
        match self.ownership.held.state() {
            GuardState::Held | GuardState::Jeopardy => self.ownership.paused = false,
            GuardState::Suspended => self.pause(),
            GuardState::Lost(lost) if may_regain(lost) => {
                let now = self.clock.now();
                self.ownership.claim_at.get_or_insert(now);
                self.pause();
            }
            GuardState::Lost(_) => return Err(EndReason::OwnershipLost),
        }
        Ok(())
    }

    /// Tells clients that nothing can be persisted. They ask for another owner after a while.
    fn pause(&mut self) {
        if std::mem::replace(&mut self.ownership.paused, true) {
            return;
        }
        tracing::warn!(target: metric::TARGET, meeting = %self.state.id, "meeting paused: its lease is not confirmed");
        let frame = encode_frame(Some(Payload::Paused(Paused {})), 0, 0, None);
        for participant in self.connections.participants() {
            self.connections.send(participant, frame.clone());
        }
        self.connections.flush();
    }

    /// Acquires the expired lease anew, if no other controller has it or wrote meanwhile.
    pub(super) async fn regain(&mut self) -> Result<(), EndReason> {
        let now = self.clock.now();
        if self.ownership.claim_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        self.ownership.claim_at = Some(now + limits::RETRY);
        let guard = match self.ownership.regained.take() {
            Some(guard) => guard,
            None => match self.ownership.claim(&*self.clock).await? {
                Some(guard) => guard,
                None => return Ok(()),
            },
        };
        let regained = self.writer.regain(guard.share(), self.state.log.last()).await;
        match regained {
            Ok(()) => {
                let generation = guard.generation().get();
                tracing::warn!(target: metric::TARGET, meeting = %self.state.id, generation, "expired lease acquired anew");
                self.ownership.held = guard.share();
                self.ownership.generation.store(generation, Ordering::Relaxed);
                self.ownership.claim_at = None;
                self.grants.generation = generation;
                self.handlers.set_generation(generation, now);
                self.ownership.regained = Some(guard);
                Ok(())
            }
            Err(error) if error.ends_ownership() => {
                self.ownership.regained = Some(guard);
                self.ownership.release().await;
                Err(EndReason::OwnershipLost)
            }
            Err(_) => {
                // The next attempt continues with the same lease.
                self.ownership.regained = Some(guard);
                Ok(())
            }
        }
    }
}
