//! The thread that makes changes durable: it takes all that was decided since the last sync, writes and
//! syncs it once, and then answers everyone. While it syncs, callers go on deciding.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lease::Error;

use super::checkpoint::Checkpoint;
use super::journal::{Journal, Segment, in_words};
use crate::local::engine::{Durable, Inner, Reply, Shared};
use crate::local::out::Out;
use crate::local::table::Now;

/// How old the sign of life may get before the writer renews it itself.
const STAMP: Duration = Duration::from_millis(200);

/// What a batch takes besides its rows, generously.
const FRAME: u64 = 64;

/// How much a turn takes while the checkpoint keeps up. What it writes stays in memory until it is in the base.
const TURN: u64 = 2 << 20;

/// How long the writer sleeps when nothing is decided.
const IDLE: Duration = Duration::from_millis(500);

/// What was decided since the last sync, and who waits for it.
pub(crate) type Batch = (Out, Vec<Reply>);

/// The writer and what it owns.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Journal,
    pub(crate) checkpoint: Checkpoint,
    /// What the checkpoint of this turn will have to move. In one piece, which leaves no holes among what lasts.
    pub(crate) rows: Vec<u8>,
    /// The size of a segment.
    pub(crate) size: u64,
}

impl Writer {
    /// Runs until the store is closed and everything decided is durable.
    pub(crate) fn run(mut self) {
        let shared = self.shared.clone();
        let Some(durable) = &shared.durable else { return };
        self.tell_room(durable);
        while let Some(batch) = self.wait(durable) {
            if !self.put(batch, durable) {
                return;
            }
        }
    }

    /// Makes a batch durable and answers it; false after a failure, when nothing may be written any more.
    pub(crate) fn put(&mut self, (mut out, replies): Batch, durable: &Durable) -> bool {
        let rows = std::mem::take(&mut out.rows);
        if let Err(error) = self.write(&rows) {
            self.fail(replies, &error);
            return false;
        }
        self.rows.extend_from_slice(&rows);
        drop(rows);
        self.answer(out, replies);
        self.rotate_early();
        self.tell_room(durable);
        true
    }

    /// Everything decided since the last time; none when the store is closed and there is nothing left.
    fn wait(&mut self, durable: &Durable) -> Option<Batch> {
        let shared = self.shared.clone();
        let mut inner = shared.inner.lock();
        loop {
            if let Some(batch) = take(&mut inner, durable) {
                return Some(batch);
            }
            if inner.closed {
                return None;
            }
            durable.wake.wait_for(&mut inner, IDLE);
            if self.checkpoint.is_clean() {
                self.tell_room(durable);
            }
        }
    }

    /// Whether a batch can be written without waiting for a checkpoint.
    #[cfg(any(test, feature = "lockstep"))]
    pub(crate) fn may_write(&mut self, (out, _): &Batch) -> bool {
        out.rows.len() as u64 <= self.journal.left() || self.checkpoint.is_clean()
    }

    fn write(&mut self, rows: &[u8]) -> std::io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if rows.len() as u64 > self.journal.left() {
            if !self.checkpoint.wait() {
                return Err(std::io::Error::other("the checkpoint thread is gone"));
            }
            self.rotate();
        }
        if rows.len() as u64 > self.journal.left() {
            return Err(std::io::Error::other("a batch is larger than a journal segment"));
        }
        let start = self.shared.clock.now();
        self.journal.append(rows)?;
        let took = self.shared.clock.now().since(start);
        metrics::histogram!("store_sync_seconds").record(took.as_secs_f64());
        // No grant is answered under a sign of life that is too old.
        let now = self.shared.clock.now();
        self.shared.durable.as_ref().map_or(Ok(()), |durable| durable.sign(now, STAMP))
    }

    /// Watchers first: whoever was answered may rely on finding the change there. Then who was granted something in
    /// line: he is what a release is for, and its caller only wants to know.
    fn answer(&mut self, mut out: Out, replies: Vec<Reply>) {
        let now = Now::read(&*self.shared.clock);
        self.shared.events.publish(std::mem::take(&mut out.events));
        if let Some(durable) = &self.shared.durable {
            durable.reached.store(out.until.get(), Ordering::Release);
        }
        let mut inner = self.shared.inner.lock();
        inner.in_flight = false;
        if let Some(durable) = &self.shared.durable {
            durable.raising.store(false, Ordering::Release);
        }
        self.shared.deliver(&mut inner, out, now);
        drop(inner);
        for reply in replies {
            let _ = reply.send(Ok(()));
        }
    }

    /// After a failed write or sync nobody knows what is on disk: nothing is granted any more.
    fn fail(&mut self, replies: Vec<Reply>, error: &std::io::Error) {
        let why = format!("writing stopped: {}; restart the store once that is repaired", in_words(error));
        tracing::error!(error = %why, "the journal failed; nothing is granted any more");
        metrics::gauge!("store_failed").set(1.0);
        let mut inner = self.shared.inner.lock();
        inner.failed = Some(why.clone());
        inner.in_flight = false;
        let late = std::mem::take(&mut inner.replies);
        inner.table.out.take();
        inner.table.expel_all();
        drop(inner);
        for reply in replies.into_iter().chain(late) {
            let _ = reply.send(Err(Error::unknown(self.shared.capabilities.engine, why.clone())));
        }
    }

    /// Rotates before it must, so that the checkpoint is done by the time the segment is needed again, and has
    /// little to keep in memory.
    fn rotate_early(&mut self) {
        let early = TURN.min(self.size / 2);
        if self.journal.left() < self.size - early && self.checkpoint.is_clean() {
            self.rotate();
        }
    }

    fn rotate(&mut self) {
        let batches = vec![std::mem::take(&mut self.rows)];
        self.checkpoint.hand_over(Segment { turn: self.journal.turn(), batches });
        self.journal.rotate();
    }

    /// Says how large one more batch may be.
    pub(crate) fn tell_room(&mut self, durable: &Durable) {
        let room = match self.checkpoint.is_clean() {
            true => self.size - FRAME,
            false => self.journal.left(),
        };
        durable.room.store(room, Ordering::Release);
        metrics::gauge!("store_journal_room_bytes").set(room as f64);
        durable.roomier.notify_waiters();
    }
}

/// Everything decided since the last time, if there is anything.
pub(crate) fn take(inner: &mut Inner, durable: &Durable) -> Option<Batch> {
    if inner.table.out.is_empty() && inner.replies.is_empty() {
        return None;
    }
    inner.in_flight = true;
    let mut out = inner.table.out.take();
    out.until = inner.table.revision;
    durable.raising.store(out.raised, Ordering::Release);
    // What is on its way takes room from what is decided meanwhile.
    let taken = out.rows.len() as u64 + FRAME;
    let room = durable.room.load(Ordering::Acquire).saturating_sub(taken);
    durable.room.store(room, Ordering::Release);
    Some((out, std::mem::take(&mut inner.replies)))
}
