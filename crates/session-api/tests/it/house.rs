//! A door on a port of its own, and callers with every scope.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use service::{ApiToken, Auth, Scopes, Settings, Shutdown};
use session::Secret;
use session_api::{Options, Ports};
use tokio::task::JoinSet;

use crate::world::{Leases, Memory, Told};

pub(crate) const READ: &str = "token-that-watches-0123456789abcdef";
pub(crate) const WRITE: &str = "token-that-starts-0123456789abcdef";
pub(crate) const ADMIN: &str = "token-that-sees-all-0123456789abcdef";
/// A token for something else.
pub(crate) const OTHER: &str = "token-that-leases-0123456789abcdef";
pub(crate) const SECRET: &str = "secret-of-the-house-that-nobody-sees";

pub(crate) const CHANNEL: &str = "1:0:1:445D:453:1:C00000:0:0:0:";

/// The longest a test waits for what must happen; nothing is right because of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct House {
    pub(crate) log: Arc<Memory>,
    pub(crate) bus: Arc<Told>,
    pub(crate) leases: Option<Arc<Leases>>,
    pub(crate) shutdown: Shutdown,
    url: String,
    http: reqwest::Client,
    dir: tempfile::TempDir,
    _task: JoinSet<()>,
}

/// What a house is built with.
pub(crate) struct Plan {
    pub(crate) log: Arc<Memory>,
    pub(crate) leases: Option<Arc<Leases>>,
    pub(crate) options: Options,
    dir: tempfile::TempDir,
}

impl Plan {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { slots: 2, ..Options::new(secrets(SECRET, None), dir.path().join("hls")) };
        Self { log: Memory::new(), leases: None, options, dir }
    }

    /// The door asks before it records.
    pub(crate) fn phase1(mut self) -> Self {
        self.leases = Some(Arc::default());
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// The same sessions as another house has.
    pub(crate) fn beside(mut self, house: &House) -> Self {
        self.log = house.log.clone();
        self
    }

    pub(crate) async fn build(mut self) -> House {
        service::install_crypto();
        let shutdown = Shutdown::new();
        self.options.shutdown = shutdown.clone();
        let settings = settings();
        let server = service::Server::bind(&settings).await.unwrap();
        let auth = Arc::new(Auth::open(&settings, server.local_addr()).unwrap());
        let bus: Arc<Told> = Arc::default();
        let app = session_api::routes(ports(&self.log, &bus, self.leases.as_ref()), self.options)
            .merge(service::telemetry::metrics_routes())
            .layer(service::auth_layer(auth));
        let url = server.url();
        let mut task = JoinSet::new();
        // It listens until it is dropped: what the door does at a shutdown is seen from outside.
        task.spawn(async move { server.run(app, Shutdown::new()).await.unwrap() });
        let http = reqwest::Client::new();
        House { log: self.log, bus, leases: self.leases, shutdown, url, http, dir: self.dir, _task: task }
    }
}

pub(crate) fn ports(log: &Arc<Memory>, bus: &Arc<Told>, leases: Option<&Arc<Leases>>) -> Ports {
    let admission = leases.map(|leases| leases.clone() as Arc<dyn session::Admission>);
    Ports { log: log.clone(), bus: bus.clone(), admission }
}

pub(crate) fn secrets(current: &str, previous: Option<&str>) -> session::Secrets {
    session::Secrets {
        current: Secret::new(current).unwrap(),
        previous: previous.map(|previous| Secret::new(previous).unwrap()),
    }
}

impl House {
    pub(crate) async fn new() -> Self {
        Plan::new().build().await
    }

    pub(crate) fn request(&self, token: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(token)
    }

    /// A request without a token.
    pub(crate) fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/api/v3{path}", self.url))
    }

    pub(crate) async fn intend(&self, body: Value) -> Answer {
        answer(self.request(WRITE, Method::POST, "/intents").json(&body)).await
    }

    /// Starts a channel and gives its session.
    pub(crate) async fn start(&self, body: Value) -> String {
        let answer = self.intend(body).await;
        assert_eq!(
            (answer.status, &answer.body["status"]),
            (StatusCode::ACCEPTED, &json!("accepted")),
            "{answer:?}"
        );
        answer.body["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn start_channel(&self) -> String {
        self.start(json!({"serviceRef": CHANNEL})).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.request(READ, Method::GET, path)).await
    }

    pub(crate) async fn beat(&self, id: &str) -> Answer {
        answer(self.request(READ, Method::POST, &format!("/sessions/{id}/heartbeat"))).await
    }

    /// Everything that reached the world behind the door.
    pub(crate) fn traces(&self) -> [usize; 5] {
        let count = |leases: &Arc<Leases>| leases.asked.load(Ordering::SeqCst);
        [
            self.log.reads.load(Ordering::SeqCst),
            self.log.writes.load(Ordering::SeqCst),
            self.log.creates.load(Ordering::SeqCst),
            self.bus.asked.load(Ordering::SeqCst),
            self.leases.as_ref().map_or(0, count),
        ]
    }

    pub(crate) fn writes(&self) -> usize {
        self.log.writes.load(Ordering::SeqCst)
    }

    pub(crate) async fn metrics(&self) -> String {
        self.http.get(format!("{}/metrics", self.url)).send().await.unwrap().text().await.unwrap()
    }

    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }
}

/// What the server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> (u16, &str) {
        (self.status.as_u16(), self.body["code"].as_str().unwrap_or_default())
    }
}

/// The answer to a request, whose form is held to what every answer has.
pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.timeout(LIMIT).send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body: Value = response.json().await.unwrap();
    if !status.is_success() {
        assert_eq!(headers["content-type"], "application/problem+json", "{body}");
        assert_eq!(body["status"], status.as_u16());
        assert_eq!(body["requestId"], headers["x-request-id"].to_str().unwrap());
        for member in ["type", "title", "detail", "code"] {
            assert!(body[member].is_string(), "{member}: {body}");
        }
    }
    let text = body.to_string();
    for secret in [SECRET, crate::world::TICKET, READ, WRITE, ADMIN, "hidden-password"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    Answer { status, headers, body }
}

/// What the future gives, which must not take for ever.
#[expect(clippy::disallowed_methods, reason = "a test that hangs must end")]
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap()
}

fn settings() -> Settings {
    let token = |name: &str, text: &str, scope: &str| {
        ApiToken::new(name, text, [scope.parse().unwrap()].into_iter().collect::<Scopes>())
    };
    let mut settings = Settings { listen: "127.0.0.1:0".parse().unwrap(), ..Settings::default() };
    settings.limits.rate_per_second = 0;
    settings.api_tokens = vec![
        token("reader", READ, "v3:read"),
        token("writer", WRITE, "v3:write"),
        token("admin", ADMIN, "v3:admin"),
        token("other", OTHER, "lease:admin"),
    ];
    settings
}
