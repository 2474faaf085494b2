//! Pipelines: produce the HLS output of a session.

mod args;
mod exit_cause;
mod ffmpeg;

use async_trait::async_trait;
use tenure_lease::Clock;
use tenure_session::{Detail, Reason, Session};

use crate::launch::StopTimes;
use crate::pattern::PatternOutput;
use crate::record::Cause;
use crate::state::WorkerState;
use crate::{Options, Source, WorkerError, output_dir};

/// An event of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PipelineEvent {
    /// The playlist and the first segment exist. Sent once.
    Published,
    /// The source ended, as recordings do; the existing output can be played.
    Drained,
    /// The pipeline failed.
    Failed(Cause),
}

/// A running pipeline.
#[async_trait]
pub(crate) trait Pipeline: Send {
    /// Waits for the next event. Cancel safe.
    async fn next_event(&mut self) -> PipelineEvent;

    /// Whether it is killed at a deadline that must be extended.
    fn has_deadline(&self) -> bool;

    /// Extends the deadlines after the leases were renewed.
    async fn extend(&mut self, times: StopTimes);

    /// Asks it to exit.
    async fn stop(&mut self);

    /// Kills it.
    async fn kill(&mut self);

    /// Whether all its processes have exited.
    fn is_gone(&self) -> bool;
}

/// Rejects a source that cannot work, before anything else is done.
pub(crate) async fn check(options: &Options, clock: &dyn Clock) -> Result<(), WorkerError> {
    match &options.source {
        Source::Pattern => Ok(()),
        Source::Ffmpeg(source) => ffmpeg::check(source, clock).await,
    }
}

/// Starts the pipeline of a session that holds its leases.
pub(crate) async fn start(
    worker: &WorkerState,
    session: &Session,
    times: StopTimes,
) -> Result<Box<dyn Pipeline>, Cause> {
    let dir = output_dir::of(&worker.options.output_dir, &session.id);
    match &worker.options.source {
        Source::Ffmpeg(source) => ffmpeg::start(worker, source, session, dir, times).await,
        Source::Pattern => {
            let pattern = worker.pattern.clone();
            let started = tokio::task::spawn_blocking(move || {
                output_dir::create(&dir)?;
                pattern.start_output(&dir)
            });
            let started = started.await.map_err(std::io::Error::other).and_then(|output| output);
            let output = started.map_err(|error| start_failed(&error))?;
            Ok(Box::new(PatternPipeline { output: Some(output), published: false }))
        }
    }
}

fn start_failed(error: &std::io::Error) -> Cause {
    let detail = (error.kind() == std::io::ErrorKind::StorageFull).then_some(Detail::DiskLimit);
    Cause::new(Reason::PipelineStartFailed, detail, exit_cause::summarize_log(&error.to_string()))
}

/// The test pattern. It runs in this process, so there is nothing to kill.
struct PatternPipeline {
    output: Option<PatternOutput>,
    published: bool,
}

#[async_trait]
impl Pipeline for PatternPipeline {
    async fn next_event(&mut self) -> PipelineEvent {
        match std::mem::replace(&mut self.published, true) {
            false => PipelineEvent::Published,
            true => std::future::pending().await,
        }
    }

    fn has_deadline(&self) -> bool {
        false
    }

    async fn extend(&mut self, _times: StopTimes) {}

    async fn stop(&mut self) {
        self.kill().await;
    }

    async fn kill(&mut self) {
        self.output = None;
    }

    fn is_gone(&self) -> bool {
        self.output.is_none()
    }
}
