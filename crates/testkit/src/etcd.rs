//! A single-node `etcd` for one test.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::child::Child;
use crate::launch::{Failure, Launch, on_free_ports};
use crate::{free_port, lock};

const PROGRAM: &str = "etcd";
const MISSING: &str = "etcd not found: apt-get install etcd-server (cargo xtask test does it)";

/// Timeout of a health check.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The options of an [`EtcdServer`].
#[derive(Clone)]
pub struct EtcdBuilder {
    program: PathBuf,
    flags: Vec<(String, String)>,
    dir: Option<PathBuf>,
}

impl EtcdBuilder {
    /// Stores the data in `path`, which must exist and is not removed: a real disk for a benchmark, a small one for a fault.
    pub fn dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.dir = Some(path.into());
        self
    }

    /// Sets one flag, without its dashes.
    pub fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server and waits until it is healthy.
    pub fn start(self) -> Result<EtcdServer> {
        let home = tempfile::Builder::new()
            .prefix("testkit-etcd-")
            .tempdir()
            .context("cannot create a directory for etcd")?;
        let dir = self.dir.clone().unwrap_or_else(|| home.path().to_owned()).join("etcd-data");
        let files = EtcdFiles { home, dir, spec: self };
        let (ports, child) = on_free_ports(|| {
            let ports = Ports::free().map_err(Failure::Other)?;
            // A member stores its address, so the data of a failed start is removed.
            let child = files.launch(ports).inspect_err(|_| drop(fs::remove_dir_all(&files.dir)))?;
            Ok((ports, child))
        })?;
        Ok(EtcdServer { child: Mutex::new(child), ports, files })
    }
}

/// A running single-node `etcd` on 127.0.0.1. Dropping it kills and reaps it.
pub struct EtcdServer {
    // Declared first, so that the server ends before its directory is removed.
    child: Mutex<Child>,
    ports: Ports,
    files: EtcdFiles,
}

impl EtcdServer {
    /// Starts a server with default options and data in a temporary directory.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A builder with default options.
    pub fn builder() -> EtcdBuilder {
        EtcdBuilder { program: PROGRAM.into(), flags: Vec::new(), dir: None }
    }

    /// `http://127.0.0.1:PORT`
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// The client address.
    pub fn addr(&self) -> SocketAddr {
        local(self.ports.client)
    }

    /// The process id, which changes with a restart.
    pub fn pid(&self) -> u32 {
        lock(&self.child).pid()
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.files.dir
    }

    /// Whether it is healthy.
    pub fn is_healthy(&self) -> bool {
        is_healthy(self.addr())
    }

    /// Sends `SIGKILL`; returns when it has ended and its ports are closed.
    pub fn kill9(&self) -> Result<()> {
        lock(&self.child).kill9()
    }

    /// Sends `SIGSTOP`; returns when it has stopped. Connections stay open without responses.
    pub fn pause(&self) -> Result<()> {
        lock(&self.child).pause()
    }

    /// Sends `SIGCONT`.
    pub fn resume(&self) -> Result<()> {
        lock(&self.child).resume()
    }

    /// Kills it if it is running and restarts it with the same ports and data.
    pub fn restart(&self) -> Result<()> {
        let mut child = lock(&self.child);
        child.kill9()?;
        *child = self.files.launch(self.ports)?;
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    peer: u16,
}

impl Ports {
    fn free() -> Result<Self> {
        Ok(Self { client: free_port()?, peer: free_port()? })
    }
}

/// What survives a restart: directories and options.
struct EtcdFiles {
    home: TempDir,
    dir: PathBuf,
    spec: EtcdBuilder,
}

impl EtcdFiles {
    fn launch(&self, ports: Ports) -> Result<Child, Failure> {
        let log = self.home.path().join("log");
        let client = format!("http://{}", local(ports.client));
        let peer = format!("http://{}", local(ports.peer));
        let mut command = Command::new(&self.spec.program);
        command.args(["--name", "only"]).arg("--data-dir").arg(&self.dir);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("only={peer}")]);
        for (name, value) in &self.spec.flags {
            command.arg(format!("--{name}={value}"));
        }
        Launch { name: PROGRAM, missing: MISSING, log: &log }
            .run(command, |_| is_healthy(local(ports.client)))
    }
}

/// Healthy means that there is a leader and a proposal was committed.
fn is_healthy(addr: SocketAddr) -> bool {
    health(addr).is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}

fn health(addr: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /health HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_etcd_says_how_to_get_one() {
        let mut builder = EtcdServer::builder();
        builder.program = "no-such-etcd".into();
        assert_eq!(builder.start().err().unwrap().to_string(), MISSING);
    }
}
