//! A global controller behind its door, an authority, controllers and handlers.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Store};
use lease_keeper::{Guard, Keeper, OsEntropy};
use lease_store::{BootClock, Local};
use meet_ac::{Authority, Clients, Credentials, FolderVault, Vault};
use meet_gc::{Gc, Invitation, NotSigned, Options, Rules, Running, Seat, Signed, Signer};
use meet_rpc::{Keyring, Kind, Lines, Minted, NoToken, Tokens};
use meet_wire::jwt::{Claims, ServiceType};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use service::{ApiToken, Auth, Scopes, Settings, Shutdown};
use tokio::task::JoinSet;

use crate::nodes::{Mc, hold};

pub(crate) const HOST: &str = "token-of-the-host-0123456789abcdef";
pub(crate) const OTHER: &str = "token-of-another-0123456789abcdef";
pub(crate) const READER: &str = "token-that-looks-0123456789abcdef";

/// The longest a test waits for what must happen; nothing is right because of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The authority as a signer; the binary has the same few lines.
struct Signs(Arc<Authority>);

fn signed(token: Result<String, meet_ac::Error>) -> Result<Signed, NotSigned> {
    match token {
        Ok(token) => Ok(Signed { token, life: meet_ac::limits::MEETING }),
        Err(meet_ac::Error::Invalid(why)) => Err(NotSigned::Invalid(why.to_owned())),
        Err(error) => Err(NotSigned::Unavailable(error.to_string())),
    }
}

impl Signer for Signs {
    fn seat(&self, seat: &Seat) -> Result<Signed, NotSigned> {
        let Seat { user, meeting_id, home_org_id, meeting_org_id, host } = seat.clone();
        signed(self.0.seat(&meet_ac::Seat { user, meeting_id, home_org_id, meeting_org_id, host }))
    }

    fn guest(&self, invitation: &Invitation) -> Result<Signed, NotSigned> {
        let Invitation { meeting_id, display_name, previous } = invitation.clone();
        signed(self.0.guest(&meet_ac::Invitation { meeting_id, display_name, previous }))
    }
}

fn credentials(id: &str) -> Credentials {
    Credentials { client_id: id.to_owned(), client_secret: format!("secret of {id}") }
}

async fn authority(dir: &std::path::Path) -> Arc<Authority> {
    let parts = [
        ("gc", ServiceType::GlobalController, ["service.write.mc", "service.write.mh"]),
        ("mc", ServiceType::MeetingController, ["service.write.gc", "service.write.mh"]),
        ("mh", ServiceType::MediaHandler, ["service.write.gc", "service.write.mc"]),
    ];
    let clients = parts.iter().fold(Clients::default(), |clients, (id, kind, scopes)| {
        clients.with(&credentials(id), *kind, scopes).unwrap()
    });
    let vault = Vault::Folder(FolderVault::new(dir));
    Arc::new(Authority::open(vault, clients, Arc::new(BootClock), Arc::new(OsEntropy)).await.unwrap())
}

pub(crate) struct House {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) keys: Keyring,
    pub(crate) lines: Lines,
    pub(crate) doors: Vec<Door>,
    handlers: Vec<(Keeper, Guard)>,
    _dir: tempfile::TempDir,
}

/// One global controller and its port.
pub(crate) struct Door {
    pub(crate) gc: Gc,
    pub(crate) auth: Arc<Auth>,
    pub(crate) url: String,
    http: reqwest::Client,
    _running: Running,
    _task: JoinSet<()>,
}

impl House {
    /// One global controller on a store in memory, and no nodes.
    pub(crate) async fn new() -> Self {
        Self::with(Rules::default()).await
    }

    pub(crate) async fn with(rules: Rules) -> Self {
        Self::on(vec![Arc::new(Local::memory())], rules).await
    }

    /// One global controller for each of these ways to a store.
    pub(crate) async fn on(stores: Vec<Arc<dyn Store>>, rules: Rules) -> Self {
        service::install_crypto();
        let dir = tempfile::tempdir().unwrap();
        let authority = authority(dir.path()).await;
        let keys = {
            let authority = authority.clone();
            Keyring::here(Arc::new(BootClock), move || authority.checker())
        };
        let lines = Lines::new(tokens(&authority, "gc"), Arc::new(BootClock), None);
        let mut house = Self {
            store: stores[0].clone(),
            authority,
            keys,
            lines,
            doors: Vec::new(),
            handlers: Vec::new(),
            _dir: dir,
        };
        for (number, store) in stores.into_iter().enumerate() {
            let door = house.door(store, number, rules.clone()).await;
            house.doors.push(door);
        }
        house
    }

    async fn door(&self, store: Arc<dyn Store>, number: usize, rules: Rules) -> Door {
        let (gc, running) = Gc::start(Options {
            id: format!("gc-{number}"),
            store,
            entropy: Arc::new(OsEntropy),
            signer: Arc::new(Signs(self.authority.clone())),
            keys: self.keys.clone(),
            lines: self.lines.clone(),
            rules,
        });
        self.lines.offer("gc", meet_gc::grpc(&gc));
        let settings = Settings { data_dir: self._dir.path().into(), ..settings() };
        let server = service::Server::bind(&settings).await.unwrap();
        let auth = Arc::new(Auth::open(&settings, server.local_addr()).unwrap());
        let app = meet_gc::routes(&gc)
            .0
            .merge(service::login_routes(auth.clone()))
            .layer(service::auth_layer(auth.clone()));
        let url = server.url();
        let mut task = JoinSet::new();
        task.spawn(async move { server.run(app, Shutdown::new()).await.unwrap() });
        Door { gc, auth, url, http: reqwest::Client::new(), _running: running, _task: task }
    }

    /// A controller that takes what it is given.
    pub(crate) async fn mc(&self, id: &str) -> Mc {
        Mc::start(&self.store, &self.lines, &self.keys, id).await
    }

    /// Two handlers in two zones.
    pub(crate) async fn handlers(&mut self) {
        for (id, zone) in [("mh-1", "a"), ("mh-2", "b")] {
            self.handlers.push(hold(&self.store, Kind::Handler, id, zone).await);
        }
    }

    /// A house with one controller and two handlers.
    pub(crate) async fn furnished() -> (Self, Mc) {
        let mut house = Self::new().await;
        house.handlers().await;
        let mc = house.mc("mc-1").await;
        (house, mc)
    }

    pub(crate) fn first(&self) -> &Door {
        &self.doors[0]
    }

    /// Lines that speak as a part of meetings.
    pub(crate) fn speaking(&self, part: &'static str) -> Lines {
        self.lines.speaking_as(tokens(&self.authority, part))
    }

    pub(crate) fn claims<C: Claims>(&self, answer: &Answer) -> C {
        let token = answer.body["token"].as_str().unwrap();
        self.authority.checker().check(token, BootClock.wall()).unwrap()
    }
}

fn tokens(authority: &Arc<Authority>, part: &'static str) -> Arc<dyn Tokens> {
    let authority = authority.clone();
    Minted::new(Arc::new(BootClock), move || {
        let made = authority.service(&credentials(part), None);
        made.map_err(|error| NoToken::Refused(error.to_string()))
    })
}

impl Door {
    /// A request without a token.
    pub(crate) fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/api/v1{path}", self.url))
    }

    pub(crate) fn request(&self, token: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(token)
    }

    /// Makes a meeting of the host; gives its answer.
    pub(crate) async fn create(&self) -> Answer {
        let wish = json!({"display_name": "Monday"});
        let made = answer(self.request(HOST, Method::POST, "/meetings").json(&wish)).await;
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

/// What the server said.
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

/// The answer to a request; errors have the form of this service.
pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.timeout(LIMIT).send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    assert_eq!(headers["cache-control"], "no-store", "what carries tokens is kept by nobody");
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
