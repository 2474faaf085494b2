//! A single node and its sinks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tenure_lease::{Key, Op, Store, Ttl};
use tenure_poller::{Node, Settings};
use tenure_store::Local;
use tenure_testkit::wait;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A store, and an endpoint whose responses the tests change.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    addr: SocketAddr,
    response: Arc<Mutex<(u16, String)>>,
    methods: Arc<Mutex<Vec<String>>>,
    hooks: Arc<Mutex<Vec<Value>>>,
    _server: JoinSet<()>,
}

impl Fixture {
    pub(crate) async fn on(store: Arc<dyn Store>) -> Self {
        let response = Arc::new(Mutex::new((200, "{\"n\": 1}".to_owned())));
        let (hooks, methods) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (given, called, seen) = (response.clone(), hooks.clone(), methods.clone());
        let router = Router::new()
            .route(
                "/",
                get(async move |method: http::Method| {
                    seen.lock().push(method.to_string());
                    let (status, body) = given.lock().clone();
                    (http::StatusCode::from_u16(status).unwrap(), body)
                }),
            )
            .route("/hook", post(async move |axum::Json(body): axum::Json<Value>| called.lock().push(body)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { store, addr, response, methods, hooks, _server: server }
    }

    pub(crate) async fn memory() -> Self {
        Self::on(Arc::new(Local::memory())).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }

    pub(crate) async fn target(&self, id: &str, interval: u64) {
        self.put(id, json!({ "intervalMs": interval })).await;
    }

    async fn put(&self, id: &str, mut record: Value) {
        record["address"] = self.url().into();
        let key = Key::new(format!("session:{id}")).unwrap();
        let value = record.to_string().into_bytes().into();
        self.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
    }

    /// The number of requests received.
    pub(crate) fn request_count(&self) -> usize {
        self.methods.lock().len()
    }

    pub(crate) fn start(&self, settings: Settings) -> Node {
        Node::start(self.store.clone(), settings).unwrap()
    }

    pub(crate) async fn generation(&self, id: &str) -> Option<tenure_lease::Generation> {
        self.store.inspect(&Key::new(format!("poll:lease:{id}")).unwrap()).await.unwrap().generation
    }

    pub(crate) async fn latest(&self, id: &str) -> Value {
        let key = Key::new(format!("poll:latest:{id}")).unwrap();
        let record = self.store.get(&key).await.unwrap();
        record.map_or(Value::Null, |record| serde_json::from_slice(&record.value).unwrap())
    }

    async fn log(&self, id: &str) -> Vec<Value> {
        let log = Key::new(format!("poll:log:{id}")).unwrap();
        let entries = self.store.read_log(&log, 0, 1_000).await.unwrap();
        entries.iter().map(|entry| serde_json::from_slice(&entry.value).unwrap()).collect()
    }
}

/// Short intervals, and TTLs that are long enough for a slow machine.
pub(crate) fn quick() -> Settings {
    Settings {
        lease_ttl: Ttl::from_secs(30).unwrap(),
        renew_interval: Duration::from_millis(200),
        heartbeat_ttl: Ttl::from_secs(30).unwrap(),
        heartbeat_interval: Duration::from_millis(200),
        discovery_interval: Duration::from_millis(200),
        sync_interval: Duration::from_millis(100),
        backoff_max: Duration::from_millis(40),
        ..Settings::default()
    }
}

/// The number of polls of a target.
pub(crate) fn polls(node: &Node, id: &str) -> u64 {
    let snapshot = node.snapshot();
    let targets = snapshot.nodes.iter().flat_map(|node| &node.targets);
    targets.filter(|target| target.id == id).filter_map(|target| target.polls).sum()
}

#[tokio::test]
async fn latest_and_recent_results_are_kept_with_the_lease_s_generation() {
    let fixture = Fixture::memory().await;
    fixture.put("a", json!({ "intervalMs": 10, "extract": "$.n" })).await;
    let node = fixture.start(Settings { history: 3, ..quick() });
    wait::until_async("results are kept", LIMIT, async || fixture.log("a").await.len() == 3).await.unwrap();
    let latest = fixture.latest("a").await;
    let generation = fixture.generation("a").await.unwrap().to_string();
    assert_eq!((&latest["value"], &latest["ok"]), (&json!(1), &json!(true)));
    assert_eq!((&latest["generation"], &latest["instance"]), (&json!(generation), &json!(node.instance())));
    node.stop().await;
    let key = Key::new("poll:lease:a").unwrap();
    assert_eq!(fixture.store.inspect(&key).await.unwrap().phase, tenure_lease::Phase::Free);
    assert!(fixture.store.get(&Key::new("poll:node:x").unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn unchanged_results_are_omitted_with_only_changes() {
    let fixture = Fixture::memory().await;
    fixture.target("a", 10).await;
    let node = fixture.start(Settings { only_changes: true, refresh: Duration::from_secs(3_600), ..quick() });
    wait::until_async("the target is polled", LIMIT, async || polls(&node, "a") > 20).await.unwrap();
    assert_eq!(fixture.log("a").await.len(), 1);
    fixture.response.lock().1 = "2".to_owned();
    wait::until_async("the change is published", LIMIT, async || fixture.log("a").await.len() == 2)
        .await
        .unwrap();
    assert_eq!(fixture.latest("a").await["value"], 2);
    node.stop().await;
}

#[tokio::test]
async fn a_target_that_is_down_is_probed_and_polled_again_when_it_responds() {
    let fixture = Fixture::memory().await;
    fixture.target("a", 10).await;
    let node = fixture.start(Settings { down_after: 2, ..quick() });
    wait::until_async("the target is polled", LIMIT, async || polls(&node, "a") > 0).await.unwrap();
    fixture.response.lock().0 = 503;
    let probed = async || fixture.methods.lock().iter().filter(|method| *method == "HEAD").count() > 2;
    wait::until_async("the target is probed", LIMIT, probed).await.unwrap();
    assert_eq!(fixture.latest("a").await["down"], true);
    fixture.response.lock().0 = 200;
    wait::until_async("the target is up", LIMIT, async || fixture.latest("a").await["ok"] == true)
        .await
        .unwrap();
    node.stop().await;
}

#[tokio::test]
async fn results_are_posted_to_the_webhook() {
    let fixture = Fixture::memory().await;
    let hook = format!("http://{}/hook", fixture.addr);
    fixture.put("a", json!({ "intervalMs": 20, "webhook": hook })).await;
    let node = fixture.start(quick());
    wait::until_async("the webhook is called", LIMIT, async || fixture.hooks.lock().len() > 2).await.unwrap();
    let called = fixture.hooks.lock()[0].clone();
    assert_eq!((&called["id"], &called["instance"]), (&json!("a"), &json!(node.instance())));
    node.stop().await;
}

#[tokio::test]
async fn two_nodes_share_targets_and_one_takes_over_when_the_other_stops() {
    let fixture = Fixture::memory().await;
    for id in ["a", "b", "c", "d"] {
        fixture.target(id, 20).await;
    }
    let (one, two) = (fixture.start(quick()), fixture.start(quick()));
    let loads = |node: &Node| {
        let snapshot = node.snapshot();
        let mut loads: Vec<_> = snapshot.nodes.iter().map(|node| node.targets.len()).collect();
        loads.sort_unstable();
        loads
    };
    wait::until_async("both share the targets", LIMIT, async || {
        loads(&one) == [2, 2] && loads(&two) == [2, 2]
    })
    .await
    .unwrap();
    two.stop().await;
    wait::until_async("one node owns every target", LIMIT, async || loads(&one) == [4]).await.unwrap();
    one.stop().await;
}
