//! Persists the changes of a meeting, and holds back effects until their changes are persisted.

use std::sync::Arc;

use tenure_keeper::LeaseHandle;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Tick};

use super::Requester;
use super::end::LastWrite;
use crate::actor::limits;
use crate::meeting::{Effect, Effects, Write};
use crate::{DoubtOutcome, Ledger, LedgerError};

/// Whether what is published survives a crash of this controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Durability {
    Durable,
    /// The store is unavailable: published before it is persisted.
    Volatile,
}

impl Durability {
    /// The field `durable` of a message; absent means durable.
    pub(super) const fn to_wire(self) -> Option<bool> {
        match self {
            Self::Durable => None,
            Self::Volatile => Some(false),
        }
    }
}

/// Effects that run once the changes before them are published.
pub(super) struct PendingEffects {
    pub(super) then: Vec<Effect>,
    pub(super) requester: Option<Requester>,
}

pub(super) struct Writer {
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    pending: Vec<PendingEffects>,
    /// The effects of changes whose outcome is not known.
    doubtful: Option<Effects>,
    /// When queued changes are flushed.
    flush_at: Option<Tick>,
    heartbeat_at: Tick,
}

impl Writer {
    pub(super) fn new(ledger: Ledger, clock: Arc<dyn Clock>) -> Self {
        let heartbeat_at = clock.now() + limits::HEARTBEAT;
        Self { ledger, clock, pending: Vec::new(), doubtful: None, flush_at: None, heartbeat_at }
    }

    /// Continues with a ledger that was opened again; pending effects are dropped.
    pub(super) fn replace(&mut self, ledger: Ledger) {
        self.ledger = ledger;
        self.pending.clear();
        self.doubtful = None;
    }

    /// Persists or queues the changes. On an error nothing is queued; after [`LedgerError::InDoubt`] the changes may
    /// still be persisted, and [`Writer::take_doubtful`] returns the effects if they are.
    pub(super) async fn persist(&mut self, effects: &Effects) -> Result<(), LedgerError> {
        let written = match effects.write {
            Write::Sync => self.ledger.write(&effects.changes).await,
            Write::Async => self.ledger.enqueue(&effects.changes),
            Write::None => Ok(()),
        };
        if written == Err(LedgerError::InDoubt) {
            // An earlier part of the same write may be in doubt instead: then these changes were not sent.
            self.doubtful = self.ledger.has_doubtful_changes().then(|| effects.clone());
            self.flush_at.get_or_insert(self.clock.now() + limits::RETRY);
        }
        written
    }

    /// The effects of changes that were in doubt and turned out to be persisted.
    pub(super) fn take_doubtful(&mut self) -> Option<Effects> {
        match self.ledger.take_outcome()? {
            DoubtOutcome::Landed => self.doubtful.take(),
            DoubtOutcome::NotApplied => {
                self.doubtful = None;
                None
            }
        }
    }

    /// Continues under a lease that was acquired anew.
    pub(super) async fn regain(&mut self, held: LeaseHandle, last: u64) -> Result<(), LedgerError> {
        self.ledger.regain(held, last).await?;
        // What was published as volatile is persisted now.
        self.flush_at.get_or_insert(self.clock.now());
        Ok(())
    }

    /// Adds effects whose changes went through [`Writer::persist`]. Returns how all pending effects may be published
    /// now, if they may.
    pub(super) fn complete(
        &mut self,
        effects: PendingEffects,
        write: Write,
        now: Tick,
    ) -> Option<Durability> {
        self.pending.push(effects);
        match write {
            // The write included everything queued before it.
            Write::Sync => Some(Durability::Durable),
            Write::None => (!self.ledger.has_backlog()).then_some(Durability::Durable),
            Write::Async => {
                self.flush_at.get_or_insert(now + limits::FLUSH);
                if broken(Break::DurableBeforeWrite) {
                    return Some(Durability::Durable);
                }
                (!self.ledger.store_available()).then_some(Durability::Volatile)
            }
        }
    }

    pub(super) fn take_pending(&mut self) -> Vec<PendingEffects> {
        std::mem::take(&mut self.pending)
    }

    /// When [`Writer::on_timer`] has something to do.
    pub(super) fn next_wake(&self) -> Tick {
        self.flush_at.map_or(self.heartbeat_at, |flush_at| flush_at.min(self.heartbeat_at))
    }

    /// Writes the heartbeat and flushes when due. Returns how pending effects may be published now. Fails only if the
    /// ownership is lost.
    pub(super) async fn on_timer(&mut self, now: Tick) -> Result<Option<Durability>, LedgerError> {
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + limits::HEARTBEAT;
            // A heartbeat that cannot be queued is replaced by the next one.
            let _queued = self.ledger.enqueue_heartbeat(self.clock.wall());
            self.flush_at.get_or_insert(now);
        }
        if self.flush_at.is_none_or(|at| now < at) {
            return Ok(None);
        }
        self.flush_at = None;
        match self.ledger.flush().await {
            Ok(()) => Ok(Some(Durability::Durable)),
            Err(error) if error.ends_ownership() => Err(error),
            Err(_) => {
                self.flush_at = Some(self.clock.now() + limits::RETRY);
                Ok(Some(Durability::Volatile))
            }
        }
    }

    /// Persists everything queued.
    pub(super) async fn flush(&mut self) -> Result<(), LedgerError> {
        self.flush_at = None;
        self.ledger.flush().await
    }

    pub(super) async fn close(&mut self, last_write: LastWrite) -> Result<(), LedgerError> {
        match last_write {
            LastWrite::None => Ok(()),
            LastWrite::Flush => self.ledger.flush().await,
            LastWrite::Clear => self.ledger.clear().await,
            LastWrite::CheckSuperseded => self.ledger.check_superseded().await,
        }
    }
}
