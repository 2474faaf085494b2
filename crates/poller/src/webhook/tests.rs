//! Posts to real servers on this machine.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Json, State};
use axum::routing::post;
use serde_json::{Value, json};
use tenure_store::BootClock;
use tokio::net::TcpListener;

use super::*;

fn result(id: &str, at: u64) -> Arc<PollResult> {
    Arc::new(PollResult {
        id: id.to_owned(),
        generation: "1".into(),
        instance: "node".into(),
        at,
        ok: true,
        probe: false,
        status: Some(200),
        latency_ms: 1.0,
        bytes: 0,
        not_modified: false,
        changed: true,
        failures: 0,
        down: false,
        error: None,
        value: json!(null),
    })
}

/// A webhook that reports what it receives.
async fn webhook(tasks: &mut JoinSet<()>) -> (SocketAddr, mpsc::Receiver<Value>) {
    async fn receive(State(received): State<mpsc::Sender<Value>>, Json(body): Json<Value>) {
        received.send(body).await.unwrap();
    }
    let (sender, received) = mpsc::channel(64);
    let router = Router::new().route("/", post(receive)).with_state(sender);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, received)
}

fn start(tasks: &mut JoinSet<()>) -> mpsc::Sender<WebhookPost> {
    tenure_service::install_crypto();
    let client = Client::builder().no_proxy().build().unwrap();
    let (posts, receiver) = mpsc::channel(limits::PENDING_RESULTS);
    tasks.spawn(WebhookCaller::new(receiver, client, AddressFilter::default(), Arc::new(BootClock)).run());
    posts
}

fn url(address: SocketAddr) -> Url {
    format!("http://{address}/").parse().unwrap()
}

#[tokio::test]
async fn a_webhook_that_never_answers_delays_no_other_webhook() {
    let mut tasks = JoinSet::new();
    let (address, mut received) = webhook(&mut tasks).await;
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let posts = start(&mut tasks);
    for at in 0..10 {
        for url in [url(silent.local_addr().unwrap()), url(address)] {
            posts.send(WebhookPost { url, result: result("t", at) }).await.unwrap();
        }
    }
    for at in 0..10 {
        assert_eq!(received.recv().await.unwrap()["at"], at, "results of one origin arrive in order");
    }
}

#[tokio::test]
async fn what_is_queued_is_delivered_before_the_caller_ends() {
    let mut servers = JoinSet::new();
    let (address, mut received) = webhook(&mut servers).await;
    let mut callers = JoinSet::new();
    let posts = start(&mut callers);
    for at in 0..5 {
        posts.send(WebhookPost { url: url(address), result: result("t", at) }).await.unwrap();
    }
    drop(posts);
    callers.join_next().await.unwrap().unwrap();
    assert_eq!(std::iter::from_fn(|| received.try_recv().ok()).count(), 5);
}

#[tokio::test]
async fn a_webhook_at_a_denied_address_is_not_called() {
    let mut tasks = JoinSet::new();
    let (address, mut received) = webhook(&mut tasks).await;
    tenure_service::install_crypto();
    let client = Client::builder().no_proxy().build().unwrap();
    let (posts, receiver) = mpsc::channel(1);
    let addresses = AddressFilter { deny_private: true, ..AddressFilter::default() };
    let caller = WebhookCaller::new(receiver, client, addresses, Arc::new(BootClock));
    posts.send(WebhookPost { url: url(address), result: result("t", 1) }).await.unwrap();
    drop(posts);
    caller.run().await;
    assert!(received.try_recv().is_err());
}
