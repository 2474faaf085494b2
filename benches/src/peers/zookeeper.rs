//! ZooKeeper: an ephemeral node is created and deleted, over its native protocol.
//!
//! Each frame is prefixed with its length; numbers are big endian, strings are prefixed with their length.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tenure_testkit::{Process, free_port, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clock::Until;

const JAR: &str = "/usr/share/java/zookeeper.jar";
/// Timeout of the start of the JVM.
const LIMIT: Duration = Duration::from_secs(60);

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EPHEMERAL: i32 = 1;
const ANY_VERSION: i32 = -1;
const ALL_RIGHTS: i32 = 31;
const SESSION_MS: i32 = 40_000;

/// A standalone server, which syncs before it responds (the default).
pub(crate) struct Server {
    process: Process,
    port: u16,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        ensure!(Path::new(JAR).is_file(), "{JAR} is missing: apt-get install zookeeper");
        let port = free_port()?;
        let config = folder.join("zoo.cfg");
        let text = format!(
            "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
             admin.enableServer=false\n",
            folder.join("data").display()
        );
        fs::write(&config, text)?;
        let mut command = Command::new("java");
        command.args(["-Xmx1g", "-cp", JAR, "org.apache.zookeeper.server.ZooKeeperServerMain"]).arg(&config);
        command.current_dir(folder).stderr(fs::File::create(folder.join("log"))?);
        let process = Process::spawn(command)?;
        wait::until("ZooKeeper is ready", LIMIT, || !process.is_running() || serves(port).unwrap_or(false))?;
        ensure!(process.is_running(), "ZooKeeper exited during the start");
        Ok(Self { process, port })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `count` clients, each with its own session and connection.
    pub(crate) async fn clients(&self, count: usize) -> Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(count);
        for me in 0..count {
            clients.push(Client::connect(self.port, format!("/cycle-{me}")).await?);
        }
        Ok(clients)
    }
}

/// Whether the server responds; it listens before it is ready.
fn serves(port: u16) -> std::io::Result<bool> {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("Zookeeper version"))
}

/// A session.
pub(crate) struct Client {
    stream: TcpStream,
    path: String,
    last: i32,
    answer: Vec<u8>,
}

impl Client {
    async fn connect(port: u16, path: String) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, path, last: 0, answer: Vec::new() };
        // Version, last transaction id, timeout, session id, password, read-only.
        let hello = Frame::default().int(0).long(0).int(SESSION_MS).long(0).bytes(&[0; 16]).flag(false);
        client.exchange(hello).await?;
        ensure!(client.answer.len() >= 16, "ZooKeeper opened no session");
        Ok(client)
    }

    /// Creates and deletes its node until the slice is over.
    pub(crate) async fn cycles(&mut self, until: Until) -> Result<u64> {
        let mut done = 0;
        while !until.over() {
            let (path, who) = (self.path.clone(), b"caller");
            let open = Frame::default().int(1).int(ALL_RIGHTS).text("world").text("anyone");
            let create = Frame::default().text(&path).bytes(who).raw(&open).int(EPHEMERAL);
            self.request(CREATE, &create).await?;
            self.request(DELETE, &Frame::default().text(&path).int(ANY_VERSION)).await?;
            done += 1;
        }
        Ok(done)
    }

    async fn request(&mut self, kind: i32, body: &Frame) -> Result<()> {
        self.last += 1;
        let sent = self.last;
        self.exchange(Frame::default().int(sent).int(kind).raw(body)).await?;
        // Request id, transaction id, error.
        let number = |at: usize| {
            let bytes = self.answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(i32::from_be_bytes).context("a response without a header")
        };
        match (number(0)?, number(12)?) {
            (id, 0) if id == sent => Ok(()),
            (id, error) => bail!("response {id} to request {sent}, error {error}"),
        }
    }

    async fn exchange(&mut self, frame: Frame) -> Result<()> {
        let length = u32::try_from(frame.0.len())?.to_be_bytes();
        self.stream.write_all(&[&length, &frame.0[..]].concat()).await?;
        let length = self.stream.read_u32().await? as usize;
        ensure!(length < 1 << 20, "frame too large: {length} bytes");
        self.answer.resize(length, 0);
        self.stream.read_exact(&mut self.answer).await?;
        Ok(())
    }
}

/// A message under construction.
#[derive(Default)]
struct Frame(Vec<u8>);

impl Frame {
    fn int(self, number: i32) -> Self {
        self.add(&number.to_be_bytes())
    }

    fn long(self, number: i64) -> Self {
        self.add(&number.to_be_bytes())
    }

    fn flag(self, on: bool) -> Self {
        self.add(&[u8::from(on)])
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        self.int(bytes.len() as i32).add(bytes)
    }

    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    fn raw(self, other: &Self) -> Self {
        self.add(&other.0)
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}
