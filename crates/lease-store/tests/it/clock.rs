//! Wall clocks that are set while leases are held, an hour ahead or back: those of the process that has the store, and that
//! of a Redis server.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Clock, Committed, End, Fence, Generation, Mode, Op, Phase, Release, Released, Renewal,
    Renewed, Sleep, Tick, Wall,
};
use tenure_store::{BootClock, Local, Options, Redis, Store};
use tenure_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::redis_fixture::{BentClock, LIMIT, claim, key, text};
use crate::renewals;

const HOUR: i64 = 3_600;

/// The machine's clock with an adjustable wall clock.
#[derive(Default)]
struct Stepped(AtomicI64);

impl Stepped {
    fn set(&self, seconds: i64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for Stepped {
    fn now(&self) -> Tick {
        BootClock.now()
    }

    fn wall(&self) -> Wall {
        let off = self.0.load(Ordering::SeqCst) * 1_000_000;
        Wall::from_micros(BootClock.wall().as_micros().saturating_add_signed(off))
    }

    fn sleep_until(&self, moment: Tick) -> Sleep {
        BootClock.sleep_until(moment)
    }
}

/// A claim that was granted.
struct Held {
    claim: Claim,
    generation: Generation,
}

impl Held {
    fn renewal(&self) -> Renewal {
        let (key, token) = (self.claim.key.clone(), self.claim.token.clone());
        Renewal { key, token, generation: self.generation, ttl: None }
    }

    fn fence(&self) -> Fence {
        let (key, token) = (self.claim.key.clone(), self.claim.token.clone());
        Fence { key, token, generation: self.generation, mode: Mode::Strict }
    }

    async fn give_back(self, store: &Store) -> Generation {
        let release = Release::new(self.claim.key, self.claim.token);
        assert_eq!(store.release(release).await.unwrap(), Released::Released);
        self.generation
    }
}

async fn hold(store: &Store, name: &str, who: &str) -> Held {
    let claim = claim(name, who).remote();
    match store.acquire(claim.clone()).await.unwrap() {
        Acquired::Granted(grant) => Held { claim, generation: grant.lease.generation },
        Acquired::Busy(busy) => panic!("{busy:?}"),
    }
}

fn record() -> [Op; 1] {
    [Op::Put { key: key("r"), value: Arc::from(&b"written"[..]), ttl: None }]
}

async fn assert_holds(store: &Store, held: &Held) {
    assert!(matches!(renewals(store.renew(&[held.renewal()]).await)[..], [Renewed::Renewed { .. }]));
    let status = store.inspect(&held.claim.key).await.unwrap();
    assert_eq!((status.phase, status.generation), (Phase::Held, Some(held.generation)));
    let left = status.remaining.unwrap();
    assert!(left <= held.claim.ttl.as_duration(), "{left:?}");
    assert!(matches!(
        store.acquire(claim(held.claim.key.as_str(), "other")).await.unwrap(),
        Acquired::Busy(_)
    ));
    let written = store.write_fenced(&held.fence(), &record()).await.unwrap();
    assert!(matches!(written, Committed::Written { .. }), "{written:?}");
}

/// Holders keep their leases, for no longer than without the step, and generations rise.
async fn survives(store: &Store, clock: &Stepped) {
    let mut held = hold(store, "k", "node-1").await;
    for step in [HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 0] {
        clock.set(step);
        assert_holds(store, &held).await;
        let before = held.give_back(store).await;
        held = hold(store, "k", "node-1").await;
        assert!(held.generation > before, "{} after {before} and a step to {step} s", held.generation);
    }
    assert_holds(store, &held).await;
}

#[tokio::test]
async fn a_step_of_the_processs_clock_changes_nothing_in_memory() {
    let clock = Arc::new(Stepped::default());
    survives(&Store::new(Local::memory_on(clock.clone())), &clock).await;
}

#[tokio::test]
async fn a_step_of_the_processs_clock_changes_nothing_in_redis() {
    let server = RedisServer::start().unwrap();
    let clock = Arc::new(Stepped::default());
    let url = format!("{}?quarantine_ms=0", server.url());
    survives(&Store::new(Redis::open_with(&url, clock.clone()).await.unwrap()), &clock).await;
}

#[tokio::test]
async fn a_step_of_the_processs_clock_changes_nothing_in_an_embedded_store_nor_does_one_while_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Stepped::default());
    let open = async || {
        let options = Options { clock: clock.clone(), ..Options::default() };
        Store::new(Local::open(folder.path(), options).await.unwrap())
    };
    let mut store = open().await;
    survives(&store, &clock).await;
    let mut held = hold(&store, "other", "node-1").await;
    for step in [HOUR, -24 * HOUR, 0] {
        drop(store);
        clock.set(step);
        store = open().await;
        assert_holds(&store, &held).await;
        let before = held.give_back(&store).await;
        held = hold(&store, "other", "node-1").await;
        assert!(held.generation > before, "{} after {before} and a step to {step} s", held.generation);
    }
}

async fn stepping() -> (RedisServer, Store) {
    let server = RedisServer::builder().own_clock().start().unwrap();
    let store = Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap();
    (server, Store::new(store))
}

fn seconds(server: &RedisServer) -> i64 {
    let time = text(server, &["EVAL", "return redis.call('TIME')[1]", "0"]);
    time.unwrap().parse().unwrap()
}

#[tokio::test]
async fn whoever_loses_a_key_by_a_step_ahead_of_the_servers_clock_is_told_so_and_writes_nothing_more() {
    let (server, store) = stepping().await;
    let first = hold(&store, "k", "node-1").await;
    let before = seconds(&server);
    server.step_clock(HOUR).unwrap();
    assert!(seconds(&server) >= before + HOUR, "the step was not made");
    let second = hold(&store, "k", "node-2").await;
    assert!(second.generation > first.generation);
    assert_eq!(renewals(store.renew(&[first.renewal()]).await), [Renewed::Lost(End::Expired)]);
    let late = store.write_fenced(&first.fence(), &record()).await.unwrap();
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation) });
    assert_holds(&store, &second).await;
}

/// Waits until the store has looked after the index once more.
async fn swept(server: &RedisServer) {
    server.command(&["ZADD", "tenure:index", "1", "orphan"]).unwrap();
    let gone = async || text(server, &["ZSCORE", "tenure:index", "orphan"]).is_none();
    tenure_testkit::wait::until_async("the sweep has been there", LIMIT, gone).await.unwrap();
}

#[tokio::test]
async fn whoever_stands_in_line_after_a_step_ahead_of_the_servers_clock_is_served_at_once() {
    let server = RedisServer::builder().own_clock().start().unwrap();
    // No waiter polls.
    let url = format!("{}?quarantine_ms=0", server.url());
    let store = Store::new(Redis::open_with(&url, Arc::new(BentClock(None))).await.unwrap());
    server.step_clock(HOUR).unwrap();
    // The second one begins after the first was answered.
    swept(&server).await;
    swept(&server).await;
    let first = hold(&store, "k", "node-1").await;
    let mut line = in_line(&store).await;
    first.give_back(&store).await;
    tenure_testkit::wait::until_async("it is served", LIMIT, async || {
        let status = store.inspect(&key("k")).await.unwrap();
        status.holder.is_some_and(|holder| holder.as_str() == "node-3")
    })
    .await
    .unwrap();
    assert!(matches!(line.join_next().await.unwrap().unwrap(), Acquired::Granted(_)));
}

/// A parked claim.
async fn in_line(store: &Store) -> JoinSet<Acquired> {
    let mut line = JoinSet::new();
    let (waiting, claim) = (store.clone(), claim("k", "node-3").waiting(Duration::from_secs(60)));
    line.spawn(async move { waiting.acquire(claim).await.unwrap() });
    let parked = async || store.inspect(&key("k")).await.unwrap().waiters == 1;
    tenure_testkit::wait::until_async("the claim is parked", LIMIT, parked).await.unwrap();
    line
}

#[tokio::test]
async fn a_step_back_of_the_servers_clock_takes_nothing_from_anybody_and_generations_rise() {
    let (server, store) = stepping().await;
    let first = hold(&store, "k", "node-1").await;
    server.step_clock(-HOUR).unwrap();
    // Until it is renewed its time is the longer by the step; who has died meanwhile is in the way for as long.
    assert_holds(&store, &first).await;
    let before = first.give_back(&store).await;
    let second = hold(&store, "k", "node-2").await;
    assert!(second.generation > before);
    assert_holds(&store, &second).await;
    // And the parked claim gets it.
    let mut line = in_line(&store).await;
    let before = second.give_back(&store).await;
    match line.join_next().await.unwrap().unwrap() {
        Acquired::Granted(grant) => assert!(grant.lease.generation > before && grant.parked),
        Acquired::Busy(busy) => panic!("{busy:?}"),
    }
}

/// A clock that only this test moves.
#[derive(Default)]
struct ByHand(AtomicI64);

impl Clock for ByHand {
    fn now(&self) -> Tick {
        Tick::default() + Duration::from_secs(3_600 + self.0.load(Ordering::SeqCst).unsigned_abs())
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(1_700_000_000_000_000 + self.0.load(Ordering::SeqCst).unsigned_abs() * 1_000_000)
    }

    fn sleep_until(&self, _moment: Tick) -> Sleep {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_token_that_held_nothing_stays_given_up_for_a_minute_in_an_embedded_store() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ByHand::default()));
    let options = Options { clock: clock.clone(), ..Options::default() };
    let store = Local::open(folder.path(), options).await.unwrap();
    let mine = claim("k", "node-1");
    let release = Release::new(mine.key.clone(), mine.token.clone());
    assert_eq!(tenure_lease::Leases::release(&store, release).await.unwrap(), Released::NotHeld);
    clock.0.store(59, Ordering::SeqCst);
    let spent = tenure_lease::Leases::acquire(&store, mine.clone()).await.unwrap_err();
    assert!(matches!(spent, tenure_lease::Error::Refused(tenure_lease::Refusal::TokenSpent)), "{spent}");
    clock.0.store(61, Ordering::SeqCst);
    let late = tenure_lease::Leases::acquire(&store, mine).await.unwrap();
    assert!(matches!(late, Acquired::Granted(_)), "{late:?}");
}
