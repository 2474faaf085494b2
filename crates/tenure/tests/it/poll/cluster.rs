//! A cluster of polling nodes on one Redis.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tenure_testkit::{Process, RedisServer, Reply, wait};

use super::endpoint::Endpoint;
use crate::harness::{LIMIT, known_new, tenure};

/// The timing of a cluster, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct ClusterTiming {
    pub(crate) ttl: u64,
    pub(crate) renew: u64,
    pub(crate) discovery: u64,
}

/// Short, but long enough that a busy machine rarely loses leases.
pub(crate) const SHORT: ClusterTiming = ClusterTiming { ttl: 3_000, renew: 500, discovery: 1_000 };
/// A TTL longer than any test.
pub(crate) const LONG: ClusterTiming = ClusterTiming { ttl: 30_000, renew: 2_000, discovery: 1_000 };

pub(crate) struct Cluster {
    pub(crate) redis: RedisServer,
    pub(crate) endpoint: Endpoint,
    pub(crate) timing: ClusterTiming,
    pub(crate) placement: &'static str,
    dir: TempDir,
}

/// One polling process.
pub(crate) struct Node {
    pub(crate) process: Process,
    url: String,
    pub(crate) instance: String,
}

impl Cluster {
    pub(crate) fn new(timing: ClusterTiming) -> Self {
        Self {
            redis: RedisServer::start().unwrap(),
            endpoint: Endpoint::start(),
            timing,
            placement: "balanced",
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Writes targets as another program would.
    pub(crate) fn put_targets(&self, ids: &[String]) {
        for id in ids {
            self.put_target(id, &json!({ "id": id, "address": self.endpoint.url(id), "intervalMs": 100 }));
        }
    }

    pub(crate) fn put_target(&self, id: &str, record: &serde_json::Value) {
        let reply = self.redis.command(&["SET", &format!("session:{id}"), &record.to_string()]).unwrap();
        assert_eq!(reply, Reply::Status("OK".into()));
    }

    pub(crate) fn start_node(&self) -> Node {
        self.start_node_at(&self.redis.url())
    }

    /// Starts a node that connects to Redis at `url`.
    pub(crate) fn start_node_at(&self, url: &str) -> Node {
        self.launch(url).wait_until_up()
    }

    /// Starts a node without waiting for it.
    pub(crate) fn launch(&self, url: &str) -> StartingNode {
        StartingNode(Process::spawn(self.command(url)).unwrap())
    }

    /// Starts a node that connects to Redis at `url` and writes JSON log lines to `log`.
    pub(crate) fn start_node_with_log(&self, url: &str, log: &Path) -> Node {
        let mut command = self.command(url);
        command
            .env("TENURE_LOG__FILTER", "off,tenure::poll=debug")
            .env("TENURE_LOG__FORMAT", "json")
            .stderr(File::create(log).unwrap());
        StartingNode(Process::spawn(command).unwrap()).wait_until_up()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a lease server in front of Redis; returns its address and token.
    pub(crate) fn start_lease_server(&self) -> (Process, String, String) {
        let data = self.data_dir();
        let args = ["up", "--only", "lease", "--listen", "127.0.0.1:0", "--data-dir"];
        let store = known_new(&self.redis.url());
        let args = [&args[..], &[&data, "--store", &store]].concat();
        let server = Process::spawn(tenure(self.dir.path(), &args)).unwrap();
        let file = |name: &str| std::fs::read_to_string(Path::new(&data).join(name)).unwrap_or_default();
        wait::until("the server listens", LIMIT, || !file("address").is_empty()).unwrap();
        let (url, token) = (file("address"), file("token"));
        (server, url.trim().replacen("http://", "tenure://", 1), token.trim().to_owned())
    }

    /// Starts a node on a lease server instead of Redis.
    pub(crate) fn start_node_on_server(&self, url: &str, token: &str) -> Node {
        let data = self.data_dir();
        let args = ["up", "--only", "poll", "--listen", "127.0.0.1:0", "--data-dir", &data, "--store", url];
        let mut command = self.with_timing(tenure(self.dir.path(), &args));
        command.env("TENURE_TOKEN", token);
        StartingNode(Process::spawn(command).unwrap()).wait_until_up()
    }

    fn data_dir(&self) -> String {
        tempfile::tempdir_in(self.dir.path()).unwrap().keep().display().to_string()
    }

    fn command(&self, url: &str) -> Command {
        // Some tests need a TTL above the engine's default maximum.
        let store = format!("{}&max_ttl_ms=120000", known_new(url));
        let args = ["poll", "--store", &store, "--data-dir", &self.data_dir()];
        self.with_timing(tenure(self.dir.path(), &args))
    }

    /// Adds the timing of this cluster.
    fn with_timing(&self, mut command: Command) -> Command {
        let timing = self.timing;
        for (name, value) in [
            ("LEASE_TTL_MS", timing.ttl),
            ("RENEW_INTERVAL_MS", timing.renew),
            ("HEARTBEAT_TTL_MS", timing.ttl),
            ("HEARTBEAT_INTERVAL_MS", timing.renew),
            ("DISCOVERY_INTERVAL_MS", timing.discovery),
            ("SYNC_INTERVAL_MS", timing.discovery / 2),
            ("TIMEOUT_MS", 60_000),
        ] {
            command.env(format!("TENURE_POLL__{name}"), value.to_string());
        }
        command
            .env("TENURE_POLL__PLACEMENT", self.placement)
            .env("TENURE_LOG__FILTER", "warn,tenure::poll=error");
        command
    }

    /// The owner of every target: the plain values of the lease keys in Redis.
    pub(crate) fn owners(&self) -> BTreeMap<String, String> {
        let mut client = self.redis.client().unwrap();
        let Reply::Array(Some(keys)) = client.command(&["KEYS", "poll:lease:*"]).unwrap() else {
            panic!("keys")
        };
        let mut owners = BTreeMap::new();
        for key in keys.iter().filter_map(Reply::text) {
            if let Some(owner) = client.command(&["GET", key]).unwrap().text() {
                owners.insert(key["poll:lease:".len()..].to_owned(), owner.to_owned());
            }
        }
        owners
    }

    pub(crate) fn load(&self, node: &Node) -> usize {
        self.owners().values().filter(|owner| **owner == node.instance).count()
    }

    /// Waits until the nodes own the given numbers of targets.
    pub(crate) fn wait_for_loads(&self, what: &str, nodes: &[&Node], loads: &[usize]) {
        wait::until(what, LIMIT, || {
            let mut found: Vec<usize> = nodes.iter().map(|node| self.load(node)).collect();
            found.sort_unstable();
            found == loads
        })
        .unwrap_or_else(|error| panic!("{error}: {:?}", self.owners()));
    }

    /// Waits until every target has been polled `more` timing from now on.
    pub(crate) fn wait_for_polls(&self, ids: &[String], more: usize) {
        let from = self.endpoint.hits().len();
        wait::until("every target is polled", LIMIT, || {
            let hits = self.endpoint.hits();
            ids.iter().all(|id| hits[from..].iter().filter(|hit| hit.id == *id).count() >= more)
        })
        .unwrap_or_else(|error| panic!("{error}: {:?}", self.owners()));
    }
}

/// A process that is starting.
pub(crate) struct StartingNode(Process);

impl StartingNode {
    pub(crate) fn wait_until_up(self) -> Node {
        let last = |word: &str| {
            let line = self.0.wait_for_line(|line| line.contains(word), LIMIT).unwrap();
            line.split_whitespace().last().unwrap().to_owned()
        };
        let (url, instance) = (last("  address  "), last("poll node"));
        Node { process: self.0, url, instance }
    }
}

impl Node {
    /// Scrapes its metrics.
    pub(crate) fn metrics(&self) -> String {
        let host = self.url.strip_prefix("http://").unwrap().trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Stops it cleanly.
    pub(crate) fn stop(&self) {
        self.process.terminate().unwrap();
        assert!(self.process.wait(LIMIT).unwrap().success());
    }
}

pub(crate) fn ids(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("target-{i}")).collect()
}

/// Waits for real time to pass, in tests of what must not happen meanwhile.
pub(crate) fn let_time_pass(time: Duration) {
    let until = tenure_lease::Clock::now(&tenure_store::BootClock) + time;
    wait::until("time passes", LIMIT, || tenure_lease::Clock::now(&tenure_store::BootClock) >= until)
        .unwrap();
}
