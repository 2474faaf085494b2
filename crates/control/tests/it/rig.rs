//! A server of the test's own, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use control::{Control, Options};
use futures_util::{SinkExt, StreamExt};
use lease::{Holder, Store};
use lease_keeper::{Keeper, OsEntropy};
use serde_json::{Value, json};
use service::{ApiToken, Auth, Scope, Scopes, Server, Settings, Shutdown, auth_layer};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// How long anything that must happen may take on a loaded machine; never how long a test takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const WRITER: &str = "writer-token";
pub(crate) const OTHER: &str = "other-token";
pub(crate) const READER: &str = "reader-token";
pub(crate) const STRANGER: &str = "stranger-token";

/// Tokens for tests that need more than one principal may ask.
pub(crate) const CROWD: usize = 20;

pub(crate) fn crowd(i: usize) -> String {
    format!("crowd-token-{}", i % CROWD)
}

/// A lease that no test outlives.
pub(crate) fn calm() -> Options {
    Options { ttl_ms: 120_000, heartbeat_ms: 1_000, fps: 30, ..Options::default() }
}

/// A lease that ends while a test waits for it.
pub(crate) fn hasty() -> Options {
    Options { ttl_ms: 700, heartbeat_ms: 100, fps: 30, ..Options::default() }
}

pub(crate) struct Rig {
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

impl Rig {
    pub(crate) async fn start(options: Options) -> Self {
        let store: Arc<dyn Store> = lease_store::Store::open("memory:").await.unwrap().into();
        Self::on(store, options, |router, _| router).await
    }

    /// On a store, with more routes of a test.
    pub(crate) async fn on(
        store: Arc<dyn Store>,
        options: Options,
        more: impl FnOnce(axum::Router, &Control) -> axum::Router,
    ) -> Self {
        let rig = Self::standby(store, options, more).await;
        rig.control.serving().await;
        rig
    }

    /// The same, without waiting for the device.
    pub(crate) async fn standby(
        store: Arc<dyn Store>,
        options: Options,
        more: impl FnOnce(axum::Router, &Control) -> axum::Router,
    ) -> Self {
        service::install_crypto();
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
        #[expect(clippy::disallowed_methods, reason = "joined when the rig stops")]
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

    /// Connects, as soon as the rate allows it.
    pub(crate) async fn try_socket(&self, token: &str) -> Result<Socket, Error> {
        patiently(async || {
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

    /// Asks, as soon as the rate allows it.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        patiently(async || {
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

/// What the owner of a lease knows.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) id: String,
    pub(crate) token: String,
}

impl Owned {
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

    /// The next message but pings; nothing when the connection ends.
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

    /// The next text that fits.
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

    /// Asks, as soon as the rate allows it, and waits for the answer to that.
    pub(crate) async fn ask(&mut self, mut message: Value) -> Value {
        patiently(async || {
            self.next += 1;
            let id = format!("req-{}", self.next);
            message["requestId"] = json!(id);
            self.text(message.to_string()).await;
            let answer = self.until(|answer| answer["requestId"] == id.as_str()).await;
            (answer["error"]["message"] != "at most 50 messages per second").then_some(answer)
        })
        .await
    }

    /// The code of the refusal that a message meets.
    pub(crate) async fn refused(&mut self, message: Value) -> String {
        let answer = self.ask(message).await;
        assert_eq!((&answer["type"], &answer["success"]), (&json!("error"), &json!(false)), "{answer}");
        answer["error"]["code"].as_str().unwrap().to_owned()
    }

    /// Asks for something that must be done.
    pub(crate) async fn done(&mut self, message: Value) -> Value {
        let answer = self.ask(message).await;
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }

    pub(crate) async fn acquire(&mut self, name: &str) -> Owned {
        let data =
            self.done(json!({ "type": "control.acquire", "clientName": name, "scope": "global" })).await;
        Owned { id: text(&data["leaseId"]), token: text(&data["leaseToken"]) }
    }

    /// The next `control.stateChanged` of this kind.
    pub(crate) async fn event(&mut self, event: &str) -> Value {
        self.until(|value| value["type"] == "control.stateChanged" && value["event"] == event).await
    }

    /// The code with which the server closes.
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

/// What must happen, within [`LIMIT`].
#[expect(clippy::disallowed_methods, reason = "bounds a wait for a server in real time")]
pub(crate) async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(LIMIT, work).await.unwrap()
}

/// Waits until the server says so.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    testkit::wait::until_async(what, LIMIT, condition).await.unwrap();
}

/// What comes of trying until there is something.
async fn patiently<T>(mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually("it is allowed", async || {
        found = attempt().await;
        found.is_some()
    })
    .await;
    found.unwrap()
}
