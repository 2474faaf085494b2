//! The user of deploy/redis/users.conf: enough for every verb, and nothing beyond the keys of Tenure.

use std::time::Duration;

use tenure_lease::{
    Acquired, Announcement, Committed, Error, Fence, Generation, Key, Leases, Mode, Op, Prefix, Proof, Query,
    Records, Released, Revoke, RevokeReason, Revoked, Ttl, Verified, Watched, Wipe, Wiped,
};
use tenure_store::Redis;
use tenure_testkit::{RedisServer, RespClient};

use crate::redis_fixture::{claim, granted, key, open, release, renewal};
use crate::renewals;

const USERS: &str = include_str!("../../../../deploy/redis/users.conf");
const PASSWORD: &str = "change-me";

/// A server with the user of the file, the keys of another application, and an engine that connects as that user.
async fn server() -> (RedisServer, Redis) {
    let server = RedisServer::start().unwrap();
    let rules = USERS.lines().find_map(|line| line.strip_prefix("user ")).unwrap();
    let command: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rules.split(' ')).collect();
    assert_eq!(server.command(&command).unwrap().text(), Some("OK"));
    server.command(&["SET", "app:token", "secret"]).unwrap();
    let url = server.url().replace("redis://", &format!("redis://tenure:{PASSWORD}@"));
    let store = open(&url).await;
    (server, store)
}

fn put(name: &str) -> Op {
    Op::Put { key: key(name), value: b"1"[..].into(), ttl: None }
}

fn fence(claim: &tenure_lease::Claim, generation: Generation) -> Fence {
    Fence { key: claim.key.clone(), token: claim.token.clone(), generation, mode: Mode::Strict }
}

async fn next_key(watch: &mut Box<dyn tenure_lease::Watch>) -> Key {
    match watch.next().await.unwrap() {
        Watched::Event(event) => event.key,
        Watched::Lagged => panic!("lagged"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_for_a_shared_server_may_use_every_verb() {
    let (_server, store) = server().await;
    let prefix = Prefix::new("session:").unwrap();
    let mut watch = store.watch(&prefix, None).await.unwrap();
    let mine = claim("session:a", "node-1");
    let grant = granted(&store, &mine).await;
    assert_eq!(next_key(&mut watch).await, mine.key);
    renewals(store.renew(&[renewal(&mine, &grant)]).await);
    assert!(matches!(store.verify(&mine.key, &mine.token).await.unwrap(), Verified::Live { .. }));
    assert_eq!(store.inspect(&mine.key).await.unwrap().generation, Some(grant.lease.generation));
    assert_eq!(store.list(&Query::new(prefix.clone())).await.unwrap().items.len(), 1);
    assert_eq!(store.history(&mine.key).await.unwrap().len(), 1);
    let fence = fence(&mine, grant.lease.generation);
    let append = Op::Append { log: key("session:log"), value: b"1"[..].into(), max_len: 3 };
    let written = store.write_fenced(&fence, &[put("session:r"), append]).await.unwrap();
    assert!(matches!(written, Committed::Written { .. }), "{written:?}");
    assert!(store.get(&key("session:r")).await.unwrap().is_some());
    assert_eq!(store.scan(&Query::new(prefix.clone())).await.unwrap().items.len(), 1);
    assert_eq!(store.read_log(&key("session:log"), 0, 10).await.unwrap().len(), 1);
    // Often enough to be tracked.
    for _ in 0..5 {
        assert!(store.discover(&prefix).await.unwrap().iter().any(|record| record.key == key("session:r")));
    }
    let item = Announcement {
        fence,
        channel: key("poll:events"),
        message: b"1"[..].into(),
        latest: key("poll:latest"),
        ttl: Ttl::from_secs(5).unwrap(),
        log: key("poll:log"),
        max_len: 3,
    };
    assert_eq!(store.announce(&[item]).await.unwrap(), [true]);
    let waiting = store.acquire(claim("session:a", "node-2").waiting(Duration::from_secs(20)));
    let (answer, released) = tokio::join!(waiting, async {
        while store.inspect(&mine.key).await.unwrap().waiters == 0 {
            tokio::task::yield_now().await;
        }
        store.release(release(&mine)).await
    });
    assert_eq!(released.unwrap(), Released::Released);
    let Acquired::Granted(next) = answer.unwrap() else { panic!("busy") };
    let generation = next.lease.generation;
    let revoke = Revoke { key: mine.key.clone(), generation, delay: None, reason: RevokeReason::default() };
    assert!(matches!(store.revoke(revoke).await.unwrap(), Revoked::Revoked { .. }));
    let gate = claim("system:gate", "node-1");
    let proof =
        Proof { generation: granted(&store, &gate).await.lease.generation, key: gate.key, token: gate.token };
    let wiped = store.wipe(Wipe { prefix, gate: proof }).await.unwrap();
    assert_eq!(wiped, Wiped::Wiped { count: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_for_a_shared_server_reaches_no_key_of_other_applications() {
    let (server, store) = server().await;
    let refused = |error: Error| assert!(error.to_string().contains("no permissions"), "{error}");
    refused(store.commit(&[put("app:token")]).await.unwrap_err());
    refused(store.get(&key("app:token")).await.unwrap_err());
    refused(store.acquire(claim("app:new", "node-1")).await.unwrap_err());
    let mut user = RespClient::connect(server.addr()).unwrap();
    user.command(&["AUTH", "tenure", PASSWORD]).unwrap();
    let commands: [&[&str]; 9] = [
        &["GET", "app:token"],
        &["SET", "app:token", "1"],
        &["DEL", "app:token"],
        &["PUBLISH", "app:events", "1"],
        &["FLUSHALL"],
        &["SWAPDB", "0", "1"],
        &["KEYS", "*"],
        &["CONFIG", "SET", "maxmemory", "1"],
        &["CLIENT", "KILL", "TYPE", "normal"],
    ];
    for command in commands {
        let reply = user.command(command).unwrap();
        assert!(reply.text().is_some_and(|text| text.starts_with("NOPERM")), "{command:?}: {reply:?}");
    }
    assert_eq!(server.command(&["GET", "app:token"]).unwrap().text(), Some("secret"));
}
