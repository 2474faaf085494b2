//! The server and the bots of a soak, as real processes.
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::clock;
use crate::workspace::Workspace;

/// How long the server and the first bots may take to start.
const START: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a request to the server may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `tenure up --only meet`. Killed on drop.
pub(super) struct Server {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
    address: String,
}

impl Server {
    pub(super) fn start(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.target().join("soak");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let program = workspace.target().join("debug/tenure");
        let log = fs::File::create(folder.join("server.log"))?;
        let child = workspace
            .command(&program)
            .current_dir(&folder)
            .args(["up", "--only", "meet", "--listen", "127.0.0.1:0", "--store", "memory:"])
            .args(["--data-dir", "data"])
            .env("TENURE_LOG__FILTER", "warn")
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()
            .context("cannot start tenure up")?;
        let mut server = Self { child, program, folder, address: String::new() };
        let begun = clock::start();
        while begun.elapsed() < START {
            if let Ok(address) = fs::read_to_string(server.folder.join("data/address")) {
                server.address = address.trim().trim_start_matches("http://").to_owned();
                return Ok(server);
            }
            clock::pause(POLL_INTERVAL);
        }
        bail!("tenure up did not start within {} s", START.as_secs())
    }

    /// Resident bytes.
    pub(super) fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("the server is gone")?;
        let kilobytes = line.split_whitespace().nth(1).context("VmRSS")?;
        Ok(kilobytes.parse::<f64>()? * 1_024.0)
    }

    /// The sum of a metric over its labels.
    pub(super) fn metric(&self, name: &str) -> Result<f64> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.contains(" 200 "), "no metrics: {}", answer.lines().next().unwrap_or_default());
        Ok(sum_of(&answer, name))
    }
}

/// The sum of a metric in the text format.
fn sum_of(text: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    };
    text.lines().filter_map(value).sum()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process of bots printed last.
#[derive(Default)]
struct Printed {
    link: Option<String>,
    received: u64,
}

/// `tenure meet bot --watch`. Killed on drop.
pub(super) struct Bots {
    child: RefCell<Child>,
    pub(super) people: u64,
    printed: Arc<Mutex<Printed>>,
}

impl Bots {
    /// Starts bots in a meeting, or in a new one.
    pub(super) fn start(
        server: &Server,
        people: u64,
        meeting: Option<&str>,
        stay: Option<Duration>,
    ) -> Result<Self> {
        let mut command = Command::new(&server.program);
        command.current_dir(&server.folder).args(["meet", "bot", "--watch", "--json", "--data-dir", "data"]);
        command.args(["--people", &people.to_string()]);
        if let Some(meeting) = meeting {
            command.args(["--meeting", meeting, "--guests"]);
        }
        if let Some(stay) = stay {
            command.args(["--for", &format!("{}s", stay.as_secs())]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("bots")?;
        let output = child.stdout.take().context("bots have no output")?;
        let printed = Arc::new(Mutex::new(Printed::default()));
        let kept = printed.clone();
        // Ends with the pipe.
        std::thread::Builder::new().name("bots".to_owned()).spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut printed = kept.lock().unwrap_or_else(PoisonError::into_inner);
                match serde_json::from_str::<Value>(&line) {
                    Ok(value) => printed.received = value["received"]["frames"].as_u64().unwrap_or_default(),
                    Err(_) => printed.link = Some(line),
                }
            }
        })?;
        Ok(Self { child: RefCell::new(child), people, printed })
    }

    /// The link of the meeting, once it is known.
    pub(super) fn meeting(&self) -> Result<String> {
        let begun = clock::start();
        while begun.elapsed() < START {
            let link = self.printed.lock().unwrap_or_else(PoisonError::into_inner).link.clone();
            if let Some(link) = link {
                return Ok(link);
            }
            clock::pause(POLL_INTERVAL);
        }
        bail!("the bots made no meeting within {} s", START.as_secs())
    }

    /// Frames received so far.
    pub(super) fn received(&self) -> u64 {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).received
    }

    /// Whether they are there. Bots that failed are an error.
    pub(super) fn are_running(&self) -> Result<bool> {
        match self.child.borrow_mut().try_wait()? {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            Some(status) => bail!("bots failed with {status}"),
        }
    }

    /// Asks them to leave and waits until they did.
    pub(super) fn leave(&self) -> Result<()> {
        if !self.are_running()? {
            return Ok(());
        }
        let pid = self.child.borrow().id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("kill")?;
        let status = self.child.borrow_mut().wait()?;
        ensure!(status.success(), "bots failed with {status}");
        Ok(())
    }
}

impl Drop for Bots {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let text = "# TYPE a gauge\na{x=\"1\"} 2\na{x=\"2\"} 3.5\na_total 9\nab 1\nb 4\n";
        assert_eq!((sum_of(text, "a"), sum_of(text, "b"), sum_of(text, "c")), (5.5, 4.0, 0.0));
    }
}
