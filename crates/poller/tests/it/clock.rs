//! Steps of the wall clock have no effect: deadlines use the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tenure_lease::{Clock, Sleep, Store, Tick, Wall};
use tenure_poller::Node;
use tenure_store::{BootClock, Local, Redis};
use tenure_testkit::{RedisServer, wait};

use crate::node::{Fixture, LIMIT, polls, quick};

/// A clock whose wall time can be stepped.
#[derive(Clone, Default)]
struct SteppingClock(Arc<AtomicI64>);

impl Clock for SteppingClock {
    fn now(&self) -> Tick {
        BootClock.now()
    }

    fn wall(&self) -> Wall {
        let moved = BootClock.wall().as_micros().saturating_add_signed(self.0.load(Ordering::Relaxed));
        Wall::from_micros(moved)
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        BootClock.sleep_until(at)
    }
}

/// Steps the clock of one of two nodes by an hour: forward, back, and forward again. A wall-clock deadline would pass
/// at once or never. The TTL is long enough for a slow machine.
async fn assert_steps_have_no_effect(store: Arc<dyn Store>, clock: SteppingClock, others: Arc<dyn Store>) {
    let fixture = Fixture::on(store).await;
    for id in ["a", "b"] {
        fixture.target(id, 20).await;
    }
    let (node, other) = (fixture.start(quick()), Node::start(others, quick()).unwrap());
    let own = |node: &Node| {
        let snapshot = node.snapshot();
        let own = snapshot.nodes.into_iter().find(|view| view.is_this_instance).unwrap();
        own.targets.into_iter().map(|target| target.id).collect::<Vec<_>>()
    };
    wait::until_async("targets are shared", LIMIT, async || own(&node).len() == 1 && own(&other).len() == 1)
        .await
        .unwrap();
    let (mine, theirs) = (own(&node).remove(0), own(&other).remove(0));
    let reigns = async || (fixture.generation(&mine).await, fixture.generation(&theirs).await);
    let before = reigns().await;
    for step in [3_600_000_000, -7_200_000_000, 3_600_000_000] {
        clock.0.fetch_add(step, Ordering::Relaxed);
        let from = (polls(&node, &mine), polls(&other, &theirs));
        // The time of ten renewals.
        let until = BootClock.now() + Duration::from_secs(2);
        wait::until_async("both continue to poll", LIMIT, async || {
            BootClock.now() > until && polls(&node, &mine) > from.0 + 3 && polls(&other, &theirs) > from.1 + 3
        })
        .await
        .unwrap();
        assert_eq!(reigns().await, before, "reigns are unchanged");
        let published = fixture.latest(&mine).await["at"].as_u64().unwrap();
        let offset = published.abs_diff(BootClock.wall().as_millis());
        let stepped = clock.0.load(Ordering::Relaxed) != 0;
        assert_eq!(offset > 3_000_000, stepped, "offset of the wall clock: {offset} ms");
    }
    node.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn clock_steps_of_an_hour_cost_no_lease_and_no_poll() {
    let clock = SteppingClock::default();
    let store: Arc<dyn Store> = Arc::new(Local::memory_on(Arc::new(clock.clone())));
    assert_steps_have_no_effect(store.clone(), clock, store).await;
}

#[tokio::test]
async fn clock_steps_of_an_hour_on_redis_cost_no_lease_and_no_poll() {
    let redis = RedisServer::start().unwrap();
    let (clock, url) = (SteppingClock::default(), format!("{}?quarantine_ms=0", redis.url()));
    let store = Redis::open_with(&url, Arc::new(clock.clone())).await.unwrap();
    let others = Redis::open(&url).await.unwrap();
    assert_steps_have_no_effect(Arc::new(store), clock, Arc::new(others)).await;
}
