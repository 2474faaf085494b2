//! Servers that are wrong, unreachable or restarted.

use std::sync::Arc;
use std::time::Duration;

use tenure_client::{Client, ClientOptions};
use tenure_lease::{Error, Leases, Outcome, Prefix, Records, Renewal, Renewed, Verb, Watched};
use tenure_lease_api::Options;
use tenure_store::Local;
use tokio::net::TcpListener;

use crate::client::{claim, key, take};
use crate::server::{ADMIN, LIMIT, Server, within};

/// An address without a listener.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("tenure://{}", listener.local_addr().unwrap())
}

async fn refusal(url: &str, options: ClientOptions) -> Error {
    within(LIMIT, Client::connect(url, options)).await.unwrap_err()
}

#[tokio::test]
async fn connection_errors_contain_advice() {
    let error = refusal("http://localhost:7400", ClientOptions::default()).await.to_string();
    assert!(error.contains("tenure://HOST:PORT"), "{error}");
    let error = refusal(&nowhere().await, ClientOptions::default()).await;
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.to_string().contains("`tenure up`"), "{error}");
    let server = Server::start().await;
    let url = format!("tenure://{}", server.address);
    let error = refusal(&url, ClientOptions::default()).await.to_string();
    assert!(error.contains("requires a token"), "{error}");
    let error = refusal(&url, ClientOptions::default().token("wrong")).await.to_string();
    assert!(error.contains("rejects this token"), "{error}");
    let error = refusal(&url, ClientOptions::default().token("line\nbreak")).await.to_string();
    assert!(error.contains("not allowed in a token"), "{error}");
    let tls = url.replace("tenure://", "tenures://");
    let error = refusal(&tls, ClientOptions::default().token(ADMIN)).await.to_string();
    assert!(error.contains("TLS"), "{error}");
}

#[tokio::test]
async fn a_server_of_another_kind_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tenure://{}", listener.local_addr().unwrap());
    let mut other = tokio::task::JoinSet::new();
    other.spawn(async move { axum::serve(listener, axum::Router::new()).await.unwrap() });
    let error = refusal(&url, ClientOptions::default().token(ADMIN)).await.to_string();
    assert!(error.contains("not a Tenure server"), "{error}");
}

#[tokio::test]
async fn a_call_to_a_server_that_never_responds_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tenure://{}", listener.local_addr().unwrap());
    let error = refusal(&url, ClientOptions::default().call_timeout(Duration::from_millis(100))).await;
    assert_eq!(error.outcome(), Outcome::Indeterminate, "{error}");
}

#[tokio::test]
async fn calls_to_a_server_that_is_gone_did_not_happen() {
    let server = Server::start().await;
    let options = ClientOptions::default().token(ADMIN).call_timeout(Duration::from_millis(300));
    let client = Client::connect(&format!("tenure://{}", server.address), options).await.unwrap();
    server.stop().await;
    let gone = async {
        // The first calls may still use the dying connection.
        loop {
            match client.get(&key("k")).await {
                Err(error) if error.outcome() == Outcome::NotApplied => return,
                Err(_) => {}
                Ok(_) => panic!("answered"),
            }
        }
    };
    within(LIMIT, gone).await;
    // On a slow machine the time limit may end an attempt to connect, whose outcome is then unknown.
    let not_sent = async {
        loop {
            let error = client.commit(&[tenure_lease::Op::Delete { key: key("k") }]).await.unwrap_err();
            if error.outcome() == Outcome::NotApplied {
                return;
            }
        }
    };
    within(LIMIT, not_sent).await;
}

#[tokio::test]
async fn a_client_outlives_a_restart_of_its_server() {
    let store: Arc<dyn tenure_lease::Store> = Arc::new(Local::memory());
    let server = Server::with(store.clone(), Options::default()).await;
    let client = server.client().await;
    let claim = claim("k", "a");
    let token = claim.token.clone();
    let grant = take(&client, claim).await;
    let item = Renewal { key: key("k"), token, generation: grant.lease.generation, ttl: None };
    assert!(matches!(
        client.renew(std::slice::from_ref(&item)).await.unwrap()[..],
        [Ok(Renewed::Renewed { .. })]
    ));
    let mut watch = client.watch(&Prefix::default(), None).await.unwrap();
    let address = server.stop().await;
    let renewal = client.renew(std::slice::from_ref(&item));
    let restart = async {
        tokio::task::yield_now().await;
        Server::on(address, store, Options::default()).await
    };
    let (renewed, server) = tokio::join!(renewal, restart);
    assert!(matches!(renewed.unwrap()[..], [Ok(Renewed::Renewed { .. })]));
    // Changes during the interruption are not missed.
    server.store.acquire(crate::client::claim("later", "b")).await.unwrap();
    let Watched::Event(event) = within(LIMIT, watch.next()).await.unwrap() else { panic!("lagged") };
    assert_eq!((event.verb, event.key.as_str()), (Verb::Granted, "later"));
}

#[tokio::test]
async fn a_keep_alive_stream_ends_with_the_server_and_comes_back_with_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let claim = claim("k", "a");
    let token = claim.token.clone();
    let grant = take(&client, claim).await;
    let item = [Renewal { key: key("k"), token, generation: grant.lease.generation, ttl: None }];
    client.renew(&item).await.unwrap();
    server.shutdown.trigger();
    // The listener of this test still accepts calls: the next stream ends at once as well.
    let error = within(LIMIT, client.renew(&item)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Indeterminate, "{error}");
}
