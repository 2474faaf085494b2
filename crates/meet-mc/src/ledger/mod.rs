//! Persists a meeting. Every write carries the fence of the meeting's lease. In the same step it sets the generation and
//! controller id that operators see, and appends the events to the log.
//!
//! A write whose reply is lost is retried until its outcome is known. Its caller is answered within 3 s; until the outcome
//! is known no other change is written, so that no event number gets two contents.

mod backlog;
mod commit;
mod doubt;
mod load;
mod preview;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use preview::{ends_with, read_seats, read_settings};

use parking_lot::Mutex;
use prost::Message as _;
use tenure_keeper::LeaseHandle;
use tenure_lease::{Clock, Key, Op, Revision, Store, Ttl, Wall};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::signaling::ServerMessage;

pub(crate) use commit::{call_store, may_regain};
pub use doubt::DoubtOutcome;

use crate::ledger::backlog::Backlog;
use crate::ledger::doubt::{DoubtfulWrite, WriteEffect};
use crate::meeting::{Change, Event, HandlerInfo, Meeting, Phase, Role, Settings, limits};
use crate::rows::MeetingRow;
use crate::{CircuitBreaker, LatencyWindow, MeetingKeys, convert, metric, rows};

/// Why a write failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedgerError {
    /// A greater generation owns the meeting.
    #[error("FENCED_OUT: another controller owns the meeting")]
    FencedOut,
    /// Another controller wrote with the same generation. This one gives up.
    #[error("SPLIT_BRAIN: {0} wrote with the same generation")]
    SplitBrain(String),
    /// The lease is lost. A write in progress may have been applied.
    #[error("meeting lease lost")]
    Lost,
    /// The store is unavailable, or the lease is suspended. Nothing was written.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The store did not answer in time. The write may have been applied, and is retried.
    #[error("the store does not answer; the write may still be applied")]
    InDoubt,
    /// The nonce was spent before. Nothing was written.
    #[error("nonce already spent")]
    NonceSpent,
    /// The store refuses the operation, or a stored value is invalid. Nothing was written.
    #[error("refused: {0}")]
    Refused(String),
}

impl LedgerError {
    /// Whether this controller no longer owns the meeting.
    pub const fn ends_ownership(&self) -> bool {
        matches!(self, Self::FencedOut | Self::SplitBrain(_) | Self::Lost)
    }
}

fn earlier_write() -> LedgerError {
    LedgerError::Unavailable("the outcome of an earlier write is not known".to_owned())
}

fn refused(error: impl std::fmt::Display) -> LedgerError {
    LedgerError::Refused(error.to_string())
}

/// State that all meetings of a controller share.
#[derive(Clone)]
pub struct ControllerState {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The store's circuit breaker.
    pub breaker: Arc<Mutex<CircuitBreaker>>,
    /// The controller's id.
    pub mc_id: String,
    /// How long meetings took to process messages, recently.
    pub latency: Arc<LatencyWindow>,
}

/// The ledger of one meeting.
pub struct Ledger {
    shared: ControllerState,
    clock: Arc<dyn Clock>,
    held: LeaseHandle,
    keys: MeetingKeys,
    /// Revisions of the two owner records; `None` while there is no record.
    generation: Option<Revision>,
    controller: Option<Revision>,
    row: MeetingRow,
    backlog: Backlog,
    /// A write whose outcome is not known.
    doubt: Option<DoubtfulWrite>,
    /// How the doubt about a request's changes ended.
    outcome: Option<DoubtOutcome>,
    /// Whether the store reported another owner.
    superseded: bool,
}

impl Ledger {
    /// Opens the meeting whose lease is held: reads its state and records this owner.
    pub async fn open(
        shared: ControllerState,
        held: LeaseHandle,
        meeting: &MeetingId,
        settings: &Settings,
        handlers: &[HandlerInfo],
    ) -> Result<(Self, Meeting), LedgerError> {
        load::open(shared, held, meeting, settings, handlers).await
    }

    /// Persists changes together with everything queued before. After [`LedgerError::InDoubt`] they may still be
    /// persisted: see [`Ledger::take_outcome`].
    pub async fn write(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        if self.doubt.is_some() {
            return Err(earlier_write());
        }
        let row = self.row_after(changes);
        let mut fresh = Backlog::default();
        self.add_changes(&mut fresh, &row, changes)?;
        let mut together = self.backlog.clone();
        together.extend(fresh.clone());
        if together.exceeds_commit() {
            self.flush().await?;
            together = fresh.clone();
        }
        let nonce = changes.iter().find_map(|change| match change {
            Change::NonceSpent(nonce) => Some(self.keys.nonce(nonce)),
            _ => None,
        });
        let nonce = nonce.transpose().map_err(refused)?;
        let queued = Box::new(self.backlog.clone());
        let (kept, entries) = (Box::new(row.clone()), fresh.entries());
        let effect = WriteEffect::Changed { queued, row: kept, entries };
        self.commit(together.ops(&self.log()?), nonce, effect).await?;
        self.backlog = Backlog::default();
        self.row = row;
        Ok(())
    }

    /// Queues changes. They are persisted by the next write or [`Ledger::flush`], in order.
    pub fn enqueue(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        if self.has_doubtful_changes() {
            return Err(earlier_write());
        }
        let row = self.row_after(changes);
        let mut fresh = Backlog::default();
        self.add_changes(&mut fresh, &row, changes)?;
        if self.backlog.len() + fresh.len() > backlog::MAX_QUEUED {
            return Err(LedgerError::Unavailable("the write queue is full".to_owned()));
        }
        tracing::debug!(target: metric::TARGET, lease = %self.held.key(), ops = fresh.len(), "queued");
        self.backlog.extend(fresh);
        self.row = row;
        Ok(())
    }

    /// Queues a heartbeat of this controller.
    pub fn enqueue_heartbeat(&mut self, now: Wall) -> Result<(), LedgerError> {
        let value = Arc::from(now.as_micros().to_string().into_bytes());
        self.backlog.put(self.keys.alive().map_err(refused)?, value);
        Ok(())
    }

    /// Persists everything queued. What fails stays queued.
    pub async fn flush(&mut self) -> Result<(), LedgerError> {
        self.resolve_doubt().await?;
        let log = self.log()?;
        while let Some(batch) = self.backlog.next_batch() {
            let effect = WriteEffect::Flushed(Box::new(batch.clone()));
            self.commit(batch.ops(&log), None, effect).await?;
            self.backlog.remove(&batch);
        }
        Ok(())
    }

    /// Whether changes are queued.
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether a write is expected to succeed: the store answers, and the lease is held.
    pub fn store_available(&self) -> bool {
        let closed = self.shared.breaker.lock().is_closed();
        closed && self.doubt.is_none() && self.held.permit(Duration::ZERO).is_ok()
    }

    /// Whether the outcome of a write is not known.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Removes the records of a meeting that ended. The owner records and the last event number stay.
    pub async fn clear(&mut self) -> Result<(), LedgerError> {
        self.flush().await?;
        load::clear(self).await
    }

    /// Checks whether another controller has written since, after the lease expired on this controller's clock. That is
    /// counted like a fenced write.
    pub async fn check_superseded(&mut self) -> Result<(), LedgerError> {
        if self.superseded {
            return Ok(());
        }
        let owners = commit::OwnerRecords::read(self).await?;
        let checked = owners.check(self.held.generation(), &self.shared.mc_id);
        self.superseded = checked.is_err();
        checked
    }

    fn log(&self) -> Result<Key, LedgerError> {
        self.keys.log().map_err(refused)
    }

    fn row_after(&self, changes: &[Change]) -> MeetingRow {
        let mut row = self.row.clone();
        for change in changes {
            match change {
                Change::MuteEpoch(epoch) => row.mute_epoch = *epoch,
                Change::GuestsEnterMuted => row.guests_enter_muted = true,
                Change::Phase(Phase::Complete) => row.ended = true,
                Change::Handlers(handlers) => row.handlers = handlers.iter().map(Into::into).collect(),
                Change::Settings(settings) => row.set(settings),
                _ => {}
            }
        }
        row
    }

    fn add_changes(&self, to: &mut Backlog, row: &MeetingRow, changes: &[Change]) -> Result<(), LedgerError> {
        let not_encoded = || LedgerError::Refused("row not encodable".to_owned());
        for change in changes {
            match change {
                Change::Seat(seat) => {
                    let key = self.keys.seat(seat.participant).map_err(refused)?;
                    to.put(key, rows::encode_seat(seat).ok_or_else(not_encoded)?);
                }
                Change::SeatRemoved(participant) => to.delete(self.keys.seat(*participant).map_err(refused)?),
                Change::User { user, record } => {
                    let key = self.keys.user(user).map_err(refused)?;
                    match record.is_empty() {
                        true => to.delete(key),
                        false => to.put(key, rows::encode_user(user, record).ok_or_else(not_encoded)?),
                    }
                }
                Change::Event(event) => {
                    to.append(encode_event(event));
                    let ended = || self.keys.ended().map_err(refused);
                    match event {
                        // The meeting takes no participant until a host joins.
                        Event::Ended { .. } => to.put(ended()?, Arc::from([])),
                        Event::Joined(profile) if profile.role == Role::Host => to.delete(ended()?),
                        _ => {}
                    }
                }
                // Part of the meeting's row, or not persisted.
                Change::NonceSpent(_) | Change::MuteEpoch(_) | Change::Phase(_) => {}
                Change::Handlers(_) | Change::Settings(_) | Change::GuestsEnterMuted => {}
                Change::Waiting(_) | Change::WaitingRemoved(_) | Change::Speakers(_) => {}
            }
        }
        if *row != self.row {
            let key = self.keys.state().map_err(refused)?;
            to.put(key, rows::encode(row).ok_or_else(not_encoded)?);
        }
        Ok(())
    }

    /// The operation that spends a nonce; it fails if the nonce is spent.
    fn spend_nonce(key: Key) -> Result<Op, LedgerError> {
        let ttl = Ttl::from_millis(limits::NONCE.as_millis() as u64).map_err(refused)?;
        Ok(Op::PutIfAbsent { key, value: Arc::from(b"spent".as_slice()), ttl: Some(ttl) })
    }
}

/// An event as an entry of the log.
fn encode_event(event: &Event) -> Arc<[u8]> {
    let payload = Some(convert::event_to_wire(event));
    Arc::from(ServerMessage { payload, ..ServerMessage::default() }.encode_to_vec())
}
