//! What a meeting is written down in. Every write carries the fence of the meeting's lease and, in the same step, the generation and the
//! controller's name that operators see; what happened is appended in that step as well.
//!
//! A write either landed or did not. One whose answer got lost is pursued until it is known, for as long as the lease is held and 15 s at most:
//! nobody is told yes or no before, and a meeting about which nobody knows is given up.

mod backlog;
mod commit;
mod load;

use std::sync::Arc;

use lease::{Clock, Key, Op, Revision, Store, Ttl, Wall};
use lease_keeper::Held;
use meet_wire::MeetingId;
use meet_wire::signaling::ServerMessage;
use parking_lot::Mutex;
use prost::Message as _;

use crate::ledger::backlog::Backlog;
use crate::meeting::{Change, Handler, Happening, Meeting, Phase, Settings, limits};
use crate::rows::MeetingRow;
use crate::{Breaker, Keys, Pulse, convert, metric, rows};

/// Why nothing was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedgerError {
    /// A greater generation owns the meeting. This controller does not.
    #[error("FENCED_OUT: another controller owns the meeting")]
    FencedOut,
    /// The same generation was written by another controller. This one gives up.
    #[error("SPLIT_BRAIN: {0} wrote with the same generation")]
    SplitBrain(String),
    /// The lease is lost, or cannot be proven to be held. What was under way may have happened.
    #[error("the lease of the meeting is lost")]
    Lost,
    /// The store is away. Nothing happened.
    #[error("the store is away: {0}")]
    Unavailable(String),
    /// Somebody spent the nonce before. Nothing happened.
    #[error("the nonce is spent")]
    NonceSpent,
    /// What should be written cannot be. Nothing happened.
    #[error("cannot be written: {0}")]
    Refused(String),
}

impl LedgerError {
    /// Whether the meeting is over for this controller.
    pub const fn ends_ownership(&self) -> bool {
        matches!(self, Self::FencedOut | Self::SplitBrain(_) | Self::Lost)
    }
}

fn refused(error: impl std::fmt::Display) -> LedgerError {
    LedgerError::Refused(error.to_string())
}

/// What all meetings of a controller share.
#[derive(Clone)]
pub struct Desk {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its breaker.
    pub breaker: Arc<Mutex<Breaker>>,
    /// The controller's id.
    pub mc_id: String,
    /// How long its meetings take for what they do.
    pub pulse: Arc<Pulse>,
}

/// The ledger of one meeting.
pub struct Ledger {
    desk: Desk,
    clock: Arc<dyn Clock>,
    held: Held,
    keys: Keys,
    /// Of the two records that operators see; none while there is no such record.
    generation: Option<Revision>,
    controller: Option<Revision>,
    row: MeetingRow,
    backlog: Backlog,
    /// Whether the store has said that somebody else owns the meeting.
    outdone: bool,
}

impl Ledger {
    /// Takes the meeting whose lease is held: reads what the last owner left and writes down that this one is here.
    pub async fn open(
        desk: Desk,
        held: Held,
        meeting: &MeetingId,
        settings: &Settings,
        handlers: &[Handler],
    ) -> Result<(Self, Meeting), LedgerError> {
        load::open(desk, held, meeting, settings, handlers).await
    }

    /// Writes changes down, with all that was noted before, and waits for it.
    pub async fn write(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        let row = self.row_after(changes);
        let mut fresh = Backlog::default();
        self.add(&mut fresh, &row, changes)?;
        if self.backlog.len() + fresh.len() > backlog::STEP {
            self.flush().await?;
        }
        let mut together = self.backlog.clone();
        together.extend(fresh);
        let nonce = changes.iter().find_map(|change| match change {
            Change::NonceSpent(nonce) => Some(self.keys.nonce(nonce)),
            _ => None,
        });
        let nonce = nonce.transpose().map_err(refused)?;
        self.commit(&together.ops(&self.log()?), nonce).await?;
        self.backlog = Backlog::default();
        self.row = row;
        Ok(())
    }

    /// Notes changes that nobody waits for. They are written with the next write or by [`Ledger::flush`], in their order.
    pub fn note(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        let row = self.row_after(changes);
        let mut fresh = Backlog::default();
        self.add(&mut fresh, &row, changes)?;
        if self.backlog.len() + fresh.len() > backlog::MOST {
            return Err(LedgerError::Unavailable("too much is waiting to be written".to_owned()));
        }
        tracing::debug!(target: metric::TARGET, lease = %self.held.key(), ops = fresh.len(), "noted, to be written");
        self.backlog.extend(fresh);
        self.row = row;
        Ok(())
    }

    /// Notes that this controller is alive.
    pub fn note_alive(&mut self, now: Wall) -> Result<(), LedgerError> {
        let value = Arc::from(now.as_micros().to_string().into_bytes());
        self.backlog.put(self.keys.alive().map_err(refused)?, value);
        Ok(())
    }

    /// Writes what was noted. What could not be written stays noted.
    pub async fn flush(&mut self) -> Result<(), LedgerError> {
        let log = self.log()?;
        while let Some(step) = self.backlog.step() {
            self.commit(&step.ops(&log), None).await?;
            self.backlog.done(&step);
        }
        Ok(())
    }

    /// Whether something waits to be written.
    pub fn is_behind(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether the store is taken to be there.
    pub fn store_is_there(&self) -> bool {
        self.desk.breaker.lock().is_closed()
    }

    /// Takes away what a meeting that is over left. Generation, controller and the number of the last event stay.
    pub async fn clear(&mut self) -> Result<(), LedgerError> {
        self.flush().await?;
        load::clear(self).await
    }

    /// After the lease has ended by this controller's own clock, which lets it write nothing: whether somebody else has signed since. That is counted
    /// like a write that was refused.
    pub async fn inquire(&mut self) -> Result<(), LedgerError> {
        if self.outdone {
            return Ok(());
        }
        let signs = commit::Signs::read(self).await?;
        let admitted = signs.admit(self.held.generation(), &self.desk.mc_id);
        self.outdone = admitted.is_err();
        admitted
    }

    fn log(&self) -> Result<Key, LedgerError> {
        self.keys.log().map_err(refused)
    }

    fn row_after(&self, changes: &[Change]) -> MeetingRow {
        let mut row = self.row.clone();
        for change in changes {
            match change {
                Change::MuteEpoch(epoch) => row.mute_epoch = *epoch,
                Change::Phase(Phase::Complete) => row.ended = true,
                Change::Handlers(handlers) => row.handlers = handlers.iter().map(Into::into).collect(),
                Change::Settings(settings) => row.set(settings),
                _ => {}
            }
        }
        row
    }

    fn add(&self, to: &mut Backlog, row: &MeetingRow, changes: &[Change]) -> Result<(), LedgerError> {
        let lost = || LedgerError::Refused("a row cannot be encoded".to_owned());
        for change in changes {
            match change {
                Change::Seat(seat) => {
                    let key = self.keys.seat(seat.participant).map_err(refused)?;
                    to.put(key, rows::seat(seat).ok_or_else(lost)?);
                }
                Change::SeatGone(participant) => to.delete(self.keys.seat(*participant).map_err(refused)?),
                Change::Happened(happening) => to.append(entry(happening)),
                Change::NonceSpent(_) | Change::MuteEpoch(_) | Change::Phase(_) => {}
                Change::Handlers(_) | Change::Settings(_) => {}
            }
        }
        if *row != self.row {
            let key = self.keys.state().map_err(refused)?;
            to.put(key, rows::encode(row).ok_or_else(lost)?);
        }
        Ok(())
    }

    /// The nonce's record: written once, and by one.
    fn spend(key: Key) -> Result<Op, LedgerError> {
        let ttl = Ttl::from_millis(limits::NONCE.as_millis() as u64).map_err(refused)?;
        Ok(Op::PutIfAbsent { key, value: Arc::from(b"spent".as_slice()), ttl: Some(ttl) })
    }
}

/// What happened as an entry of the log.
fn entry(happening: &Happening) -> Arc<[u8]> {
    let payload = Some(convert::happened(happening));
    Arc::from(ServerMessage { payload, ..ServerMessage::default() }.encode_to_vec())
}
