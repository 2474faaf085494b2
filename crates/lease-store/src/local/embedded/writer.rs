//! The writer thread: takes all effects since the last sync, writes and syncs them once, and then answers their callers.
//! While it syncs, callers go on deciding (ADR 11).

use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_lease::Error;
use tenure_lease::breaks::{Break, broken};

use super::checkpoint::Checkpoint;
use super::journal::{Journal, Segment, describe_io_error};
use crate::local::durable::DurableState;
use crate::local::effects::Effects;
use crate::local::engine::{Engine, EngineState, SyncReply};

/// The age of the heartbeat at which the writer writes one itself.
const HEARTBEAT_AGE: Duration = Duration::from_millis(200);

/// An upper bound for the overhead of a frame.
pub(crate) const FRAME_OVERHEAD: u64 = 64;

/// The size of an epoch while checkpoints keep up. Its rows stay in memory until they are in the base.
const EPOCH_BYTES: u64 = 2 << 20;

/// How long the thread sleeps when nothing is decided.
const IDLE: Duration = Duration::from_millis(500);

/// Effects since the last sync, and the callers that wait for them.
pub(crate) type Batch = (Effects, Vec<SyncReply>);

/// Writes batches to the journal.
pub(crate) struct Writer {
    journal: Journal,
    pub(crate) checkpoint: Checkpoint,
    /// The rows of this epoch, for its checkpoint. One allocation, against fragmentation.
    rows: Vec<u8>,
    /// The size of a segment.
    size: u64,
}

impl Writer {
    pub(crate) const fn new(journal: Journal, checkpoint: Checkpoint, size: u64) -> Self {
        Self { journal, checkpoint, rows: Vec::new(), size }
    }

    /// The writer thread: writes until the store is closed and everything decided is durable, or until a write fails.
    pub(crate) fn run(mut self, engine: &Engine) {
        let Some(durable) = &engine.durable else { return };
        let _on_panic = FailOnPanic(engine, "writer");
        self.publish_room(durable);
        let mut state = engine.state.lock();
        while state.failed.is_none() {
            if let Some(batch) = take_batch(&mut state, durable) {
                drop(state);
                self.put(batch, engine, durable);
                state = engine.state.lock();
            } else if state.closed {
                break;
            } else {
                self.refresh_room(durable);
                durable.wake.wait_for(&mut state, IDLE);
            }
        }
    }

    /// Makes a batch durable and answers its callers; false after a failure, which stops the writer.
    pub(crate) fn put(
        &mut self,
        (mut effects, replies): Batch,
        engine: &Engine,
        durable: &DurableState,
    ) -> bool {
        let rows = std::mem::take(&mut effects.rows);
        if let Err(error) = self.write(&rows, engine, durable)
            && !broken(Break::IgnoresFailedSync)
        {
            let why = describe_io_error(&error);
            fail(engine, replies, format!("writing stopped: {why}; restart the store after the repair"));
            return false;
        }
        self.rows.extend_from_slice(&rows);
        drop(rows);
        complete_batch(engine, durable, effects, replies);
        self.publish_room(durable);
        true
    }

    fn write(&mut self, rows: &[u8], engine: &Engine, durable: &DurableState) -> std::io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let full = self.rotate(rows.len() as u64);
        if rows.len() as u64 > self.journal.left() {
            // Every step checks the room that is published, so that this cannot happen.
            return Err(std::io::Error::other(
                "internal error: a batch is larger than the room in the journal",
            ));
        }
        let start = engine.clock.now();
        self.journal.append(rows)?;
        // Not before frame 0 of the next epoch is durable.
        if let Some(full) = full {
            self.checkpoint.send(full);
        }
        let took = engine.clock.now().since(start);
        metrics::histogram!("tenure_store_sync_seconds").record(took.as_secs_f64());
        // No grant is answered under an outdated heartbeat.
        durable.write_heartbeat(engine.clock.now(), HEARTBEAT_AGE)
    }

    /// Switches to the other segment if it is clean and a batch of `bytes` needs it, or early, so that the checkpoint
    /// completes before the segment is needed again and holds few rows in memory. Returns the epoch that ended.
    fn rotate(&mut self, bytes: u64) -> Option<Segment> {
        let early = EPOCH_BYTES.min(self.size / 2);
        let due = bytes > self.journal.left() || self.journal.left() < self.size - early;
        if !due || !self.checkpoint.is_clean() {
            return None;
        }
        let batches = vec![std::mem::take(&mut self.rows)];
        let full = Segment { epoch: self.journal.epoch(), batches };
        self.journal.rotate();
        Some(full)
    }

    /// Publishes more room after a checkpoint completed.
    pub(crate) fn refresh_room(&mut self, durable: &DurableState) {
        if self.checkpoint.is_clean() {
            self.publish_room(durable);
        }
    }

    /// Publishes the size of the largest batch that fits.
    pub(crate) fn publish_room(&mut self, durable: &DurableState) {
        let room = match self.checkpoint.is_clean() {
            true => self.size - FRAME_OVERHEAD,
            false => self.journal.left(),
        };
        durable.room.store(room, Ordering::Release);
        metrics::gauge!("tenure_store_journal_room_bytes").set(room as f64);
        durable.room_freed.notify_waiters();
    }
}

/// Stops granting when a thread of the store panics, so that no caller waits for it. It has the name of the thread.
pub(crate) struct FailOnPanic<'a>(pub(crate) &'a Engine, pub(crate) &'static str);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            fail(self.0, Vec::new(), format!("writing stopped: the {} panicked; restart the store", self.1));
        }
    }
}

/// Notifies watchers, then waiters, then callers: a caller that was answered finds its change in a watch, and a successor
/// starts before the releasing caller continues.
fn complete_batch(engine: &Engine, durable: &DurableState, mut effects: Effects, replies: Vec<SyncReply>) {
    engine.events.publish(std::mem::take(&mut effects.events));
    durable.synced_revision.store(effects.until.get(), Ordering::Release);
    let (mut state, now) = engine.enter();
    state.in_flight = false;
    durable.raising_ttl.store(false, Ordering::Release);
    engine.deliver(&mut state, effects, now);
    drop(state);
    for reply in replies {
        let _ = reply.send(Ok(()));
    }
}

/// Stops granting: after a failed write or sync the contents of the disk are unknown.
pub(crate) fn fail(engine: &Engine, replies: Vec<SyncReply>, why: String) {
    tracing::error!(error = %why, "the store failed; granting stopped");
    metrics::gauge!("tenure_store_failed").set(1.0);
    let mut state = engine.state.lock();
    state.failed = Some(why.clone());
    state.in_flight = false;
    let late = std::mem::take(&mut state.replies);
    state.table.effects.take();
    state.table.clear_queues();
    drop(state);
    if let Some(durable) = &engine.durable {
        durable.room_freed.notify_waiters();
        durable.wake.notify_one();
    }
    for reply in replies.into_iter().chain(late) {
        let _ = reply.send(Err(Error::unknown(engine.capabilities.engine, why.clone())));
    }
}

/// Takes the pending batch, if there is one.
pub(crate) fn take_batch(state: &mut EngineState, durable: &DurableState) -> Option<Batch> {
    if !state.has_work() {
        return None;
    }
    state.in_flight = true;
    let mut effects = state.table.effects.take();
    effects.until = state.table.revision;
    durable.raising_ttl.store(effects.raised, Ordering::Release);
    // The batch takes room from later ones until it is written.
    let taken = effects.rows.len() as u64 + FRAME_OVERHEAD;
    let room = durable.room.load(Ordering::Acquire).saturating_sub(taken);
    durable.room.store(room, Ordering::Release);
    Some((effects, std::mem::take(&mut state.replies)))
}
