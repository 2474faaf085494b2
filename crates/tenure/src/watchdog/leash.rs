//! The holder's end of a watchdog.

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

use super::line::{Inbox, Order, Report};
use super::plan::Times;
use super::session::Session;

/// Where work finds and leaves things.
pub(crate) enum Desk<'a> {
    /// Ours: our folder, standard input, output and error.
    Shared,
    /// Its own: a folder, nothing to read, and a pipe for its words.
    Own {
        /// Where it works.
        folder: &'a Path,
        /// Where its standard output and standard error go.
        words: PipeWriter,
    },
}

/// Not a path: the file may have been replaced since we started.
pub(crate) const OURSELVES: &str = "/proc/self/exe";

/// Work on a leash. Dropping it lets go of the socket, and that kills the work.
pub(crate) struct Leash {
    socket: UnixStream,
    inbox: Inbox,
    watchdog: Child,
    /// Known from the start, so that nothing gets lost with a watchdog that dies early.
    session: Session,
}

impl Leash {
    /// Starts a watchdog, which starts `command` at `desk` and with `variables`. Nothing runs if `times` have passed
    /// by then.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        times: Times,
        desk: Desk<'_>,
    ) -> io::Result<Self> {
        Self::start_with(Path::new(OURSELVES), command, variables, times, desk)
    }

    /// The same with another program as the watchdog.
    pub(crate) fn start_with(
        program: &Path,
        command: &[OsString],
        variables: &[(&str, String)],
        times: Times,
        desk: Desk<'_>,
    ) -> io::Result<Self> {
        let (ours, theirs) = Pair::pair()?;
        let mut watchdog = Command::new(program);
        watchdog
            .arg0("tenure")
            .args(["__watchdog", "--"])
            .args(command)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        match desk {
            Desk::Shared => hand_over(&ours, times, io::stdin())?,
            Desk::Own { folder, words } => {
                hand_over(&ours, times, File::open("/dev/null")?)?;
                watchdog.current_dir(folder).stdout(words.try_clone()?).stderr(words);
            }
        }
        let watchdog = watchdog.spawn()?;
        ours.set_nonblocking(true)?;
        let number = watchdog.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let session = Session::of(number.ok_or_else(|| io::Error::other("the watchdog ended at once"))?);
        Ok(Self { socket: UnixStream::from_std(ours)?, inbox: Inbox::default(), watchdog, session })
    }

    /// Later times: the lease was prolonged.
    pub(crate) async fn extend(&mut self, times: Times) -> io::Result<()> {
        self.say(Order::Until(times)).await
    }

    /// Passes a signal on to the work.
    pub(crate) async fn signal(&mut self, number: i32) -> io::Result<()> {
        self.say(Order::Signal(number)).await
    }

    /// Kills the work now.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        self.say(Order::Kill).await
    }

    /// Kills the work past a watchdog that is stopped or dead.
    pub(crate) fn kill_past(&self) {
        self.session.kill();
    }

    /// Whether nothing of the work runs any more, whatever became of the watchdog.
    pub(crate) fn is_gone(&self) -> bool {
        self.session.is_gone()
    }

    /// What the watchdog says next; none when it is gone. Dropping the future loses nothing.
    pub(crate) async fn report(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(line) = self.inbox.pop() {
                let nonsense = || io::Error::new(ErrorKind::InvalidData, "the watchdog talks nonsense");
                return Report::parse(&line).map(Some).ok_or_else(nonsense);
            }
            let mut bytes = [0; 256];
            match self.socket.read(&mut bytes).await? {
                0 => return Ok(None),
                count => drop(self.inbox.push(&bytes[..count])),
            };
        }
    }

    /// Ends a watchdog that says nothing, and then whatever it may have started meanwhile.
    pub(crate) async fn give_up(&mut self) {
        drop(self.watchdog.kill().await);
        self.session.kill();
    }

    /// Ends the watchdog, which has nothing left to watch.
    pub(crate) async fn reap(mut self) {
        drop(self.watchdog.kill().await);
    }

    async fn say(&mut self, order: Order) -> io::Result<()> {
        self.socket.write_all(order.to_string().as_bytes()).await
    }
}

/// Sends the first times together with the work's standard input: the watchdog's own is the socket.
fn hand_over(socket: &Pair, times: Times, input: impl AsFd) -> io::Result<()> {
    let fds = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let line = Order::Until(times).to_string();
    sendmsg(socket, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
