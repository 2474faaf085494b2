//! How a pipeline's process is started, and what is asked of it.
//!
//! The binary fills this with its watchdog, which ends the work without our help when a deadline passes.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use lease::{Deadline, Tick, Ttl};
use std::time::Duration;

/// The variable in the environment of a pipeline and of all that it starts: which session they work for. A worker that
/// comes later finds by it what its predecessor left.
pub const SESSION_VARIABLE: &str = "TENURE_SESSION";

/// What to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The program, by name or path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where it works.
    pub dir: PathBuf,
    /// What it finds in its environment besides ours; [`SESSION_VARIABLE`] is among it.
    pub variables: Vec<(&'static str, String)>,
    /// The file that its standard output and standard error go to, appended. Its standard input is empty.
    pub log: PathBuf,
}

/// The times by which the work must be over, on the store's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// When it is asked to stop.
    pub stop: Tick,
    /// When it is killed.
    pub kill: Tick,
}

/// How the work ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal of somebody.
    Signal(i32),
    /// Because its time was over.
    Deadline,
    /// Nobody knows: who watched it is gone.
    Unknown,
}

/// Starts work that must not outlive its leases.
#[async_trait]
pub trait Launcher: Send + Sync + 'static {
    /// Starts a command in a process group of its own. Nothing runs if the times have passed by then.
    async fn launch(&self, command: Command, times: Times) -> io::Result<Box<dyn Process>>;
}

/// Work that runs. Dropping it kills the work.
#[async_trait]
pub trait Process: Send + 'static {
    /// Later times: the leases were prolonged.
    async fn extend(&mut self, times: Times) -> io::Result<()>;

    /// Asks the work to end.
    async fn stop(&mut self) -> io::Result<()>;

    /// Kills the work and all that it started.
    async fn kill(&mut self) -> io::Result<()>;

    /// Waits for the end. Dropping the future loses nothing; after the end it answers the same again.
    async fn wait(&mut self) -> Exit;

    /// Whether nothing of the work runs any more.
    fn is_gone(&self) -> bool;
}

impl Times {
    /// The times that follow from the earliest deadline: asked to stop a sixth of the TTL before it, killed early enough
    /// for the kernel to be done with it.
    pub fn of(deadline: Deadline, ttl: Ttl) -> Self {
        let ttl = ttl.as_duration();
        let slack = Duration::from_millis(50).max(ttl / 50).min(ttl / 12);
        Self { stop: deadline.tick() - ttl / 6, kill: deadline.tick() - slack }
    }
}
