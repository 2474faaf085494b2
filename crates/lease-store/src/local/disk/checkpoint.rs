//! What moves full journal segments into the base: a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use lease::Result;

use super::base::Base;
use super::journal::Segment;
use super::medium::Disk;
use crate::local::engine::Shared;
use crate::sync::mpsc::{Receiver, SyncSender, sync_channel};
use crate::sync::thread::{self, JoinHandle};

/// How long to wait before a failed checkpoint is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The way to the one who does it. One segment at a time is on it.
pub(crate) struct Checkpoint {
    full: Option<SyncSender<Segment>>,
    clean: Receiver<()>,
    idle: bool,
    thread: Option<JoinHandle<()>>,
}

/// The one who does it.
pub(crate) struct Worker {
    base: Option<Base>,
    disk: Arc<dyn Disk>,
    shared: Arc<Shared>,
    segments: Receiver<Segment>,
    done: SyncSender<()>,
    /// The base must not be touched again before the machine has read it anew.
    spoilt: bool,
}

impl Checkpoint {
    /// A way and the one at its end, who does nothing by himself.
    pub(crate) fn new(base: Base, disk: Arc<dyn Disk>, shared: Arc<Shared>) -> (Self, Worker) {
        let (full, segments) = sync_channel::<Segment>(1);
        let (done, clean) = sync_channel(1);
        let worker = Worker { base: Some(base), disk, shared, segments, done, spoilt: false };
        (Self { full: Some(full), clean, idle: true, thread: None }, worker)
    }

    /// Gives the worker a thread.
    pub(crate) fn start(&mut self, worker: Worker) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("tenure-checkpoint".into()).spawn(move || worker.run())?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Whether the other segment may be overwritten.
    pub(crate) fn is_clean(&mut self) -> bool {
        self.idle = self.idle || self.clean.try_recv().is_ok();
        self.idle
    }

    /// Waits until the other segment may be overwritten; false when the thread is gone.
    pub(crate) fn wait(&mut self) -> bool {
        self.idle = self.idle || self.clean.recv().is_ok();
        self.idle
    }

    /// Hands a full segment over. The other one must be clean.
    pub(crate) fn hand_over(&mut self, segment: Segment) {
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
            tracing::error!("the checkpoint thread had panicked");
        }
    }
}

impl Worker {
    fn run(mut self) {
        while let Ok(segment) = self.segments.recv() {
            if !self.apply(&segment) || self.done.send(()).is_err() {
                return;
            }
            // Under the lock, so that the writer does not just go to sleep.
            let _inner = self.shared.inner.lock();
            if let Some(durable) = &self.shared.durable {
                durable.wake.notify_one();
            }
        }
    }

    /// Applies a segment, again and again until it works or the store is closed: it is safe in the journal. After
    /// a failed sync never again: then the segments stay as they are, and there is room until they are full.
    fn apply(&mut self, segment: &Segment) -> bool {
        while !self.attempt(segment) {
            let mut inner = self.shared.inner.lock();
            if inner.closed || self.spoilt {
                return false;
            }
            if let Some(durable) = &self.shared.durable {
                durable.closing.wait_for(&mut inner, AGAIN);
            }
        }
        true
    }

    /// Tries once, and tells those who wait for room how it went.
    fn attempt(&mut self, segment: &Segment) -> bool {
        let tried = self.apply_once(segment);
        if let Err(error) = &tried {
            match self.spoilt {
                true => tracing::error!(%error, "the base could not be synced; restart the machine"),
                false => tracing::error!(%error, "a checkpoint failed; trying again"),
            }
            self.base = None;
        }
        if let Some(durable) = &self.shared.durable {
            *durable.stuck.lock() = tried.as_ref().err().map(ToString::to_string);
            if tried.is_err() {
                durable.roomier.notify_waiters();
            }
        }
        tried.is_ok()
    }

    fn apply_once(&mut self, segment: &Segment) -> Result<()> {
        // After a failed write redb wants to be opened anew.
        let open = match self.base.take() {
            Some(open) => open,
            None => Base::open(&*self.disk)?,
        };
        let applied = open.apply(segment);
        self.spoilt = open.unsynced();
        self.base = Some(open);
        applied
    }

    /// Tries the segment that is on the way, if there is one; it stays in `kept` until it is done.
    #[cfg(any(test, feature = "lockstep"))]
    pub(crate) fn step(&mut self, kept: &mut Option<Segment>) -> bool {
        if kept.is_none() {
            *kept = self.segments.try_recv().ok();
        }
        let Some(segment) = kept.as_ref().filter(|_| !self.spoilt) else { return false };
        if self.attempt(segment) {
            *kept = None;
            // The way takes one word, and the last one was heard before this segment was sent.
            let _ = self.done.try_send(());
        }
        true
    }
}
