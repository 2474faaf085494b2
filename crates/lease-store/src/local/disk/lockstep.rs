//! The embedded engine with its threads taken away: whoever has it decides which of them moves next, so that a
//! run depends on nothing but those decisions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use lease::Result;
use tokio::task::JoinSet;

use super::checkpoint::Worker;
use super::journal::Segment;
use super::medium::Disk;
use super::open::{Options, prepare};
use super::writer::{self, Batch, Writer};
use crate::Local;
use crate::local::timer;

/// A store whose writer, checkpoint, timer and sign of life move only when told to.
pub struct Lockstep {
    store: Arc<Local>,
    writer: Writer,
    worker: Worker,
    batch: Option<Batch>,
    full: Option<Segment>,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    failed: bool,
}

impl Lockstep {
    /// Opens the store on a disk. Segments may be smaller than a real store's; a wipe then finds no room.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Self> {
        let (mut writer, worker, shared) = prepare(disk, options)?;
        if let Some(durable) = &shared.durable {
            writer.tell_room(durable);
        }
        let timer = Box::pin(timer::run(Arc::downgrade(&shared)));
        let store = Arc::new(Local { shared, tasks: JoinSet::new(), writer: None });
        Ok(Self { store, writer, worker, batch: None, full: None, timer, failed: false })
    }

    /// The store. Futures of its verbs are driven by whoever polls them.
    pub const fn store(&self) -> &Arc<Local> {
        &self.store
    }

    /// The writer takes what was decided since the last time; false when that is nothing.
    pub fn take(&mut self) -> bool {
        let shared = &self.store.shared;
        if let Some(durable) = &shared.durable
            && !self.failed
            && self.batch.is_none()
        {
            self.batch = writer::take(&mut shared.inner.lock(), durable);
            if self.batch.is_none() && self.writer.checkpoint.is_clean() {
                self.writer.tell_room(durable);
            }
        }
        self.batch.is_some()
    }

    /// The writer writes, syncs and answers what it took; false when it has nothing or waits for a checkpoint.
    pub fn put(&mut self) -> bool {
        let shared = self.store.shared.clone();
        let Some(durable) = &shared.durable else { return false };
        let Some(batch) = self.batch.take_if(|batch| self.writer.may_write(batch)) else { return false };
        self.failed = !self.writer.put(batch, &shared, durable);
        true
    }

    /// Tries once to move a full segment into the base; false when none is full.
    pub fn checkpoint(&mut self) -> bool {
        self.worker.step(&mut self.full)
    }

    /// The timer looks at the clock once.
    pub fn expire(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        // It ends only with the store.
        let _ = self.timer.as_mut().poll(&mut context);
    }

    /// Writes the sign of life, as it is done four times a second.
    pub fn sign(&mut self) {
        let shared = &self.store.shared;
        if let Some(durable) = &shared.durable
            && let Err(error) = durable.sign(shared.clock.now(), Duration::ZERO)
        {
            tracing::error!(%error, "the sign of life could not be written");
        }
    }

    /// Whether the writer has stopped for good.
    pub const fn failed(&self) -> bool {
        self.failed
    }
}
