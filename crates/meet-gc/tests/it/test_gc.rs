//! A global controller behind its server, with an authority, controllers and handlers.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tenure_keeper::{Guard, Keeper, OsEntropy};
use tenure_lease::{Clock, Store};
use tenure_meet_ac::{Authority, Clients, Credentials, DirectoryVault, Vault};
use tenure_meet_gc::{Gc, NotSigned, Options, Rules, Running, Signed, Signer};
use tenure_meet_rpc::{ChannelPool, Keyring, Kind, MintedTokens, TokenError, TokenSource};
use tenure_meet_wire::jwt::{Claims, GuestTokenRequest, MemberTokenRequest, ServiceType};
use tenure_service::{ApiToken, Auth, Scopes, Settings, Shutdown};
use tenure_store::{BootClock, Local};
use tokio::task::JoinSet;

use crate::nodes::{Mc, hold};

pub(crate) const HOST: &str = "token-of-the-host-0123456789abcdef";
pub(crate) const OTHER: &str = "token-of-another-0123456789abcdef";
pub(crate) const READER: &str = "token-that-looks-0123456789abcdef";

/// The longest wait in a test. No assertion depends on it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The authority as a signer, as in the binary.
struct Signs(Arc<Authority>);

fn signed(token: Result<String, tenure_meet_ac::Error>) -> Result<Signed, NotSigned> {
    match token {
        Ok(token) => Ok(Signed { token, life: tenure_meet_ac::limits::MEETING }),
        Err(tenure_meet_ac::Error::Invalid(why)) => Err(NotSigned::Invalid(why.to_owned())),
        Err(error) => Err(NotSigned::Unavailable(error.to_string())),
    }
}

impl Signer for Signs {
    fn sign_member(&self, request: &MemberTokenRequest) -> Result<Signed, NotSigned> {
        signed(self.0.sign_member(request))
    }

    fn sign_guest(&self, request: &GuestTokenRequest) -> Result<Signed, NotSigned> {
        signed(self.0.sign_guest(request))
    }
}

fn credentials(id: &str) -> Credentials {
    Credentials { client_id: id.to_owned(), client_secret: format!("secret of {id}") }
}

async fn authority(dir: &std::path::Path) -> Arc<Authority> {
    let parts = [
        ("gc", ServiceType::GlobalController, &["service.write.mc", "service.write.mh"][..]),
        ("mc", ServiceType::MeetingController, &["service.write.gc", "service.write.mc", "service.write.mh"]),
        ("mh", ServiceType::MediaHandler, &["service.write.gc", "service.write.mc"]),
    ];
    let clients = parts.iter().fold(Clients::default(), |clients, (id, kind, scopes)| {
        clients.with(&credentials(id), *kind, scopes).unwrap()
    });
    let vault = Vault::Folder(DirectoryVault::new(dir));
    Arc::new(Authority::open(vault, clients, Arc::new(BootClock), Arc::new(OsEntropy)).await.unwrap())
}

pub(crate) struct TestGc {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) keys: Keyring,
    pub(crate) channels: ChannelPool,
    pub(crate) servers: Vec<TestServer>,
    handlers: Vec<(Keeper, Guard)>,
    _dir: tempfile::TempDir,
}

/// One global controller and its port.
pub(crate) struct TestServer {
    pub(crate) gc: Gc,
    pub(crate) auth: Arc<Auth>,
    pub(crate) url: String,
    http: reqwest::Client,
    _running: Running,
    _task: JoinSet<()>,
}

impl TestGc {
    /// One global controller on an in-memory store, without nodes.
    pub(crate) async fn new() -> Self {
        Self::with(Rules::default()).await
    }

    pub(crate) async fn with(rules: Rules) -> Self {
        Self::on(vec![Arc::new(Local::memory())], rules).await
    }

    /// One global controller for each of these stores.
    pub(crate) async fn on(stores: Vec<Arc<dyn Store>>, rules: Rules) -> Self {
        tenure_service::install_crypto();
        let dir = tempfile::tempdir().unwrap();
        let authority = authority(dir.path()).await;
        let keys = {
            let authority = authority.clone();
            Keyring::local(Arc::new(BootClock), move || authority.checker())
        };
        let channels = ChannelPool::new(tokens(&authority, "gc"), Arc::new(BootClock), None);
        let mut test_gc = Self {
            store: stores[0].clone(),
            authority,
            keys,
            channels,
            servers: Vec::new(),
            handlers: Vec::new(),
            _dir: dir,
        };
        for (number, store) in stores.into_iter().enumerate() {
            let server = test_gc.server(store, number, rules.clone()).await;
            test_gc.servers.push(server);
        }
        test_gc
    }

    /// Another global controller on the same store.
    pub(crate) async fn add_server(&mut self) {
        let server = self.server(self.store.clone(), self.servers.len(), Rules::default()).await;
        self.servers.push(server);
    }

    async fn server(&self, store: Arc<dyn Store>, number: usize, rules: Rules) -> TestServer {
        let (gc, running) = Gc::start(Options {
            id: format!("gc-{number}"),
            store,
            entropy: Arc::new(OsEntropy),
            signer: Arc::new(Signs(self.authority.clone())),
            keys: self.keys.clone(),
            channels: self.channels.clone(),
            rules,
        });
        self.channels.offer("gc", tenure_meet_gc::grpc(&gc));
        let settings = Settings { data_dir: self._dir.path().into(), ..settings() };
        let server = tenure_service::Server::bind(&settings).await.unwrap();
        let auth = Arc::new(Auth::open(&settings, server.local_addr()).unwrap());
        let app = tenure_meet_gc::routes(&gc)
            .0
            .merge(tenure_service::login_routes(auth.clone()))
            .layer(tenure_service::auth_layer(auth.clone()));
        let url = server.url();
        let mut task = JoinSet::new();
        task.spawn(async move { server.run(app, Shutdown::new()).await.unwrap() });
        TestServer { gc, auth, url, http: reqwest::Client::new(), _running: running, _task: task }
    }

    /// A controller that accepts every meeting.
    pub(crate) async fn mc(&self, id: &str) -> Mc {
        Mc::start(&self.store, (&self.channels, self.speaking("mc")), &self.keys, id).await
    }

    /// Two handlers in two zones.
    pub(crate) async fn handlers(&mut self) {
        for (id, zone) in [("mh-1", "a"), ("mh-2", "b")] {
            self.handlers.push(hold(&self.store, Kind::Handler, id, zone).await);
        }
    }

    /// A global controller with one controller and two handlers.
    pub(crate) async fn furnished() -> (Self, Mc) {
        let mut test_gc = Self::new().await;
        test_gc.handlers().await;
        let mc = test_gc.mc("mc-1").await;
        (test_gc, mc)
    }

    pub(crate) fn first(&self) -> &TestServer {
        &self.servers[0]
    }

    /// Channels with the tokens of a role.
    pub(crate) fn speaking(&self, part: &'static str) -> ChannelPool {
        self.channels.with_tokens(tokens(&self.authority, part))
    }

    pub(crate) fn claims<C: Claims>(&self, answer: &Answer) -> C {
        let token = answer.body["token"].as_str().unwrap();
        self.authority.checker().check(token, BootClock.wall()).unwrap()
    }
}

fn tokens(authority: &Arc<Authority>, part: &'static str) -> Arc<dyn TokenSource> {
    let authority = authority.clone();
    MintedTokens::new(Arc::new(BootClock), move || {
        let made = authority.service(&credentials(part), None);
        made.map_err(|error| TokenError::Refused(error.to_string()))
    })
}

impl TestServer {
    /// A request without a token.
    pub(crate) fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/api/v1{path}", self.url))
    }

    pub(crate) fn request(&self, token: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(token)
    }

    /// Creates a meeting as the host and returns the response.
    pub(crate) async fn create(&self) -> Answer {
        let request_body = json!({"display_name": "Monday"});
        let made = answer(self.request(HOST, Method::POST, "/meetings").json(&request_body)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        made
    }

    pub(crate) async fn join(&self, token: &str, code: &str) -> Answer {
        answer(self.request(token, Method::GET, &format!("/meetings/{code}"))).await
    }

    pub(crate) async fn guest(&self, code: &str, name: &str, previous: Option<&str>) -> Answer {
        let request = self.bare(Method::POST, &format!("/meetings/{code}/guest-token"));
        let request = previous.into_iter().fold(request, |request, token| request.bearer_auth(token));
        answer(request.json(&json!({"display_name": name}))).await
    }

    pub(crate) async fn change(&self, token: &str, id: &str, change: Value) -> Answer {
        answer(self.request(token, Method::PATCH, &format!("/meetings/{id}/settings")).json(&change)).await
    }
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> (u16, &str) {
        (self.status.as_u16(), self.body["error"]["code"].as_str().unwrap_or_default())
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.body[field].as_str().unwrap_or_else(|| panic!("no {field} in {}", self.body))
    }
}

/// Sends a request and checks the form of errors.
pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.timeout(LIMIT).send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    assert_eq!(headers["cache-control"], "no-store", "responses with tokens must not be cached");
    let body: Value = response.json().await.unwrap();
    if !status.is_success() {
        assert_eq!(headers["content-type"], "application/json", "{body}");
        let error = body["error"].as_object().unwrap_or_else(|| panic!("{body}"));
        assert!(error["code"].is_string() && error["message"].is_string() && error.len() == 2, "{body}");
    }
    let text = body.to_string();
    for secret in [HOST, OTHER, READER] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    Answer { status, headers, body }
}

fn settings() -> Settings {
    let token = |name: &str, text: &str, scope: &str| {
        ApiToken::new(name, text, [scope.parse().unwrap()].into_iter().collect::<Scopes>())
    };
    let mut settings = Settings { listen: "127.0.0.1:0".parse().unwrap(), ..Settings::default() };
    settings.limits.rate_per_second = 0;
    settings.api_tokens = vec![
        token("host", HOST, "meet:write"),
        token("other", OTHER, "meet:admin"),
        token("reader", READER, "meet:read"),
    ];
    settings
}
