//! Calls over a network that breaks, is silent or is encrypted.

use std::time::Duration;

use tenure_client::{Client, ClientOptions};
use tenure_lease::{Committed, Error, Leases, Op, Outcome, Records, Release, Released, Renewal, Renewed};
use tenure_lease_api::Options;
use tenure_store::Local;
use tenure_testkit::{Direction, Mode, Proxy};

use crate::client::{claim, key, take};
use crate::server::{ADMIN, LIMIT, Server, within};

async fn behind(server: &Server, timeout: Duration) -> (Proxy, Client) {
    let proxy = Proxy::start(server.address).unwrap();
    let options = ClientOptions::default().token(ADMIN).call_timeout(timeout);
    let client = Client::connect(&format!("tenure://{}", proxy.addr()), options).await.unwrap();
    (proxy, client)
}

fn put(text: &str) -> [Op; 1] {
    [Op::Append { log: key("log"), value: text.as_bytes().into(), max_len: 10 }]
}

#[tokio::test]
async fn a_commit_whose_response_was_lost_is_unknown_and_not_retried() {
    let server = Server::start().await;
    let (proxy, client) = behind(&server, LIMIT).await;
    assert!(matches!(client.commit(&put("first")).await.unwrap(), Committed::Written { .. }));
    proxy.cut_before_reply_to("second");
    let error = within(LIMIT, client.commit(&put("second"))).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    assert_eq!(proxy.traps_sprung(), 1);
    let happened = async { while server.store.read_log(&key("log"), 0, 10).await.unwrap().len() < 2 {} };
    within(LIMIT, happened).await;
    // It happened once, and the client continues over a new connection.
    assert!(matches!(client.commit(&put("third")).await.unwrap(), Committed::Written { .. }));
    assert_eq!(client.read_log(&key("log"), 0, 10).await.unwrap().len(), 3);
}

#[tokio::test]
async fn claims_renewals_and_releases_survive_a_broken_connection() {
    let server = Server::start().await;
    let (proxy, client) = behind(&server, LIMIT).await;
    proxy.cut_after_bytes(Direction::ToClient, 0);
    let first = claim("k", "a");
    let token = first.token.clone();
    let grant = within(LIMIT, take(&client, first)).await;
    let item =
        [Renewal { key: key("k"), token: token.clone(), generation: grant.lease.generation, ttl: None }];
    for _ in 0..3 {
        proxy.cut_after_bytes(Direction::ToClient, 0);
        let answers = within(LIMIT, client.renew(&item)).await.unwrap();
        assert!(matches!(answers[..], [Ok(Renewed::Renewed { .. })]), "{answers:?}");
    }
    proxy.cut_after_bytes(Direction::ToClient, 0);
    within(LIMIT, client.release(Release::new(key("k"), token.clone()))).await.unwrap();
    assert_eq!(client.release(Release::new(key("k"), token)).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
async fn a_waiting_claim_is_queued_again_after_a_broken_connection() {
    let server = Server::start().await;
    let (proxy, client) = behind(&server, LIMIT).await;
    let first = claim("k", "a").remote();
    let token = first.token.clone();
    assert!(matches!(server.store.acquire(first).await.unwrap(), tenure_lease::Acquired::Granted(_)));
    let (granted, ()) = tokio::join!(take(&client, claim("k", "b").waiting(LIMIT)), async {
        server.parked("k", 1).await;
        proxy.refuse().unwrap();
        proxy.cut().unwrap();
        server.parked("k", 0).await;
        proxy.accept().unwrap();
        server.parked("k", 1).await;
        server.store.release(Release::new(key("k"), token)).await.unwrap();
    });
    assert!(granted.parked);
}

#[tokio::test]
async fn a_silent_network_times_out_and_recovers() {
    let server = Server::start().await;
    let (proxy, client) = behind(&server, Duration::from_millis(300)).await;
    let grant = take(&client, claim("k", "a")).await;
    proxy.set_both(Mode::Stall);
    let error = within(LIMIT, client.inspect(&key("k"))).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Indeterminate, "{error}");
    proxy.set_both(Mode::Pass);
    let status = within(LIMIT, async {
        loop {
            if let Ok(status) = client.inspect(&key("k")).await {
                return status;
            }
        }
    });
    assert_eq!(status.await.generation, Some(grant.lease.generation));
}

#[tokio::test]
async fn a_client_trusts_the_certificate_it_is_given_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = tenure_service::config::Tls {
        cert: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    std::fs::write(&files.cert, pair.cert.pem()).unwrap();
    std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
    let server = Server::over_tls(files, std::sync::Arc::new(Local::memory()), Options::default()).await;
    let url = format!("tenures://localhost:{}", server.address.port());
    let options = ClientOptions::default().token(ADMIN).ca(pair.cert.pem());
    let client = Client::connect(&url, options).await.unwrap();
    take(&client, claim("k", "a")).await;
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let error =
        Client::connect(&url, ClientOptions::default().token(ADMIN).ca(other.cert.pem())).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let plain = url.replace("tenures://", "tenure://");
    let error = Client::connect(&plain, ClientOptions::default().token(ADMIN)).await.unwrap_err();
    assert!(error.to_string().contains("tenures://"), "{error}");
}
