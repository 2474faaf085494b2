//! Runs pipelines under the watchdog.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tenure_lease::Clock as _;
use tenure_session_worker::{Command, Exit, Launcher, Process, StopTimes};
use tenure_store::BootClock;
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

use crate::watchdog::{EndReason, OWN_EXECUTABLE, WatchdogHandle, WorkIo, WorkReport};

/// The size at which the log of a pipeline is truncated.
const MAX_LOG_BYTES: u64 = 256 * 1_024;

/// Starts each pipeline under its own watchdog.
pub(super) struct WatchdogLauncher {
    program: PathBuf,
}

impl Default for WatchdogLauncher {
    fn default() -> Self {
        Self { program: OWN_EXECUTABLE.into() }
    }
}

/// A process under its watchdog.
struct WatchedProcess {
    watchdog: WatchdogHandle,
    /// How it ended, once known.
    exit: Option<Exit>,
    /// Copies its output to its log.
    _log_copier: JoinSet<()>,
}

#[async_trait]
impl Launcher for WatchdogLauncher {
    async fn launch(&self, command: Command, times: StopTimes) -> io::Result<Box<dyn Process>> {
        let (reader, writer) = io::pipe()?;
        let line: Vec<OsString> =
            std::iter::once(command.program.into_os_string()).chain(command.args).collect();
        let work_io = WorkIo::Own { dir: &command.dir, output: writer };
        let watchdog = WatchdogHandle::start_with(&self.program, &line, &command.variables, times, work_io)?;
        let reader = Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let mut copier = JoinSet::new();
        copier.spawn(copy_to_log(reader, command.log));
        let mut process = WatchedProcess { watchdog, exit: None, _log_copier: copier };
        let report = tokio::select! {
            biased;
            report = process.watchdog.next_report() => report?,
            // After this time the watchdog starts nothing. It is not waited for; anything it started is killed.
            () = BootClock.sleep_until(times.kill) => {
                process.watchdog.abandon().await;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the watchdog did not start the pipeline in time"));
            }
        };
        match report {
            Some(WorkReport::Started(_)) => Ok(Box::new(process)),
            Some(WorkReport::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(WorkReport::Ended { code, why }) => {
                process.exit = Some(exit(code, why));
                Ok(Box::new(process))
            }
            None => Err(io::Error::other("the watchdog ended before the pipeline started")),
        }
    }
}

#[async_trait]
impl Process for WatchedProcess {
    async fn extend(&mut self, times: StopTimes) -> io::Result<()> {
        self.watchdog.extend(times).await
    }

    async fn stop(&mut self) -> io::Result<()> {
        self.watchdog.signal(rustix::process::Signal::TERM.as_raw()).await
    }

    async fn kill(&mut self) -> io::Result<()> {
        let sent = self.watchdog.kill().await;
        // The watchdog may be stopped or dead, so the process group is killed directly as well.
        self.watchdog.kill_directly();
        if self.watchdog.is_gone() { Ok(()) } else { sent }
    }

    async fn wait(&mut self) -> Exit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            match self.watchdog.next_report().await {
                Ok(Some(WorkReport::Ended { code, why })) => self.exit = Some(exit(code, why)),
                Ok(Some(WorkReport::Started(_) | WorkReport::Failed(_))) => {}
                Ok(None) | Err(_) => {
                    self.watchdog.kill_directly();
                    self.exit = Some(Exit::Unknown);
                }
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.watchdog.is_gone()
    }
}

fn exit(code: u8, why: EndReason) -> Exit {
    match why {
        EndReason::Own if code > 128 => Exit::Signal(i32::from(code - 128)),
        EndReason::Own => Exit::Code(i32::from(code)),
        EndReason::Deadline => Exit::Deadline,
        EndReason::Killed => Exit::Signal(rustix::process::Signal::KILL.as_raw()),
        EndReason::Orphaned => Exit::Unknown,
    }
}

/// Copies output to a file until it is closed. A file that grew too large is truncated.
async fn copy_to_log(mut output: Receiver, path: PathBuf) {
    // Output that cannot be written is still read, so that the process does not block.
    let mut file = open(&path).await.ok();
    let (mut bytes, mut size) = ([0; 8_192], 0);
    while let Ok(count @ 1..) = output.read(&mut bytes).await {
        let Some(into) = &mut file else { continue };
        if size > MAX_LOG_BYTES {
            size = 0;
            if into.set_len(0).await.is_err() || into.rewind().await.is_err() {
                file = None;
                continue;
            }
        }
        size += count as u64;
        let written = async {
            into.write_all(&bytes[..count]).await?;
            into.flush().await
        };
        if written.await.is_err() {
            file = None;
        }
    }
}

async fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn copied(output: &[u8]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (reader, writer) = io::pipe().unwrap();
        let output = output.to_vec();
        let process = std::thread::spawn(move || {
            use std::io::Write as _;
            let mut writer = writer;
            writer.write_all(&output).unwrap();
        });
        copy_to_log(Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap(), path.clone()).await;
        process.join().unwrap();
        std::fs::read(&path).unwrap()
    }

    #[tokio::test]
    async fn output_is_logged_and_an_oversized_log_is_truncated() {
        assert_eq!(copied(b"no segment\n").await, b"no segment\n");
        let mut long = vec![b'.'; 3 * MAX_LOG_BYTES as usize];
        long.extend_from_slice(b"the last line");
        let log = copied(&long).await;
        assert!(log.len() as u64 <= MAX_LOG_BYTES + 8_192 * 2, "{}", log.len());
        assert!(log.ends_with(b"the last line"));
    }

    #[tokio::test]
    async fn an_unwritable_log_does_not_block_the_process() {
        let (reader, writer) = io::pipe().unwrap();
        let process = std::thread::spawn(move || {
            use std::io::Write as _;
            let mut writer = writer;
            writer.write_all(&vec![b'.'; 1 << 20]).unwrap();
        });
        let reader = Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap();
        copy_to_log(reader, "/nonexistent/folder/log".into()).await;
        process.join().unwrap();
    }

    #[tokio::test]
    async fn a_silent_watchdog_is_not_waited_for_and_leaves_no_process() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("silent");
        // Leads a session like a watchdog, starts a process in it and reports nothing.
        let script = "#!/bin/sh\nexec setsid sh -c 'sleep 1000 & echo $! > \"$0\"; wait' \"$PID_FILE\"\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let pid_file = dir.path().join("pid");
        let command = Command {
            program: "true".into(),
            args: Vec::new(),
            dir: dir.path().to_owned(),
            variables: vec![("PID_FILE", pid_file.display().to_string())],
            log: dir.path().join("log"),
        };
        let pid = || std::fs::read_to_string(&pid_file).unwrap_or_default().trim().to_owned();
        let launch = |watchdogs: WatchdogLauncher, kill: Duration| {
            let (command, now) = (command.clone(), BootClock.now());
            async move { watchdogs.launch(command, StopTimes { stop: now, kill: now + kill }).await }
        };
        let silent = || WatchdogLauncher { program: program.clone() };
        // Long enough for the script to start on most machines; on the others it never starts.
        let error = launch(silent(), Duration::from_secs(2)).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let is_running = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
        };
        let gone = || pid().is_empty() || !is_running(&pid());
        tenure_testkit::wait::until("it is gone", Duration::from_secs(60), gone).unwrap();
    }

    #[test]
    fn watchdog_reports_are_converted() {
        assert_eq!(exit(0, EndReason::Own), Exit::Code(0));
        assert_eq!(exit(143, EndReason::Own), Exit::Signal(15));
        assert_eq!(exit(0, EndReason::Deadline), Exit::Deadline);
        assert_eq!(exit(1, EndReason::Orphaned), Exit::Unknown);
    }
}
