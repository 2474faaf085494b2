//! A test server and its clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_control::{Control, Options};
use tenure_keeper::{Keeper, OsEntropy};
use tenure_lease::{Holder, Store};
use tenure_service::{ApiToken, Auth, Scope, Scopes, Server, Settings, Shutdown, auth_layer};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Timeout of everything that must happen, on a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const WRITER: &str = "writer-token";
pub(crate) const OTHER: &str = "other-token";
pub(crate) const READER: &str = "reader-token";
pub(crate) const STRANGER: &str = "stranger-token";

/// Number of tokens for tests that exceed the limits of one principal.
pub(crate) const CROWD: usize = 20;

pub(crate) fn crowd(i: usize) -> String {
    format!("crowd-token-{}", i % CROWD)
}

/// A lease longer than any test.
pub(crate) fn long_ttl() -> Options {
    Options { ttl_ms: 120_000, heartbeat_ms: 1_000, fps: 30, ..Options::default() }
}

/// A lease that expires within a test.
pub(crate) fn short_ttl() -> Options {
    Options { ttl_ms: 700, heartbeat_ms: 100, fps: 30, ..Options::default() }
}

pub(crate) struct Fixture {
    pub(crate) control: Control,
    pub(crate) address: SocketAddr,
    shutdown: Shutdown,
    served: JoinHandle<()>,
    http: reqwest::Client,
    _dir: TempDir,
}

fn scopes(text: &str) -> Scopes {
    text.split(',').map(|scope| scope.parse::<Scope>().unwrap()).collect()
}

impl Fixture {
    pub(crate) async fn start(options: Options) -> Self {
        let store: Arc<dyn Store> = tenure_store::Store::open("memory:").await.unwrap().into();
        Self::on(store, options, |router, _| router).await
    }

    /// Starts on a store, with additional routes.
    pub(crate) async fn on(
        store: Arc<dyn Store>,
        options: Options,
        more: impl FnOnce(axum::Router, &Control) -> axum::Router,
    ) -> Self {
        let fixture = Self::standby(store, options, more).await;
        fixture.control.serving().await;
        fixture
    }

    /// Starts without waiting for the device.
    pub(crate) async fn standby(
        store: Arc<dyn Store>,
        options: Options,
        more: impl FnOnce(axum::Router, &Control) -> axum::Router,
    ) -> Self {
        tenure_service::install_crypto();
        let dir = tempfile::tempdir().unwrap();
        let mut api_tokens = vec![
            ApiToken::new("writer", WRITER, scopes("control:write")),
            ApiToken::new("other", OTHER, scopes("control:write")),
            ApiToken::new("reader", READER, scopes("control:read")),
            ApiToken::new("stranger", STRANGER, scopes("lease:admin")),
        ];
        api_tokens.extend(
            (0..CROWD).map(|i| ApiToken::new(format!("crowd-{i}"), &crowd(i), scopes("control:write"))),
        );
        let settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            data_dir: dir.path().to_owned(),
            allowed_origins: vec!["https://composer.example".into()],
            api_tokens,
            ..Settings::default()
        };
        let server = Server::bind(&settings).await.unwrap();
        let address = server.local_addr();
        let auth = Arc::new(Auth::open(&settings, address).unwrap());
        let keeper = Keeper::new(store.clone(), Holder::unique("control", &OsEntropy).unwrap());
        let control = Control::start(options, keeper);
        let origins = auth.clone();
        let router = control.routes(Arc::new(move |origin| origins.allows_origin(origin)));
        let router = more(router, &control).layer(auth_layer(auth));
        let shutdown = Shutdown::new();
        let end = shutdown.clone();
        #[expect(clippy::disallowed_methods, reason = "joined when the fixture stops")]
        let served = tokio::spawn(async move { server.run(router, end).await.unwrap() });
        let http = reqwest::Client::builder().build().unwrap();
        Self { control, address, shutdown, served, http, _dir: dir }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.trigger();
        self.control.close().await;
        self.served.await.unwrap();
    }

    pub(crate) async fn socket(&self) -> Socket {
        self.socket_of(WRITER).await
    }

    pub(crate) async fn socket_of(&self, token: &str) -> Socket {
        self.try_socket(token).await.unwrap()
    }

    /// Connects; retries while rate-limited.
    pub(crate) async fn try_socket(&self, token: &str) -> Result<Socket, Error> {
        retry_until_allowed(async || {
            let mut request = format!("ws://{}/ws", self.address).into_client_request().unwrap();
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            match tokio_tungstenite::connect_async(request).await {
                Err(Error::Http(response)) if response.status() == 429 => None,
                answer => Some(answer.map(|(socket, _)| Socket { socket, next: 0 })),
            }
        })
        .await
    }

    /// The status of a refused handshake.
    pub(crate) async fn handshake(&self, token: &str) -> u16 {
        match self.try_socket(token).await {
            Ok(_) => 101,
            Err(Error::Http(response)) => response.status().as_u16(),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(WRITER, "GET", path, None, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value, headers: &[(&str, &str)]) -> (u16, Value) {
        self.ask(WRITER, "POST", path, Some(body), headers).await
    }

    /// Sends a request; retries while rate-limited.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        retry_until_allowed(async || {
            let answer = self.ask_once(token, method, path, body.clone(), headers).await;
            (answer.1["error"]["message"] != "too many requests").then_some(answer)
        })
        .await
    }

    pub(crate) async fn ask_once(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let response = self.send(token, method, path, body, headers).await;
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn send(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> reqwest::Response {
        let url = format!("http://{}{path}", self.address);
        let mut request = self.http.request(method.parse().unwrap(), url);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        request.send().await.unwrap()
    }

    pub(crate) async fn status(&self) -> Value {
        self.get("/api/v1/device/status").await.1["data"].clone()
    }
}

/// The id and token of a lease.
#[derive(Clone, Debug)]
pub(crate) struct OwnedLease {
    pub(crate) id: String,
    pub(crate) token: String,
}

impl OwnedLease {
    pub(crate) fn headers(&self) -> [(&str, &str); 2] {
        [("x-control-lease", &self.token), ("x-control-lease-id", &self.id)]
    }
}

pub(crate) struct Socket {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next: u64,
}

impl Socket {
    pub(crate) async fn send(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    pub(crate) async fn text(&mut self, text: impl Into<String>) {
        self.send(Message::text(text.into())).await;
    }

    /// The next message other than a ping; `None` when the connection ends.
    pub(crate) async fn any(&mut self) -> Option<Message> {
        loop {
            let message = within(self.socket.next()).await?;
            match message {
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(message) => return Some(message),
                Err(_) => return None,
            }
        }
    }

    /// The next text message that matches.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.any().await {
                Some(Message::Text(text)) => {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    if fits(&value) {
                        return value;
                    }
                }
                Some(Message::Binary(_)) => {}
                other => panic!("the connection ended: {other:?}"),
            }
        }
    }

    /// Sends a message, retries while rate-limited, and waits for the reply.
    pub(crate) async fn ask(&mut self, mut message: Value) -> Value {
        retry_until_allowed(async || {
            self.next += 1;
            let id = format!("req-{}", self.next);
            message["requestId"] = json!(id);
            self.text(message.to_string()).await;
            let answer = self.until(|answer| answer["requestId"] == id.as_str()).await;
            (answer["error"]["message"] != "at most 50 messages per second").then_some(answer)
        })
        .await
    }

    /// Sends a message that must be refused, and returns the code.
    pub(crate) async fn refused(&mut self, message: Value) -> String {
        let answer = self.ask(message).await;
        assert_eq!((&answer["type"], &answer["success"]), (&json!("error"), &json!(false)), "{answer}");
        answer["error"]["code"].as_str().unwrap().to_owned()
    }

    /// Sends a message that must succeed, and returns the data.
    pub(crate) async fn done(&mut self, message: Value) -> Value {
        let answer = self.ask(message).await;
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }

    pub(crate) async fn acquire(&mut self, name: &str) -> OwnedLease {
        let data =
            self.done(json!({ "type": "control.acquire", "clientName": name, "scope": "global" })).await;
        OwnedLease { id: text(&data["leaseId"]), token: text(&data["leaseToken"]) }
    }

    /// The next `control.stateChanged` of this kind.
    pub(crate) async fn event(&mut self, event: &str) -> Value {
        self.until(|value| value["type"] == "control.stateChanged" && value["event"] == event).await
    }

    /// The close code of the server.
    pub(crate) async fn closed(&mut self) -> Option<CloseCode> {
        loop {
            match self.any().await {
                Some(Message::Close(frame)) => return frame.map(|frame| frame.code),
                Some(_) => {}
                None => return None,
            }
        }
    }

    pub(crate) async fn close(mut self) {
        self.socket.close(None).await.ok();
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Waits for a future, at most [`LIMIT`].
#[expect(clippy::disallowed_methods, reason = "bounds a wait for a server in real time")]
pub(crate) async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(LIMIT, work).await.unwrap()
}

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    tenure_testkit::wait::until_async(what, LIMIT, condition).await.unwrap();
}

/// Repeats an attempt until it returns a value.
async fn retry_until_allowed<T>(mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually("the rate limit allows it", async || {
        found = attempt().await;
        found.is_some()
    })
    .await;
    found.unwrap()
}
