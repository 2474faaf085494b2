//! A test server with the session API, and clients with every scope.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tenure_service::{ApiToken, Auth, Scopes, Settings, Shutdown};
use tenure_session::Secret;
use tenure_session_api::{Options, Ports};
use tokio::task::JoinSet;

use crate::ports::{FakeAdmission, MemoryLog};

pub(crate) const READ: &str = "token-of-the-reader-0123456789abcdef";
pub(crate) const WRITE: &str = "token-of-the-writer-0123456789abcdef";
pub(crate) const ADMIN: &str = "token-of-the-admin-0123456789abcdef";
/// A token without a session scope.
pub(crate) const OTHER: &str = "token-of-another-service-0123456789abcdef";
pub(crate) const SECRET: &str = "idempotency-secret-of-the-test-api";

pub(crate) const CHANNEL: &str = "1:0:1:445D:453:1:C00000:0:0:0:";

/// The longest a test waits. No test depends on its exact value.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct TestApi {
    pub(crate) log: Arc<MemoryLog>,
    pub(crate) leases: Option<Arc<FakeAdmission>>,
    pub(crate) shutdown: Shutdown,
    url: String,
    http: reqwest::Client,
    dir: tempfile::TempDir,
    _task: JoinSet<()>,
}

/// Builds a [`TestApi`].
pub(crate) struct TestApiBuilder {
    pub(crate) log: Arc<MemoryLog>,
    pub(crate) leases: Option<Arc<FakeAdmission>>,
    pub(crate) options: Options,
    dir: tempfile::TempDir,
}

impl TestApiBuilder {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { slots: 2, ..Options::new(secrets(SECRET, None), dir.path().join("hls")) };
        Self { log: MemoryLog::new(), leases: None, options, dir }
    }

    /// Uses phase 1 of the migration.
    pub(crate) fn phase1(mut self) -> Self {
        self.leases = Some(Arc::default());
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Shares the sessions of another server.
    pub(crate) fn sharing_log(mut self, api: &TestApi) -> Self {
        self.log = api.log.clone();
        self
    }

    pub(crate) async fn build(mut self) -> TestApi {
        tenure_service::install_crypto();
        let shutdown = Shutdown::new();
        self.options.shutdown = shutdown.clone();
        let settings = settings();
        let server = tenure_service::Server::bind(&settings).await.unwrap();
        let auth = Arc::new(Auth::open(&settings, server.local_addr()).unwrap());
        let app = tenure_session_api::routes(ports(&self.log, self.leases.as_ref()), self.options)
            .merge(tenure_service::telemetry::metrics_routes())
            .layer(tenure_service::auth_layer(auth));
        let url = server.url();
        let mut task = JoinSet::new();
        // The server runs until it is dropped, so that tests can observe the API during a shutdown.
        task.spawn(async move { server.run(app, Shutdown::new()).await.unwrap() });
        let http = reqwest::Client::new();
        TestApi { log: self.log, leases: self.leases, shutdown, url, http, dir: self.dir, _task: task }
    }
}

pub(crate) fn ports(log: &Arc<MemoryLog>, leases: Option<&Arc<FakeAdmission>>) -> Ports {
    let admission = leases.map(|leases| leases.clone() as Arc<dyn tenure_session::Admission>);
    Ports { log: log.clone(), admission }
}

pub(crate) fn secrets(current: &str, previous: Option<&str>) -> tenure_session::Secrets {
    tenure_session::Secrets {
        current: Secret::new(current).unwrap(),
        previous: previous.map(|previous| Secret::new(previous).unwrap()),
    }
}

impl TestApi {
    pub(crate) async fn new() -> Self {
        TestApiBuilder::new().build().await
    }

    pub(crate) fn request(&self, token: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(token)
    }

    /// A request without a token.
    pub(crate) fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/api/v3{path}", self.url))
    }

    pub(crate) async fn submit(&self, body: Value) -> ApiResponse {
        send(self.request(WRITE, Method::POST, "/intents").json(&body)).await
    }

    /// Starts a session and returns its id.
    pub(crate) async fn start(&self, body: Value) -> String {
        let response = self.submit(body).await;
        assert_eq!(
            (response.status, &response.body["status"]),
            (StatusCode::ACCEPTED, &json!("accepted")),
            "{response:?}"
        );
        response.body["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn start_channel(&self) -> String {
        self.start(json!({"serviceRef": CHANNEL})).await
    }

    pub(crate) async fn get(&self, path: &str) -> ApiResponse {
        send(self.request(READ, Method::GET, path)).await
    }

    pub(crate) async fn heartbeat(&self, id: &str) -> ApiResponse {
        send(self.request(READ, Method::POST, &format!("/sessions/{id}/heartbeat"))).await
    }

    /// The number of calls to each port.
    pub(crate) fn port_calls(&self) -> [usize; 4] {
        let count = |leases: &Arc<FakeAdmission>| leases.asked.load(Ordering::SeqCst);
        [
            self.log.reads.load(Ordering::SeqCst),
            self.log.writes.load(Ordering::SeqCst),
            self.log.creates.load(Ordering::SeqCst),
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

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl ApiResponse {
    pub(crate) fn code(&self) -> (u16, &str) {
        (self.status.as_u16(), self.body["code"].as_str().unwrap_or_default())
    }
}

/// Sends a request and checks what every response must have.
pub(crate) async fn send(request: reqwest::RequestBuilder) -> ApiResponse {
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
    for secret in [SECRET, crate::ports::TICKET, READ, WRITE, ADMIN, "hidden-password"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    ApiResponse { status, headers, body }
}

/// Waits for a future with a timeout.
#[expect(clippy::disallowed_methods, reason = "a test that hangs must end")]
pub(crate) async fn within_limit<T>(future: impl Future<Output = T>) -> T {
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
