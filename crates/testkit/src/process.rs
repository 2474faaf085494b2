//! A child process with readable output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use crate::child::Child;
use crate::lines::Lines;
use crate::lock;

/// A child process with piped standard input and output. Dropping it kills and reaps it.
pub struct Process {
    child: Child,
    lines: Arc<Lines>,
    stdin: Mutex<Option<ChildStdin>>,
}

impl Process {
    /// Starts `command` with piped standard input and output. Standard error is as set in the command.
    pub fn spawn(mut command: Command) -> Result<Self> {
        let missing = format!("{} not found", command.get_program().display());
        // Also for a child whose environment was cleared: `cargo xtask mutants` breaks every process under test.
        command.envs(std::env::var_os(tenure_breaks::VARIABLE).map(|what| (tenure_breaks::VARIABLE, what)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (child, (stdin, stdout)) =
            Child::spawn_with(&mut command, &missing, |child| (child.stdin.take(), child.stdout.take()))?;
        let stdout = stdout.context("the child has no standard output")?;
        let lines = Arc::new(Lines::default());
        let filled = Arc::clone(&lines);
        // The thread ends when the pipe is closed, so it is not joined. A grandchild that inherited the pipe may keep it
        // open longer, which must not block the test.
        thread::Builder::new()
            .name(format!("stdout-{}", child.pid()))
            .spawn(move || filled.fill(stdout))
            .context("cannot start the output thread")?;
        Ok(Self { child, lines, stdin: Mutex::new(stdin) })
    }

    /// Reads until a line satisfies `wanted` and returns it. Earlier lines are discarded.
    pub fn wait_for_line(&self, wanted: impl FnMut(&str) -> bool, limit: Duration) -> Result<String> {
        self.lines.wait_for(wanted, limit).with_context(|| format!("the output of process {}", self.pid()))
    }

    /// Writes one line to standard input.
    pub fn send_line(&self, line: &str) -> Result<()> {
        let mut stdin = lock(&self.stdin);
        let pipe = stdin.as_mut().context("standard input is closed")?;
        pipe.write_all(format!("{line}\n").as_bytes()).context("cannot write to standard input")
    }

    /// Closes standard input.
    pub fn close_stdin(&self) {
        lock(&self.stdin).take();
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Whether it is running.
    pub fn is_running(&self) -> bool {
        self.child.is_running()
    }

    /// Sends `SIGKILL`; returns when it has ended. A process that has already ended is not an error.
    pub fn kill9(&self) -> Result<()> {
        self.child.kill9()
    }

    /// Sends `SIGSTOP`; returns when it has stopped.
    pub fn pause(&self) -> Result<()> {
        self.child.pause()
    }

    /// Sends `SIGCONT`.
    pub fn resume(&self) -> Result<()> {
        self.child.resume()
    }

    /// Sends `SIGTERM` and does not wait.
    pub fn terminate(&self) -> Result<()> {
        self.child.signal(Signal::SIGTERM)
    }

    /// Waits for the end.
    pub fn wait(&self, limit: Duration) -> Result<ExitStatus> {
        self.child.wait(limit)
    }
}

/// The path of the binary or example `name` built next to the running test.
pub fn helper_bin(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe().context("cannot find the running test")?;
    helper_beside(&test, name)
}

/// Tests run from `target/<profile>/deps`, examples from `target/<profile>/examples`; binaries are one above both.
fn helper_beside(test: &Path, name: &str) -> Result<PathBuf> {
    let profile =
        test.parent().and_then(Path::parent).context("the running test is not in a target directory")?;
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let places = [profile.join(&file), profile.join("examples").join(&file)];
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => bail!("helper {name} is not built; looked for {places:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_helper_is_found_as_a_binary_or_as_an_example() {
        let target = tempfile::tempdir().unwrap();
        let test = target.path().join("debug/deps/it-0123456789abcdef");
        fs::create_dir_all(target.path().join("debug/examples")).unwrap();
        for helper in ["debug/tenure", "debug/examples/worker"] {
            let path = target.path().join(helper);
            fs::write(&path, "").unwrap();
            assert_eq!(helper_beside(&test, path.file_name().unwrap().to_str().unwrap()).unwrap(), path);
        }
    }

    #[test]
    fn a_helper_that_is_not_built_is_named_with_the_places_looked_at() {
        let error = helper_bin("no-such-helper").unwrap_err().to_string();
        assert!(error.contains("no-such-helper") && error.contains("examples"), "{error}");
    }
}
