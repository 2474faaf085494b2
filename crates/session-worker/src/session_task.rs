//! The task that runs one session from NEW to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tenure_keeper::{Bundle, Lost};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Key, Tick};
use tenure_session::{Detail, PipelineState, Reason, SessionEvent};
use tokio::sync::watch;

use crate::leases::{self, LeaseOutcome};
use crate::pipeline::{self, Pipeline, PipelineEvent};
use crate::record::{Cause, SessionError, SessionRecord};
use crate::state::WorkerState;
use crate::{limits, output_dir, telemetry};

/// Commands to a running session. They are only ever added.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct SessionCommands {
    /// Stop for this reason.
    pub(crate) stop: Option<Reason>,
    /// Stop without a grace period.
    pub(crate) kill: bool,
    /// End now, even if the pipeline has not exited: the session is stuck in STOPPING.
    pub(crate) force: bool,
    /// The worker shuts down.
    pub(crate) cancel: bool,
}

/// A running session.
pub(crate) struct SessionTask {
    pub(crate) worker: Arc<WorkerState>,
    pub(crate) entry: SessionRecord,
    pub(crate) commands: watch::Receiver<SessionCommands>,
    /// Set before its leases are released, so that reconciliation does not report that as a violation.
    pub(crate) ending: Arc<AtomicBool>,
    /// The session as last written, for other tasks.
    published: Arc<Mutex<SessionRecord>>,
    leases: Bundle,
    /// Lease acquisition was cancelled; the reaper releases what it acquired.
    acquire_cancelled: bool,
    pipeline: Option<Box<dyn Pipeline>>,
}

/// Why a session ends.
enum Ending {
    /// Its stop was requested.
    Stop(Reason),
    /// It cannot continue.
    Fail(Cause),
    /// The drain timeout of a finished recording has passed.
    Drained,
    /// The worker shuts down.
    Cancel,
}

impl SessionTask {
    pub(crate) fn new(
        worker: Arc<WorkerState>,
        entry: SessionRecord,
        commands: watch::Receiver<SessionCommands>,
        ending: Arc<AtomicBool>,
        published: Arc<Mutex<SessionRecord>>,
    ) -> Self {
        let (leases, acquire_cancelled, pipeline) = (Bundle::default(), false, None);
        Self { worker, entry, commands, ending, published, leases, acquire_cancelled, pipeline }
    }

    /// Runs the session. In every case no process, lease or output directory is left behind.
    pub(crate) async fn run(mut self) {
        let result = match self.run_until_ending().await {
            Ok(ending) => self.end_session(ending).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            let id = &self.entry.session.id;
            tracing::warn!(target: telemetry::TARGET, session = %id, %error, "session abandoned");
            self.ending.store(true, Ordering::Release);
            self.end_pipeline(true).await;
            self.clean_up().await;
        }
    }

    /// Runs from NEW until there is a reason to end.
    async fn run_until_ending(&mut self) -> Result<Ending, SessionError> {
        let starts = self.worker.starts.clone();
        let permit = tokio::select! {
            biased;
            ending = next_command(&self.worker, &mut self.commands) => return ending,
            permit = starts.acquire_owned() => permit,
        };
        self.apply_event(SessionEvent::Pick, None).await?;
        if let Some(ending) = self.acquire_leases().await? {
            return Ok(ending);
        }
        if let Some(ending) = self.start_pipeline().await? {
            return Ok(ending);
        }
        drop(permit);
        self.supervise().await
    }

    async fn acquire_leases(&mut self) -> Result<Option<Ending>, SessionError> {
        let worker = self.worker.clone();
        let outcome = tokio::select! {
            biased;
            ending = next_command(&worker, &mut self.commands) => {
                self.acquire_cancelled = true;
                return ending.map(Some);
            }
            outcome = leases::acquire(&worker, &self.entry.session) => outcome,
        };
        match outcome {
            LeaseOutcome::Acquired { leases, slot } => {
                self.leases = leases;
                let (pipeline, updated) =
                    (PipelineState::LeaseAcquired, worker.wall().max(self.entry.session.updated));
                let next = tenure_session::Session { slot, pipeline, updated, ..self.entry.session.clone() };
                self.entry.save(&worker, next).await?;
                *self.published.lock() = self.entry.clone();
                Ok(None)
            }
            LeaseOutcome::Busy(detail) => {
                telemetry::rejected(&self.entry.session, detail);
                let message = match detail {
                    Detail::RejectedNoTuner => "no tuner slots available",
                    _ => "dedup lease held",
                };
                Ok(Some(Ending::Fail(Cause::new(Reason::LeaseBusy, Some(detail), message.to_owned()))))
            }
            LeaseOutcome::Failed(why) => Ok(Some(Ending::Fail(Cause::new(Reason::Unknown, None, why)))),
        }
    }

    async fn start_pipeline(&mut self) -> Result<Option<Ending>, SessionError> {
        if let Some(ending) = requested_ending(&self.commands.borrow()) {
            return Ok(Some(ending));
        }
        let worker = self.worker.clone();
        let times = worker.times(self.leases.deadline());
        // Cancelled only by the loss of the guard: dropping the future kills a process whose start has not completed, and
        // other commands are handled below, where the process can be stopped in order.
        let started = tokio::select! {
            biased;
            _ = worker.loss.wait() => return Err(SessionError::GuardLost),
            started = pipeline::start(&worker, &self.entry.session, times) => started,
        };
        match started {
            Ok(started) => self.pipeline = Some(started),
            Err(cause) => return Ok(Some(Ending::Fail(cause))),
        }
        if let Some(ending) = requested_ending(&self.commands.borrow()) {
            return Ok(Some(ending));
        }
        self.entry.session.pipeline = PipelineState::FfmpegRunning;
        self.apply_event(SessionEvent::Prime, None).await?;
        Ok(None)
    }

    /// Supervises the pipeline until there is a reason to end.
    async fn supervise(&mut self) -> Result<Ending, SessionError> {
        let worker = self.worker.clone();
        let began = worker.clock.now();
        let mut lost = Box::pin(self.leases.lost());
        let mut drained: Option<Tick> = None;
        loop {
            let Some(pipeline) = self.pipeline.as_mut() else { return Err(SessionError::RecordConflict) };
            let (timed, next_poll) = (pipeline.has_deadline(), worker.clock.now() + limits::OUTPUT_POLL);
            let event = tokio::select! {
                biased;
                (key, how) = &mut lost, if !broken(Break::IgnoresLostLease) => return Ok(Ending::Fail(lease_lost(&key, how))),
                ending = next_command(&worker, &mut self.commands) => return ending,
                event = pipeline.next_event(), if drained.is_none() => event,
                () = worker.clock.sleep_until(drained.unwrap_or_default()), if drained.is_some() => {
                    return Ok(Ending::Drained);
                }
                () = worker.clock.sleep_until(next_poll), if timed => {
                    pipeline.extend(worker.times(self.leases.deadline())).await;
                    continue;
                }
            };
            match event {
                PipelineEvent::Published => {
                    self.apply_event(SessionEvent::Publish, None).await?;
                    telemetry::first_playlist(&self.entry.session, worker.clock.now().since(began));
                }
                PipelineEvent::Drained => {
                    self.apply_event(SessionEvent::Drain, None).await?;
                    drained = Some(worker.clock.now() + worker.options.drain_timeout);
                }
                PipelineEvent::Failed(cause) => return Ok(Ending::Fail(cause)),
            }
        }
    }

    /// Ends the session: stops the pipeline, releases the leases in reverse order, then updates the record.
    async fn end_session(&mut self, ending: Ending) -> Result<(), SessionError> {
        self.ending.store(true, Ordering::Release);
        let (event, cause, hard) = match ending {
            Ending::Stop(reason) => {
                self.apply_event(SessionEvent::RequestStop, Some(Cause::new(reason, None, None))).await?;
                let worker = self.worker.clone();
                let mut commands = self.commands.clone();
                let _permit = tokio::select! {
                    biased;
                    _ = commands.wait_for(|commands| commands.kill || commands.cancel) => None,
                    _ = worker.loss.wait() => return Err(SessionError::GuardLost),
                    permit = worker.stops.clone().acquire_owned() => permit.ok(),
                };
                self.end_pipeline(false).await;
                let forced = self.commands.borrow().force;
                (if forced { SessionEvent::Force } else { SessionEvent::End }, None, false)
            }
            Ending::Fail(cause) => (SessionEvent::Fail, Some(cause), true),
            Ending::Drained => {
                let cause = Cause::new(Reason::ProcessEnded, Some(Detail::EndOfRecording), None);
                (SessionEvent::End, Some(cause), true)
            }
            Ending::Cancel => {
                let message = "the worker shut down".to_owned();
                (SessionEvent::Cancel, Some(Cause::new(Reason::Cancelled, None, message)), false)
            }
        };
        self.end_pipeline(hard).await;
        self.clean_up().await;
        if event == SessionEvent::Force {
            self.entry.session.detail = Some(Detail::SweeperForcedStop);
        }
        self.apply_event(event, cause).await
    }

    /// Ends the pipeline and waits until its processes have exited. It is killed at once if `hard` is set, and later on a
    /// kill command, after the stop timeout, or when a lease or the guard is lost.
    async fn end_pipeline(&mut self, hard: bool) {
        let Some(mut pipeline) = self.pipeline.take() else { return };
        let worker = self.worker.clone();
        let (kill_at, gone) = (worker.clock.now() + worker.options.stop_timeout, worker.options.gone_timeout);
        let mut killed = hard;
        match hard {
            true => pipeline.kill().await,
            false => pipeline.stop().await,
        }
        let mut lost = Box::pin(self.leases.lost());
        let mut give_up = killed.then(|| worker.clock.now() + gone);
        while !pipeline.is_gone() {
            let now = worker.clock.now();
            if self.commands.borrow().force || give_up.is_some_and(|end| now >= end) {
                if let Some(slot) = self.entry.session.slot {
                    worker.withhold(slot, &self.entry.session.id);
                }
                return;
            }
            let kill_now = self.commands.borrow().kill || worker.loss.is_lost() || now >= kill_at;
            if kill_now && !killed {
                killed = true;
                give_up = Some(now + gone);
            }
            if killed {
                pipeline.kill().await;
            }
            tokio::select! {
                biased;
                _ = &mut lost, if !killed => {
                    killed = true;
                    give_up = Some(now + gone);
                }
                () = worker.pause(limits::GONE_POLL) => {}
            }
        }
    }

    /// Releases the leases and removes the output directory.
    async fn clean_up(&mut self) {
        let (worker, leases) = (self.worker.clone(), std::mem::take(&mut self.leases));
        // The reaper releases what cannot be released here. After the loss of the guard there is no time to wait.
        match worker.loss.is_lost() {
            true => drop(leases),
            false => drop(leases.release().await),
        }
        if self.acquire_cancelled {
            tokio::select! {
                biased;
                _ = worker.loss.wait() => {}
                () = worker.keeper.settled() => {}
                () = worker.pause(limits::GUARD_RELEASE) => {}
            }
        }
        if broken(Break::LeavesOutput) {
            return;
        }
        let (id, root) = (self.entry.session.id.clone(), worker.options.output_dir.clone());
        let removed = tokio::task::spawn_blocking(move || output_dir::remove(&output_dir::of(&root, &id)));
        match removed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let id = &self.entry.session.id;
                tracing::warn!(target: telemetry::TARGET, session = %id, %error, "failed to remove the output directory");
            }
            Err(_) => tracing::warn!(target: telemetry::TARGET, "failed to remove the output directory"),
        }
    }

    async fn apply_event(&mut self, event: SessionEvent, cause: Option<Cause>) -> Result<(), SessionError> {
        let worker = self.worker.clone();
        self.entry.apply_event(&worker, event, cause).await?;
        *self.published.lock() = self.entry.clone();
        Ok(())
    }
}

/// Waits for a command or for the loss of the guard.
async fn next_command(
    worker: &WorkerState,
    commands: &mut watch::Receiver<SessionCommands>,
) -> Result<Ending, SessionError> {
    tokio::select! {
        biased;
        _ = worker.loss.wait() => Err(SessionError::GuardLost),
        changed = commands.wait_for(|commands| requested_ending(commands).is_some()) => {
            // The sender is gone: the worker shuts down.
            Ok(changed.ok().and_then(|commands| requested_ending(&commands)).unwrap_or(Ending::Cancel))
        }
    }
}

/// The ending that the commands ask for. A stop takes precedence over the shutdown of the worker.
fn requested_ending(commands: &SessionCommands) -> Option<Ending> {
    match commands {
        SessionCommands { stop: Some(reason), .. } => Some(Ending::Stop(*reason)),
        SessionCommands { cancel: true, .. } => Some(Ending::Cancel),
        SessionCommands { kill: true, .. } | SessionCommands { force: true, .. } => {
            Some(Ending::Stop(Reason::ClientStop))
        }
        _ => None,
    }
}

fn lease_lost(key: &Key, how: Lost) -> Cause {
    telemetry::lease_lost();
    Cause::new(Reason::LeaseExpired, Some(leases::lost_detail(key)), format!("{key} was lost: {how}"))
}
