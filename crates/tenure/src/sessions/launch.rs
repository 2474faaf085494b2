//! Pipelines under the watchdog.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use lease::Clock as _;
use lease_store::BootClock;
use session_worker::{Command, Exit, Launcher, Process, Times};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

use crate::watchdog::{self, Desk, Leash, OURSELVES, Report, Why};

/// How long the words of a pipeline may grow before the oldest are forgotten.
const MOST_WORDS: u64 = 256 * 1_024;

/// Starts each pipeline below a watchdog of its own.
pub(super) struct Watchdogs {
    program: PathBuf,
}

impl Default for Watchdogs {
    fn default() -> Self {
        Self { program: OURSELVES.into() }
    }
}

/// A pipeline and its watchdog.
struct Leashed {
    leash: Leash,
    /// How it ended, once that is known.
    exit: Option<Exit>,
    /// Copies its words to its log.
    _words: JoinSet<()>,
}

#[async_trait]
impl Launcher for Watchdogs {
    async fn launch(&self, command: Command, times: Times) -> io::Result<Box<dyn Process>> {
        let (reader, words) = io::pipe()?;
        let line: Vec<OsString> =
            std::iter::once(command.program.into_os_string()).chain(command.args).collect();
        let desk = Desk::Own { folder: &command.dir, words };
        let leash = Leash::start_with(&self.program, &line, &command.variables, convert(times), desk)?;
        let reader = Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let mut words = JoinSet::new();
        words.spawn(keep(reader, command.log));
        let mut leashed = Leashed { leash, exit: None, _words: words };
        let report = tokio::select! {
            biased;
            report = leashed.leash.report() => report?,
            // From here on it would not start anything any more; it is not waited for, and what it may have started ends.
            () = BootClock.sleep_until(times.kill) => {
                leashed.leash.give_up().await;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the watchdog did not start the pipeline in time"));
            }
        };
        match report {
            Some(Report::Started(_)) => Ok(Box::new(leashed)),
            Some(Report::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Report::Ended { code, why }) => {
                leashed.exit = Some(exit(code, why));
                Ok(Box::new(leashed))
            }
            None => Err(io::Error::other("the watchdog ended before the pipeline started")),
        }
    }
}

#[async_trait]
impl Process for Leashed {
    async fn extend(&mut self, times: Times) -> io::Result<()> {
        self.leash.extend(convert(times)).await
    }

    async fn stop(&mut self) -> io::Result<()> {
        self.leash.signal(rustix::process::Signal::TERM.as_raw()).await
    }

    async fn kill(&mut self) -> io::Result<()> {
        let told = self.leash.kill().await;
        // The watchdog may be stopped or dead: what it would do, we do.
        self.leash.kill_past();
        if self.leash.is_gone() { Ok(()) } else { told }
    }

    async fn wait(&mut self) -> Exit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            match self.leash.report().await {
                Ok(Some(Report::Ended { code, why })) => self.exit = Some(exit(code, why)),
                Ok(Some(Report::Started(_) | Report::Failed(_))) => {}
                Ok(None) | Err(_) => {
                    self.leash.kill_past();
                    self.exit = Some(Exit::Unknown);
                }
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.leash.is_gone()
    }
}

fn convert(times: Times) -> watchdog::Times {
    watchdog::Times { stop: times.stop, kill: times.kill }
}

fn exit(code: u8, why: Why) -> Exit {
    match why {
        Why::Own if code > 128 => Exit::Signal(i32::from(code - 128)),
        Why::Own => Exit::Code(i32::from(code)),
        Why::Deadline => Exit::Deadline,
        Why::Told => Exit::Signal(rustix::process::Signal::KILL.as_raw()),
        Why::Orphaned => Exit::Unknown,
    }
}

/// Copies words to a file until nobody speaks any more. A file that grew too long begins anew.
async fn keep(mut words: Receiver, path: PathBuf) {
    // Words that cannot be kept are still read: who speaks must not be held up.
    let mut file = open(&path).await.ok();
    let (mut bytes, mut size) = ([0; 8_192], 0);
    while let Ok(count @ 1..) = words.read(&mut bytes).await {
        let Some(into) = &mut file else { continue };
        if size > MOST_WORDS {
            size = 0;
            if into.set_len(0).await.is_err() || into.rewind().await.is_err() {
                file = None;
                continue;
            }
        }
        size += count as u64;
        let kept = async {
            into.write_all(&bytes[..count]).await?;
            into.flush().await
        };
        if kept.await.is_err() {
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

    async fn kept(spoken: &[u8]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (reader, writer) = io::pipe().unwrap();
        let spoken = spoken.to_vec();
        let speaker = std::thread::spawn(move || {
            use std::io::Write as _;
            let mut writer = writer;
            writer.write_all(&spoken).unwrap();
        });
        keep(Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap(), path.clone()).await;
        speaker.join().unwrap();
        std::fs::read(&path).unwrap()
    }

    #[tokio::test]
    async fn words_are_kept_and_the_oldest_forgotten() {
        assert_eq!(kept(b"no picture\n").await, b"no picture\n");
        let mut long = vec![b'.'; 3 * MOST_WORDS as usize];
        long.extend_from_slice(b"the last words");
        let kept = kept(&long).await;
        assert!(kept.len() as u64 <= MOST_WORDS + 8_192 * 2, "{}", kept.len());
        assert!(kept.ends_with(b"the last words"));
    }

    #[tokio::test]
    async fn words_that_cannot_be_kept_hold_nobody_up() {
        let (reader, writer) = io::pipe().unwrap();
        let speaker = std::thread::spawn(move || {
            use std::io::Write as _;
            let mut writer = writer;
            writer.write_all(&vec![b'.'; 1 << 20]).unwrap();
        });
        let reader = Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap();
        keep(reader, "/nonexistent/folder/log".into()).await;
        speaker.join().unwrap();
    }

    #[tokio::test]
    async fn a_watchdog_that_says_nothing_is_not_waited_for_and_leaves_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("silent");
        // It leads a session as a watchdog does, starts something in it, and says nothing.
        let script = "#!/bin/sh\nexec setsid sh -c 'sleep 1000 & echo $! > \"$0\"; wait' \"$WORDS\"\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let words = dir.path().join("number");
        let command = Command {
            program: "true".into(),
            args: Vec::new(),
            dir: dir.path().to_owned(),
            variables: vec![("WORDS", words.display().to_string())],
            log: dir.path().join("log"),
        };
        let number = || std::fs::read_to_string(&words).unwrap_or_default().trim().to_owned();
        let begun = |watchdogs: Watchdogs, kill: Duration| {
            let (command, now) = (command.clone(), BootClock.now());
            async move { watchdogs.launch(command, Times { stop: now, kill: now + kill }).await }
        };
        let silent = || Watchdogs { program: program.clone() };
        // Long enough for the script to be there on most machines; where it is not, it never comes.
        let error = begun(silent(), Duration::from_secs(2)).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let runs = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
        };
        let gone = || number().is_empty() || !runs(&number());
        testkit::wait::until("it is gone", Duration::from_secs(60), gone).unwrap();
    }

    #[test]
    fn how_the_watchdog_says_it_is_how_the_worker_hears_it() {
        assert_eq!(exit(0, Why::Own), Exit::Code(0));
        assert_eq!(exit(143, Why::Own), Exit::Signal(15));
        assert_eq!(exit(0, Why::Deadline), Exit::Deadline);
        assert_eq!(exit(1, Why::Orphaned), Exit::Unknown);
        let tick = lease::Tick::from_nanos(7);
        let times = convert(Times { stop: tick, kill: tick + Duration::from_secs(1) });
        assert_eq!(times.stop, tick);
    }
}
