//! The process of the watchdog.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, setsid};
use tenure_lease::Clock;
use tenure_store::BootClock;
use tokio::signal::unix::SignalKind;

use super::alarm::Alarm;
use super::message::{EndReason, Instruction, LineBuffer, WorkReport};
use super::plan::{Action, Plan};
use super::session::{Session, signal};
use tenure_session_worker::StopTimes;

/// The arguments of the watchdog, which only this binary starts.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The command to run.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the work until it ends or must be killed. Standard input is the socket to the holder.
pub(crate) fn run(args: &Args) -> io::Result<()> {
    disregard_signals()?;
    let session = Session::of(setsid()?);
    let mut holder = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut lines = LineBuffer::default();
    let input = receive_start(&holder, &mut lines)?;
    let Some(Instruction::Until(times)) = lines.pop().as_deref().and_then(Instruction::parse) else {
        return Err(io::Error::new(ErrorKind::InvalidData, "the watchdog is an internal command"));
    };
    if BootClock.now() >= times.stop {
        return send(&mut holder, WorkReport::Ended { code: 0, why: EndReason::Deadline });
    }
    let started =
        Command::new(&args.command[0]).args(&args.command[1..]).stdin(input).process_group(0).spawn();
    match started {
        Ok(child) => Supervisor::new(holder, lines, child, session, times)?.run(),
        Err(error) => send(&mut holder, WorkReport::Failed(error.raw_os_error().unwrap_or(0))),
    }
}

/// Handles signals by doing nothing: a service manager signals every process of a unit, and only the holder decides which
/// signals the work gets.
///
/// The work inherits blocked and ignored signals, but not handlers. So nothing is blocked, and each of these signals has
/// its default action in the work, whatever this process inherited.
fn disregard_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _context = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()] {
        // The handler stays installed for the life of the process.
        drop(tokio::signal::unix::signal(kind)?);
    }
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

/// Receives the first times and the standard input of the work.
fn receive_start(holder: &UnixStream, lines: &mut LineBuffer) -> io::Result<OwnedFd> {
    let mut bytes = [0; 128];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(holder, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    lines.push(&bytes[..got.bytes]);
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::Error::new(ErrorKind::UnexpectedEof, "the holder has exited"))
}

fn send(holder: &mut UnixStream, report: WorkReport) -> io::Result<()> {
    holder.write_all(report.to_string().as_bytes())
}

/// The running work.
struct Supervisor {
    holder: UnixStream,
    lines: LineBuffer,
    /// Whether the holder still has its end of the socket open.
    attached: bool,
    child: Child,
    /// The command, which leads its own group. Not reaped before all processes have ended.
    command: Pid,
    session: Session,
    /// Readable once the command ended; none after that was noticed.
    leader: Option<OwnedFd>,
    alarm: Alarm,
    plan: Plan,
}

impl Supervisor {
    fn new(
        holder: UnixStream,
        lines: LineBuffer,
        child: Child,
        session: Session,
        times: StopTimes,
    ) -> io::Result<Self> {
        let command = Pid::from_child(&child);
        // The work runs from here on: any failure ends it.
        let made = (|| {
            holder.set_nonblocking(true)?;
            Ok((pidfd_open(command, PidfdFlags::empty())?, Alarm::new()?))
        })();
        match made {
            Ok((leader, alarm)) => {
                let plan = Plan::new(times);
                let leader = Some(leader);
                Ok(Self { holder, lines, attached: true, child, command, session, leader, alarm, plan })
            }
            Err(error) => {
                session.kill();
                Err(error)
            }
        }
    }

    fn run(mut self) -> io::Result<()> {
        drop(send(&mut self.holder, WorkReport::Started(self.command.as_raw_nonzero().get())));
        let watched = self.watch();
        if watched.is_err() {
            self.kill();
        }
        let status = self.child.wait()?;
        watched?;
        drop(send(&mut self.holder, WorkReport::Ended { code: code(status), why: self.plan.reason() }));
        Ok(())
    }

    /// Returns when no process of the work is left. The command itself is not reaped, so that its pid, which is also the id
    /// of the group, is not reused.
    fn watch(&mut self) -> io::Result<()> {
        loop {
            let (received, ended) = self.wait()?;
            if ended {
                self.leader = None;
                self.plan.ended(BootClock.now());
            }
            // The clock comes first: an instruction that is read too late must not undo anything.
            self.act();
            if received {
                self.read_instructions();
                self.act();
            }
            if self.leader.is_none() && self.session.is_gone() {
                return Ok(());
            }
        }
    }

    fn act(&mut self) {
        match self.plan.due(BootClock.now()) {
            Some(Action::Kill) => self.kill(),
            Some(Action::Stop) => self.stop(),
            None => {}
        }
    }

    /// SIGCONT follows because a stopped process handles no other signal than SIGKILL.
    fn stop(&self) {
        signal(self.command, Signal::TERM);
        signal(self.command, Signal::CONT);
    }

    /// The group first, in one system call; then the processes that left it.
    fn kill(&self) {
        signal(self.command, Signal::KILL);
        self.session.kill();
    }

    /// Waits for an instruction, the end of the command or the alarm. Returns the first two.
    fn wait(&self) -> io::Result<(bool, bool)> {
        self.alarm.set(self.plan.next_check(BootClock.now()))?;
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

    fn read_instructions(&mut self) {
        let mut bytes = [0; 512];
        let open = match self.holder.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => self.lines.push(&bytes[..count]),
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        while let Some(line) = self.lines.pop() {
            match Instruction::parse(&line) {
                Some(Instruction::Until(times)) => self.plan.set_times(times),
                Some(Instruction::Signal(number)) => {
                    if let Some(named) = Signal::from_named_raw(number) {
                        signal(self.command, named);
                    }
                }
                Some(Instruction::Kill) => self.plan.kill(EndReason::Killed),
                None => self.plan.kill(EndReason::Orphaned),
            }
        }
        if !open {
            self.attached = false;
            self.plan.kill(EndReason::Orphaned);
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
