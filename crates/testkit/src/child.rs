//! A child process that is never signalled after it was reaped, and never outlives its owner.

use std::io::ErrorKind;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::lock;

/// How long the kernel may take to end a process that was killed.
const KILL_LIMIT: Duration = Duration::from_secs(20);

/// The owner of one child process.
pub(crate) struct Child {
    pid: Pid,
    end: Arc<End>,
}

#[derive(Default)]
struct End {
    /// Held while signalling and while reaping, so that a signal is never sent to a reused pid.
    status: Mutex<Option<ExitStatus>>,
    reaped: Condvar,
}

impl Child {
    /// Starts `command`; `missing` is the whole error when there is no such program.
    pub(crate) fn spawn(command: &mut Command, missing: &str) -> Result<Self> {
        let (child, _) = Self::spawn_with(command, missing, |_| ())?;
        Ok(child)
    }

    /// [`Child::spawn`], with `take` called on the child before the reaper owns it, to take its pipes.
    pub(crate) fn spawn_with<T>(
        command: &mut Command,
        missing: &str,
        take: impl FnOnce(&mut std::process::Child) -> T,
    ) -> Result<(Self, T)> {
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!("{missing}"),
            _ => anyhow!(error).context(format!("start {}", command.get_program().display())),
        })?;
        let taken = take(&mut child);
        let pid = Pid::from_raw(i32::try_from(child.id()).context("pid does not fit i32")?);
        let end = Arc::new(End::default());
        let seen = Arc::clone(&end);
        let reaper =
            thread::Builder::new().name(format!("reap-{pid}")).spawn(move || reap(child, pid, &seen));
        if let Err(error) = reaper {
            // The child was not reaped, so its pid has not been reused.
            let _ = kill(pid, Signal::SIGKILL);
            return Err(error).context("cannot start the reaper thread");
        }
        Ok((Self { pid, end }, taken))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    pub(crate) fn is_running(&self) -> bool {
        lock(&self.end.status).is_none()
    }

    /// Kills the child and returns when it has ended and its sockets are closed. A child that has already ended is not an
    /// error.
    pub(crate) fn kill9(&self) -> Result<()> {
        {
            let status = lock(&self.end.status);
            if status.is_some() {
                return Ok(());
            }
            kill(self.pid, Signal::SIGKILL).context("send SIGKILL")?;
        }
        self.wait(KILL_LIMIT).map(|_| ())
    }

    /// [`Child::kill9`] for a child that leads a process group, together with the whole group. Once the child was
    /// reaped, the group id may be reused, so the rest of the group of a child that ended by itself is not killed.
    pub(crate) fn kill9_group(&self) -> Result<()> {
        {
            let status = lock(&self.end.status);
            if status.is_some() {
                return Ok(());
            }
            killpg(self.pid, Signal::SIGKILL).context("send SIGKILL to the group")?;
        }
        self.wait(KILL_LIMIT).map(|_| ())
    }

    /// Stops the child and returns when it has stopped: the signal takes effect later.
    pub(crate) fn pause(&self) -> Result<()> {
        let status = lock(&self.end.status);
        if let Some(status) = *status {
            bail!("process {} cannot be paused: it has ended: {status}", self.pid);
        }
        kill(self.pid, Signal::SIGSTOP).context("send SIGSTOP")?;
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        match wait_for(self.pid, flags).context("wait for the child to stop")? {
            WaitStatus::Stopped(..) => Ok(()),
            other => bail!("process {} ended instead of stopping: {other:?}", self.pid),
        }
    }

    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let status = lock(&self.end.status);
        if let Some(status) = *status {
            bail!("process {} cannot receive {signal}: it has ended: {status}", self.pid);
        }
        kill(self.pid, signal).with_context(|| format!("send {signal} to {}", self.pid))
    }

    /// Waits until the child has ended and was reaped.
    pub(crate) fn wait(&self, limit: Duration) -> Result<ExitStatus> {
        let status = lock(&self.end.status);
        let (status, _) = self
            .end
            .reaped
            .wait_timeout_while(status, limit, |status| status.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        status.with_context(|| format!("process {} is still running after {limit:?}", self.pid))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill9();
    }
}

/// Waits for the end of the child without reaping it, then reaps it under the lock of signals.
fn reap(mut child: std::process::Child, pid: Pid, end: &End) {
    let _ = wait_for(pid, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    let mut status = lock(&end.status);
    *status = child.wait().ok();
    end.reaped.notify_all();
}

fn wait_for(pid: Pid, flags: WaitPidFlag) -> nix::Result<WaitStatus> {
    loop {
        match waitid(Id::Pid(pid), flags) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}
