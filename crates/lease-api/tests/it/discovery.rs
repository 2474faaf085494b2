//! Discovery and announcements over gRPC.

use std::sync::Arc;

use tenure_lease::{
    Acquired, Announcement, Claim, Error, Fence, Generation, Holder, Key, Leases, Mode, Op, Prefix, Record,
    Records, Refusal, Store, Token, Ttl, limits,
};
use tenure_lease_api::Options;
use tenure_testkit::RedisServer;

use crate::server::{READ, Server, WRITE};

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

async fn server_on_redis(redis: &RedisServer) -> Server {
    let url = format!("{}?quarantine_ms=0", redis.url());
    let store: Arc<dyn Store> = tenure_store::Store::open(&url).await.unwrap().into();
    Server::with(store, Options::default()).await
}

async fn discover(store: &dyn Records, prefix: &str) -> Result<Vec<Record>, Error> {
    store.discover(&Prefix::new(prefix).unwrap()).await
}

/// Acquires `leased` and builds announcements under it.
async fn announcements(store: &dyn Leases, leased: &str, count: usize, size: usize) -> Vec<Announcement> {
    let token = Token::parse("0123456789abcdef012345").unwrap();
    let ttl = Ttl::from_millis(30_000).unwrap();
    let claim = Claim::new(key(leased), Holder::new("publisher").unwrap(), token.clone(), ttl);
    let Acquired::Granted(grant) = store.acquire(claim).await.unwrap() else { panic!("{leased} is free") };
    let fence = Fence { key: key(leased), token, generation: grant.lease.generation, mode: Mode::Strict };
    let item = |number: usize| Announcement {
        fence: fence.clone(),
        channel: key("results"),
        message: vec![number as u8; size].into(),
        latest: key("latest"),
        ttl,
        log: key("log"),
        max_len: count,
    };
    (0..count).map(item).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_discovers_records_that_another_program_wrote_to_redis() {
    let redis = RedisServer::start().unwrap();
    let server = server_on_redis(&redis).await;
    let client = server.client().await;
    client.commit(&[Op::Put { key: key("session:ours"), value: b"1"[..].into(), ttl: None }]).await.unwrap();
    redis.command(&["SET", "session:theirs", "2"]).unwrap();
    let found = discover(&client, "session:").await.unwrap();
    let found: Vec<(&str, &[u8])> =
        found.iter().map(|record| (record.key.as_str(), &*record.value)).collect();
    assert_eq!(found, [("session:ours", &b"1"[..]), ("session:theirs", &b"2"[..])]);
    let scanned = client.scan(&tenure_lease::Query::new(Prefix::new("session:").unwrap())).await.unwrap();
    assert_eq!(scanned.items.len(), 1, "a scan finds only what Tenure wrote");
}

#[tokio::test]
async fn discovery_needs_the_admin_scope() {
    let server = Server::start().await;
    for token in [READ, WRITE] {
        let error = discover(&server.client_as(token).await, "").await.unwrap_err();
        assert!(matches!(error, Error::Invalid { what: "credentials", .. }), "{error}");
    }
}

#[tokio::test]
async fn a_discovery_larger_than_one_message_arrives_complete_and_in_order() {
    let server = Server::start().await;
    let count = ((2 * 8) << 20) / limits::VALUE + 1;
    for number in 0..count {
        let value = vec![number as u8; limits::VALUE].into();
        server
            .store
            .commit(&[Op::Put { key: key(&format!("r/{number:03}")), value, ttl: None }])
            .await
            .unwrap();
    }
    let found = discover(&server.client().await, "r/").await.unwrap();
    assert_eq!(found.len(), count);
    for (number, record) in found.iter().enumerate() {
        assert_eq!((record.key.as_str(), record.value[0]), (&*format!("r/{number:03}"), number as u8));
    }
}

#[tokio::test]
async fn announcements_larger_than_one_message_are_published_in_order() {
    let server = Server::start().await;
    let client = server.client_as(WRITE).await;
    let items = announcements(&client, "k", 40, limits::VALUE).await;
    assert_eq!(client.announce(&items).await.unwrap(), [true; 40]);
    let log = client.read_log(&key("log"), 0, 100).await.unwrap();
    let order: Vec<u8> = log.iter().map(|entry| entry.value[0]).collect();
    assert_eq!(order, (0..40).collect::<Vec<u8>>());
}

#[tokio::test]
async fn an_announcement_of_an_ended_reign_is_refused_beside_valid_ones() {
    let server = Server::start().await;
    let client = server.client_as(WRITE).await;
    let mut items = announcements(&client, "k", 3, 10).await;
    items[1].fence.generation = Generation::new(items[1].fence.generation.get() - 1).unwrap();
    assert_eq!(client.announce(&items).await.unwrap(), [true, false, true]);
}

#[tokio::test]
async fn too_many_announcements_are_refused_before_they_are_sent() {
    let server = Server::start().await;
    let client = server.client_as(WRITE).await;
    let items = announcements(&client, "k", limits::BATCH + 1, 1).await;
    let error = client.announce(&items).await.unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    assert_eq!(client.read_log(&key("log"), 0, 1).await.unwrap(), []);
}

#[tokio::test]
async fn announcing_under_a_reserved_key_needs_the_admin_scope() {
    let server = Server::start().await;
    let writer = server.client_as(WRITE).await;
    let items = announcements(&writer, "k", 1, 1).await;
    let reserved: [fn(&mut Announcement); 3] = [
        |item| item.channel = key("poll:events"),
        |item| item.latest = key("poll:latest:1"),
        |item| item.log = key("poll:results:1"),
    ];
    for change in reserved {
        let mut item = items[0].clone();
        change(&mut item);
        let error = writer.announce(&[item.clone()]).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { what: "credentials", .. }), "{error}");
        assert_eq!(server.client().await.announce(&[item]).await.unwrap(), [true]);
    }
}
