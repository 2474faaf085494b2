//! The server, the holders and the proxies between them.

use std::fmt;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tenure_testkit::{
    AppendFsync, Direction, Mode, Process, Proxy, RedisServer, free_port, helper_bin, wait,
};

use super::holder;
use super::plan::Fault;
use crate::history::Client;

/// Long against everything that is waited for; a machine that is busy must not fail a run.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// More lives than a seat ever has.
const LIVES: Client = 100_000;

/// What the holders talk to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// `tenure up` on its embedded store.
    Embedded,
    /// A Redis that syncs every write.
    Redis,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Redis => "redis",
        })
    }
}

enum Server {
    Tenure { port: u16, process: Option<Process> },
    Redis { server: RedisServer, up: bool },
}

/// A holder's place: its proxy stays, its processes come and go.
struct HolderSlot {
    proxy: Proxy,
    process: Option<Process>,
    lives: u32,
}

/// The seat of a client.
pub(super) const fn seat(client: Client) -> usize {
    (client / LIVES) as usize
}

/// Everything that runs.
pub(super) struct ChaosCluster {
    dir: TempDir,
    server: Server,
    seats: Vec<HolderSlot>,
    /// What all holders have in common.
    args: holder::Args,
}

impl ChaosCluster {
    /// Starts a server and so many holders. Only the first is broken, if one is.
    pub(super) fn start(engine: Engine, holders: usize, args: holder::Args) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        for folder in ["data", "histories", "resource"] {
            fs::create_dir(dir.path().join(folder))?;
        }
        let server = match engine {
            Engine::Embedded => Server::Tenure { port: free_port()?, process: None },
            Engine::Redis => {
                let server = RedisServer::builder().appendonly(AppendFsync::Always).start()?;
                Server::Redis { server, up: true }
            }
        };
        let mut cluster = Self { dir, server, seats: Vec::new(), args };
        cluster.start_server()?;
        if let Server::Tenure { .. } = cluster.server {
            let token = cluster.data().join("token");
            let there = || fs::read_to_string(&token).is_ok_and(|token| !token.trim().is_empty());
            wait::until("the server has made its token", LIMIT, there)?;
            cluster.args.api_token = Some(fs::read_to_string(&token)?.trim().to_owned());
        }
        for _ in 0..holders {
            let proxy = Proxy::start(cluster.address())?;
            cluster.seats.push(HolderSlot { proxy, process: None, lives: 0 });
        }
        for who in 0..holders {
            cluster.start_holder(who)?;
        }
        Ok(cluster)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn histories(&self) -> PathBuf {
        self.dir.path().join("histories")
    }

    fn address(&self) -> SocketAddr {
        match &self.server {
            Server::Tenure { port, .. } => SocketAddr::from(([127, 0, 0, 1], *port)),
            Server::Redis { server, .. } => server.addr(),
        }
    }

    fn start_server(&mut self) -> Result<()> {
        let data = self.data();
        match &mut self.server {
            Server::Redis { up: true, .. } | Server::Tenure { process: Some(_), .. } => Ok(()),
            Server::Redis { server, up } => {
                *up = true;
                server.restart()
            }
            Server::Tenure { port, process } => {
                let said = File::options().create(true).append(true).open(data.join("server.log"))?;
                let mut command = Command::new(helper_bin("tenure")?);
                command
                    .args(["up", "--only", "lease", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
                    .arg(&data)
                    .current_dir(&data)
                    .env_clear()
                    .env("TENURE_LOG__FILTER", "warn")
                    .stderr(said);
                *process = Some(Process::spawn(command)?);
                Ok(())
            }
        }
    }

    fn kill_server(&mut self) -> Result<()> {
        match &mut self.server {
            Server::Redis { server, up } => {
                *up = false;
                server.kill9()
            }
            Server::Tenure { process, .. } => process.take().map_or(Ok(()), |process| process.kill9()),
        }
    }

    fn pause_server(&self, pause: bool) -> Result<()> {
        match (&self.server, pause) {
            (Server::Redis { server, up: true }, true) => server.pause(),
            (Server::Redis { server, up: true }, false) => server.resume(),
            (Server::Tenure { process: Some(process), .. }, true) => process.pause(),
            (Server::Tenure { process: Some(process), .. }, false) => process.resume(),
            _ => Ok(()),
        }
    }

    fn start_holder(&mut self, who: usize) -> Result<()> {
        let (histories, resource) = (self.histories(), self.dir.path().join("resource"));
        let seat = &mut self.seats[who];
        if seat.process.is_some() {
            return Ok(());
        }
        seat.lives += 1;
        let client = who as Client * LIVES + seat.lives;
        let addr = seat.proxy.addr();
        let url = match &self.server {
            Server::Tenure { .. } => format!("tenure://{addr}"),
            // The longest TTL is also how long a restarted server grants nothing that it may have forgotten.
            Server::Redis { .. } => {
                let most = self.args.ttl.as_millis() * 2;
                format!("redis://{addr}?max_ttl_ms={most}&op_timeout_ms={}", self.args.ttl.as_millis())
            }
        };
        let args = holder::Args {
            url,
            client,
            host: who as u32 + 1,
            history: histories.join(format!("{client}.jsonl")),
            resource,
            seed: self.args.seed.wrapping_add(u64::from(client) << 8),
            broken: self.args.broken && who == 0,
            ..self.args.clone()
        };
        let mut command = Command::new(helper_bin("chaos_holder")?);
        command.args(args.to_args()).env_clear().stderr(Stdio::inherit());
        seat.process = Some(Process::spawn(command)?);
        Ok(())
    }

    /// Whether a fault would change anything: what is gone cannot be stopped or killed.
    pub(super) fn can_begin(&self, fault: Fault) -> bool {
        match fault {
            Fault::StopHolder(who) | Fault::KillHolder(who) => self.seats[who].process.is_some(),
            Fault::StopServer | Fault::KillServer => match &self.server {
                Server::Redis { up, .. } => *up,
                Server::Tenure { process, .. } => process.is_some(),
            },
            _ => true,
        }
    }

    /// Begins a fault.
    pub(super) fn begin(&mut self, fault: Fault) -> Result<()> {
        let proxy = |who: usize| &self.seats[who].proxy;
        match fault {
            Fault::StopHolder(who) => self.seats[who].process.as_ref().map_or(Ok(()), Process::pause)?,
            Fault::KillHolder(who) => {
                if let Some(process) = self.seats[who].process.take() {
                    process.kill9()?;
                }
            }
            Fault::StopServer => self.pause_server(true)?,
            Fault::KillServer => self.kill_server()?,
            Fault::Cut(who) => proxy(who).cut()?,
            Fault::Delay(who, way, by) => proxy(who).set(way, Mode::Delay(by)),
            Fault::Stall(who, way) => proxy(who).set(way, Mode::Stall),
            Fault::Lose(who, way) => proxy(who).set(way, Mode::Drop),
            Fault::Refuse(who) => {
                proxy(who).refuse()?;
                proxy(who).cut()?;
            }
            Fault::CutReply(who) => proxy(who).cut_before_reply(),
        }
        Ok(())
    }

    /// Ends a fault. What another one did meanwhile may end with it.
    pub(super) fn end(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::StopHolder(who) => self.seats[who].process.as_ref().map_or(Ok(()), Process::resume)?,
            Fault::KillHolder(who) => self.start_holder(who)?,
            Fault::StopServer => self.pause_server(false)?,
            Fault::KillServer => self.start_server()?,
            Fault::Cut(_) | Fault::CutReply(_) => {}
            Fault::Delay(who, way, _) | Fault::Stall(who, way) => self.pass(who, way, false)?,
            Fault::Lose(who, way) => self.pass(who, way, true)?,
            Fault::Refuse(who) => self.seats[who].proxy.accept()?,
        }
        Ok(())
    }

    /// Bytes that were thrown away are missing from the stream, so the connections that miss them go first.
    fn pass(&self, who: usize, way: Direction, lost: bool) -> Result<()> {
        let proxy = &self.seats[who].proxy;
        if lost {
            proxy.cut()?;
        }
        proxy.set(way, Mode::Pass);
        Ok(())
    }

    /// Ends everything that is bad.
    pub(super) fn heal(&mut self) -> Result<()> {
        self.pause_server(false)?;
        self.start_server()?;
        for who in 0..self.seats.len() {
            let proxy = &self.seats[who].proxy;
            proxy.disarm();
            proxy.cut()?;
            proxy.set_both(Mode::Pass);
            proxy.accept()?;
            if let Some(process) = &self.seats[who].process {
                process.resume()?;
            }
            self.start_holder(who)?;
        }
        Ok(())
    }

    /// Lets every holder come to its end.
    pub(super) fn finish(&mut self) -> Result<()> {
        let processes: Vec<Process> = self.seats.iter_mut().filter_map(|seat| seat.process.take()).collect();
        processes.iter().for_each(Process::close_stdin);
        for process in processes {
            let status = process.wait(LIMIT).context("a holder does not end")?;
            anyhow::ensure!(status.success(), "a holder ended with {status}");
        }
        Ok(())
    }

    /// The histories that were written, by every life of every holder.
    pub(super) fn logs(&self) -> Result<Vec<PathBuf>> {
        let mut logs = Vec::new();
        for entry in fs::read_dir(self.histories())? {
            logs.push(entry?.path());
        }
        logs.sort();
        Ok(logs)
    }

    /// What the server said, for a failure's sake.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(Path::new(&self.data()).join("server.log")).unwrap_or_default()
    }
}
