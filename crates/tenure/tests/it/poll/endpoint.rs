//! The polled endpoint: a server that records every request.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::routing::get;
use tenure_lease::{Clock, Tick};
use tenure_store::BootClock;
use tokio::sync::oneshot;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) id: String,
    pub(crate) instance: String,
    /// Zero for nodes of other programs.
    pub(crate) generation: u64,
    pub(crate) start: Tick,
    /// `None` while the request is in flight.
    pub(crate) end: Option<Tick>,
}

pub(crate) type RequestLog = Arc<Mutex<Vec<Hit>>>;

pub(crate) struct Endpoint {
    pub(crate) addr: SocketAddr,
    log: RequestLog,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Records the end of its request when dropped.
struct OpenRequest(RequestLog, usize);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut hits = self.0.lock().unwrap();
        let now = BootClock.now();
        hits[self.1].end = Some(now);
    }
}

fn record_request(log: &RequestLog, id: &str, headers: &HeaderMap) -> OpenRequest {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    // `tenure-poll/VERSION (INSTANCE; generation N)`
    let inside = agent.split_once('(').map_or(agent, |(_, rest)| rest.trim_end_matches(')'));
    let (instance, generation) = inside.split_once("; generation ").unwrap_or((inside, "0"));
    let mut hits = log.lock().unwrap();
    hits.push(Hit {
        id: id.to_owned(),
        instance: instance.to_owned(),
        generation: generation.parse().unwrap(),
        start: BootClock.now(),
        end: None,
    });
    OpenRequest(log.clone(), hits.len() - 1)
}

async fn fast(State(log): State<RequestLog>, Path(id): Path<String>, headers: HeaderMap) -> &'static str {
    drop(record_request(&log, &id, &headers));
    "1"
}

async fn slow(
    State(log): State<RequestLog>,
    Path((ms, id)): Path<(u64, String)>,
    headers: HeaderMap,
) -> &'static str {
    let _open = record_request(&log, &id, &headers);
    BootClock.sleep_until(BootClock.now() + Duration::from_millis(ms)).await;
    "1"
}

impl Endpoint {
    pub(crate) fn start() -> Self {
        let log = RequestLog::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let state = log.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                let router = Router::new().route("/t/{id}", get(fast)).route("/slow/{ms}/{id}", get(slow));
                let serving = axum::serve(listener, router.with_state(state));
                tokio::select! {
                    served = async { serving.await } => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { addr: receiver.recv().unwrap(), log, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self, id: &str) -> String {
        format!("http://{}/t/{id}", self.addr)
    }

    pub(crate) fn slow_url(&self, id: &str, ms: u64) -> String {
        format!("http://{}/slow/{ms}/{id}", self.addr)
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.log.lock().unwrap().clone()
    }

    /// The last request for each target.
    pub(crate) fn last(&self) -> BTreeMap<String, Hit> {
        self.hits().into_iter().map(|hit| (hit.id.clone(), hit)).collect()
    }

    /// Asserts that no two Tenure nodes polled a target with overlapping ownership.
    pub(crate) fn assert_one_owner_at_a_time(&self) {
        let mut before: BTreeMap<String, Hit> = BTreeMap::new();
        let mut owners: BTreeMap<(String, u64), BTreeSet<String>> = BTreeMap::new();
        for hit in self.hits().into_iter().filter(|hit| hit.generation > 0) {
            owners.entry((hit.id.clone(), hit.generation)).or_default().insert(hit.instance.clone());
            if let Some(before) = before.get(&hit.id) {
                assert!(
                    hit.generation >= before.generation,
                    "an older owner polled: {before:?} then {hit:?}"
                );
                assert!(
                    hit.generation == before.generation || before.end.is_some_and(|end| end <= hit.start),
                    "two owners at once: {before:?} and {hit:?}"
                );
            }
            before.insert(hit.id.clone(), hit);
        }
        assert!(owners.values().all(|owners| owners.len() == 1), "{owners:?}");
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}
