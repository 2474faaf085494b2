//! A write whose outcome is not known, and what its outcome means.

use tenure_keeper::LeaseHandle;
use tenure_lease::{Generation, Op};

use crate::ledger::backlog::Backlog;
use crate::ledger::commit::{OwnerRecords, read_store};
use crate::ledger::{Ledger, LedgerError};
use crate::rows::MeetingRow;

/// A write that may have been applied.
#[derive(Clone)]
pub(super) struct DoubtfulWrite {
    pub(super) ops: Vec<Op>,
    /// Spends a nonce.
    pub(super) spend: Option<Op>,
    pub(super) effect: WriteEffect,
    /// Whether a call was made whose outcome is not known.
    pub(super) sent: bool,
}

/// What a write changes in the ledger when it lands.
#[derive(Clone)]
pub(super) enum WriteEffect {
    /// Records that the ledger does not track.
    None,
    /// This part of the backlog is persisted.
    Flushed(Box<Backlog>),
    /// The whole backlog and the changes of a request are persisted.
    Changed { queued: Box<Backlog>, row: Box<MeetingRow>, entries: usize },
}

/// How the doubt about the changes of a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DoubtOutcome {
    /// They are persisted.
    Landed,
    /// They are not, and will not be.
    NotApplied,
}

impl Ledger {
    /// How the doubt about the changes of a request ended; none if it has not, or was asked before.
    pub fn take_outcome(&mut self) -> Option<DoubtOutcome> {
        self.outcome.take()
    }

    /// Whether the outcome of a request's changes is not known: nothing may be queued behind them.
    pub(crate) fn has_doubtful_changes(&self) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| matches!(doubt.effect, WriteEffect::Changed { .. }))
    }

    pub(super) fn landed(&mut self, effect: WriteEffect) {
        match effect {
            WriteEffect::None => {}
            WriteEffect::Flushed(batch) => self.backlog.remove(&batch),
            WriteEffect::Changed { queued, row, .. } => {
                self.backlog.remove(&queued);
                self.row = *row;
                self.outcome = Some(DoubtOutcome::Landed);
            }
        }
    }

    pub(super) fn not_applied(&mut self, effect: WriteEffect) {
        if matches!(effect, WriteEffect::Changed { .. }) {
            self.outcome = Some(DoubtOutcome::NotApplied);
        }
    }

    /// Continues under a lease that was acquired anew after the old one had expired. `last` is the number of the last event
    /// in memory. Fails with [`LedgerError::FencedOut`] if another controller wrote meanwhile: memory is not the truth then.
    pub async fn regain(&mut self, held: LeaseHandle, last: u64) -> Result<(), LedgerError> {
        let owners = OwnerRecords::read(self).await?;
        if !owners.written_by(self.held.generation(), &self.shared.mc_id) {
            self.superseded = true;
            return Err(LedgerError::FencedOut);
        }
        // No write of the old generation can land any more: its revision tells whether the last one did.
        let landed = owners.revisions() != (self.generation, self.controller);
        let effect = self.doubt.as_ref().map(|doubt| doubt.effect.clone());
        let persisted = last - self.backlog.entries() as u64
            + effect.as_ref().filter(|_| landed).map_or(0, |effect| effect.entries() as u64);
        let next = self.log()?;
        let after = persisted.saturating_sub(1);
        let found =
            read_store(&self.shared, &self.clock, self.shared.store.read_log(&next, after, 2)).await?;
        let same = found.last().map_or(persisted == 0, |entry| entry.seq == persisted);
        if !same || (landed && effect.is_none()) {
            return Err(LedgerError::FencedOut);
        }
        self.doubt = None;
        match effect {
            Some(effect) if landed => self.landed(effect),
            Some(effect) => self.not_applied(effect),
            None => {}
        }
        (self.generation, self.controller) = owners.revisions();
        self.held = held;
        self.enqueue_heartbeat(self.clock.wall())?;
        self.flush().await
    }
}

impl WriteEffect {
    /// The log entries that it appends beside those counted in the backlog, or that it takes from there.
    fn entries(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Flushed(batch) => batch.entries(),
            Self::Changed { queued, entries, .. } => queued.entries() + entries,
        }
    }
}

impl OwnerRecords {
    /// Whether this controller was the last writer, with this generation.
    fn written_by(&self, generation: Generation, mc_id: &str) -> bool {
        let says = |record: &Option<tenure_lease::Record>, text: &str| {
            record.as_ref().is_some_and(|record| record.value[..] == *text.as_bytes())
        };
        says(&self.generation, &generation.to_string()) && says(&self.controller, mc_id)
    }
}
