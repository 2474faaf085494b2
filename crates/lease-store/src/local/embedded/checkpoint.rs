//! The checkpoint thread: moves full journal segments into the base.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Result;

use super::base::{Base, Unsynced};
use super::journal::Segment;
use super::storage::Storage;
use super::writer::{FailOnPanic, fail};
use crate::local::durable::DurableState;
use crate::local::engine::Engine;
use crate::sync::mpsc::{Receiver, SyncSender, sync_channel};
use crate::sync::thread::{self, JoinHandle};

/// The delay before a failed checkpoint is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The writer's handle to the checkpoint worker, which has one segment at a time.
pub(crate) struct Checkpoint {
    full: Option<SyncSender<Segment>>,
    clean: Receiver<()>,
    idle: bool,
    thread: Option<JoinHandle<()>>,
}

/// Applies segments to the base.
pub(crate) struct CheckpointWorker {
    base: Option<Base>,
    storage: Arc<dyn Storage>,
    engine: Arc<Engine>,
    segments: Receiver<Segment>,
    done: SyncSender<()>,
    /// A sync of the base failed: it must not be used again before a reboot.
    unsynced: Unsynced,
}

impl Checkpoint {
    /// A handle and its worker, which is not running yet.
    pub(crate) fn new(
        base: Base,
        unsynced: Unsynced,
        storage: Arc<dyn Storage>,
        engine: Arc<Engine>,
    ) -> (Self, CheckpointWorker) {
        let (full, segments) = sync_channel::<Segment>(1);
        let (done, clean) = sync_channel(1);
        let worker = CheckpointWorker { base: Some(base), storage, engine, segments, done, unsynced };
        (Self { full: Some(full), clean, idle: true, thread: None }, worker)
    }

    /// Runs the worker on a thread.
    pub(crate) fn start(&mut self, worker: CheckpointWorker) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("tenure-checkpoint".into()).spawn(move || worker.run())?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Whether the other segment may be overwritten.
    pub(crate) fn is_clean(&mut self) -> bool {
        self.idle = self.idle || self.clean.try_recv().is_ok();
        self.idle
    }

    /// Sends a full segment to the worker. The other one must be clean.
    pub(crate) fn send(&mut self, segment: Segment) {
        if let Some(full) = &self.full
            && full.send(segment).is_ok()
        {
            self.idle = false;
        }
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

impl CheckpointWorker {
    fn run(mut self) {
        let engine = self.engine.clone();
        let _on_panic = FailOnPanic(&engine, "checkpoint");
        while let Ok(segment) = self.segments.recv() {
            if !self.apply(&segment) || self.done.send(()).is_err() {
                break;
            }
            // Under the lock, so that the writer cannot miss it.
            let _inner = self.engine.state.lock();
            if let Some(durable) = &self.engine.durable {
                durable.wake.notify_one();
            }
        }
        self.close();
    }

    /// Closes the base, which syncs once more.
    fn close(&mut self) {
        let failed_before = self.unsynced.is_set();
        self.base = None;
        if self.unsynced.is_set() && !failed_before {
            self.stop(
                "base.redb could not be synced when it was closed; reboot the machine before the next start",
            );
        }
    }

    /// Applies a segment, retrying until it succeeds or the store is closed: the journal still has it. After a failed sync
    /// there is no retry.
    fn apply(&mut self, segment: &Segment) -> bool {
        while !self.attempt(segment) {
            let mut state = self.engine.state.lock();
            if state.closed || self.unsynced.is_set() {
                return false;
            }
            if let Some(durable) = &self.engine.durable {
                durable.closing.wait_for(&mut state, RETRY_DELAY);
            }
        }
        true
    }

    /// Tries once, and informs callers that wait for room.
    fn attempt(&mut self, segment: &Segment) -> bool {
        let tried = self.apply_once(segment);
        let Err(error) = &tried else {
            self.publish_error(None);
            return true;
        };
        self.base = None;
        match self.unsynced.is_set() {
            true => self.stop(&error.to_string()),
            false => {
                tracing::error!(%error, "checkpoint failed; retrying");
                self.publish_error(Some(error.to_string()));
            }
        }
        false
    }

    fn publish_error(&self, error: Option<String>) {
        if let Some(durable) = &self.engine.durable {
            let failed = error.is_some();
            *durable.checkpoint_error.lock() = error;
            if failed {
                durable.room_freed.notify_waiters();
            }
        }
    }

    /// Stops the store after a failed sync of the base: the system may show rows that are not on the disk, to this process
    /// and to every later one until a reboot. The mark keeps those from opening the base.
    fn stop(&self, why: &str) {
        let why = match self.engine.durable.as_ref().map(DurableState::mark_base_unsynced) {
            Some(Err(mark)) => format!("{why}; this could not be recorded for the next start: {mark}"),
            _ => why.to_owned(),
        };
        fail(&self.engine, Vec::new(), why);
    }

    fn apply_once(&mut self, segment: &Segment) -> Result<()> {
        // After a failed write redb must be opened again.
        let open = match self.base.take() {
            Some(open) => open,
            None => Base::open(&*self.storage, &self.unsynced)?,
        };
        let applied = open.apply(segment);
        self.base = Some(open);
        applied
    }

    /// Tries the segment that was sent, if any; it stays in `kept` until it succeeds.
    #[cfg(any(test, feature = "lockstep"))]
    pub(crate) fn step(&mut self, kept: &mut Option<Segment>) -> bool {
        if kept.is_none() {
            *kept = self.segments.try_recv().ok();
        }
        let Some(segment) = kept.as_ref().filter(|_| !self.unsynced.is_set()) else { return false };
        if self.attempt(segment) {
            *kept = None;
            // The channel has room: the writer received the last completion before it sent this segment.
            let _ = self.done.try_send(());
        }
        true
    }
}
