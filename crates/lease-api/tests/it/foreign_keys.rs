//! Attacks on the keys of other programs on a shared Redis: without `lease:admin` none is read, changed or taken.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_client::Client;
use tenure_lease::{
    Acquired, Announcement, Fence, Key, Leases, Mode, Op, Prefix, Query, Records, Store, Token, Ttl, Watched,
};
use tenure_lease_api::Options;
use tenure_store::OsEntropy;
use tenure_testkit::RedisServer;

use crate::client::{claim, key, take};
use crate::http::grant;
use crate::server::{ADMIN, LIMIT, READ, Server, WRITE, within};

const SECRET: &str = "secret-of-another-application";

/// A server on a Redis where another application has a string and a hash.
async fn shared() -> (RedisServer, Server) {
    let redis = RedisServer::start().unwrap();
    redis.command(&["SET", "app:token", SECRET]).unwrap();
    redis.command(&["HSET", "app:users", "1", SECRET]).unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let store: Arc<dyn Store> = tenure_store::Store::open(&url).await.unwrap().into();
    let server = Server::with(store, Options::default()).await;
    (redis, server)
}

fn text(redis: &RedisServer, command: &[&str]) -> Option<String> {
    redis.command(command).unwrap().text().map(str::to_owned)
}

/// Fails unless the other application has its keys as before, and no others.
fn assert_untouched(redis: &RedisServer) {
    assert_eq!(text(redis, &["GET", "app:token"]).as_deref(), Some(SECRET));
    assert_eq!(text(redis, &["HGET", "app:users", "1"]).as_deref(), Some(SECRET));
    for taken in ["app:new", "app:latest", "app:log"] {
        assert_eq!(redis.command(&["EXISTS", taken]).unwrap().int(), Some(0), "{taken}");
    }
}

fn put(name: &str, value: &[u8]) -> Op {
    Op::Put { key: key(name), value: value.into(), ttl: None }
}

/// Takes `k` and returns the fence of its holder.
async fn hold(client: &Client) -> Fence {
    let claim = claim("k", "writer");
    let token = claim.token.clone();
    let generation = take(client, claim).await.lease.generation;
    Fence { key: key("k"), token, generation, mode: Mode::Strict }
}

async fn value(client: &Client, name: &str) -> Option<Vec<u8>> {
    client.get(&key(name)).await.unwrap().map(|record| record.value.to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_keys_are_neither_read_nor_changed_nor_taken_over_grpc() {
    let (redis, server) = shared().await;
    let (writer, reader) = (server.client_as(WRITE).await, server.client_as(READ).await);
    for client in [&writer, &reader] {
        assert_eq!(value(client, "app:token").await, None);
        let all = client.scan(&Query::new(Prefix::new("").unwrap())).await.unwrap();
        assert_eq!(all.items, []);
        assert_eq!(client.inspect(&key("app:token")).await.unwrap().holder, None);
    }
    let fence = hold(&writer).await;
    for name in ["app:token", "app:users", "app:new"] {
        writer.commit(&[Op::Delete { key: key(name) }]).await.unwrap();
        writer.commit(&[put(name, b"mine")]).await.unwrap();
        writer.write_fenced(&fence, &[put(name, b"mine")]).await.unwrap();
        assert_untouched(&redis);
        assert_eq!(value(&writer, name).await.as_deref(), Some(&b"mine"[..]), "its own record of that name");
    }
    let busy = writer.acquire(claim("app:token", "writer")).await.unwrap();
    assert!(matches!(&busy, Acquired::Busy(busy) if busy.holder.is_none()), "{busy:?}");
    assert_untouched(&redis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_reach_no_channel_and_no_key_of_another_program() {
    let (redis, server) = shared().await;
    let writer = server.client_as(WRITE).await;
    let mut application = redis.client().unwrap();
    application.command(&["SUBSCRIBE", "app:events"]).unwrap();
    let item = Announcement {
        fence: hold(&writer).await,
        channel: key("app:events"),
        message: b"mine".as_slice().into(),
        latest: key("app:latest"),
        ttl: Ttl::from_secs(10).unwrap(),
        log: key("app:log"),
        max_len: 3,
    };
    assert_eq!(writer.announce(&[item]).await.unwrap(), [true]);
    assert_untouched(&redis);
    assert_eq!(redis.command(&["PUBLISH", "app:events", "from the application"]).unwrap().int(), Some(1));
    assert_eq!(text(&redis, &["GET", "tenure:r:app:latest"]).as_deref(), Some("mine"));
    let log = writer.read_log(&key("app:log"), 0, 10).await.unwrap();
    assert_eq!(log.iter().map(|entry| &*entry.value).collect::<Vec<_>>(), [b"mine"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_keys_are_neither_read_nor_changed_nor_taken_over_http() {
    let (redis, server) = shared().await;
    let lease = grant(&server, "k", "writer").await;
    let fence = json!({"key": "k", "token": lease["token"], "generation": lease["generation"]});
    for name in ["app:token", "app:users", "app:new"] {
        let path = format!("/v1/records?key={name}");
        assert_eq!(server.get(&path).await.0, 404, "{name}");
        let (status, written) = server.put(&path, json!({"value": "mine", "fence": fence})).await;
        assert_eq!((status.as_u16(), &written["key"]), (200, &json!(name)));
        assert_eq!(server.get(&path).await.1["value"], "mine");
        assert_untouched(&redis);
    }
    let (_, seen) = server.get("/v1/leases/one?key=app:token").await;
    assert_eq!((&seen["state"], &seen["holder"]), (&json!("held"), &Value::Null));
    let token = Token::random(&OsEntropy);
    let body = json!({"key": "app:token", "holder": "h", "token": token.reveal(), "ttl_ms": 5_000});
    let (status, busy) = server.post("/v1/leases/acquire", body).await;
    assert_eq!((status.as_u16(), &busy["holder"]), (409, &Value::Null));
    assert!(!busy.to_string().contains(SECRET), "{busy}");
    assert_untouched(&redis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_admin_scope_keys_are_those_of_the_store() {
    let (redis, server) = shared().await;
    let (admin, writer) = (server.client_as(ADMIN).await, server.client_as(WRITE).await);
    assert_eq!(value(&admin, "app:token").await.as_deref(), Some(SECRET.as_bytes()));
    assert_eq!(admin.inspect(&key("app:token")).await.unwrap().holder.unwrap().as_str(), SECRET);
    admin.commit(&[put("plain", b"1")]).await.unwrap();
    assert_eq!(text(&redis, &["GET", "plain"]).as_deref(), Some("1"));
    assert_eq!(value(&writer, "plain").await, None);
    writer.commit(&[put("plain", b"2")]).await.unwrap();
    assert_eq!(value(&admin, "tenure:r:plain").await.as_deref(), Some(&b"2"[..]));
    assert_eq!(text(&redis, &["GET", "plain"]).as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_watches_name_the_callers_own_records() {
    let (_redis, server) = shared().await;
    let (admin, writer) = (server.client_as(ADMIN).await, server.client_as(WRITE).await);
    let mut watch = writer.watch(&Prefix::new("r/").unwrap(), None).await.unwrap();
    admin.commit(&[put("r/0", b"0")]).await.unwrap();
    for name in ["r/1", "r/2", "other", "r/3"] {
        writer.commit(&[put(name, b"1")]).await.unwrap();
    }
    let mut seen: Vec<Key> = Vec::new();
    while seen.len() < 3 {
        match within(LIMIT, watch.next()).await.unwrap() {
            Watched::Event(event) => seen.push(event.key),
            Watched::Lagged => panic!("lagged"),
        }
    }
    let expected = [key("r/1"), key("r/2"), key("r/3")];
    assert_eq!(seen, expected);
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let query = Query { limit: 1, after, ..Query::new(Prefix::new("r/").unwrap()) };
        let page = writer.scan(&query).await.unwrap();
        paged.extend(page.items.into_iter().map(|record| record.key));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, expected);
}
