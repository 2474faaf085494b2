//! Processes on one store, and an HTTP client for each.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_client::{Client, ClientOptions};
use tenure_lease::{Prefix, Query, Store};
use tenure_testkit::{Process, RedisServer, wait};

use crate::harness::{LIMIT, code, tenure};

pub(crate) const ADMIN: &str = "token-of-the-admin";
pub(crate) const WRITER: &str = "token-of-the-writer";
pub(crate) const READER: &str = "token-of-the-reader";
pub(crate) const OTHER: &str = "token-of-another-service";

/// A channel reference.
pub(crate) fn channel(number: u32) -> String {
    format!("1:0:1:{number:X}:1:1:C00000:0:0:0:")
}

/// The store of the cluster.
pub(crate) enum Engine {
    Embedded,
    Redis(Box<RedisServer>),
    /// The store of a running server.
    Server(String),
}

pub(crate) struct TestCluster {
    pub(crate) engine: Engine,
    pub(crate) dir: TempDir,
    /// Environment variables of every process.
    pub(crate) settings: Vec<(String, String)>,
    /// The query of the store URL.
    store: &'static str,
}

/// A process of the cluster.
pub(crate) struct TestServer {
    pub(crate) process: Process,
    pub(crate) address: String,
    /// Its log file.
    pub(crate) log: PathBuf,
    http: reqwest::Client,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Response {
    /// Whether it is a problem document with this status and code.
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> bool {
        let kind = self.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let whole = ["type", "title", "status", "requestId", "code"];
        assert!(whole.iter().all(|name| !self.body[*name].is_null()), "{self:?}");
        kind.starts_with("application/problem+json") && self.status == status && self.body["code"] == code
    }
}

impl TestCluster {
    pub(crate) fn new(engine: Engine) -> Self {
        tenure_service::install_crypto();
        let cluster = Self {
            engine,
            dir: tempfile::tempdir().unwrap(),
            settings: Vec::new(),
            store: "?quarantine_ms=0",
        };
        // Long TTLs, so that a busy machine loses no lease, and short heartbeats, so that a revocation is noticed soon.
        cluster
            .with("IDEM_SECRET", "of this test")
            .with("RECONCILE_MS", "500")
            .with_lease_times(30_000, 1_000)
    }

    /// Sets TTL and heartbeat of leases and guard, in milliseconds.
    pub(crate) fn with_lease_times(self, ttl: u64, heartbeat: u64) -> Self {
        let cluster = self.with("LEASE_TTL_MS", ttl).with("GUARD_TTL_MS", ttl);
        cluster.with("HEARTBEAT_MS", heartbeat).with("GUARD_HEARTBEAT_MS", heartbeat)
    }

    pub(crate) fn embedded() -> Self {
        Self::new(Engine::Embedded)
    }

    pub(crate) fn redis() -> Self {
        Self::new(Engine::Redis(Box::new(RedisServer::start().unwrap())))
    }

    /// Sets a setting of `[sessions]`.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((format!("TENURE_SESSIONS__{name}"), value.to_string()));
        self
    }

    /// Allows leases of up to an hour on Redis.
    pub(crate) fn with_long_leases(mut self) -> Self {
        self.store = "?quarantine_ms=0&max_ttl_ms=3600000";
        self
    }

    /// Starts with a Redis in quarantine.
    pub(crate) fn in_quarantine(mut self) -> Self {
        self.store = "?max_ttl_ms=12000";
        self
    }

    /// Starts `tenure up` with the sessions.
    pub(crate) fn up(&self) -> TestServer {
        self.start("up", &["up", "--only", "lease,sessions"])
    }

    /// Starts a command with the data directory `name` and waits until it listens.
    pub(crate) fn start(&self, name: &str, args: &[&str]) -> TestServer {
        let (process, log) = self.spawn(name, args);
        let address = address(&self.dir.path().join(name), &process, &log);
        TestServer { process, address, log, http: reqwest::Client::new() }
    }

    /// Runs a command to its end and returns its exit code and log.
    pub(crate) fn run_to_exit(&self, name: &str, args: &[&str]) -> (i32, String) {
        let (process, log) = self.spawn(name, args);
        (code(&process), std::fs::read_to_string(log).unwrap())
    }

    fn spawn(&self, name: &str, args: &[&str]) -> (Process, PathBuf) {
        let data = self.dir.path().join(name);
        let mut command = tenure(self.dir.path(), args);
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
        match &self.engine {
            Engine::Embedded => {}
            Engine::Redis(redis) => {
                command.args(["--store", &format!("{}{}", redis.url(), self.store)]);
            }
            Engine::Server(url) => {
                command.args(["--store", url]).env("TENURE_TOKEN", ADMIN);
            }
        }
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("XG2G_") {
                command.env_remove(name);
            }
        }
        // All processes share the HLS output.
        command.env("TENURE_SESSIONS__OUTPUT_DIR", self.dir.path().join("hls"));
        command.env(
            "TENURE_API_TOKENS",
            format!("{ADMIN}=v3:admin,lease:admin;{WRITER}=v3:write;{READER}=v3:read;{OTHER}=lease:read"),
        );
        command.env("TENURE_LOG__FILTER", "info,tenure::access=warn");
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        let _stale = std::fs::remove_file(data.join("address"));
        let log = (0..).map(|n| self.dir.path().join(format!("{name}-{n}.log"))).find(|path| !path.exists());
        let log = log.unwrap();
        command.stderr(File::create(&log).unwrap());
        (Process::spawn(command).unwrap(), log)
    }
}

fn address(data: &Path, process: &Process, log: &Path) -> String {
    let mut address = String::new();
    wait::until("it listens", LIMIT, || {
        address = std::fs::read_to_string(data.join("address")).unwrap_or_default();
        address.ends_with('\n') || !process.is_running()
    })
    .unwrap();
    let shown = || std::fs::read_to_string(log).unwrap_or_default();
    address.trim().strip_prefix("http://").unwrap_or_else(|| panic!("not up: {}", shown())).to_owned()
}

impl TestServer {
    pub(crate) async fn request(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Response {
        self.try_request(token, method, path, body).await.unwrap()
    }

    async fn try_request(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> reqwest::Result<Response> {
        let mut request =
            self.http.request(method.parse().unwrap(), format!("http://{}{path}", self.address));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await?;
        let body = serde_json::from_str(&text).unwrap_or_default();
        Ok(Response { status, headers, text, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request(ADMIN, "GET", path, None).await
    }

    pub(crate) async fn intent(&self, body: &Value) -> Response {
        self.request(WRITER, "POST", "/api/v3/intents", Some(&body.to_string())).await
    }

    /// Starts a channel. Returns the session id and whether it is a replay.
    pub(crate) async fn watch(&self, number: u32, profile: &str) -> (String, bool) {
        let intent = json!({ "type": "stream.start", "serviceRef": channel(number), "profileID": profile });
        let answer = self.intent(&intent).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let replay = answer.body["status"] == "idempotent_replay";
        assert!(replay || answer.body["status"] == "accepted", "{answer:?}");
        (answer.body["sessionId"].as_str().unwrap().to_owned(), replay)
    }

    pub(crate) async fn stop(&self, session: &str) -> Response {
        self.intent(&json!({ "type": "stream.stop", "sessionId": session })).await
    }

    /// Returns a session in any state.
    pub(crate) async fn session(&self, session: &str) -> Value {
        let answer = self.get(&format!("/api/v3/sessions/{session}")).await;
        assert!([200, 404, 410].contains(&answer.status), "{answer:?}");
        answer.body
    }

    /// Waits until a session is in a state, and returns it.
    pub(crate) async fn until(&self, session: &str, state: &str) -> Value {
        let mut last = Value::Null;
        let what = format!("it is {state}");
        let waited = wait::until_async(&what, LIMIT, async || {
            last = self.session(session).await;
            last["state"] == state
        });
        waited.await.unwrap_or_else(|error| panic!("{error}: {last} {}", self.read_log()));
        last
    }

    pub(crate) async fn until_ready(&self) {
        let waited = wait::until_async("it is ready", LIMIT, async || {
            self.try_request(ADMIN, "GET", "/health/ready", None)
                .await
                .is_ok_and(|answer| answer.status == 200)
        });
        waited.await.unwrap_or_else(|error| panic!("{error}: {}", self.read_log()));
    }

    /// The holder of a lease.
    pub(crate) async fn holder(&self, key: &str) -> Option<String> {
        let answer = self.get(&format!("/v1/leases/one?key={key}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        (answer.body["state"] == "held").then(|| answer.body["holder"].as_str().unwrap().to_owned())
    }

    /// Revokes a lease.
    pub(crate) async fn revoke(&self, key: &str) {
        let lease = self.get(&format!("/v1/leases/one?key={key}")).await.body;
        let body =
            json!({ "key": key, "generation": lease["generation"], "reason": "a test", "delay_ms": 0 });
        let answer = self.request(ADMIN, "POST", "/v1/leases/revoke", Some(&body.to_string())).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// The sum of a metric over all its labels that contain `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let text = self.get("/metrics").await.text;
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        let lines = lines.filter(|line| line[name.len()..].starts_with(['{', ' ']));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// All session records and leases in the store.
    pub(crate) async fn stored_keys(&self) -> Vec<String> {
        let store =
            Client::connect(&format!("tenure://{}", self.address), ClientOptions::default().token(ADMIN))
                .await;
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        let query = |prefix| Query::new(Prefix::new(prefix).unwrap());
        let records = store.scan(&query("v3:")).await.unwrap().items;
        let leases = store.list(&query("lease:")).await.unwrap().items;
        let records = records.iter().map(|record| format!("{} {:?}", record.key, record.revision));
        let leases = leases.iter().map(|lease| lease.key.to_string());
        records.chain(leases).collect()
    }

    /// Reads its log.
    pub(crate) fn read_log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
