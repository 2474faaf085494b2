//! The embedded engine without threads: its owner runs each of them step by step, so that a run is deterministic.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tenure_lease::Result;
use tokio::task::JoinSet;

use super::checkpoint::CheckpointWorker;
use super::journal::Segment;
use super::open::{Options, prepare};
use super::storage::Storage;
use super::writer::{self, Batch, Writer};
use crate::Local;
use crate::local::timer;

/// A store whose writer, checkpoint, timer and heartbeat are driven by calls.
pub struct Lockstep {
    store: Arc<Local>,
    writer: Writer,
    worker: CheckpointWorker,
    batch: Option<Batch>,
    full: Option<Segment>,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    failed: bool,
}

impl Lockstep {
    /// Opens the store. Segments may be smaller than in production; a wipe then has no room.
    pub fn open(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let (mut writer, worker, engine) = prepare(storage, options)?;
        if let Some(durable) = &engine.durable {
            writer.publish_room(durable);
        }
        let timer = Box::pin(timer::run(Arc::downgrade(&engine)));
        let store = Arc::new(Local { engine, tasks: JoinSet::new(), writer: None, lock: None });
        Ok(Self { store, writer, worker, batch: None, full: None, timer, failed: false })
    }

    /// The store. The caller polls the futures of its verbs.
    pub const fn store(&self) -> &Arc<Local> {
        &self.store
    }

    /// The writer takes the pending batch; false when there is none.
    pub fn take(&mut self) -> bool {
        let engine = &self.store.engine;
        if let Some(durable) = &engine.durable
            && !self.failed()
            && self.batch.is_none()
        {
            self.batch = writer::take_batch(&mut engine.state.lock(), durable);
            if self.batch.is_none() && self.writer.checkpoint.is_clean() {
                self.writer.publish_room(durable);
            }
        }
        self.batch.is_some()
    }

    /// The writer writes, syncs and answers its batch; false when it has none.
    pub fn put(&mut self) -> bool {
        let engine = self.store.engine.clone();
        let Some(durable) = &engine.durable else { return false };
        let Some(batch) = self.batch.take() else { return false };
        self.failed = !self.writer.put(batch, &engine, durable);
        true
    }

    /// Tries once to apply a full segment to the base; false when there is none.
    pub fn checkpoint(&mut self) -> bool {
        self.worker.step(&mut self.full)
    }

    /// Runs the timer once.
    pub fn expire(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        // It ends only with the store.
        let _ = self.timer.as_mut().poll(&mut context);
    }

    /// Writes a heartbeat.
    pub fn write_heartbeat(&mut self) {
        let engine = &self.store.engine;
        if let Some(durable) = &engine.durable
            && let Err(error) = durable.write_heartbeat(engine.clock.now(), Duration::ZERO)
        {
            tracing::error!(%error, "cannot write the heartbeat");
        }
    }

    /// Whether the store has failed.
    pub fn failed(&self) -> bool {
        self.failed || self.store.engine.state.lock().failed.is_some()
    }
}
