//! The checkpoint thread: moves full journal segments into the base.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Result;

use super::base::Base;
use super::journal::Segment;
use super::storage::Storage;
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
    failed_sync: bool,
}

impl Checkpoint {
    /// A handle and its worker, which is not running yet.
    pub(crate) fn new(
        base: Base,
        storage: Arc<dyn Storage>,
        engine: Arc<Engine>,
    ) -> (Self, CheckpointWorker) {
        let (full, segments) = sync_channel::<Segment>(1);
        let (done, clean) = sync_channel(1);
        let worker =
            CheckpointWorker { base: Some(base), storage, engine, segments, done, failed_sync: false };
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

    /// Waits until the other segment may be overwritten; false when the thread ended.
    pub(crate) fn wait(&mut self) -> bool {
        self.idle = self.idle || self.clean.recv().is_ok();
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
        while let Ok(segment) = self.segments.recv() {
            if !self.apply(&segment) || self.done.send(()).is_err() {
                return;
            }
            // Under the lock, so that the writer cannot miss it.
            let _inner = self.engine.state.lock();
            if let Some(durable) = &self.engine.durable {
                durable.wake.notify_one();
            }
        }
    }

    /// Applies a segment, retrying until it succeeds or the store is closed: the journal still has it. After a failed sync
    /// there is no retry: the segments stay, and changes are accepted until they are full.
    fn apply(&mut self, segment: &Segment) -> bool {
        while !self.attempt(segment) {
            let mut state = self.engine.state.lock();
            if state.closed || self.failed_sync {
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
        if let Err(error) = &tried {
            match self.failed_sync {
                true => tracing::error!(%error, "cannot sync the base; reboot the machine"),
                false => tracing::error!(%error, "checkpoint failed; retrying"),
            }
            self.base = None;
        }
        if let Some(durable) = &self.engine.durable {
            *durable.checkpoint_error.lock() = tried.as_ref().err().map(ToString::to_string);
            if tried.is_err() {
                durable.room_freed.notify_waiters();
            }
        }
        tried.is_ok()
    }

    fn apply_once(&mut self, segment: &Segment) -> Result<()> {
        // After a failed write redb must be opened again.
        let open = match self.base.take() {
            Some(open) => open,
            None => Base::open(&*self.storage)?,
        };
        let applied = open.apply(segment);
        self.failed_sync = open.unsynced();
        self.base = Some(open);
        applied
    }

    /// Tries the segment that was sent, if any; it stays in `kept` until it succeeds.
    #[cfg(any(test, feature = "lockstep"))]
    pub(crate) fn step(&mut self, kept: &mut Option<Segment>) -> bool {
        if kept.is_none() {
            *kept = self.segments.try_recv().ok();
        }
        let Some(segment) = kept.as_ref().filter(|_| !self.failed_sync) else { return false };
        if self.attempt(segment) {
            *kept = None;
            // The channel has room: the writer received the last completion before it sent this segment.
            let _ = self.done.try_send(());
        }
        true
    }
}
