//! `tenure up` of a test's own, and its HTTP as a program outside sees it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::{Process, UdpProxy, free_port, wait};

use crate::LIMIT;

/// A TTL that no test outlives, however slow the machine.
pub(crate) const LONG: u64 = 600_000;

/// How long a parked claim waits; its test is over before.
const WAIT_MS: u64 = 30_000;

/// A variable of the environment.
type Variable = (&'static str, String);

pub(crate) struct Up {
    process: Process,
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    /// The console's address with its one-time code.
    pub(crate) link: String,
    /// The administrator's token.
    pub(crate) token: String,
    variables: Vec<Variable>,
    only: &'static str,
    data: PathBuf,
    home: TempDir,
}

/// A reign, as its holder knows it.
#[derive(Clone)]
pub(crate) struct Grant {
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) generation: String,
}

impl Grant {
    fn read(granted: &Value) -> Option<Self> {
        let text = |name: &str| granted[name].as_str().map(str::to_owned);
        Some(Self { key: text("key")?, token: text("token")?, generation: text("generation")? })
    }
}

impl Up {
    pub(crate) fn start() -> Self {
        Self::listening("127.0.0.1:0", Vec::new())
    }

    /// With the device and its lease.
    pub(crate) fn with_control() -> Self {
        Self::serving("127.0.0.1:0", Vec::new(), "lease,control")
    }

    /// With TV sessions, on the test pattern.
    pub(crate) fn with_tv() -> Self {
        Self::serving("127.0.0.1:0", Vec::new(), "lease,sessions")
    }

    /// With all services.
    pub(crate) fn with_everything() -> Self {
        Self::serving(
            &format!("127.0.0.1:{}", free_port().unwrap()),
            Vec::new(),
            "lease,control,poll,sessions,meet",
        )
    }

    /// With meetings, whose packets go through a proxy.
    pub(crate) fn with_meetings() -> (Self, UdpProxy) {
        // Packets and requests arrive at ports of one number.
        let listen = format!("127.0.0.1:{}", free_port().unwrap());
        let proxy = UdpProxy::start(listen.parse().unwrap()).unwrap();
        let advertised = ("TENURE_MEET__WEBTRANSPORT_ADVERTISE_ADDRESS", proxy.addr().to_string());
        (Self::start_with(&listen, vec![advertised], "lease,meet"), proxy)
    }

    /// With pages of other origins allowed.
    pub(crate) fn listening(listen: &str, origins: Vec<String>) -> Self {
        // The other services hold leases of their own, which these tests would see in the list.
        Self::serving(listen, origins, "lease")
    }

    fn serving(listen: &str, origins: Vec<String>, only: &'static str) -> Self {
        let origins = match origins.is_empty() {
            true => Vec::new(),
            false => vec![("TENURE_ALLOWED_ORIGINS", origins.join(","))],
        };
        Self::start_with(listen, origins, only)
    }

    /// With variables of its own.
    fn start_with(listen: &str, variables: Vec<Variable>, only: &'static str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let (process, link) = launch(&data, listen, &variables, only);
        let url = std::fs::read_to_string(data.join("address")).unwrap().trim().to_owned();
        let token = std::fs::read_to_string(data.join("token")).unwrap().trim().to_owned();
        Self { process, url, link, token, variables, only, data, home }
    }

    /// `127.0.0.1:PORT`
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub(crate) fn kill9(&self) {
        self.process.kill9().unwrap();
    }

    /// Makes the file that keeps the sessions unreadable.
    pub(crate) fn damage_sessions(&self) {
        std::fs::write(self.data.join("sessions"), "{").unwrap();
    }

    /// Starts it again on the same port and folder.
    pub(crate) fn restart(self) -> Self {
        self.kill9();
        let (process, link) = launch(&self.data, self.address(), &self.variables, self.only);
        Self {
            process,
            link,
            url: self.url,
            token: self.token,
            variables: self.variables,
            only: self.only,
            data: self.data,
            home: self.home,
        }
    }

    /// One request with the administrator's token: the status and the answer.
    pub(crate) fn http(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        ask(self.address(), &self.token, method, path, body).unwrap()
    }

    /// A claim that waits, of a program of its own; nothing when the server went away meanwhile.
    pub(crate) fn park(&self, key: &str, holder: &str, ttl_ms: u64) -> JoinHandle<Option<Grant>> {
        let before = self.one(key)["waiters"].as_u64().unwrap();
        let (address, token) = (self.address().to_owned(), self.token.clone());
        let body = json!({ "key": key, "holder": holder, "ttl_ms": ttl_ms, "wait_ms": WAIT_MS });
        let waiter = std::thread::spawn(move || {
            let (_, granted) = ask(&address, &token, "POST", "/v1/leases/acquire", Some(&body)).ok()?;
            Grant::read(&granted)
        });
        self.wait_for_waiters(key, before + 1);
        waiter
    }

    fn post(&self, verb: &str, body: &Value) -> Value {
        let (status, answer) = self.http("POST", &format!("/v1/leases/{verb}"), Some(body));
        assert_eq!(status, 200, "{verb} {body}: {answer}");
        answer
    }

    pub(crate) fn acquire(&self, key: &str, holder: &str, ttl_ms: u64) -> Grant {
        self.claim(&json!({ "key": key, "holder": holder, "ttl_ms": ttl_ms }))
    }

    pub(crate) fn claim(&self, body: &Value) -> Grant {
        Grant::read(&self.post("acquire", body)).unwrap()
    }

    /// What the store says to a renewal: `renewed` or `lost`.
    pub(crate) fn renew(&self, grant: &Grant, ttl_ms: u64) -> String {
        let item = json!({ "key": grant.key, "token": grant.token, "generation": grant.generation });
        let answer = self.post("renew", &json!({ "items": [item], "ttl_ms": ttl_ms }));
        answer["results"][0]["outcome"].as_str().unwrap().to_owned()
    }

    pub(crate) fn release(&self, grant: &Grant) {
        self.post(
            "release",
            &json!({ "key": grant.key, "token": grant.token, "generation": grant.generation }),
        );
    }

    pub(crate) fn transfer(&self, grant: &Grant, to: &str) {
        let Grant { key, token, generation } = grant;
        self.post("transfer", &json!({ "key": key, "token": token, "generation": generation, "to": to }));
    }

    pub(crate) fn revoke(&self, key: &str, generation: &str, delay_ms: u64) {
        let body = json!({ "key": key, "generation": generation, "reason": "a test", "delay_ms": delay_ms });
        self.post("revoke", &body);
    }

    pub(crate) fn one(&self, key: &str) -> Value {
        self.http("GET", &format!("/v1/leases/one?key={key}"), None).1
    }

    pub(crate) fn reigns(&self, key: &str) -> Vec<Value> {
        let (_, answer) = self.http("GET", &format!("/v1/leases/history?key={key}"), None);
        answer["reigns"].as_array().unwrap().clone()
    }

    /// Waits until a claim is parked.
    pub(crate) fn wait_for_waiters(&self, key: &str, count: u64) {
        wait::until("claims are parked", LIMIT, || self.one(key)["waiters"] == count).unwrap();
    }
}

fn ask(
    address: &str,
    token: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(2 * LIMIT))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    // HTTP/1.0: the answer ends with the connection and comes in one piece.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no answer: {answer:?}")))?;
    Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

/// The built binary in a folder, without variables that it would read.
fn tenure(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder);
    command
}

/// The server and the link it prints once it is ready.
fn launch(data: &Path, listen: &str, variables: &[Variable], only: &str) -> (Process, String) {
    let mut command = tenure(data.parent().unwrap());
    command.args(["up", "--listen", listen, "--only", only, "--data-dir"]).arg(data);
    // Every request is logged at `info`, and pages make many.
    command.env("TENURE_LOG__FILTER", "warn");
    // Two browsers on a loaded machine may not get to a heartbeat in five seconds.
    command.env("TENURE_CONTROL__TTL_MS", "60000");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let process = Process::spawn(command).unwrap();
    let line = process.wait_for_line(|line| line.contains("#login="), LIMIT).unwrap();
    (process, line.split_whitespace().last().unwrap().to_owned())
}
