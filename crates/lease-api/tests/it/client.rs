//! The client: the whole store over the network.

use std::time::Duration;

use tenure_client::Client;
use tenure_lease::{
    Acquired, Claim, Committed, End, Error, Fence, Grant, Holder, Key, Leases, Mode, Op, Prefix, Proof,
    Query, Records, Refusal, Release, Released, Renewal, Renewed, Revoke, Revoked, Token, Transfer,
    Transferred, Ttl, Verb, Verified, Watched, Wipe, Wiped,
};
use tenure_store::OsEntropy;

use crate::server::{LIMIT, READ, Server, WRITE, within};

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(crate) fn claim(text: &str, holder: &str) -> Claim {
    let ttl = Ttl::from_secs(10).unwrap();
    Claim::new(key(text), Holder::new(holder).unwrap(), Token::random(&OsEntropy), ttl)
}

pub(crate) async fn take(client: &Client, claim: Claim) -> Grant {
    match client.acquire(claim).await.unwrap() {
        Acquired::Granted(grant) => grant,
        Acquired::Busy(busy) => panic!("{busy:?}"),
    }
}

#[tokio::test]
async fn a_client_has_the_capabilities_of_the_server_s_store() {
    let server = Server::start().await;
    let client = server.client_as(READ).await;
    let stated = server.store.capabilities();
    assert_eq!(client.capabilities(), tenure_lease::Capabilities { dies_with_process: false, ..stated });
}

#[tokio::test]
async fn the_life_of_a_lease() {
    let server = Server::start().await;
    let client = server.client().await;
    let claim = claim("k", "a");
    let token = claim.token.clone();
    let grant = take(&client, claim.clone()).await;
    assert!(!grant.parked);
    assert_eq!(grant.lease.key, claim.key);
    assert_eq!(take(&client, claim.clone()).await.lease, grant.lease);
    let item = Renewal { key: key("k"), token: token.clone(), generation: grant.lease.generation, ttl: None };
    let lost = Renewal { key: key("other"), ..item.clone() };
    let answers = client.renew(&[item, lost]).await.unwrap();
    assert!(
        matches!(answers[..], [Ok(Renewed::Renewed { .. }), Ok(Renewed::Lost(End::Gone))]),
        "{answers:?}"
    );
    let verified = client.verify(&key("k"), &token).await.unwrap();
    assert!(matches!(verified, Verified::Live { generation, .. } if generation == grant.lease.generation));
    assert_eq!(client.inspect(&key("k")).await.unwrap().holder, Some(claim.holder.clone()));
    let page = client.list(&Query::new(Prefix::new("k").unwrap())).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let release =
        Release { generation: Some(grant.lease.generation), ..Release::new(key("k"), token.clone()) };
    assert_eq!(client.release(release.clone()).await.unwrap(), Released::Released);
    assert_eq!(client.release(release).await.unwrap(), Released::NotHeld);
    assert_eq!(client.verify(&key("k"), &token).await.unwrap(), Verified::Ended);
    let reigns = client.history(&key("k")).await.unwrap();
    assert_eq!(reigns.len(), 1);
    assert_eq!(reigns[0].end, Some(End::Released));
    let error = client.acquire(claim).await.unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::TokenSpent)), "{error:?}");
}

#[tokio::test]
async fn claims_over_the_network_are_remote() {
    let folder = tempfile::tempdir().unwrap();
    let store = tenure_store::Local::open(folder.path(), tenure_store::Options::default()).await.unwrap();
    let server = Server::with(std::sync::Arc::new(store), tenure_lease_api::Options::default()).await;
    let client = server.client().await;
    let grant = take(&client, claim("k", "a")).await;
    drop(client);
    server.stop().await;
    let reopened = async {
        loop {
            match tenure_store::Local::open(folder.path(), tenure_store::Options::default()).await {
                Ok(store) => return store,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let store = within(LIMIT, reopened).await;
    // A local lease would have ended with the store.
    assert_eq!(store.inspect(&key("k")).await.unwrap().generation, Some(grant.lease.generation));
    assert_eq!(store.inspect(&key("k")).await.unwrap().phase, tenure_lease::Phase::Held);
}

#[tokio::test]
async fn a_waiting_claim_receives_a_transfer() {
    let server = Server::start().await;
    let client = server.client().await;
    let first = claim("k", "a");
    let token = first.token.clone();
    let grant = take(&client, first).await;
    let transfer =
        Transfer { key: key("k"), token, generation: grant.lease.generation, to: Holder::new("b").unwrap() };
    assert_eq!(client.transfer(transfer.clone()).await.unwrap(), Transferred::NoSuccessor);
    let (successor, moved) = tokio::join!(take(&client, claim("k", "b").waiting(LIMIT)), async {
        server.parked("k", 1).await;
        client.transfer(transfer.clone()).await.unwrap()
    });
    assert!(successor.parked);
    assert_eq!(moved, Transferred::Transferred(successor.lease));
    assert_eq!(client.transfer(transfer).await.unwrap(), Transferred::NotHeld);
}

#[tokio::test]
async fn a_dropped_claim_leaves_the_queue() {
    let server = Server::start().await;
    let client = server.client().await;
    take(&client, claim("k", "a")).await;
    tokio::select! {
        answer = client.acquire(claim("k", "b").waiting(LIMIT)) => panic!("answered: {answer:?}"),
        () = server.parked("k", 1) => {}
    }
    server.parked("k", 0).await;
}

#[tokio::test]
async fn hundreds_of_waiting_claims_do_not_block_the_release() {
    let server = Server::start().await;
    let client = server.client().await;
    let first = claim("k", "a");
    let token = first.token.clone();
    take(&client, first).await;
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..400 {
        let client = client.clone();
        let claim = claim("k", &format!("w{n}")).waiting(Duration::from_secs(60));
        waiting.spawn(async move {
            let token = claim.token.clone();
            take(&client, claim).await;
            assert_eq!(client.release(Release::new(key("k"), token)).await.unwrap(), Released::Released);
        });
    }
    server.parked("k", 400).await;
    client.release(Release::new(key("k"), token)).await.unwrap();
    within(Duration::from_secs(60), async {
        while waiting.join_next().await.transpose().unwrap().is_some() {}
    })
    .await;
    assert_eq!(client.inspect(&key("k")).await.unwrap().phase, tenure_lease::Phase::Free);
}

#[tokio::test]
async fn claims_beyond_the_limit_of_a_stream_wait_on_calls_of_their_own() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut waiting = tokio::task::JoinSet::new();
    for k in ["k/1", "k/2"] {
        take(&client, claim(k, "a")).await;
        for n in 0..600 {
            let (client, claim) =
                (client.clone(), claim(k, &format!("w{n}")).waiting(Duration::from_secs(60)));
            waiting.spawn(async move { client.acquire(claim).await });
        }
    }
    server.parked("k/1", 600).await;
    server.parked("k/2", 600).await;
    assert_eq!(take(&client, claim("k/3", "a")).await.lease.key, key("k/3"), "others are not held up");
    waiting.abort_all();
    server.parked("k/1", 0).await;
    server.parked("k/2", 0).await;
}

#[tokio::test]
async fn a_client_that_disconnects_leaves_all_queues() {
    let server = Server::start().await;
    let (stays, goes) = (server.client().await, server.client().await);
    take(&stays, claim("k", "a")).await;
    let waiting = {
        let goes = goes.clone();
        async move { goes.acquire(claim("k", "b").waiting(LIMIT)).await }
    };
    let mut task = tokio::task::JoinSet::new();
    task.spawn(waiting);
    server.parked("k", 1).await;
    drop((goes, task));
    server.parked("k", 0).await;
}

#[tokio::test]
async fn a_shutdown_ends_waiting_claims_as_not_happened() {
    let server = Server::start().await;
    let client = server.client().await;
    take(&server.client().await, claim("k", "a")).await;
    let (answer, ()) = tokio::join!(client.acquire(claim("k", "b").waiting(LIMIT)), async {
        server.parked("k", 1).await;
        server.shutdown.trigger();
    });
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    server.parked("k", 0).await;
}

#[tokio::test]
async fn many_batches_travel_on_one_stream() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut items = Vec::new();
    for n in 0..3_000 {
        let claim = claim(&format!("k/{n}"), "a").remote();
        let token = claim.token.clone();
        let Acquired::Granted(grant) = server.store.acquire(claim).await.unwrap() else { panic!("busy") };
        let Grant { lease, .. } = grant;
        items.push(Renewal { key: lease.key, token, generation: lease.generation, ttl: None });
    }
    let calls = items.chunks(100).map(|batch| client.renew(batch));
    for answers in futures_util::future::join_all(calls).await {
        let answers = answers.unwrap();
        assert_eq!(answers.len(), 100);
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewed::Renewed { .. }))));
    }
    let error = client.renew(&items[..1_001]).await.unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::TooMany { limit: 1_000, .. })), "{error:?}");
    assert!(client.renew(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_revocation_ends_a_reign_for_its_delay() {
    let server = Server::start().await;
    let client = server.client().await;
    let grant = take(&client, claim("k", "a")).await;
    let reason = tenure_lease::RevokeReason::new("node-a does not answer").unwrap();
    let delay = Some(Duration::from_secs(9));
    let revoke = |generation| Revoke { key: key("k"), generation, delay, reason: reason.clone() };
    let stale = tenure_lease::Generation::new(1).unwrap();
    let current = Some(grant.lease.generation);
    assert_eq!(client.revoke(revoke(stale)).await.unwrap(), Revoked::Stale { current });
    let answer = client.revoke(revoke(grant.lease.generation)).await.unwrap();
    assert_eq!(answer, Revoked::Revoked { delay: Duration::from_secs(9) });
    assert_eq!(client.inspect(&key("k")).await.unwrap().phase, tenure_lease::Phase::Delayed);
}

#[tokio::test]
async fn a_wipe_needs_the_proof_of_its_gate() {
    let server = Server::start().await;
    let client = server.client().await;
    let gate = claim("p/gate", "a");
    let token = gate.token.clone();
    let grant = take(&client, gate).await;
    take(&client, claim("p/1", "a")).await;
    take(&client, claim("p/2", "a")).await;
    let wipe = |token: &Token| Wipe {
        prefix: Prefix::new("p/").unwrap(),
        gate: Proof { key: key("p/gate"), token: token.clone(), generation: grant.lease.generation },
    };
    assert_eq!(client.wipe(wipe(&Token::random(&OsEntropy))).await.unwrap(), Wiped::Unproven);
    assert_eq!(client.wipe(wipe(&token)).await.unwrap(), Wiped::Wiped { count: 2 });
}

#[tokio::test]
async fn records_logs_and_fences() {
    let server = Server::start().await;
    let client = server.client().await;
    let value = |n: u8| -> std::sync::Arc<[u8]> { vec![n; 3].into() };
    let put = |k: &str, n| Op::Put { key: key(k), value: value(n), ttl: None };
    let Committed::Written { revision } = client.commit(&[put("r/1", 1), put("r/2", 2)]).await.unwrap()
    else {
        panic!("not written")
    };
    let absent = Op::PutIfAbsent { key: key("r/1"), value: value(9), ttl: None };
    let answer = client.commit(&[put("r/3", 3), absent]).await.unwrap();
    assert_eq!(answer, Committed::Conflict { index: 1, found: Some(revision) });
    let over = Op::PutIfRevision { key: key("r/1"), value: value(4), ttl: None, revision };
    assert!(matches!(client.commit(&[over]).await.unwrap(), Committed::Written { .. }));
    assert_eq!(&*client.get(&key("r/1")).await.unwrap().unwrap().value, &[4; 3]);
    assert_eq!(client.get(&key("r/3")).await.unwrap(), None);
    let page = client.scan(&Query { limit: 1, ..Query::new(Prefix::new("r/").unwrap()) }).await.unwrap();
    assert_eq!((page.items.len(), page.next), (1, Some(key("r/1"))));
    for n in 0..5 {
        client.commit(&[Op::Append { log: key("log"), value: value(n), max_len: 3 }]).await.unwrap();
    }
    let entries = client.read_log(&key("log"), 0, 10).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [3, 4, 5]);
    assert!(client.read_log(&key("log"), u64::MAX, 10).await.unwrap().is_empty());
    let generation = tenure_lease::Generation::new(7).unwrap();
    let token = Token::random(&OsEntropy);
    let fence = Fence { key: key("gate"), token, generation, mode: Mode::Strict };
    let answer = client.write_fenced(&fence, &[Op::Delete { key: key("r/1") }]).await.unwrap();
    assert_eq!(answer, Committed::FencedOut { current: None });
    let claim = claim("gate", "a");
    let (token, generation) = (claim.token.clone(), take(&client, claim).await.lease.generation);
    let fence = Fence { token, generation, mode: Mode::Monotonic, ..fence };
    let answer = client.write_fenced(&fence, &[Op::Delete { key: key("r/1") }]).await.unwrap();
    assert!(matches!(answer, Committed::Written { .. }), "{answer:?}");
}

#[tokio::test]
async fn large_values_arrive_in_several_responses() {
    let server = Server::start().await;
    let client = server.client().await;
    let value: std::sync::Arc<[u8]> = vec![7; tenure_lease::limits::VALUE].into();
    for n in 0..40 {
        let put = Op::Put { key: key(&format!("r/{n:02}")), value: value.clone(), ttl: None };
        let append = Op::Append { log: key("log"), value: value.clone(), max_len: 100 };
        client.commit(&[put, append]).await.unwrap();
    }
    let (mut after, mut seen) = (None, 0);
    loop {
        let query = Query { after, ..Query::new(Prefix::new("r/").unwrap()) };
        let page = client.scan(&query).await.unwrap();
        seen += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, 40);
    assert_eq!(client.read_log(&key("log"), 0, 100).await.unwrap().len(), 40);
    let ops: Vec<_> =
        (0..16).map(|n| Op::Put { key: key(&format!("s/{n}")), value: value.clone(), ttl: None }).collect();
    assert!(matches!(client.commit(&ops).await.unwrap(), Committed::Written { .. }));
}

#[tokio::test]
async fn a_watch_sees_what_follows_and_resumes_from_a_revision() {
    let server = Server::start().await;
    let client = server.client().await;
    let prefix = Prefix::new("p/").unwrap();
    let start = client.list(&Query::new(prefix.clone())).await.unwrap().revision;
    let mut watch = client.watch(&prefix, None).await.unwrap();
    take(&client, claim("p/k", "a")).await;
    let Watched::Event(event) = within(LIMIT, watch.next()).await.unwrap() else { panic!("lagged") };
    assert_eq!((event.verb, event.key.as_str()), (Verb::Granted, "p/k"));
    let mut again = client.watch(&prefix, Some(start)).await.unwrap();
    assert_eq!(within(LIMIT, again.next()).await.unwrap(), Watched::Event(event));
    let mut old = client.watch(&prefix, Some(tenure_lease::Revision::new(1))).await.unwrap();
    assert_eq!(within(LIMIT, old.next()).await.unwrap(), Watched::Lagged);
}

#[tokio::test]
async fn scopes_and_reserved_keys_are_enforced_over_grpc() {
    let server = Server::start().await;
    let (reader, writer, admin) =
        (server.client_as(READ).await, server.client_as(WRITE).await, server.client().await);
    let refused = |error: Error| match error {
        Error::Invalid { what, .. } => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(reader.acquire(claim("k", "a")).await.unwrap_err()), "credentials");
    assert_eq!(refused(writer.acquire(claim("poll:x", "a")).await.unwrap_err()), "credentials");
    let grant = take(&writer, claim("k", "a")).await;
    let item = |k: &str| Renewal {
        key: key(k),
        token: Token::random(&OsEntropy),
        generation: grant.lease.generation,
        ttl: None,
    };
    assert_eq!(refused(reader.renew(&[item("k")]).await.unwrap_err()), "credentials");
    assert_eq!(refused(writer.renew(&[item("poll:x")]).await.unwrap_err()), "credentials");
    let instead = claim("k", "b").instead_of(grant.lease.generation);
    assert_eq!(refused(writer.acquire(instead.clone()).await.unwrap_err()), "credentials");
    assert!(take(&admin, instead).await.lease.generation > grant.lease.generation);
    let reason = tenure_lease::RevokeReason::default();
    let revoke = Revoke { key: key("k"), generation: grant.lease.generation, delay: None, reason };
    assert_eq!(refused(writer.revoke(revoke).await.unwrap_err()), "credentials");
    take(&admin, claim("poll:x", "a")).await;
    let put = Op::Put { key: key("v3:secret"), value: b"1"[..].into(), ttl: None };
    assert_eq!(refused(writer.commit(std::slice::from_ref(&put)).await.unwrap_err()), "credentials");
    admin.commit(&[put]).await.unwrap();
    assert_eq!(reader.get(&key("v3:secret")).await.unwrap(), None);
    assert!(reader.scan(&Query::new(Prefix::default())).await.unwrap().items.is_empty());
    assert!(admin.get(&key("v3:secret")).await.unwrap().is_some());
}

#[tokio::test]
async fn errors_of_the_store_arrive_unchanged() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut short = claim("k", "a");
    short.ttl = Ttl::from_millis(1).unwrap();
    let here = server.store.acquire(short.clone()).await.unwrap_err();
    let there = client.acquire(short).await.unwrap_err();
    assert_eq!(format!("{there:?}"), format!("{here:?}"));
    let query = Query { limit: 0, ..Query::new(Prefix::default()) };
    let (here, there) =
        (server.store.list(&query).await.unwrap_err(), client.list(&query).await.unwrap_err());
    assert_eq!(format!("{there:?}"), format!("{here:?}"));
}

#[tokio::test]
async fn claims_and_releases_on_the_stream_are_rate_limited_and_renewals_are_not() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = calls.clone();
    let options = tenure_lease_api::Options::default().rate_limit(move |caller| {
        assert_eq!(caller.name, "admin");
        match counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => Ok(()),
            _ => Err(tenure_service::Problem::new(tenure_service::Code::RATE_LIMITED, "too fast")),
        }
    });
    let server = Server::with(std::sync::Arc::new(tenure_store::Local::memory()), options).await;
    let client = server.client().await;
    let claim = claim("k", "a");
    let token = claim.token.clone();
    let generation = take(&client, claim.clone()).await.lease.generation;
    let item = Renewal { key: key("k"), token: token.clone(), generation, ttl: None };
    for _ in 0..5 {
        client.renew(std::slice::from_ref(&item)).await.unwrap();
    }
    assert_eq!(client.release(Release::new(key("k"), token)).await.unwrap(), Released::Released);
    let error = client.acquire(claim).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}
