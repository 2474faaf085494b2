//! ffmpeg as a process under the watchdog, and the folder it writes to.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease::{Clock, Tick};
use session::{Detail, Kind, Reason, Session, Target};
use tokio::task::JoinHandle;

use super::{News, Pipeline, args, not_started, verdict};
use crate::desk::Cause;
use crate::launch::{Command, Exit, Process, SESSION_VARIABLE, Times};
use crate::world::World;
use crate::{Fatal, Ffmpeg, folder, limits};

/// What ffmpeg says goes there.
const LOG: &str = "ffmpeg.log";

/// Refuses a program that does not start, or says nothing.
pub(super) async fn check(source: &Ffmpeg, clock: &dyn Clock) -> Result<(), Fatal> {
    let mut command = tokio::process::Command::new(&source.program);
    command
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let asked = tokio::select! {
        biased;
        asked = command.status() => Some(asked),
        () = clock.sleep_until(clock.now() + limits::CHECK) => None,
    };
    let why = match asked {
        Some(Ok(status)) if status.success() => return Ok(()),
        Some(Ok(status)) => status.to_string(),
        Some(Err(error)) => error.to_string(),
        None => format!("no answer within {} s", limits::CHECK.as_secs()),
    };
    Err(Fatal::Pipeline { program: source.program.display().to_string(), why })
}

/// Starts ffmpeg for a session.
pub(super) async fn start(
    world: &World,
    source: &Ffmpeg,
    session: &Session,
    folder: PathBuf,
    times: Times,
) -> Result<Box<dyn Pipeline>, Cause> {
    let refused = |reason, words: String| Cause::new(reason, None, words);
    let Some(profile) = source.profiles.get(session.profile.as_str()) else {
        return Err(refused(Reason::BadRequest, format!("there is no profile {}", session.profile)));
    };
    let file = match (&session.target, &source.recordings_dir) {
        (Target::Live(_), _) => None,
        (Target::Recording { id, .. }, Some(dir)) => match args::recording(dir, id.as_str()) {
            Some(file) => Some(file),
            None => return Err(refused(Reason::NotFound, format!("there is no recording {id}"))),
        },
        (Target::Recording { .. }, None) => {
            return Err(refused(Reason::NotFound, "there is no folder of recordings".to_owned()));
        }
    };
    folder::make(&folder).map_err(|error| not_started(&error))?;
    let command = Command {
        program: source.program.clone(),
        args: args::all(source, session, profile, file.as_deref()),
        dir: folder.clone(),
        variables: vec![(SESSION_VARIABLE, session.id.to_string())],
        log: folder.join(LOG),
    };
    let process = world.launcher.launch(command, times).await.map_err(|error| not_started(&error))?;
    let (clock, now) = (world.clock.clone(), world.clock.now());
    let bounds = Bounds {
        first: world.options.first_segment_timeout,
        stall: world.options.stall_timeout,
        bytes: world.options.max_output_bytes,
    };
    let watch = Watch { bounds, published: false, newest: None, moved: now };
    Ok(Box::new(Running {
        process,
        clock,
        folder,
        kind: session.kind(),
        watch,
        next_look: now,
        looking: None,
        exit: None,
    }))
}

/// A process, and what its folder told so far.
struct Running {
    process: Box<dyn Process>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    kind: Kind,
    watch: Watch,
    next_look: Tick,
    looking: Option<JoinHandle<Found>>,
    exit: Option<Exit>,
}

#[async_trait]
impl Pipeline for Running {
    async fn news(&mut self) -> News {
        loop {
            let exit = match self.exit {
                Some(exit) => Some(exit),
                None if self.looking.is_some() => None,
                None => tokio::select! {
                    biased;
                    exit = self.process.wait() => Some(exit),
                    () = self.clock.sleep_until(self.next_look) => None,
                },
            };
            self.exit = exit;
            // Also after the end: the last segment may be the first. A look that was left is taken up again.
            let looking = self.looking.get_or_insert_with(|| look(self.folder.clone()));
            let found = looking.await.unwrap_or_default();
            self.looking = None;
            let now = self.clock.now();
            self.next_look = now + limits::LOOK;
            if let Some(news) = self.watch.judge(&found, now, exit.is_some()) {
                return news;
            }
            if let Some(exit) = exit {
                return verdict::ended(exit, self.kind, self.watch.published, &found.log);
            }
        }
    }

    fn is_timed(&self) -> bool {
        self.exit.is_none()
    }

    async fn extend(&mut self, times: Times) {
        // Who watches it and does not hear this ends it in time.
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

/// The bounds of a pipeline.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    first: Duration,
    stall: Duration,
    bytes: u64,
}

/// What is concluded from the looks at a folder. Pure: no clock, no disk.
#[derive(Debug)]
struct Watch {
    bounds: Bounds,
    published: bool,
    newest: Option<String>,
    /// When a segment last came, or the start.
    moved: Tick,
}

/// What a folder shows.
#[derive(Clone, Default, Debug)]
struct Found {
    /// The newest segment that the playlist names and that is there.
    newest: Option<String>,
    bytes: u64,
    log: String,
}

impl Watch {
    fn judge(&mut self, found: &Found, now: Tick, ended: bool) -> Option<News> {
        let failed = |reason, detail, words: &str| {
            Some(News::Failed(Cause::new(reason, Some(detail), words.to_owned())))
        };
        if found.bytes > self.bounds.bytes {
            return failed(Reason::PackagerFailed, Detail::DiskLimit, "the output grew beyond its bound");
        }
        if found.newest.is_some() && found.newest != self.newest {
            (self.newest, self.moved) = (found.newest.clone(), now);
            if !std::mem::replace(&mut self.published, true) {
                return Some(News::Published);
            }
        }
        let silent = now.since(self.moved);
        match self.published {
            _ if ended => None,
            false if silent >= self.bounds.first => {
                failed(Reason::PackagerFailed, Detail::FirstSegmentTimeout, "there was no picture in time")
            }
            true if silent >= self.bounds.stall => failed(
                Reason::UpstreamCorrupt,
                Detail::UpstreamStalled,
                "nothing came from upstream for too long",
            ),
            _ => None,
        }
    }
}

/// Looks at a folder, beside the runtime.
fn look(folder: PathBuf) -> JoinHandle<Found> {
    tokio::task::spawn_blocking(move || look_at(&folder))
}

fn look_at(folder: &Path) -> Found {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum();
    let playlist = std::fs::read_to_string(folder.join(folder::PLAYLIST)).unwrap_or_default();
    let named = playlist.lines().rev().find(|line| !line.is_empty() && !line.starts_with('#'));
    let newest = named.filter(|name| folder.join(name).is_file()).map(str::to_owned);
    Found { newest, bytes, log: tail(&folder.join(LOG)).unwrap_or_default() }
}

/// The end of a file that may be long.
fn tail(file: &Path) -> io::Result<String> {
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

    fn watch() -> Watch {
        let bounds = Bounds { first: Duration::from_secs(30), stall: Duration::from_secs(12), bytes: 1_000 };
        Watch { bounds, published: false, newest: None, moved: at(0) }
    }

    fn at(secs: u64) -> Tick {
        Tick::from_nanos(secs * 1_000_000_000)
    }

    fn found(newest: Option<u32>, bytes: u64) -> Found {
        Found { newest: newest.map(|number| number.to_string()), bytes, log: String::new() }
    }

    fn detail(news: Option<News>) -> Option<Detail> {
        match news {
            Some(News::Failed(cause)) => cause.detail,
            _ => None,
        }
    }

    #[test]
    fn a_picture_is_published_once_and_stalls_only_without_new_segments() {
        let mut watch = watch();
        assert_eq!(watch.judge(&found(None, 0), at(29), false), None);
        assert_eq!(watch.judge(&found(Some(1), 10), at(29), false), Some(News::Published));
        assert_eq!(watch.judge(&found(Some(1), 10), at(40), false), None);
        assert_eq!(watch.judge(&found(Some(2), 10), at(41), false), None);
        assert_eq!(watch.judge(&found(Some(2), 10), at(52), false), None);
        assert_eq!(detail(watch.judge(&found(Some(2), 10), at(53), false)), Some(Detail::UpstreamStalled));
    }

    #[test]
    fn no_picture_in_time_and_too_much_of_it_are_failures() {
        assert_eq!(detail(watch().judge(&found(None, 0), at(30), false)), Some(Detail::FirstSegmentTimeout));
        assert_eq!(detail(watch().judge(&found(Some(1), 1_001), at(1), false)), Some(Detail::DiskLimit));
        assert_eq!(watch().judge(&found(None, 0), at(30), true), None, "how it ended says more");
    }

    #[test]
    fn a_folder_shows_the_newest_segment_that_is_really_there() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(folder::PLAYLIST, "#EXTM3U\n#EXTINF:2,\nseg-00001.m4s\n");
        assert_eq!(look_at(folder.path()).newest, None);
        write("seg-00001.m4s", "0123456789");
        write(LOG, &"x".repeat(10_000));
        let found = look_at(folder.path());
        assert_eq!(found.newest.as_deref(), Some("seg-00001.m4s"));
        assert!(found.bytes > 10_000 && found.log.len() == limits::LOG_TAIL as usize);
    }
}
