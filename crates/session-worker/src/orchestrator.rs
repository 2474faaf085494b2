//! The worker's event loop: follows changes in the store, starts a task per session, and sweeps periodically.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tenure_lease::{Event as Change, Tick, Verb, Watch, Watched};
use tenure_session::{Reason, SessionId, SessionState};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::active::ActiveSessions;
use crate::record::{SessionError, SessionRecord};
use crate::rows::RecordedStop;
use crate::session_task::{SessionCommands, SessionTask};
use crate::state::WorkerState;
use crate::sweep::{self, Sweeper};
use crate::{WorkerError, keys, limits, rows, scan, telemetry};

/// What the loop waits for.
enum LoopEvent {
    /// The guard is lost.
    GuardLost(tenure_keeper::Lost),
    /// The worker shuts down.
    Closing,
    /// A session task ended.
    TaskEnded(Result<(Id, ()), JoinError>),
    /// A record changed.
    StoreChanged(tenure_lease::Result<Watched>),
    /// A caller requests a reconciliation.
    ReconcileRequested(oneshot::Sender<()>),
    /// The next sweep is due.
    SweepDue,
}

/// A handle to a running session task.
pub(crate) struct SessionHandle {
    pub(crate) commands: watch::Sender<SessionCommands>,
    pub(crate) ending: Arc<AtomicBool>,
    /// The session as its task last wrote it.
    pub(crate) entry: Arc<Mutex<SessionRecord>>,
}

pub(crate) struct Orchestrator {
    worker: Arc<WorkerState>,
    reconcile_requests: mpsc::Receiver<oneshot::Sender<()>>,
    closing: CancellationToken,
    tasks: JoinSet<()>,
    ids: HashMap<Id, SessionId>,
    pub(crate) handles: HashMap<SessionId, SessionHandle>,
    watch: Option<Box<dyn Watch>>,
    active: ActiveSessions,
    sweeper: Sweeper,
    next_sweep: Tick,
}

impl Orchestrator {
    pub(crate) fn new(
        worker: Arc<WorkerState>,
        reconcile_requests: mpsc::Receiver<oneshot::Sender<()>>,
        closing: CancellationToken,
    ) -> Self {
        let next_sweep = worker.clock.now();
        Self {
            worker,
            reconcile_requests,
            closing,
            tasks: JoinSet::new(),
            ids: HashMap::new(),
            handles: HashMap::new(),
            watch: None,
            active: ActiveSessions::default(),
            sweeper: Sweeper::default(),
            next_sweep,
        }
    }

    /// Runs until the guard is lost or the worker is closed. All pipelines have ended when this returns.
    pub(crate) async fn run(mut self) -> WorkerError {
        loop {
            let result = match self.next().await {
                LoopEvent::GuardLost(lost) => {
                    self.end_all().await;
                    return WorkerError::GuardLost { lost };
                }
                LoopEvent::Closing => {
                    self.end_all().await;
                    return WorkerError::Ended;
                }
                LoopEvent::TaskEnded(ended) => {
                    self.handle_task_end(ended);
                    Ok(())
                }
                LoopEvent::StoreChanged(change) => self.handle_change(change).await,
                LoopEvent::ReconcileRequested(done) => {
                    let reconciled = self.reconcile().await;
                    let _gone = done.send(());
                    reconciled
                }
                LoopEvent::SweepDue => self.sweep().await,
            };
            if let Err(error) = result {
                // The loss of the guard is reported separately; everything else is retried in the next sweep.
                tracing::warn!(target: telemetry::TARGET, %error, "failed to process sessions; retrying in the next sweep");
            }
        }
    }

    async fn next(&mut self) -> LoopEvent {
        let change = async {
            match self.watch.as_mut() {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            lost = self.worker.loss.wait() => LoopEvent::GuardLost(lost),
            () = self.closing.cancelled() => LoopEvent::Closing,
            Some(ended) = self.tasks.join_next_with_id() => LoopEvent::TaskEnded(ended),
            () = self.worker.clock.sleep_until(self.next_sweep) => LoopEvent::SweepDue,
            change = change => LoopEvent::StoreChanged(change),
            Some(done) = self.reconcile_requests.recv() => LoopEvent::ReconcileRequested(done),
        }
    }

    async fn handle_change(&mut self, change: tenure_lease::Result<Watched>) -> Result<(), SessionError> {
        match change {
            Ok(Watched::Event(change)) if change.verb == Verb::Written => self.handle_write(&change).await,
            Ok(Watched::Event(change)) => {
                if let Some(id) =
                    keys::id_in(&change.key, keys::SESSION).filter(|_| change.verb == Verb::Deleted)
                {
                    self.active.forget(&id);
                }
                Ok(())
            }
            Ok(Watched::Lagged) => {
                self.active.invalidate();
                self.next_sweep = self.worker.clock.now();
                Ok(())
            }
            Err(error) => {
                // The next sweep subscribes again and reads everything.
                self.watch = None;
                self.active.invalidate();
                Err(SessionError::Store(error.to_string()))
            }
        }
    }

    async fn handle_write(&mut self, change: &Change) -> Result<(), SessionError> {
        let worker = self.worker.clone();
        if let Some(id) = keys::id_in(&change.key, keys::SESSION) {
            // A running session is written by its own task.
            if self.handles.contains_key(&id) {
                return Ok(());
            }
            match scan::read_session(&worker, &id).await {
                Ok(Some(entry)) => {
                    self.active.update(entry.clone());
                    self.start_session(entry);
                }
                Ok(None) => self.active.forget(&id),
                Err(error) => {
                    self.active.invalidate();
                    return Err(error);
                }
            }
        } else if let Some(id) = keys::id_in(&change.key, keys::STOP)
            && self.handles.contains_key(&id)
        {
            let record = worker.call_store(worker.store.get(&change.key)).await?;
            if let Some(stop) = record.and_then(|record| rows::decode_stop(&record.value).ok()) {
                self.stop(&id, &stop);
            }
        }
        Ok(())
    }

    /// Compares claims with leases, and checks whether withheld tuners can be offered again.
    async fn reconcile(&mut self) -> Result<(), SessionError> {
        let worker = self.worker.clone();
        let sessions = self.active.all(&worker, &self.handles).await?;
        self.sweeper.reconcile(&worker, &self.handles, &sessions).await?;
        sweep::restore_withheld_slots(&worker).await;
        Ok(())
    }

    /// Handles missed changes and everything that depends on time.
    async fn sweep(&mut self) -> Result<(), SessionError> {
        let worker = self.worker.clone();
        self.next_sweep = worker.clock.now() + worker.options.reconcile;
        if self.watch.is_none() {
            let prefix = keys::prefix(keys::ROOT).map_err(|error| SessionError::Store(error.to_string()))?;
            // Subscribe before reading, so that no change is missed in between.
            self.watch = Some(worker.call_store(worker.store.watch(&prefix, None)).await?);
            self.active.invalidate();
        }
        let sessions = self.active.all(&worker, &self.handles).await?;
        let stops = scan::read_stops(&worker).await?;
        for entry in &sessions {
            self.start_session(entry.clone());
        }
        for (id, stop) in &stops {
            self.stop(id, stop);
        }
        let handles = &self.handles;
        self.sweeper.sweep(&worker, handles, &sessions).await
    }

    /// Starts a task for a session in NEW, if there is capacity.
    fn start_session(&mut self, entry: SessionRecord) {
        let id = entry.session.id.clone();
        let known = self.handles.contains_key(&id);
        if known || entry.session.state != SessionState::New || self.handles.len() >= limits::SESSIONS {
            return;
        }
        let (commands, receiver) = watch::channel(SessionCommands::default());
        let ending = Arc::new(AtomicBool::new(false));
        let published = Arc::new(Mutex::new(entry.clone()));
        let session_task =
            SessionTask::new(self.worker.clone(), entry, receiver, ending.clone(), published.clone());
        let task = self.tasks.spawn(session_task.run());
        self.ids.insert(task.id(), id.clone());
        self.handles.insert(id, SessionHandle { commands, ending, entry: published });
    }

    fn stop(&mut self, id: &SessionId, stop: &RecordedStop) {
        if let Some(handle) = self.handles.get(id) {
            handle.stop(stop.reason, stop.times > 1);
        }
    }

    fn handle_task_end(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(panicked) => panicked.id(),
        };
        let Some(session) = self.ids.remove(&id) else { return };
        if let Some(handle) = self.handles.remove(&session) {
            let last = handle.entry.lock().clone();
            if !last.session.state.is_terminal() {
                // The task was abandoned: the stored record may differ.
                self.active.invalidate();
            }
            self.active.update(last);
        }
        if ended.is_err() {
            // Its leases and its process were dropped with it; the next sweep updates the record.
            tracing::error!(target: telemetry::TARGET, %session, "session task panicked");
        }
    }

    /// Ends all session tasks, within the time a pipeline may take to exit.
    async fn end_all(&mut self) {
        for handle in self.handles.values() {
            handle.commands.send_modify(|commands| commands.cancel = true);
        }
        let worker = self.worker.clone();
        let bound = worker.options.stop_timeout + worker.options.gone_timeout + limits::GUARD_RELEASE * 2;
        tokio::select! {
            biased;
            () = async { while self.tasks.join_next().await.is_some() {} } => {}
            () = worker.pause(bound) => {
                tracing::error!(target: telemetry::TARGET, tasks = self.tasks.len(), "sessions did not end in time");
            }
        }
        telemetry::tuners_in_use(0);
        telemetry::sessions_active(0);
    }
}

impl SessionHandle {
    /// Requests the stop; `again` skips the grace period. Returns whether this changed anything.
    pub(crate) fn stop(&self, reason: Reason, again: bool) -> bool {
        self.commands.send_if_modified(|commands| {
            let before = commands.clone();
            commands.stop.get_or_insert(reason);
            commands.kill |= again;
            *commands != before
        })
    }
}
