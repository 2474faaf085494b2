//! Starts a server and waits until it is ready.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::child::Child;
use crate::wait;

/// Start-up timeout, long enough for a loaded CI machine. A server that exits is noticed at once.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Attempts to bind another port when the chosen one is taken.
const PORT_ATTEMPTS: usize = 5;

/// The length of the log that errors quote, enough for the message before a Go stack trace.
const QUOTED_LINES: usize = 40;

/// The common part of all server starts.
pub(crate) struct Launch<'a> {
    pub(crate) name: &'static str,
    /// The error message when the program is not installed.
    pub(crate) missing: &'static str,
    /// The log file, outside of the data directory, so that a full data disk can still be reported.
    pub(crate) log: &'a Path,
}

/// Why a server did not start.
pub(crate) enum Failure {
    /// Another process listens on its port.
    PortTaken(anyhow::Error),
    /// Any other error.
    Other(anyhow::Error),
}

impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::PortTaken(error) | Failure::Other(error) => error,
        }
    }
}

impl Launch<'_> {
    /// Starts the server and waits until `serves` returns true.
    pub(crate) fn run(
        &self,
        mut command: Command,
        serves: impl Fn(&Child) -> bool,
    ) -> Result<Child, Failure> {
        let child = self.spawn(&mut command).map_err(Failure::Other)?;
        let mut serving = false;
        let waited = wait::until("it serves", READY_LIMIT, || {
            // Probed first: a response counts only if the server is still running afterwards. Otherwise it came from another
            // process on the same port.
            serving = serves(&child) && child.is_running();
            serving || !child.is_running()
        });
        if serving {
            return Ok(child);
        }
        let log = tail(self.log);
        let error = match waited {
            Ok(()) => anyhow!("{} exited during the start; its log ends with:\n{log}", self.name),
            Err(error) => error.context(format!("{} did not start; its log ends with:\n{log}", self.name)),
        };
        if log.to_lowercase().contains("address already in use") {
            return Err(Failure::PortTaken(error));
        }
        Err(Failure::Other(error))
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        let log = File::create(self.log).with_context(|| format!("create {}", self.log.display()))?;
        let errors = log.try_clone().context("cannot share the log file")?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        Child::spawn(command, self.missing)
    }
}

/// Repeats `start` with other ports while the port is taken, a bounded number of times.
pub(crate) fn on_free_ports<T>(mut start: impl FnMut() -> Result<T, Failure>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match start() {
            Err(Failure::PortTaken(_)) if attempt < PORT_ATTEMPTS => attempt += 1,
            outcome => return Ok(outcome?),
        }
    }
}

fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Failure {
        Failure::PortTaken(anyhow!("taken"))
    }

    #[test]
    fn a_taken_port_is_tried_again_a_bounded_number_of_times() {
        let mut attempts = 0;
        let outcome: Result<()> = on_free_ports(|| {
            attempts += 1;
            Err(taken())
        });
        assert!(outcome.is_err());
        assert_eq!(attempts, PORT_ATTEMPTS);
    }

    #[test]
    fn a_start_that_succeeds_on_another_port_is_a_success() {
        let mut attempts = 0;
        let outcome = on_free_ports(|| {
            attempts += 1;
            if attempts == 1 { Err(taken()) } else { Ok(attempts) }
        });
        assert_eq!(outcome.unwrap(), 2);
    }

    #[test]
    fn a_program_that_ends_while_starting_is_reported_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let launch = Launch { name: "sh", missing: "no sh", log: &log };
        let mut command = Command::new("sh");
        command.args(["-c", "echo out of luck; exit 3"]);
        let error = anyhow::Error::from(launch.run(command, |_| false).err().unwrap()).to_string();
        assert!(error.contains("sh exited during the start") && error.contains("out of luck"), "{error}");
    }
}
