//! Starts and controls the process of a pipeline.
//!
//! The binary implements this with its watchdog, which kills the process when a deadline passes, even without the worker.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use std::time::Duration;
use tenure_lease::{Deadline, Tick, Ttl};

/// The environment variable that names the session of a pipeline and its child processes. A later worker finds the
/// processes of its predecessor by it.
pub const SESSION_VARIABLE: &str = "TENURE_SESSION";

/// The command to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The program, by name or path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its working directory.
    pub dir: PathBuf,
    /// Environment variables in addition to paths, locale and time zone, including [`SESSION_VARIABLE`].
    pub variables: Vec<(&'static str, String)>,
    /// The file to which standard output and standard error are appended. Standard input is empty.
    pub log: PathBuf,
}

/// The deadlines of a process, on the store's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopTimes {
    /// When it receives SIGTERM.
    pub stop: Tick,
    /// When it is killed.
    pub kill: Tick,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was terminated by this signal.
    Signal(i32),
    /// It was killed because its deadline passed.
    Deadline,
    /// Unknown, because its watchdog is gone.
    Unknown,
}

/// Starts processes that must not outlive their leases.
#[async_trait]
pub trait Launcher: Send + Sync + 'static {
    /// Starts a command in its own process group. Nothing is started if the deadlines have passed.
    async fn launch(&self, command: Command, times: StopTimes) -> io::Result<Box<dyn Process>>;
}

/// A running process. Dropping it kills the process.
#[async_trait]
pub trait Process: Send + 'static {
    /// Extends the deadlines after the leases were renewed.
    async fn extend(&mut self, times: StopTimes) -> io::Result<()>;

    /// Asks the process to exit.
    async fn stop(&mut self) -> io::Result<()>;

    /// Kills the process and its children.
    async fn kill(&mut self) -> io::Result<()>;

    /// Waits for the exit. Cancel safe; returns the same value again after the exit.
    async fn wait(&mut self) -> Exit;

    /// Whether the process and all its children have exited.
    fn is_gone(&self) -> bool;
}

impl StopTimes {
    /// Derives the deadlines from the earliest lease deadline: SIGTERM a sixth of the TTL before it, SIGKILL early enough
    /// for the kernel to finish.
    pub fn of(deadline: Deadline, ttl: Ttl) -> Self {
        let ttl = ttl.as_duration();
        let slack = Duration::from_millis(50).max(ttl / 50).min(ttl / 12);
        Self { stop: deadline.tick() - ttl / 6, kill: deadline.tick() - slack }
    }
}
