//! Runs ffmpeg as a process and monitors its output directory.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_lease::{Clock, Tick};
use tenure_session::{Detail, Reason, Session, Target, TargetKind};
use tokio::task::JoinHandle;

use super::{Pipeline, PipelineEvent, args, exit_cause, start_failed};
use crate::launch::{Command, Exit, Process, SESSION_VARIABLE, StopTimes};
use crate::record::Cause;
use crate::state::WorkerState;
use crate::{Ffmpeg, WorkerError, limits, output_dir};

/// The log file of ffmpeg.
const LOG: &str = "ffmpeg.log";

/// Rejects a program that cannot be run.
pub(super) async fn check(source: &Ffmpeg, clock: &dyn Clock) -> Result<(), WorkerError> {
    let mut command = tokio::process::Command::new(&source.program);
    command
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let status = tokio::select! {
        biased;
        status = command.status() => Some(status),
        () = clock.sleep_until(clock.now() + limits::CHECK) => None,
    };
    let why = match status {
        Some(Ok(status)) if status.success() => return Ok(()),
        Some(Ok(status)) => status.to_string(),
        Some(Err(error)) => error.to_string(),
        None => format!("no response within {} s", limits::CHECK.as_secs()),
    };
    Err(WorkerError::Pipeline { program: source.program.display().to_string(), why })
}

/// Starts ffmpeg for a session.
pub(super) async fn start(
    worker: &WorkerState,
    source: &Ffmpeg,
    session: &Session,
    dir: PathBuf,
    times: StopTimes,
) -> Result<Box<dyn Pipeline>, Cause> {
    let rejected = |reason, message: String| Cause::new(reason, None, message);
    let Some(profile) = source.profiles.get(session.profile.as_str()) else {
        return Err(rejected(Reason::BadRequest, format!("profile {} is not configured", session.profile)));
    };
    let file = match (&session.target, &source.recordings_dir) {
        (Target::Live(_), _) => None,
        (Target::Recording { id, .. }, Some(dir)) => match args::find_recording(dir, id.as_str()) {
            Some(file) => Some(file),
            None => return Err(rejected(Reason::NotFound, format!("recording {id} does not exist"))),
        },
        (Target::Recording { .. }, None) => {
            return Err(rejected(Reason::NotFound, "no recordings directory is configured".to_owned()));
        }
    };
    output_dir::create(&dir).map_err(|error| start_failed(&error))?;
    let command = Command {
        program: source.program.clone(),
        args: args::build(source, session, profile, file.as_deref()),
        dir: dir.clone(),
        variables: vec![(SESSION_VARIABLE, session.id.to_string())],
        log: dir.join(LOG),
    };
    let process = worker.launcher.launch(command, times).await.map_err(|error| start_failed(&error))?;
    let (clock, now) = (worker.clock.clone(), worker.clock.now());
    let output_limits = OutputLimits {
        first: worker.options.first_segment_timeout,
        stall: worker.options.stall_timeout,
        bytes: worker.options.max_output_bytes,
    };
    let monitor = OutputMonitor { limits: output_limits, published: false, newest: None, progressed: now };
    Ok(Box::new(FfmpegPipeline {
        process,
        clock,
        dir,
        kind: session.kind(),
        monitor,
        next_poll: now,
        snapshot: None,
        exit: None,
    }))
}

/// An ffmpeg process and the state of its output.
struct FfmpegPipeline {
    process: Box<dyn Process>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    kind: TargetKind,
    monitor: OutputMonitor,
    next_poll: Tick,
    snapshot: Option<JoinHandle<OutputSnapshot>>,
    exit: Option<Exit>,
}

#[async_trait]
impl Pipeline for FfmpegPipeline {
    async fn next_event(&mut self) -> PipelineEvent {
        loop {
            let exit = match self.exit {
                Some(exit) => Some(exit),
                None if self.snapshot.is_some() => None,
                None => tokio::select! {
                    biased;
                    exit = self.process.wait() => Some(exit),
                    () = self.clock.sleep_until(self.next_poll) => None,
                },
            };
            self.exit = exit;
            // Also after the exit, because the last segment may be the first one. A cancelled snapshot is awaited again.
            let snapshot = self.snapshot.get_or_insert_with(|| spawn_snapshot(self.dir.clone()));
            let output = snapshot.await.unwrap_or_default();
            self.snapshot = None;
            let now = self.clock.now();
            self.next_poll = now + limits::OUTPUT_POLL;
            if let Some(event) = self.monitor.check(&output, now, exit.is_some()) {
                return event;
            }
            if let Some(exit) = exit {
                return exit_cause::classify_exit(exit, self.kind, self.monitor.published, &output.log);
            }
        }
    }

    fn has_deadline(&self) -> bool {
        self.exit.is_none()
    }

    async fn extend(&mut self, times: StopTimes) {
        // If this fails, the watchdog kills the process at the old deadline.
        drop(self.process.extend(times).await);
    }

    async fn stop(&mut self) {
        drop(self.process.stop().await);
    }

    async fn kill(&mut self) {
        drop(self.process.kill().await);
    }

    fn is_gone(&self) -> bool {
        self.process.is_gone()
    }
}

/// The limits of a pipeline's output.
#[derive(Clone, Copy, Debug)]
struct OutputLimits {
    first: Duration,
    stall: Duration,
    bytes: u64,
}

/// Derives events from snapshots of the output. Pure: no clock, no disk.
#[derive(Debug)]
struct OutputMonitor {
    limits: OutputLimits,
    published: bool,
    newest: Option<String>,
    /// When the last segment appeared, or the start.
    progressed: Tick,
}

/// The contents of an output directory.
#[derive(Clone, Default, Debug)]
struct OutputSnapshot {
    /// The newest segment in the playlist that exists.
    newest: Option<String>,
    bytes: u64,
    log: String,
}

impl OutputMonitor {
    fn check(&mut self, output: &OutputSnapshot, now: Tick, ended: bool) -> Option<PipelineEvent> {
        let failed = |reason, detail, message: &str| {
            Some(PipelineEvent::Failed(Cause::new(reason, Some(detail), message.to_owned())))
        };
        if output.bytes > self.limits.bytes {
            return failed(Reason::PackagerFailed, Detail::DiskLimit, "the output exceeded its size limit");
        }
        if output.newest.is_some() && output.newest != self.newest {
            (self.newest, self.progressed) = (output.newest.clone(), now);
            if !std::mem::replace(&mut self.published, true) {
                return Some(PipelineEvent::Published);
            }
        }
        let silent = now.since(self.progressed);
        match self.published {
            _ if ended => None,
            false if silent >= self.limits.first => failed(
                Reason::PackagerFailed,
                Detail::FirstSegmentTimeout,
                "no segment was published in time",
            ),
            true if silent >= self.limits.stall => failed(
                Reason::UpstreamCorrupt,
                Detail::UpstreamStalled,
                "no data from the receiver for too long",
            ),
            _ => None,
        }
    }
}

/// Reads the output directory on a blocking thread.
fn spawn_snapshot(dir: PathBuf) -> JoinHandle<OutputSnapshot> {
    tokio::task::spawn_blocking(move || read_snapshot(&dir))
}

fn read_snapshot(dir: &Path) -> OutputSnapshot {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum();
    let playlist = std::fs::read_to_string(dir.join(output_dir::PLAYLIST)).unwrap_or_default();
    let named = playlist.lines().rev().find(|line| !line.is_empty() && !line.starts_with('#'));
    let newest = named.filter(|name| dir.join(name).is_file()).map(str::to_owned);
    OutputSnapshot { newest, bytes, log: read_tail(&dir.join(LOG)).unwrap_or_default() }
}

/// Reads the end of a file.
fn read_tail(file: &Path) -> io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limits::LOG_TAIL)))?;
    let mut bytes = Vec::new();
    file.take(limits::LOG_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor() -> OutputMonitor {
        let output_limits =
            OutputLimits { first: Duration::from_secs(30), stall: Duration::from_secs(12), bytes: 1_000 };
        OutputMonitor { limits: output_limits, published: false, newest: None, progressed: at(0) }
    }

    fn at(secs: u64) -> Tick {
        Tick::from_nanos(secs * 1_000_000_000)
    }

    fn output(newest: Option<u32>, bytes: u64) -> OutputSnapshot {
        OutputSnapshot { newest: newest.map(|number| number.to_string()), bytes, log: String::new() }
    }

    fn detail(event: Option<PipelineEvent>) -> Option<Detail> {
        match event {
            Some(PipelineEvent::Failed(cause)) => cause.detail,
            _ => None,
        }
    }

    #[test]
    fn output_is_published_once_and_stalls_without_new_segments() {
        let mut monitor = monitor();
        assert_eq!(monitor.check(&output(None, 0), at(29), false), None);
        assert_eq!(monitor.check(&output(Some(1), 10), at(29), false), Some(PipelineEvent::Published));
        assert_eq!(monitor.check(&output(Some(1), 10), at(40), false), None);
        assert_eq!(monitor.check(&output(Some(2), 10), at(41), false), None);
        assert_eq!(monitor.check(&output(Some(2), 10), at(52), false), None);
        assert_eq!(detail(monitor.check(&output(Some(2), 10), at(53), false)), Some(Detail::UpstreamStalled));
    }

    #[test]
    fn a_late_first_segment_and_too_much_output_are_failures() {
        assert_eq!(
            detail(monitor().check(&output(None, 0), at(30), false)),
            Some(Detail::FirstSegmentTimeout)
        );
        assert_eq!(detail(monitor().check(&output(Some(1), 1_001), at(1), false)), Some(Detail::DiskLimit));
        assert_eq!(monitor().check(&output(None, 0), at(30), true), None, "the exit status says more");
    }

    #[test]
    fn a_snapshot_has_the_newest_segment_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(output_dir::PLAYLIST, "#EXTM3U\n#EXTINF:2,\nseg-00001.m4s\n");
        assert_eq!(read_snapshot(folder.path()).newest, None);
        write("seg-00001.m4s", "0123456789");
        write(LOG, &"x".repeat(10_000));
        let output = read_snapshot(folder.path());
        assert_eq!(output.newest.as_deref(), Some("seg-00001.m4s"));
        assert!(output.bytes > 10_000 && output.log.len() == limits::LOG_TAIL as usize);
    }
}
