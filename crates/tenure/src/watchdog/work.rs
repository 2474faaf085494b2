//! The watchdog's own process.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use lease::Clock;
use lease_store::BootClock;
use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, setsid};

use super::alarm::Alarm;
use super::line::{Inbox, Order, Report, Why};
use super::plan::{Act, Plan, Times};
use super::session::{Session, signal};

/// What the watchdog is started with; only ever by ourselves.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The work.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the work until it ends or must end. Standard input is the socket from the holder.
pub(crate) fn run(args: &Args) -> io::Result<()> {
    // Who manages services signals every process of a unit: only the holder decides what the work gets.
    let deaf = SigSet::from_iter([Blocked::SIGINT, Blocked::SIGTERM, Blocked::SIGHUP, Blocked::SIGQUIT]);
    deaf.thread_block()?;
    let session = Session::of(setsid()?);
    let mut holder = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut inbox = Inbox::default();
    let input = greet(&holder, &mut inbox)?;
    let Some(Order::Until(times)) = inbox.pop().as_deref().and_then(Order::parse) else {
        return Err(io::Error::new(ErrorKind::InvalidData, "started by hand"));
    };
    if BootClock.now() >= times.stop {
        return say(&mut holder, Report::Ended { code: 0, why: Why::Deadline });
    }
    let started =
        Command::new(&args.command[0]).args(&args.command[1..]).stdin(input).process_group(0).spawn();
    match started {
        Ok(child) => Watch::new(holder, inbox, child, session, times)?.run(),
        Err(error) => say(&mut holder, Report::Failed(error.raw_os_error().unwrap_or(0))),
    }
}

/// Receives the first order, and with it the standard input of the work: our own is the socket.
fn greet(holder: &UnixStream, inbox: &mut Inbox) -> io::Result<OwnedFd> {
    let mut bytes = [0; 128];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(holder, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    inbox.push(&bytes[..got.bytes]);
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::Error::new(ErrorKind::UnexpectedEof, "the holder is gone"))
}

fn say(holder: &mut UnixStream, report: Report) -> io::Result<()> {
    holder.write_all(report.to_string().as_bytes())
}

/// The work, while it is watched.
struct Watch {
    holder: UnixStream,
    inbox: Inbox,
    /// The holder's end is open.
    attached: bool,
    child: Child,
    /// The command, which leads a group of its own. Not reaped before everything is gone.
    command: Pid,
    session: Session,
    /// Readable once the command ended; none once that was seen.
    leader: Option<OwnedFd>,
    alarm: Alarm,
    plan: Plan,
}

impl Watch {
    fn new(
        holder: UnixStream,
        inbox: Inbox,
        child: Child,
        session: Session,
        times: Times,
    ) -> io::Result<Self> {
        let command = Pid::from_child(&child);
        // From here on the work runs: whatever fails ends it.
        let made = (|| {
            holder.set_nonblocking(true)?;
            Ok((pidfd_open(command, PidfdFlags::empty())?, Alarm::new()?))
        })();
        match made {
            Ok((leader, alarm)) => {
                let plan = Plan::new(times);
                let leader = Some(leader);
                Ok(Self { holder, inbox, attached: true, child, command, session, leader, alarm, plan })
            }
            Err(error) => {
                session.kill();
                Err(error)
            }
        }
    }

    fn run(mut self) -> io::Result<()> {
        drop(say(&mut self.holder, Report::Started(self.command.as_raw_nonzero().get())));
        let watched = self.watch();
        if watched.is_err() {
            self.kill();
        }
        let status = self.child.wait()?;
        watched?;
        drop(say(&mut self.holder, Report::Ended { code: code(status), why: self.plan.why() }));
        Ok(())
    }

    /// Returns when nothing of the work runs any more. The command itself is not reaped, so that its number,
    /// which is the group's, cannot go to a stranger.
    fn watch(&mut self) -> io::Result<()> {
        loop {
            let (mail, ended) = self.wait()?;
            if ended {
                self.leader = None;
                self.plan.ended(BootClock.now());
            }
            // The clock comes before the mail: an order that was read too late must not undo anything.
            self.act();
            if mail {
                self.read();
                self.act();
            }
            if self.leader.is_none() && self.session.is_gone() {
                return Ok(());
            }
        }
    }

    fn act(&mut self) {
        match self.plan.due(BootClock.now()) {
            Some(Act::Kill) => self.kill(),
            Some(Act::Stop) => self.stop(),
            None => {}
        }
    }

    /// A stopped process sees no signal but the one that kills it.
    fn stop(&self) {
        signal(self.command, Signal::TERM);
        signal(self.command, Signal::CONT);
    }

    /// The group first, in one call of the kernel; then what left it.
    fn kill(&self) {
        signal(self.command, Signal::KILL);
        self.session.kill();
    }

    /// Waits for mail, for the end of the command or for the alarm. Answers the first two.
    fn wait(&self) -> io::Result<(bool, bool)> {
        self.alarm.set(self.plan.wake(BootClock.now()))?;
        let mut fds = vec![PollFd::new(&self.alarm, PollFlags::IN)];
        if self.attached {
            fds.push(PollFd::new(&self.holder, PollFlags::IN));
        }
        if let Some(leader) = &self.leader {
            fds.push(PollFd::new(leader, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok((self.attached && ready(1), self.leader.is_some() && ready(1 + usize::from(self.attached))))
    }

    fn read(&mut self) {
        let mut bytes = [0; 512];
        let whole = match self.holder.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => self.inbox.push(&bytes[..count]),
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        while let Some(line) = self.inbox.pop() {
            match Order::parse(&line) {
                Some(Order::Until(times)) => self.plan.extend(times),
                Some(Order::Signal(number)) => {
                    if let Some(named) = Signal::from_named_raw(number) {
                        signal(self.command, named);
                    }
                }
                Some(Order::Kill) => self.plan.kill(Why::Told),
                None => self.plan.kill(Why::Orphaned),
            }
        }
        if !whole {
            self.attached = false;
            self.plan.kill(Why::Orphaned);
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
