//! The keys in Redis: what other programs see of a lease, and what Tenure makes of theirs.

use tenure_lease::{BusyReason, End, Leases, Op, Records, Released, Renewed, Revision};
use tenure_store::Redis;
use tenure_testkit::{RedisServer, Reply, wait};

use crate::redis_fixture::{LIMIT, busy, claim, granted, int, key, open, release, renewal, text};
use crate::renewals;

const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end \
                      return 0";
const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

#[tokio::test]
async fn a_plain_get_shows_the_holder_and_pttl_the_ttl() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let grant = granted(&store, &claim("tuner/1", "node-1")).await;
    assert_eq!(text(&server, &["GET", "tuner/1"]).as_deref(), Some("node-1"));
    let left = int(&server, &["PTTL", "tuner/1"]);
    assert!((1..=20_000).contains(&left), "{left}");
    let generation = grant.lease.generation.to_string();
    assert_eq!(text(&server, &["GET", "tenure:g:tuner/1"]), Some(generation.clone()));
    assert_eq!(int(&server, &["PTTL", "tenure:g:tuner/1"]), -1);
    assert_eq!(text(&server, &["TYPE", "tenure:l:tuner/1"]).as_deref(), Some("hash"));
    assert_eq!(text(&server, &["HGET", "tenure:l:tuner/1", "generation"]), Some(generation));
    let expires = int(&server, &["PEXPIRETIME", "tuner/1"]).to_string();
    assert_eq!(text(&server, &["HGET", "tenure:l:tuner/1", "expires"]), Some(expires));
}

#[tokio::test]
async fn the_sweep_gives_a_renewed_reign_a_new_time_in_the_index_and_changes_nothing_else() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let claim = claim("tuner/1", "node-1");
    let grant = granted(&store, &claim).await;
    let fields = || server.command(&["HGETALL", "tenure:l:tuner/1"]).unwrap();
    let before = fields();
    let revision = text(&server, &["HGET", "tenure:store", "revision"]);
    // As if it had been granted long ago and renewed ever since.
    int(&server, &["ZADD", "tenure:index", "XX", "1", "tuner/1"]);
    let score = || text(&server, &["ZSCORE", "tenure:index", "tuner/1"]).unwrap();
    wait::until_async("the sweep has checked the key", LIMIT, async || score() != "1").await.unwrap();
    let expires = int(&server, &["PEXPIRETIME", "tuner/1"]);
    // The script reads the rest of a TTL a little after the time.
    let score: i64 = score().parse().unwrap();
    assert!((expires - 1..=expires + 50).contains(&score), "{score} {expires}");
    assert_eq!(fields(), before);
    assert_eq!(text(&server, &["HGET", "tenure:store", "revision"]), revision, "no event");
    let renewed = renewals(store.renew(&[renewal(&claim, &grant)]).await);
    assert!(matches!(renewed[0], Renewed::Renewed { .. }), "{renewed:?}");
}

#[tokio::test]
async fn a_released_key_leaves_only_its_generation_and_its_past() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let claim = claim("tuner/1", "node-1");
    granted(&store, &claim).await;
    assert_eq!(store.release(release(&claim)).await.unwrap(), Released::Released);
    assert_eq!(int(&server, &["EXISTS", "tuner/1", "tenure:l:tuner/1", "tenure:w:tuner/1"]), 0);
    assert_eq!(int(&server, &["EXISTS", "tenure:g:tuner/1"]), 1);
}

#[tokio::test]
async fn a_key_that_something_else_set_counts_as_held() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    text(&server, &["SET", "k", "two words"]);
    let answer = busy(&store, &claim("k", "node-1")).await;
    assert_eq!((answer.reason, answer.remaining, answer.generation), (BusyReason::Foreign, None, None));
    assert_eq!(answer.holder.unwrap().as_str(), "two?words");
    text(&server, &["SET", "k", "node-9", "PX", "9000"]);
    let answer = busy(&store, &claim("k", "node-1")).await;
    assert!(answer.remaining.is_some_and(|left| left.as_millis() <= 9_000), "{answer:?}");
    assert_eq!(answer.holder.unwrap().as_str(), "node-9");
}

#[tokio::test]
async fn a_key_of_another_type_counts_as_held_by_an_unknown_holder() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    int(&server, &["RPUSH", "k", "a"]);
    let answer = busy(&store, &claim("k", "node-1")).await;
    assert_eq!((answer.reason, answer.holder.unwrap().as_str()), (BusyReason::Foreign, "?"));
    assert_eq!(int(&server, &["LLEN", "k"]), 1);
}

#[tokio::test]
async fn a_lease_that_something_else_overwrote_is_lost_and_the_key_left_alone() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let claim = claim("k", "node-1");
    let grant = granted(&store, &claim).await;
    text(&server, &["SET", "k", "thief"]);
    assert_eq!(renewals(store.renew(&[renewal(&claim, &grant)]).await), [Renewed::Lost(End::Gone)]);
    assert_eq!(store.release(release(&claim)).await.unwrap(), Released::NotHeld);
    assert_eq!(text(&server, &["GET", "k"]).as_deref(), Some("thief"));
    assert_eq!(int(&server, &["PTTL", "k"]), -1);
}

#[tokio::test]
async fn the_same_name_in_a_key_that_was_set_again_is_no_lease() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let claim = claim("k", "node-1");
    let grant = granted(&store, &claim).await;
    assert_eq!(store.release(release(&claim)).await.unwrap(), Released::Released);
    text(&server, &["SET", "k", "node-1", "PX", "9000"]);
    assert_eq!(renewals(store.renew(&[renewal(&claim, &grant)]).await), [Renewed::Lost(End::Released)]);
    assert_eq!(store.release(release(&claim)).await.unwrap(), Released::NotHeld);
    assert_eq!(text(&server, &["GET", "k"]).as_deref(), Some("node-1"));
}

#[tokio::test]
async fn scripts_that_compare_and_extend_or_delete_work_on_our_keys() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    let grant = granted(&store, &mine).await;
    assert_eq!(int(&server, &["EVAL", EXTEND, "1", "k", "node-1", "15000"]), 1);
    assert_eq!(int(&server, &["EVAL", EXTEND, "1", "k", "node-2", "15000"]), 0);
    assert!(matches!(renewals(store.renew(&[renewal(&mine, &grant)]).await)[..], [Renewed::Renewed { .. }]));
    assert_eq!(int(&server, &["EVAL", DELETE, "1", "k", "node-1"]), 1);
    assert_eq!(renewals(store.renew(&[renewal(&mine, &grant)]).await), [Renewed::Lost(End::Gone)]);
    let next = granted(&store, &claim("k", "node-2")).await;
    assert!(next.lease.generation > grant.lease.generation);
}

#[tokio::test]
async fn a_record_that_something_else_wrote_has_revision_zero() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    text(&server, &["SET", "r", "theirs"]);
    assert_eq!(store.get(&key("r")).await.unwrap().unwrap().revision, Revision::new(0));
    store.commit(&[Op::Put { key: key("r"), value: (*b"ours").into(), ttl: None }]).await.unwrap();
    assert_eq!(text(&server, &["GET", "r"]).as_deref(), Some("ours"));
    assert!(store.get(&key("r")).await.unwrap().unwrap().revision > Revision::new(0));
    text(&server, &["SET", "r", "them"]);
    assert_eq!(store.get(&key("r")).await.unwrap().unwrap().revision, Revision::new(0));
}

#[tokio::test]
async fn scripts_are_loaded_again_after_the_server_forgot_them() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    let grant = granted(&store, &mine).await;
    text(&server, &["SCRIPT", "FLUSH"]);
    assert!(matches!(renewals(store.renew(&[renewal(&mine, &grant)]).await)[..], [Renewed::Renewed { .. }]));
    text(&server, &["SCRIPT", "FLUSH"]);
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_reservation_shows_its_successor_for_two_seconds() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    let mut to_successor = release(&mine);
    to_successor.to = Some(tenure_lease::Holder::new("node-2").unwrap());
    assert_eq!(store.release(to_successor).await.unwrap(), Released::Released);
    assert_eq!(text(&server, &["GET", "k"]).as_deref(), Some("node-2"));
    let left = int(&server, &["PTTL", "k"]);
    assert!((1..=2_000).contains(&left), "{left}");
    assert_eq!(text(&server, &["HGET", "tenure:l:k", "state"]).as_deref(), Some("reserved"));
}

#[tokio::test]
async fn the_fields_of_a_lease_are_its_reign() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mut mine = claim("k", "node-1");
    mine.meta = tenure_lease::Meta::new("in the cellar").unwrap();
    let grant = granted(&store, &mine).await;
    let field = |name: &str| server.command(&["HGET", "tenure:l:k", name]).unwrap();
    assert_eq!(field("generation"), Reply::Bulk(Some(grant.lease.generation.to_string().into_bytes())));
    assert_eq!(field("token"), Reply::Bulk(Some(mine.token.digest().as_bytes().to_vec())));
    assert_eq!(field("meta"), Reply::Bulk(Some(b"in the cellar".to_vec())));
    let since = store.inspect(&mine.key).await.unwrap().since.unwrap();
    assert_eq!(field("since"), Reply::Bulk(Some(since.as_micros().to_string().into_bytes())));
}

#[tokio::test]
async fn a_token_that_held_nothing_stays_given_up_for_a_minute() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::NotHeld);
    let end: i64 = match server.command(&["ZRANGE", "tenure:unused", "0", "-1", "WITHSCORES"]).unwrap() {
        Reply::Array(Some(tokens)) => tokens[1].text().unwrap().parse().unwrap(),
        other => panic!("{other:?}"),
    };
    let now = text(&server, &["EVAL", "return redis.call('TIME')[1]", "0"]).unwrap();
    let left = end / 1_000 - now.parse::<i64>().unwrap();
    assert!((40..=60).contains(&left), "{left} s");
    let until: i64 = text(&server, &["HGET", "tenure:store", "unused_until"]).unwrap().parse().unwrap();
    assert!(until >= end, "{until} {end}");
}

#[tokio::test]
async fn a_strict_write_needs_the_key_the_holder_the_token_and_the_generation() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let broken: [(&str, &[&str]); 4] = [
        ("the key is gone", &["DEL", "k"]),
        ("another holder has it", &["SET", "k", "stranger", "KEEPTTL"]),
        ("the fields are gone", &["DEL", "tenure:l:k"]),
        (
            "it is of another type",
            &["EVAL", "redis.call('DEL', 'k') return redis.call('RPUSH', 'k', 'x')", "0"],
        ),
    ];
    for (why, command) in broken {
        server.flushall().unwrap();
        let mine = claim("k", "node-1");
        let generation = granted(&store, &mine).await.lease.generation;
        let fence = tenure_lease::Fence {
            key: mine.key,
            token: mine.token,
            generation,
            mode: tenure_lease::Mode::Strict,
        };
        let ops = [Op::Put { key: key("r"), value: b"1"[..].into(), ttl: None }];
        let written = store.write_fenced(&fence, &ops).await.unwrap();
        assert!(matches!(written, tenure_lease::Committed::Written { .. }), "{written:?}");
        server.command(command).unwrap();
        let refused = store.write_fenced(&fence, &ops).await.unwrap();
        assert!(matches!(refused, tenure_lease::Committed::FencedOut { .. }), "{why}: {refused:?}");
    }
}

#[tokio::test]
async fn a_wipe_leaves_a_key_that_another_program_has_set() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let gate = claim("gate", "operator");
    let generation = granted(&store, &gate).await.lease.generation;
    for name in ["t/1", "t/2"] {
        granted(&store, &claim(name, "node-1")).await;
    }
    server.command(&["SET", "t/1", "stranger"]).unwrap();
    let gate = tenure_lease::Proof { key: gate.key, token: gate.token, generation };
    let wiped = store
        .wipe(tenure_lease::Wipe { prefix: tenure_lease::Prefix::new("t/").unwrap(), gate })
        .await
        .unwrap();
    assert_eq!(wiped, tenure_lease::Wiped::Wiped { count: 1 });
    assert_eq!(text(&server, &["GET", "t/1"]).as_deref(), Some("stranger"));
    assert_eq!(text(&server, &["GET", "t/2"]), None);
}

#[tokio::test]
async fn a_claim_that_waits_for_a_foreign_key_is_granted_when_it_is_deleted() {
    let server = RedisServer::start().unwrap();
    let store = std::sync::Arc::new(open(&server.url()).await);
    server.command(&["SET", "k", "stranger"]).unwrap();
    let (waits, mut waiting) = (store.clone(), tokio::task::JoinSet::new());
    waiting.spawn(async move { granted(&waits, &claim("k", "node-1").waiting(LIMIT)).await });
    wait::until_async("it waits", LIMIT, async || int(&server, &["LLEN", "tenure:w:k"]) == 1).await.unwrap();
    server.command(&["DEL", "k"]).unwrap();
    let grant = waiting.join_next().await.unwrap().unwrap();
    assert!(grant.parked);
}

#[tokio::test]
async fn generations_go_on_rising_in_a_server_that_was_used_before_the_keys_lived_elsewhere() {
    let server = RedisServer::start().unwrap();
    // The server was used long ago.
    granted(&open(&server.url()).await, &claim("other", "node-1")).await;
    let floor = 1_000_000_000_i64 << 20;
    server.command(&["HSET", "tenure:store", "floor", &floor.to_string()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let embedded = tenure_store::Store::open(&format!("embedded:{}", folder.path().display())).await.unwrap();
    let before = match embedded.acquire(claim("k", "node-1")).await.unwrap() {
        tenure_lease::Acquired::Granted(grant) => grant.lease.generation,
        tenure_lease::Acquired::Busy(busy) => panic!("{busy:?}"),
    };
    drop(embedded);
    let after = granted(&open(&server.url()).await, &claim("k", "node-1")).await.lease.generation;
    assert!(after > before, "{after} after {before}");
}

#[tokio::test]
async fn a_store_of_another_layout_is_refused() {
    let server = RedisServer::start().unwrap();
    server.command(&["HSET", "tenure:store", "layout", "3"]).unwrap();
    let refused = Redis::open(&server.url()).await.unwrap_err().to_string();
    assert!(refused.contains("layout 3") && refused.contains("needs layout 2"), "{refused}");
    assert_eq!(text(&server, &["HGET", "tenure:store", "layout"]).as_deref(), Some("3"));
}

#[tokio::test]
async fn a_store_from_before_layouts_had_versions_is_refused() {
    let server = RedisServer::start().unwrap();
    server.command(&["SET", "tenure:floor", "1000000000000000"]).unwrap();
    let refused = Redis::open(&server.url()).await.unwrap_err().to_string();
    assert!(refused.contains("layout 1"), "{refused}");
    assert_eq!(int(&server, &["EXISTS", "tenure:store"]), 0);
}

#[tokio::test]
async fn spent_tokens_are_forgotten_after_a_minute_without_a_release() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    store.release(release(&mine)).await.unwrap();
    let left = int(&server, &["PTTL", "tenure:t:k"]);
    assert!((40_000..=60_000).contains(&left), "{left} ms");
    assert!(store.acquire(mine.clone()).await.unwrap_err().to_string().contains("spent"));
    // As if it had been released 61 seconds ago.
    let age = "local t = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') \
               return redis.call('ZADD', KEYS[1], t[2] - 61000, t[1])";
    server.command(&["EVAL", age, "1", "tenure:t:k"]).unwrap();
    granted(&store, &mine).await;
}

#[tokio::test]
async fn the_latest_4096_spent_tokens_of_a_key_are_kept() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let fill = "for i = 1, 5000 do redis.call('ZADD', KEYS[1], ARGV[1] - 5000 + i, i) end return 1";
    let now = text(&server, &["EVAL", "return redis.call('TIME')[1] .. '000'", "0"]).unwrap();
    assert_eq!(int(&server, &["EVAL", fill, "1", "tenure:t:k", &now]), 1);
    let kept = || int(&server, &["ZCARD", "tenure:t:k"]);
    let mut released = 0;
    while kept() > 4_096 + 64 {
        let mine = claim("k", "node-1");
        granted(&store, &mine).await;
        store.release(release(&mine)).await.unwrap();
        released += 1;
        assert!(released <= 64, "the set is trimmed once in 64 reigns");
    }
    assert!(kept() >= 4_096, "{}", kept());
}
