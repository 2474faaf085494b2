//! What makes changes durable: it takes all that was decided since the last sync, writes and syncs it once, and then
//! answers everyone. While it syncs, callers go on deciding.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lease::Error;

use super::checkpoint::Checkpoint;
use super::journal::{Journal, Segment, in_words};
use crate::local::engine::{Durable, Inner, Reply, Shared};
use crate::local::out::Out;

/// How old the sign of life may get before the writer renews it itself.
const STAMP: Duration = Duration::from_millis(200);

/// What a batch takes besides its rows, generously.
const FRAME: u64 = 64;

/// How much a turn takes while the checkpoint keeps up. What it writes stays in memory until it is in the base.
const TURN: u64 = 2 << 20;

/// A disk whose syncs take longer is one to wait for elsewhere.
const QUICK: Duration = Duration::from_micros(500);

/// How many syncs it takes, about, to change what a disk is taken for.
const MEMORY: u32 = 16;

/// What was decided since the last sync, and who waits for it.
pub(crate) type Batch = (Out, Vec<Reply>);

/// The writer and what it owns.
pub(crate) struct Writer {
    journal: Journal,
    pub(crate) checkpoint: Checkpoint,
    /// What the checkpoint of this turn will have to move. In one piece, which leaves no holes among what lasts.
    rows: Vec<u8>,
    /// The size of a segment.
    size: u64,
    /// How long a sync takes of late. A disk is quick until it shows that it is not.
    pace: Duration,
    /// Whether callers may have it.
    callers: bool,
}

impl Writer {
    pub(crate) const fn new(journal: Journal, checkpoint: Checkpoint, size: u64, callers: bool) -> Self {
        Self { journal, checkpoint, rows: Vec::new(), size, pace: Duration::ZERO, callers }
    }

    /// Makes a batch durable and answers it; false after a failure, when nothing may be written any more.
    pub(crate) fn put(&mut self, (mut out, replies): Batch, shared: &Shared, durable: &Durable) -> bool {
        let rows = std::mem::take(&mut out.rows);
        if let Err(error) = self.write(&rows, shared, durable) {
            fail(shared, replies, &error);
            return false;
        }
        self.rows.extend_from_slice(&rows);
        drop(rows);
        answer(shared, durable, out, replies);
        self.rotate_early();
        self.tell_room(durable);
        true
    }

    /// Whether a caller may write a batch of `rows` bytes: it will take no longer than a sync, and that not long.
    pub(crate) fn is_for_callers(&self, rows: usize) -> bool {
        self.callers && self.pace < QUICK && rows as u64 <= self.journal.left()
    }

    /// Whether a batch can be written without waiting for a checkpoint.
    #[cfg(any(test, feature = "lockstep"))]
    pub(crate) fn may_write(&mut self, (out, _): &Batch) -> bool {
        out.rows.len() as u64 <= self.journal.left() || self.checkpoint.is_clean()
    }

    fn write(&mut self, rows: &[u8], shared: &Shared, durable: &Durable) -> std::io::Result<()> {
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
        let start = shared.clock.now();
        self.journal.append(rows)?;
        let took = shared.clock.now().since(start);
        self.pace = self.pace - self.pace / MEMORY + took / MEMORY;
        metrics::histogram!("store_sync_seconds").record(took.as_secs_f64());
        // No grant is answered under a sign of life that is too old.
        durable.sign(shared.clock.now(), STAMP)
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

    /// Says so if there is more room since a checkpoint is done.
    pub(crate) fn look_for_room(&mut self, durable: &Durable) {
        if self.checkpoint.is_clean() {
            self.tell_room(durable);
        }
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

/// Watchers first: whoever was answered may rely on finding the change there. Then who was granted something in line:
/// he is what a release is for, and its caller only wants to know.
fn answer(shared: &Shared, durable: &Durable, mut out: Out, replies: Vec<Reply>) {
    shared.events.publish(std::mem::take(&mut out.events));
    durable.reached.store(out.until.get(), Ordering::Release);
    let (mut inner, now) = shared.enter();
    inner.in_flight = false;
    durable.raising.store(false, Ordering::Release);
    shared.deliver(&mut inner, out, now);
    drop(inner);
    for reply in replies {
        let _ = reply.send(Ok(()));
    }
}

/// After a failed write or sync nobody knows what is on disk: nothing is granted any more.
pub(crate) fn fail(shared: &Shared, replies: Vec<Reply>, error: &std::io::Error) {
    let why = format!("writing stopped: {}; restart the store once that is repaired", in_words(error));
    tracing::error!(error = %why, "the journal failed; nothing is granted any more");
    metrics::gauge!("store_failed").set(1.0);
    let mut inner = shared.inner.lock();
    inner.failed = Some(why.clone());
    inner.in_flight = false;
    let late = std::mem::take(&mut inner.replies);
    inner.table.out.take();
    inner.table.expel_all();
    drop(inner);
    for reply in replies.into_iter().chain(late) {
        let _ = reply.send(Err(Error::unknown(shared.capabilities.engine, why.clone())));
    }
}

/// Everything decided since the last time, if there is anything.
pub(crate) fn take(inner: &mut Inner, durable: &Durable) -> Option<Batch> {
    if !inner.has_work() {
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
