//! A server on a port of its own, and callers with every scope.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tenure_client::{Client, ClientOptions};
use tenure_lease::Clock;
use tenure_lease_api::Options;
use tenure_service::config::Tls;
use tenure_service::{ApiToken, Auth, Scopes, Settings, Shutdown};
use tenure_store::{BootClock, Local};
use tokio::task::JoinSet;

pub(crate) const READ: &str = "token-that-reads-0123456789abcdef";
pub(crate) const WRITE: &str = "token-that-writes-0123456789abcdef";
pub(crate) const ADMIN: &str = "token-that-overrules-0123456789abcdef";

/// A generous time limit, so that a test cannot hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<dyn tenure_lease::Store>,
    pub(crate) shutdown: Shutdown,
    http: reqwest::Client,
    task: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Arc::new(Local::memory()), Options::default()).await
    }

    pub(crate) async fn with(store: Arc<dyn tenure_lease::Store>, options: Options) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), store, options).await
    }

    pub(crate) async fn on(
        address: SocketAddr,
        store: Arc<dyn tenure_lease::Store>,
        options: Options,
    ) -> Self {
        Self::run(settings(address), store, options).await
    }

    pub(crate) async fn over_tls(tls: Tls, store: Arc<dyn tenure_lease::Store>, options: Options) -> Self {
        let settings = Settings { tls: Some(tls), ..settings("127.0.0.1:0".parse().unwrap()) };
        Self::run(settings, store, options).await
    }

    async fn run(settings: Settings, store: Arc<dyn tenure_lease::Store>, options: Options) -> Self {
        // Another test may have installed it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let server = tenure_service::Server::bind(&settings).await.unwrap();
        let address = server.local_addr();
        let shutdown = Shutdown::new();
        let app = app(store.clone(), options.shutdown(shutdown.clone()), &settings, address);
        let mut task = JoinSet::new();
        // It listens until it is dropped, so that tests observe the service during a shutdown.
        task.spawn(async move { server.run(app, Shutdown::new()).await.unwrap() });
        Self { address, store, shutdown, http: reqwest::Client::new(), task }
    }

    /// Ends the server and all its connections at once.
    pub(crate) async fn stop(mut self) -> SocketAddr {
        self.task.shutdown().await;
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, token: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, self.url(path)).bearer_auth(token)
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.post_as(WRITE, path, body).await
    }

    pub(crate) async fn post_as(&self, token: &str, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.request(token, Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.request(WRITE, Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(READ, Method::GET, path)).await
    }

    /// A client with the admin scope.
    pub(crate) async fn client(&self) -> Client {
        self.client_as(ADMIN).await
    }

    pub(crate) async fn client_as(&self, token: &str) -> Client {
        Client::connect(&format!("tenure://{}", self.address), ClientOptions::default().token(token))
            .await
            .unwrap()
    }

    /// Waits until this many claims wait for a key.
    pub(crate) async fn parked(&self, key: &str, count: u32) {
        let key = tenure_lease::Key::new(key).unwrap();
        let all = async {
            while self.store.inspect(&key).await.unwrap().waiters != count {
                tokio::task::yield_now().await;
            }
        };
        within(LIMIT, all).await;
    }
}

/// The output of the future, within a time limit.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::select! {
        done = future => done,
        () = BootClock.sleep_until(BootClock.now() + limit) => panic!("it took longer than {limit:?}"),
    }
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let response = request.timeout(LIMIT).send().await.unwrap();
    let status = response.status();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    match status.is_success() {
        true => assert_eq!(kind, "application/json"),
        false => {
            assert_eq!(kind, "application/problem+json");
            assert_eq!(body["status"], status.as_u16());
            assert!(body["detail"].is_string() && body["title"].is_string(), "{body}");
        }
    }
    (status, body)
}

fn settings(address: SocketAddr) -> Settings {
    let token = |name: &str, text: &str, scope: &str| {
        ApiToken::new(name, text, [scope.parse().unwrap()].into_iter().collect::<Scopes>())
    };
    let mut settings = Settings { listen: address, ..Settings::default() };
    settings.limits.rate_per_second = 0;
    settings.api_tokens = vec![
        token("reader", READ, "lease:read"),
        token("writer", WRITE, "lease:write"),
        token("admin", ADMIN, "lease:admin"),
    ];
    settings
}

fn app(
    store: Arc<dyn tenure_lease::Store>,
    options: Options,
    settings: &Settings,
    address: SocketAddr,
) -> axum::Router {
    let auth = Arc::new(Auth::open(settings, address).unwrap());
    let (http, _) = tenure_lease_api::http(store.clone(), options.clone());
    let grpc = tenure_lease_api::grpc(store, options);
    http.merge(grpc).layer(tenure_service::auth_layer(auth))
}
