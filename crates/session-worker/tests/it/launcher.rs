//! A launcher without a watchdog: each process has its own group, and only the worker ends it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tenure_session_worker::{Command, Exit, Launcher, Process, StopTimes};
use tokio::process::Child;

pub(crate) struct PlainLauncher;

#[async_trait]
impl Launcher for PlainLauncher {
    async fn launch(&self, command: Command, _times: StopTimes) -> io::Result<Box<dyn Process>> {
        let log = OpenOptions::new().create(true).append(true).open(&command.log)?;
        let child = tokio::process::Command::new(&command.program)
            .args(&command.args)
            .current_dir(&command.dir)
            .envs(command.variables)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group =
            child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Running { child, group, exit: None }))
    }
}

struct Running {
    child: Child,
    group: Pid,
    exit: Option<ExitStatus>,
}

impl Running {
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        self.exit = self.child.try_wait()?;
        let _no_members = kill_process_group(self.group, signal);
        self.exit = self.child.try_wait()?;
        Ok(())
    }
}

#[async_trait]
impl Process for Running {
    async fn extend(&mut self, _times: StopTimes) -> io::Result<()> {
        Ok(())
    }

    async fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    async fn kill(&mut self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    async fn wait(&mut self) -> Exit {
        match self.child.wait().await {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (_, Some(signal)) => Exit::Signal(signal),
                _ => Exit::Unknown,
            },
            Err(_) => Exit::Unknown,
        }
    }

    fn is_gone(&self) -> bool {
        // A zombie group leader counts as exited.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.group.as_raw_nonzero()));
        let zombie =
            stat.is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")));
        zombie || test_kill_process_group(self.group).is_err()
    }
}
