//! Processes with meetings, their REST, and a client over real QUIC.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_lease::Clock as _;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    ChatRequest, ClientMessage, JoinRequest, JoinResponse, LeaveRequest, ServerMessage,
};
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_meet_wire::transport::{MessageReader, MessageWriter, Session, TransportError};
use tenure_store::BootClock;
use tenure_testkit::{Process, RedisServer};

use super::placed;
use crate::harness::{LIMIT, known_new, tenure};

pub(crate) const TOKEN: &str = "token-with-meet-write";
pub(crate) const MC_SECRET: &str = "the-secret-of-the-controller-for-this-test";
pub(crate) const MH_SECRET: &str = "the-secret-of-the-handler-for-this-test";
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) struct Installation {
    pub(crate) dir: TempDir,
    pub(crate) redis: Option<RedisServer>,
}

/// How a process of the installation is started.
pub(crate) struct StartOptions<'a> {
    pub(crate) folder: &'a str,
    pub(crate) store: Option<String>,
    /// The log filter; the log is written to a file named after the folder.
    pub(crate) log: Option<&'a str>,
}

pub(crate) struct ServerProcess {
    pub(crate) process: Process,
    pub(crate) address: String,
    /// The gRPC endpoint, if the process prints one.
    pub(crate) grpc: Option<String>,
    pub(crate) patience: Duration,
    http: reqwest::Client,
}

impl Installation {
    pub(crate) fn new() -> Self {
        tenure_service::install_crypto();
        Self { dir: tempfile::tempdir().unwrap(), redis: None }
    }

    pub(crate) fn on(redis: RedisServer) -> Self {
        Self { redis: Some(redis), ..Self::new() }
    }

    pub(crate) fn start(&self, args: &[&str]) -> ServerProcess {
        self.start_with(args, &[])
    }

    /// Starts a process with a data folder per role.
    pub(crate) fn start_with(&self, args: &[&str], variables: &[(&str, &str)]) -> ServerProcess {
        let folder = if args[0] == "up" { "data" } else { args[0] };
        let store = self.redis.as_ref().map(RedisServer::url);
        self.start_as(StartOptions { folder, store, log: None }, args, variables)
    }

    /// The log of the process of this folder.
    pub(crate) fn log(&self, folder: &str) -> String {
        let bytes = std::fs::read(self.dir.path().join(format!("{folder}.log"))).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn start_as(
        &self,
        begin: StartOptions<'_>,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> ServerProcess {
        let StartOptions { folder, store, log } = begin;
        let mut command = tenure(self.dir.path(), args);
        command.args(["--listen", "127.0.0.1:0", "--data-dir", folder]);
        if let Some(store) = store {
            command.args(["--store", &known_new(&store)]);
        }
        if let Some(filter) = log {
            let path = self.dir.path().join(format!("{folder}.log"));
            command.stderr(std::fs::File::create(path).unwrap());
            command.env("TENURE_LOG__FILTER", filter);
        } else {
            command.env("TENURE_LOG__FILTER", "warn,tenure::meet=info");
        }
        for (name, value) in [
            ("TENURE_API_TOKENS", format!("{TOKEN}=meet:write").as_str()),
            ("MC_BINDING_TOKEN_SECRET", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="),
            ("TENURE_SEAL_KEY", "0123456789abcdef0123456789abcdef"),
            ("TENURE_MEET__MC_CLIENT_SECRET", MC_SECRET),
            ("TENURE_MEET__MH_CLIENT_SECRET", MH_SECRET),
            // Long enough for a busy machine.
            ("TENURE_MEET__LEASE_TTL_MS", "30000"),
            ("TENURE_MEET__LEASE_RENEW_MS", "1000"),
            ("TENURE_MEET__IDLE_TIMEOUT_MS", "60000"),
        ] {
            command.env(name, value);
        }
        if self.redis.is_none() {
            command.env_remove("MC_BINDING_TOKEN_SECRET");
        }
        command.envs(variables.iter().copied());
        let process = Process::spawn(command).unwrap();
        let line = process.wait_for_line(|line| line.trim_start().starts_with("address"), LIMIT).unwrap();
        let address = line.split_whitespace().last().unwrap().to_owned();
        let mut grpc = None;
        process
            .wait_for_line(
                |line| {
                    if let Some(endpoint) = line.trim_start().strip_prefix("gRPC") {
                        grpc = Some(endpoint.trim().to_owned());
                    }
                    line.starts_with("Press Ctrl-C")
                },
                LIMIT,
            )
            .unwrap();
        ServerProcess { process, address, grpc, patience: LIMIT, http: reqwest::Client::new() }
    }
}

impl ServerProcess {
    /// Sends a request with this token, or without one.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        token: Option<&str>,
    ) -> (u16, Value) {
        self.ask_traced(method, path, body, token, None).await
    }

    /// The same, with this trace.
    async fn ask_traced(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        token: Option<&str>,
        trace: Option<&str>,
    ) -> (u16, Value) {
        let method = method.parse::<reqwest::Method>().unwrap();
        let mut request = self.http.request(method, format!("{}{path}", self.address));
        if let Some(trace) = trace {
            request = request.header("traceparent", trace);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn create(&self, name: &str) -> Value {
        let body = json!({ "display_name": name });
        let (status, made) = self.ask("POST", "/api/v1/meetings", Some(body), Some(TOKEN)).await;
        assert_eq!(status, 201, "{made}");
        made
    }

    pub(crate) async fn guest(&self, code: &str, name: &str) -> String {
        let body = json!({ "display_name": name });
        let path = format!("/api/v1/meetings/{code}/guest-token");
        let (status, made) = self.ask("POST", &path, Some(body), None).await;
        assert!(status == 200 || status == 201, "{status}: {made}");
        made["token"].as_str().unwrap().to_owned()
    }

    /// Joins over REST; retried until a controller is registered.
    pub(crate) async fn place(&self, code: &str, token: Option<&str>) -> MeetingAccess {
        self.place_traced(code, token, None).await
    }

    /// The same, with this trace.
    pub(crate) async fn place_traced(
        &self,
        code: &str,
        token: Option<&str>,
        trace: Option<&str>,
    ) -> MeetingAccess {
        let path = format!("/api/v1/meetings/{code}");
        let (mut status, mut answer) = (0, Value::Null);
        for _ in 0..200 {
            (status, answer) = self.ask_traced("GET", &path, None, Some(token.unwrap_or(TOKEN)), trace).await;
            if status != 503 {
                break;
            }
            BootClock.sleep_until(BootClock.now() + Duration::from_millis(250)).await;
        }
        assert_eq!(status, 200, "{answer}");
        placed(&answer, self)
    }

    /// Sends a request on a thread of its own.
    pub(crate) fn get_blocking(&self, path: &str) -> Option<(u16, String)> {
        let (http, url) = (self.http.clone(), format!("{}{path}", self.address));
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let answer = http.get(url).send().await.ok()?;
                Some((answer.status().as_u16(), answer.text().await.ok()?))
            })
        })
    }
}

/// A controller endpoint and a token for it.
#[derive(Clone)]
pub(crate) struct MeetingAccess {
    pub(crate) url: String,
    pub(crate) hashes: Vec<Vec<u8>>,
    pub(crate) token: String,
    pub(crate) meeting: String,
    pub(crate) patience: Duration,
}

impl MeetingAccess {
    pub(crate) async fn dial(&self) -> Result<Arc<dyn Session>, TransportError> {
        self.dial_traced(None).await
    }

    pub(crate) async fn dial_traced(&self, trace: Option<&str>) -> Result<Arc<dyn Session>, TransportError> {
        // A busy machine may let a test stand still for longer than people would wait.
        let timing = Timing { idle: self.patience, keep_alive: Duration::from_secs(1) };
        Dialer::new(ANY, timing).unwrap().dial(&self.url, &self.hashes, trace).await
    }

    pub(crate) async fn ask_to_join(&self, name: &str) -> TestClient {
        let mut line = self.open().await;
        line.ask(ClientPayload::JoinRequest(self.request(name))).await;
        line
    }

    /// A connection without a join request.
    pub(crate) async fn open(&self) -> TestClient {
        TestClient::open(self.dial().await.unwrap()).await
    }

    pub(crate) fn request(&self, name: &str) -> JoinRequest {
        JoinRequest {
            meeting_id: self.meeting.clone(),
            join_token: self.token.clone(),
            participant_name: name.to_owned(),
            attempt_id: "1".to_owned(),
            ..JoinRequest::default()
        }
    }

    pub(crate) async fn join(&self, name: &str) -> (TestClient, JoinResponse) {
        self.join_with(self.request(name)).await
    }

    pub(crate) async fn join_with(&self, request: JoinRequest) -> (TestClient, JoinResponse) {
        let mut line = self.open().await;
        let answer = line.join(request).await;
        (line, answer)
    }
}

pub(crate) struct TestClient {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) writer: MessageWriter,
    pub(crate) reader: MessageReader,
    seq: u64,
}

impl TestClient {
    pub(crate) async fn open(session: Arc<dyn Session>) -> Self {
        let (send, receive) = session.open_bi().await.unwrap();
        Self { session, writer: MessageWriter::new(send), reader: MessageReader::new(receive), seq: 0 }
    }

    /// Joins and returns the answer.
    pub(crate) async fn join(&mut self, request: JoinRequest) -> JoinResponse {
        self.ask(ClientPayload::JoinRequest(request)).await;
        match self.next().await.payload {
            Some(Payload::JoinResponse(answer)) => answer,
            other => panic!("no welcome but {other:?}"),
        }
    }

    /// Leaves the meeting.
    pub(crate) async fn leave(mut self) {
        self.ask(ClientPayload::LeaveRequest(LeaveRequest {})).await;
        while let Ok(Some(_)) = self.reader.next::<ServerMessage>().await {}
        self.session.close(0, "");
    }

    pub(crate) async fn chat(&mut self, text: &str) {
        self.ask(ClientPayload::ChatRequest(ChatRequest { text: text.to_owned() })).await;
    }

    /// Reads until this chat message arrives.
    pub(crate) async fn hears(&mut self, text: &str) {
        let said = |payload: &Payload| match payload {
            Payload::ChatMessage(chat) => (chat.text == text).then_some(()),
            _ => None,
        };
        self.until(said).await;
    }

    pub(crate) async fn ask(&mut self, ask: ClientPayload) {
        self.seq += 1;
        let message = ClientMessage { payload: Some(ask), seq: self.seq, ..ClientMessage::default() };
        self.writer.send(&message).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> ServerMessage {
        self.reader.next().await.unwrap().unwrap()
    }

    pub(crate) async fn until<T>(&mut self, fits: impl Fn(&Payload) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.next().await.payload.as_ref().and_then(&fits) {
                return found;
            }
        }
    }
}
