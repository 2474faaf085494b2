//! Claims that wait for the disk delay neither renewals nor anything else of their client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_client::{Client, ClientOptions};
use tenure_lease::{
    Acquired, Claim, Lease, Leases, Release, Renewal, Renewed, Result, Store, StoreLayer, Token,
};
use tenure_lease_api::Options;
use tenure_lease_wire::proto::keep_alive_request::Action;
use tenure_lease_wire::proto::keep_alive_response::Outcome;
use tenure_lease_wire::proto::leases_client::LeasesClient;
use tenure_lease_wire::proto::{KeepAliveRequest, KeepAliveResponse, RenewRequest};
use tenure_store::Local;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

use crate::client::{claim, key, take};
use crate::server::{LIMIT, Server, WRITE, within};

/// A store in memory whose claims wait for a disk.
struct SlowDisk {
    inner: Arc<dyn Store>,
    ready: watch::Sender<bool>,
    /// How often each key was claimed.
    claims: Mutex<HashMap<String, usize>>,
}

impl SlowDisk {
    fn new() -> Arc<Self> {
        let (inner, ready) = (Arc::new(Local::memory()), watch::Sender::new(true));
        Arc::new(Self { inner, ready, claims: Mutex::default() })
    }

    fn stop(&self) {
        self.ready.send_replace(false);
    }

    fn resume(&self) {
        self.ready.send_replace(true);
    }

    fn claims(&self, prefix: &str) -> usize {
        let claims = self.claims.lock().unwrap();
        claims.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    async fn wait_for_claims(&self, prefix: &str, count: usize) {
        let arrived = async {
            while self.claims(prefix) < count {
                tokio::task::yield_now().await;
            }
        };
        within(LIMIT, arrived).await;
    }
}

impl StoreLayer for SlowDisk {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        *self.claims.lock().unwrap().entry(claim.key.to_string()).or_default() += 1;
        drop(self.ready.subscribe().wait_for(|ready| *ready).await);
        self.inner.acquire(claim).await
    }
}

async fn start() -> (Arc<SlowDisk>, Server) {
    let disk = SlowDisk::new();
    (disk.clone(), Server::with(disk, Options::default()).await)
}

fn renewal(lease: &Lease, token: &Token) -> Renewal {
    Renewal { key: lease.key.clone(), token: token.clone(), generation: lease.generation, ttl: None }
}

/// Takes a key, and returns a renewal of it.
async fn hold(client: &Client, name: &str) -> Renewal {
    let claim = claim(name, "holder");
    let token = claim.token.clone();
    renewal(&take(client, claim).await.lease, &token)
}

/// A keep-alive stream of another program, which sends each request in a frame of its own.
struct RawStream {
    requests: mpsc::Sender<KeepAliveRequest>,
    responses: Streaming<KeepAliveResponse>,
}

impl RawStream {
    async fn open(channel: &Channel) -> Self {
        let (requests, mut outgoing) = mpsc::channel(1);
        let outgoing = futures_util::stream::poll_fn(move |context| outgoing.poll_recv(context));
        let mut request = Request::new(outgoing);
        request.metadata_mut().insert("authorization", format!("Bearer {WRITE}").parse().unwrap());
        let responses = LeasesClient::new(channel.clone()).keep_alive(request).await.unwrap().into_inner();
        Self { requests, responses }
    }

    async fn send(&self, id: u64, action: Action) {
        self.requests.send(KeepAliveRequest { id, action: Some(action) }).await.unwrap();
    }

    async fn next(&mut self) -> (u64, Outcome) {
        let response = within(LIMIT, self.responses.message()).await.unwrap().unwrap();
        (response.id, response.outcome.unwrap())
    }
}

async fn connect(server: &Server) -> Channel {
    Endpoint::from_shared(format!("http://{}", server.address)).unwrap().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_behind_two_hundred_claims_that_wait_for_the_disk_is_answered() {
    let (disk, server) = start().await;
    let kept = hold(&server.client_as(WRITE).await, "kept").await;
    disk.stop();
    let mut stream = RawStream::open(&connect(&server).await).await;
    for id in 1..=200 {
        stream.send(id, Action::Acquire(claim(&format!("c/{id}"), "holder").into())).await;
    }
    stream.send(1_000, Action::Renew(RenewRequest { items: vec![(&kept).into()] })).await;
    let (id, outcome) = stream.next().await;
    assert_eq!(id, 1_000);
    assert!(matches!(outcome, Outcome::Renewed(_)), "{outcome:?}");
    disk.resume();
    for _ in 0..200 {
        let (_, outcome) = stream.next().await;
        assert!(matches!(outcome, Outcome::Acquired(_)), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_beyond_the_queue_of_a_stream_are_refused_and_the_connection_lives() {
    const CLAIMS: u64 = 6_000;
    /// Those that run and those that are queued.
    const ACCEPTED: usize = 128 + 1_024;
    let (disk, server) = start().await;
    let kept = hold(&server.client_as(WRITE).await, "kept").await;
    let channel = connect(&server).await;
    let mut neighbour = RawStream::open(&channel).await;
    neighbour.send(1, Action::Acquire(claim("kept", "waiter").waiting(LIMIT).into())).await;
    server.parked("kept", 1).await;
    disk.stop();
    let RawStream { requests, mut responses } = RawStream::open(&channel).await;
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        for id in 1..=CLAIMS {
            let action = Action::Acquire(claim(&format!("c/{id}"), "holder").into());
            requests.send(KeepAliveRequest { id, action: Some(action) }).await.unwrap();
        }
        requests
    });
    let mut outcomes = Vec::new();
    while outcomes.len() < CLAIMS as usize - ACCEPTED {
        let response = within(LIMIT, responses.message()).await.unwrap().unwrap();
        let Some(Outcome::Problem(problem)) = &response.outcome else { panic!("{response:?}") };
        assert_eq!(problem.code, "TOO_MANY", "{problem:?}");
        outcomes.push(response.id);
    }
    let mut stream = RawStream { requests: sending.join_next().await.unwrap().unwrap(), responses };
    stream.send(CLAIMS + 1, Action::Renew(RenewRequest { items: vec![(&kept).into()] })).await;
    let (id, outcome) = stream.next().await;
    assert!(id == CLAIMS + 1 && matches!(outcome, Outcome::Renewed(_)), "{id} {outcome:?}");
    disk.resume();
    for _ in 0..ACCEPTED {
        let (_, outcome) = stream.next().await;
        assert!(matches!(outcome, Outcome::Acquired(_)), "{outcome:?}");
    }
    // The other stream of the connection kept its place.
    assert_eq!(disk.claims("kept"), 2);
    disk.inner.release(Release::new(kept.key.clone(), kept.token.clone())).await.unwrap();
    let (id, outcome) = neighbour.next().await;
    assert!(id == 1 && matches!(outcome, Outcome::Acquired(_)), "{id} {outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_thousands_of_claims_keeps_its_leases_its_place_in_line_and_its_connections() {
    const CLAIMS: usize = 6_000;
    let (disk, server) = start().await;
    let options = ClientOptions::default().token(WRITE).call_timeout(Duration::from_secs(60));
    let client = Client::connect(&format!("tenure://{}", server.address), options).await.unwrap();
    let kept = hold(&client, "kept").await;
    let mut waiting = JoinSet::new();
    waiting.spawn({
        let client = client.clone();
        async move { take(&client, claim("kept", "waiter").waiting(Duration::from_secs(60))).await }
    });
    server.parked("kept", 1).await;
    disk.stop();
    let mut claims = JoinSet::new();
    for number in 0..CLAIMS {
        let client = client.clone();
        claims.spawn(async move { take(&client, claim(&format!("c/{number}"), "holder")).await });
    }
    disk.wait_for_claims("c/", 200).await;
    for _ in 0..3 {
        let renewed = within(LIMIT, client.renew(std::slice::from_ref(&kept))).await.unwrap();
        assert!(matches!(renewed[..], [Ok(Renewed::Renewed { .. })]), "{renewed:?}");
    }
    disk.resume();
    assert_eq!(claims.join_all().await.len(), CLAIMS);
    assert_eq!(disk.claims("c/"), CLAIMS, "each was sent once: no connection broke");
    assert_eq!(disk.claims("kept"), 2, "the waiting claim kept its place");
    client.release(Release::new(key("kept"), kept.token.clone())).await.unwrap();
    assert!(within(LIMIT, waiting.join_next()).await.unwrap().unwrap().parked);
}
