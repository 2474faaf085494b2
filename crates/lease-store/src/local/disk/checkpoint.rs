//! The thread that moves full journal segments into the base.

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

/// The way to the checkpoint thread. One segment at a time is on it.
pub(crate) struct Checkpoint {
    full: Option<SyncSender<Segment>>,
    clean: Receiver<()>,
    idle: bool,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoint {
    pub(crate) fn start(base: Base, disk: Arc<dyn Disk>, shared: Arc<Shared>) -> std::io::Result<Self> {
        let (full, segments) = sync_channel::<Segment>(1);
        let (done, clean) = sync_channel(1);
        let work = move || {
            let mut base = Some(base);
            for segment in segments {
                apply(&mut base, &segment, &*disk, &shared);
                if done.send(()).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("tenure-checkpoint".into()).spawn(work)?;
        Ok(Self { full: Some(full), clean, idle: true, thread: Some(thread) })
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

/// Applies a segment, again and again until it works or the store is closed: it is safe in the journal.
fn apply(base: &mut Option<Base>, segment: &Segment, disk: &dyn Disk, shared: &Shared) {
    loop {
        match attempt(base, segment, disk) {
            Ok(()) => {
                if let Some(durable) = &shared.durable {
                    *durable.stuck.lock() = None;
                    durable.wake.notify_one();
                }
                return;
            }
            Err(error) => {
                tracing::error!(%error, "a checkpoint failed; trying again");
                *base = None;
                let mut inner = shared.inner.lock();
                if inner.closed {
                    return;
                }
                if let Some(durable) = &shared.durable {
                    *durable.stuck.lock() = Some(error.to_string());
                    durable.roomier.notify_waiters();
                    durable.closing.wait_for(&mut inner, AGAIN);
                }
            }
        }
    }
}

fn attempt(base: &mut Option<Base>, segment: &Segment, disk: &dyn Disk) -> Result<()> {
    // After a failed write redb wants to be opened anew.
    let open = match base.take() {
        Some(open) => open,
        None => Base::open(disk)?,
    };
    open.apply(segment)?;
    *base = Some(open);
    Ok(())
}
