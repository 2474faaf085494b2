//! The handle of a watchdog, in the process of the holder.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Pair;
use std::path::Path;
use std::process::Stdio;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::message::{Instruction, LineBuffer, WorkReport};
use super::session::Session;
use tenure_service::config::Environment;
use tenure_session_worker::StopTimes;

/// The working directory and standard streams of the work.
pub(crate) enum WorkIo<'a> {
    /// Those of this process.
    Shared,
    /// Its own: a directory, an empty input, and a pipe for its output.
    Own {
        /// The working directory.
        dir: &'a Path,
        /// Receives its standard output and standard error.
        output: PipeWriter,
    },
}

/// Not the path of the binary, which may have been replaced since the start.
pub(crate) const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// Work under a watchdog. Dropping it closes the socket, which kills the work.
pub(crate) struct WatchdogHandle {
    socket: UnixStream,
    lines: LineBuffer,
    watchdog: Child,
    /// Known from the start, so that it is not lost with a watchdog that dies early.
    session: Session,
}

impl WatchdogHandle {
    /// Starts a watchdog, which starts `command` with `variables` and `io`. Nothing runs if `times` have passed by then.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        times: StopTimes,
        io: WorkIo<'_>,
    ) -> io::Result<Self> {
        Self::start_with(Path::new(OWN_EXECUTABLE), command, variables, times, io)
    }

    /// The same with another program as the watchdog.
    pub(crate) fn start_with(
        program: &Path,
        command: &[OsString],
        variables: &[(&str, String)],
        times: StopTimes,
        io: WorkIo<'_>,
    ) -> io::Result<Self> {
        let (ours, theirs) = Pair::pair()?;
        let mut watchdog = Command::new(program);
        watchdog
            .arg0("tenure")
            .args(["__watchdog", "--"])
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        match io {
            WorkIo::Shared => {
                watchdog.envs(variables.iter().map(|(name, value)| (name, value)));
                send_start(&ours, times, io::stdin())?;
            }
            WorkIo::Own { dir, output } => {
                // A program of this process, such as ffmpeg, must not see its secrets.
                let environment = Environment::process();
                watchdog.env_clear().envs(environment.for_children());
                watchdog.envs(variables.iter().map(|(name, value)| (name, value)));
                send_start(&ours, times, File::open("/dev/null")?)?;
                watchdog.current_dir(dir).stdout(output.try_clone()?).stderr(output);
            }
        }
        let watchdog = watchdog.spawn()?;
        ours.set_nonblocking(true)?;
        let number = watchdog.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let session = Session::of(number.ok_or_else(|| io::Error::other("the watchdog exited at once"))?);
        Ok(Self { socket: UnixStream::from_std(ours)?, lines: LineBuffer::default(), watchdog, session })
    }

    /// Sends the times of a deadline that moved.
    pub(crate) async fn extend(&mut self, times: StopTimes) -> io::Result<()> {
        self.send(Instruction::Until(times)).await
    }

    /// Forwards a signal to the work.
    pub(crate) async fn signal(&mut self, number: i32) -> io::Result<()> {
        self.send(Instruction::Signal(number)).await
    }

    /// Kills the work now.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        self.send(Instruction::Kill).await
    }

    /// Kills the work directly, when the watchdog is stopped or dead.
    pub(crate) fn kill_directly(&self) {
        self.session.kill();
    }

    /// Whether no process of the work is left, regardless of the watchdog.
    pub(crate) fn is_gone(&self) -> bool {
        self.session.is_gone()
    }

    /// The next report of the watchdog; none when it has exited. Cancel safe.
    pub(crate) async fn next_report(&mut self) -> io::Result<Option<WorkReport>> {
        loop {
            if let Some(line) = self.lines.pop() {
                let malformed =
                    || io::Error::new(ErrorKind::InvalidData, "malformed report from the watchdog");
                return WorkReport::parse(&line).map(Some).ok_or_else(malformed);
            }
            let mut bytes = [0; 256];
            match self.socket.read(&mut bytes).await? {
                0 => return Ok(None),
                count => drop(self.lines.push(&bytes[..count])),
            };
        }
    }

    /// Kills a watchdog that does not respond, and then what it may have started.
    pub(crate) async fn abandon(&mut self) {
        drop(self.watchdog.kill().await);
        self.session.kill();
    }

    /// Ends the watchdog after its work.
    pub(crate) async fn reap(mut self) {
        drop(self.watchdog.kill().await);
    }

    async fn send(&mut self, instruction: Instruction) -> io::Result<()> {
        self.socket.write_all(instruction.to_string().as_bytes()).await
    }
}

/// Sends the first times with the standard input of the work: the standard input of the watchdog is the socket.
fn send_start(socket: &Pair, times: StopTimes, input: impl AsFd) -> io::Result<()> {
    let fds = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let line = Instruction::Until(times).to_string();
    sendmsg(socket, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
