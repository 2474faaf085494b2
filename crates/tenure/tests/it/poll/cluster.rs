//! Nodes on one Redis.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use testkit::{Process, RedisServer, Reply, wait};

use super::endpoint::Endpoint;
use crate::rig::{LIMIT, known_new, tenure};

/// How a cluster keeps time, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) ttl: u64,
    pub(crate) renew: u64,
    pub(crate) discovery: u64,
}

/// Short, and long enough that a busy machine does not lose leases all the time.
pub(crate) const SHORT: Times = Times { ttl: 3_000, renew: 500, discovery: 1_000 };
/// A TTL that no test outlives.
pub(crate) const LONG: Times = Times { ttl: 30_000, renew: 2_000, discovery: 1_000 };

pub(crate) struct Cluster {
    pub(crate) redis: RedisServer,
    pub(crate) endpoint: Endpoint,
    pub(crate) times: Times,
    pub(crate) placement: &'static str,
    dir: TempDir,
}

/// One process.
pub(crate) struct Node {
    pub(crate) process: Process,
    url: String,
    pub(crate) instance: String,
}

impl Cluster {
    pub(crate) fn new(times: Times) -> Self {
        Self {
            redis: RedisServer::start().unwrap(),
            endpoint: Endpoint::start(),
            times,
            placement: "balanced",
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Writes targets as any other program would.
    pub(crate) fn targets(&self, ids: &[String]) {
        for id in ids {
            self.target(id, &json!({ "id": id, "address": self.endpoint.url(id), "intervalMs": 100 }));
        }
    }

    pub(crate) fn target(&self, id: &str, record: &serde_json::Value) {
        let answer = self.redis.command(&["SET", &format!("session:{id}"), &record.to_string()]).unwrap();
        assert_eq!(answer, Reply::Status("OK".into()));
    }

    pub(crate) fn node(&self) -> Node {
        self.node_at(&self.redis.url())
    }

    /// A node that reaches Redis at `url`.
    pub(crate) fn node_at(&self, url: &str) -> Node {
        self.launch(url).named()
    }

    /// A node that may not be up yet.
    pub(crate) fn launch(&self, url: &str) -> Starting {
        Starting(Process::spawn(self.command(url)).unwrap())
    }

    /// A node that reaches Redis at `url` and writes what it does into `log`, as JSON.
    pub(crate) fn node_with_log(&self, url: &str, log: &Path) -> Node {
        let mut command = self.command(url);
        command
            .env("TENURE_LOG__FILTER", "off,tenure::poll=debug")
            .env("TENURE_LOG__FORMAT", "json")
            .stderr(File::create(log).unwrap());
        Starting(Process::spawn(command).unwrap()).named()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, url: &str) -> Command {
        let data = tempfile::tempdir_in(self.dir.path()).unwrap().keep();
        // Longer than the engine grants by default, where a test needs it.
        let store = format!("{}&max_ttl_ms=120000", known_new(url));
        let data = data.display().to_string();
        let mut command = tenure(self.dir.path(), &["poll", "--store", &store, "--data-dir", &data]);
        let times = self.times;
        for (name, value) in [
            ("LEASE_TTL_MS", times.ttl),
            ("RENEW_INTERVAL_MS", times.renew),
            ("HEARTBEAT_TTL_MS", times.ttl),
            ("HEARTBEAT_INTERVAL_MS", times.renew),
            ("DISCOVERY_INTERVAL_MS", times.discovery),
            ("SYNC_INTERVAL_MS", times.discovery / 2),
            ("TIMEOUT_MS", 60_000),
        ] {
            command.env(format!("TENURE_POLL__{name}"), value.to_string());
        }
        command
            .env("TENURE_POLL__PLACEMENT", self.placement)
            .env("TENURE_LOG__FILTER", "warn,tenure::poll=error");
        command
    }

    /// What Redis says of who has what: the plain value of every lease.
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

    /// Waits until every target has an owner among `nodes` and each has so many.
    pub(crate) fn wait_for_loads(&self, what: &str, nodes: &[&Node], loads: &[usize]) {
        wait::until(what, LIMIT, || {
            let mut found: Vec<usize> = nodes.iter().map(|node| self.load(node)).collect();
            found.sort_unstable();
            found == loads
        })
        .unwrap_or_else(|error| panic!("{error}: {:?}", self.owners()));
    }

    /// Waits until every target has been polled `more` times from now on.
    pub(crate) fn wait_for_polls(&self, ids: &[String], more: usize) {
        let from = self.endpoint.hits().len();
        wait::until("every target is polled", LIMIT, || {
            let hits = self.endpoint.hits();
            ids.iter().all(|id| hits[from..].iter().filter(|hit| hit.id == *id).count() >= more)
        })
        .unwrap_or_else(|error| panic!("{error}: {:?}", self.owners()));
    }
}

/// A process on its way up.
pub(crate) struct Starting(Process);

impl Starting {
    pub(crate) fn named(self) -> Node {
        let last = |word: &str| {
            let line = self.0.wait_for_line(|line| line.contains(word), LIMIT).unwrap();
            line.split_whitespace().last().unwrap().to_owned()
        };
        let (url, instance) = (last("  address  "), last("polls as"));
        Node { process: self.0, url, instance }
    }
}

impl Node {
    /// What it counts, as a scrape shows it.
    pub(crate) fn metrics(&self) -> String {
        let host = self.url.strip_prefix("http://").unwrap().trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Ends in order.
    pub(crate) fn stop(&self) {
        self.process.terminate().unwrap();
        assert!(self.process.wait(LIMIT).unwrap().success());
    }
}

pub(crate) fn ids(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("target-{i}")).collect()
}

/// Lets real time pass where a test is about nothing happening in it.
pub(crate) fn let_pass(time: Duration) {
    let until = lease::Clock::now(&lease_store::BootClock) + time;
    wait::until("time passes", LIMIT, || lease::Clock::now(&lease_store::BootClock) >= until).unwrap();
}
