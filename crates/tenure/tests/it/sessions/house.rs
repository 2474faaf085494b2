//! A house with tuners: processes on one store, and their HTTP as any client sees it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lease::{Prefix, Query, Store};
use lease_api::{Client, Dial};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Process, RedisServer, wait};

use crate::rig::{LIMIT, code, tenure};

pub(crate) const ADMIN: &str = "admin-of-the-house";
pub(crate) const WRITER: &str = "somebody-who-may-watch";
pub(crate) const READER: &str = "somebody-who-may-look";
pub(crate) const STRANGER: &str = "somebody-who-may-nothing-here";

/// A channel of the house.
pub(crate) fn channel(number: u32) -> String {
    format!("1:0:1:{number:X}:1:1:C00000:0:0:0:")
}

/// Where the house keeps what it knows.
pub(crate) enum Engine {
    Embedded,
    Redis(Box<RedisServer>),
    /// A running server's, at this address.
    Server(String),
}

pub(crate) struct House {
    pub(crate) engine: Engine,
    pub(crate) dir: TempDir,
    /// Settings of every process, as variables.
    pub(crate) settings: Vec<(String, String)>,
    /// What the store's address has besides.
    store: &'static str,
}

/// One process of the house.
pub(crate) struct Door {
    pub(crate) process: Process,
    pub(crate) address: String,
    /// Everything it logs.
    pub(crate) log: PathBuf,
    http: reqwest::Client,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Answer {
    /// Whether it is a problem with this status and code.
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> bool {
        let kind = self.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let whole = ["type", "title", "status", "requestId", "code"];
        assert!(whole.iter().all(|name| !self.body[*name].is_null()), "{self:?}");
        kind.starts_with("application/problem+json") && self.status == status && self.body["code"] == code
    }
}

impl House {
    pub(crate) fn new(engine: Engine) -> Self {
        service::install_crypto();
        let house = Self {
            engine,
            dir: tempfile::tempdir().unwrap(),
            settings: Vec::new(),
            store: "?quarantine_ms=0",
        };
        // No machine is busy for so long that it loses these; what is taken away is noticed soon.
        house.with("IDEM_SECRET", "of this test").with("RECONCILE_MS", "500").living(30_000, 1_000)
    }

    /// With leases and a guard that end so long after the last heartbeat, in milliseconds.
    pub(crate) fn living(self, ttl: u64, heartbeat: u64) -> Self {
        let house = self.with("LEASE_TTL_MS", ttl).with("GUARD_TTL_MS", ttl);
        house.with("HEARTBEAT_MS", heartbeat).with("GUARD_HEARTBEAT_MS", heartbeat)
    }

    pub(crate) fn embedded() -> Self {
        Self::new(Engine::Embedded)
    }

    pub(crate) fn redis() -> Self {
        Self::new(Engine::Redis(Box::new(RedisServer::start().unwrap())))
    }

    /// With a setting of `[sessions]`.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((format!("TENURE_SESSIONS__{name}"), value.to_string()));
        self
    }

    /// With a Redis that grants more than an hour.
    pub(crate) fn with_long_leases(mut self) -> Self {
        self.store = "?quarantine_ms=0&max_ttl_ms=3600000";
        self
    }

    /// With a Redis that may have forgotten somebody when it was started.
    pub(crate) fn in_quarantine(mut self) -> Self {
        self.store = "?max_ttl_ms=12000";
        self
    }

    /// Starts `tenure up` with the sessions.
    pub(crate) fn up(&self) -> Door {
        self.start("up", &["up", "--only", "lease,sessions"])
    }

    /// Starts a command with a folder of its own called `name`, and waits until it listens.
    pub(crate) fn start(&self, name: &str, args: &[&str]) -> Door {
        let (process, log) = self.spawn(name, args);
        let address = address(&self.dir.path().join(name), &process, &log);
        Door { process, address, log, http: reqwest::Client::new() }
    }

    /// Runs a command that must end by itself: its code and what it logged.
    pub(crate) fn refused(&self, name: &str, args: &[&str]) -> (i32, String) {
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
        // All processes of the house write and serve the same pictures.
        command.env("TENURE_SESSIONS__OUTPUT_DIR", self.dir.path().join("hls"));
        command.env(
            "TENURE_API_TOKENS",
            format!("{ADMIN}=v3:admin,lease:admin;{WRITER}=v3:write;{READER}=v3:read;{STRANGER}=lease:read"),
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

impl Door {
    pub(crate) async fn ask(&self, token: &str, method: &str, path: &str, body: Option<&str>) -> Answer {
        self.try_ask(token, method, path, body).await.unwrap()
    }

    async fn try_ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> reqwest::Result<Answer> {
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
        Ok(Answer { status, headers, text, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(ADMIN, "GET", path, None).await
    }

    pub(crate) async fn intent(&self, body: &Value) -> Answer {
        self.ask(WRITER, "POST", "/api/v3/intents", Some(&body.to_string())).await
    }

    /// Wishes to watch a channel: the session and whether it is a replay.
    pub(crate) async fn watch(&self, number: u32, profile: &str) -> (String, bool) {
        let wish = json!({ "type": "stream.start", "serviceRef": channel(number), "profileID": profile });
        let answer = self.intent(&wish).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let replay = answer.body["status"] == "idempotent_replay";
        assert!(replay || answer.body["status"] == "accepted", "{answer:?}");
        (answer.body["sessionId"].as_str().unwrap().to_owned(), replay)
    }

    pub(crate) async fn stop(&self, session: &str) -> Answer {
        self.intent(&json!({ "type": "stream.stop", "sessionId": session })).await
    }

    /// What a session is, over or not.
    pub(crate) async fn session(&self, session: &str) -> Value {
        let answer = self.get(&format!("/api/v3/sessions/{session}")).await;
        assert!([200, 404, 410].contains(&answer.status), "{answer:?}");
        answer.body
    }

    /// Waits until a session is in a state, and answers what it is then.
    pub(crate) async fn until(&self, session: &str, state: &str) -> Value {
        let mut last = Value::Null;
        let what = format!("it is {state}");
        let waited = wait::until_async(&what, LIMIT, async || {
            last = self.session(session).await;
            last["state"] == state
        });
        waited.await.unwrap_or_else(|error| panic!("{error}: {last} {}", self.said()));
        last
    }

    pub(crate) async fn until_ready(&self) {
        let waited = wait::until_async("it is ready", LIMIT, async || {
            self.try_ask(ADMIN, "GET", "/health/ready", None).await.is_ok_and(|answer| answer.status == 200)
        });
        waited.await.unwrap_or_else(|error| panic!("{error}: {}", self.said()));
    }

    /// Who holds a lease.
    pub(crate) async fn holder(&self, key: &str) -> Option<String> {
        let answer = self.get(&format!("/v1/leases/one?key={key}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        (answer.body["state"] == "held").then(|| answer.body["holder"].as_str().unwrap().to_owned())
    }

    /// Takes a lease away from its holder.
    pub(crate) async fn revoke(&self, key: &str) {
        let lease = self.get(&format!("/v1/leases/one?key={key}")).await.body;
        let body =
            json!({ "key": key, "generation": lease["generation"], "reason": "a test", "delay_ms": 0 });
        let answer = self.ask(ADMIN, "POST", "/v1/leases/revoke", Some(&body.to_string())).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// The sum of a metric over all its labels that contain `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let text = self.get("/metrics").await.text;
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        let lines = lines.filter(|line| line[name.len()..].starts_with(['{', ' ']));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Every record of the sessions and every lease of theirs that is held.
    pub(crate) async fn traces(&self) -> Vec<String> {
        let store = Client::dial(&format!("tenure://{}", self.address), Dial::default().token(ADMIN)).await;
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        let query = |prefix| Query::new(Prefix::new(prefix).unwrap());
        let records = store.scan(&query("v3:")).await.unwrap().items;
        let leases = store.list(&query("lease:")).await.unwrap().items;
        let records = records.iter().map(|record| format!("{} {:?}", record.key, record.revision));
        let leases = leases.iter().map(|lease| lease.key.to_string());
        records.chain(leases).collect()
    }

    /// What it logged.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
