//! A running server, and clients that can misbehave.

use std::net::SocketAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use axum::Router;
use tenure_service::{Auth, Server, ServerError, Settings, Shutdown, auth_layer, login_routes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long anything that must happen may take on a loaded machine; never how long a test takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// How long something that must not happen is given to happen.
pub(crate) const MOMENT: Duration = Duration::from_millis(150);

/// A server on a port of its own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    pub(crate) shutdown: Shutdown,
    pub(crate) dir: tempfile::TempDir,
    tasks: JoinSet<Result<(), ServerError>>,
}

/// Serves `router` with these settings.
pub(crate) async fn start(change: impl FnOnce(&mut Settings), router: Router) -> Running {
    start_with(change, |_| router).await
}

/// Serves `router` behind authentication.
pub(crate) async fn start_with_auth(
    change: impl FnOnce(&mut Settings),
    router: Router,
) -> (Running, Arc<Auth>) {
    let mut kept = None;
    let running = start_with(change, |auth| {
        kept = Some(auth.clone());
        router.merge(login_routes(auth.clone())).layer(auth_layer(auth))
    })
    .await;
    (running, kept.unwrap())
}

/// Lets a test collect the events of its own thread. Without a global subscriber, tracing may disable an event for good
/// when another test reaches it first.
pub(crate) fn listen_everywhere() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
}

async fn start_with(change: impl FnOnce(&mut Settings), router: impl FnOnce(Arc<Auth>) -> Router) -> Running {
    listen_everywhere();
    let dir = tempfile::tempdir().unwrap();
    let mut settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        data_dir: dir.path().join("data"),
        ..Settings::default()
    };
    change(&mut settings);
    let server = Server::bind(&settings).await.unwrap();
    let (address, url) = (server.local_addr(), server.url());
    let router = router(Arc::new(Auth::open(&settings, address).unwrap()));
    let shutdown = Shutdown::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(router, shutdown.clone()));
    Running { address, url, shutdown, dir, tasks }
}

impl Running {
    /// Waits for the server to end.
    pub(crate) async fn ended(&mut self) {
        soon(self.tasks.join_next()).await.unwrap().unwrap().unwrap();
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn send(&self, head: &str, body: &str) -> Reply {
        let mut wire = self.connect().await;
        wire.write(&format!(
            "{head}\r\nhost: t\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        wire.reply().await
    }
}

/// The output of `work`, which must come.
#[expect(clippy::disallowed_methods, reason = "a test that hangs must end")]
pub(crate) async fn soon<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(LIMIT, work).await.unwrap()
}

/// Gives something that must not happen the time to happen.
#[expect(clippy::disallowed_methods, reason = "nothing tells that something does not happen but time")]
pub(crate) async fn moment() {
    tokio::time::sleep(MOMENT).await;
}

/// A connection on which anything can be written.
pub(crate) struct Wire(pub(crate) TcpStream);

impl Wire {
    pub(crate) async fn write(&mut self, text: &str) {
        soon(self.0.write_all(text.as_bytes())).await.unwrap();
    }

    /// Everything until the server closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        // A reset ends the connection as well.
        let _ = soon(self.0.read_to_end(&mut bytes)).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last reply on this connection.
    pub(crate) async fn reply(&mut self) -> Reply {
        Reply::parse(&self.rest().await)
    }

    /// One reply with a length, on a connection that stays.
    pub(crate) async fn next(&mut self) -> Reply {
        let mut text = String::new();
        loop {
            let reply = Reply::parse(&text);
            let length = reply.header("content-length").and_then(|length| length.parse().ok());
            if text.contains("\r\n\r\n") && length.unwrap_or(0) <= reply.body.len() {
                return reply;
            }
            let mut chunk = [0; 4_096];
            let read = soon(self.0.read(&mut chunk)).await.unwrap();
            assert!(read > 0, "closed after {text:?}");
            text += std::str::from_utf8(&chunk[..read]).unwrap();
        }
    }
}

/// An HTTP/1.1 response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body of a problem, whose members that all problems have are checked.
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], self.status);
        let word = body["code"].as_str().unwrap();
        assert_eq!(body["type"], format!("urn:tenure:error:{word}"));
        assert!(body["title"].is_string() && body["detail"].is_string());
        body
    }

    pub(crate) fn code(&self) -> String {
        self.problem()["code"].as_str().unwrap().to_owned()
    }
}
