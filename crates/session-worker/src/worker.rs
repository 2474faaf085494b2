//! The public interface of the worker.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_keeper::{Gate, Keeper, Slots};
use tenure_lease::Store;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::orchestrator::Orchestrator;
use crate::pattern::PatternSource;
use crate::state::{GuardLoss, WorkerState};
use crate::{Launcher, Options, WorkerError, guard, keys, limits, pipeline, recovery, telemetry};

/// The only active worker of a store: holds the guard and runs the recorded sessions. Dropping it ends everything like
/// [`Worker::close`], without waiting.
pub struct Worker {
    state: Arc<WorkerState>,
    /// `None` once released.
    gate: Mutex<Option<Gate>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    /// Cancels `closing` when the worker is dropped.
    _ends: DropGuard,
    reconcile_requests: mpsc::Sender<oneshot::Sender<()>>,
    fatal: watch::Receiver<Option<WorkerError>>,
}

/// Whether a worker is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// It holds the guard and runs sessions.
    Ready,
    /// It does not run sessions, for this reason.
    NotReady(&'static str),
}

impl Worker {
    /// Acquires the guard, ends the leases of an earlier worker, recovers its sessions and starts to run sessions. This may
    /// wait for the TTL of the guard plus two seconds.
    pub async fn start(
        store: Arc<dyn Store>,
        options: Options,
        launcher: Arc<dyn Launcher>,
    ) -> Result<Self, WorkerError> {
        options.check()?;
        pipeline::check(&options, &*store.clock()).await?;
        telemetry::init_counters();
        let pattern = PatternSource::open(&options, store.clock())?;
        let (loss, window) = (GuardLoss::default(), options.heartbeat / 2);
        let keeper = Keeper::builder(store.clone(), guard::holder(&options)?).window(window).build();
        let gate = guard::open(&keeper, &options, &loss).await?;
        guard::wipe(&gate).await?;
        let prefix = keys::prefix(keys::TUNER).map_err(WorkerError::store)?;
        let slots = Slots::under(&keeper, prefix, options.slots.clone()).map_err(WorkerError::store)?;
        let state = WorkerState::new(store, keeper, gate.share(), loss, options, launcher, slots, pattern);
        let state = Arc::new(state);
        recovery::run(&state).await?;

        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (requests, receiver) = mpsc::channel(limits::RECONCILE_REQUESTS);
        let (ended, fatal) = watch::channel(None);
        let orchestrator = Orchestrator::new(state.clone(), receiver, closing.clone());
        let pattern = state.pattern.clone();
        let ends = closing.clone();
        tasks.spawn(async move { pattern.run(ends).await });
        tasks.spawn(async move {
            let error = orchestrator.run().await;
            ended.send_replace(Some(error));
        });
        tasks.close();
        let (gate, ends) = (Mutex::new(Some(gate)), closing.clone().drop_guard());
        Ok(Self { state, gate, tasks, closing, _ends: ends, reconcile_requests: requests, fatal })
    }

    /// Whether the worker is ready.
    pub fn readiness(&self) -> Readiness {
        match self.state.loss.is_lost() || self.fatal.borrow().is_some() {
            true => Readiness::NotReady("the session guard is lost"),
            false if self.closing.is_cancelled() => {
                Readiness::NotReady("the session worker is shutting down")
            }
            false => Readiness::Ready,
        }
    }

    /// Waits until the worker fails: the guard is lost and every pipeline has ended. The process must exit then.
    pub async fn failed(&self) -> WorkerError {
        let mut fatal = self.fatal.clone();
        match fatal.wait_for(Option::is_some).await {
            Ok(fatal) => fatal.clone().unwrap_or(WorkerError::Ended),
            Err(_) => WorkerError::Ended,
        }
    }

    /// Reconciles records with leases and checks withheld tuners now, in addition to the periodic sweep.
    pub async fn reconcile_now(&self) {
        let (done, completed) = oneshot::channel();
        if self.reconcile_requests.send(done).await.is_ok() {
            // A worker that shuts down drops the request; then there is nothing to wait for.
            drop(completed.await);
        }
    }

    /// Ends every pipeline and releases all leases in reverse order, the guard last. Bounded in time and idempotent.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.wait().await;
        let gate = self.gate.lock().take();
        if let Some(gate) = gate {
            within(&self.state, async { drop(gate.close().await) }).await;
            within(&self.state, self.state.keeper.settled()).await;
        }
    }
}

async fn within(worker: &WorkerState, act: impl Future<Output = ()>) {
    tokio::select! {
        () = act => {}
        () = worker.pause(limits::GUARD_RELEASE) => {}
    }
}
