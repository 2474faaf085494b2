//! A wall clock that steps changes nothing: deadlines are kept on another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lease::{Clock, Sleep, Store, Tick, Wall};
use lease_store::{BootClock, Local, Redis};
use poller::Node;
use testkit::{RedisServer, wait};

use crate::node::{LIMIT, Stage, polls, quick};

/// A clock whose wall can be moved by hand.
#[derive(Clone, Default)]
struct Stepping(Arc<AtomicI64>);

impl Clock for Stepping {
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

/// Steps the clock of one of two nodes by an hour, forth, back and forth again. A deadline on the wall's time would be over,
/// or would never be, at once; so the TTL is one that no machine is too slow for.
async fn steps(store: Arc<dyn Store>, clock: Stepping, others: Arc<dyn Store>) {
    let stage = Stage::on(store).await;
    for id in ["a", "b"] {
        stage.target(id, 20).await;
    }
    let (node, other) = (stage.start(quick()), Node::start(others, quick()).unwrap());
    let own = |node: &Node| {
        let picture = node.picture();
        let own = picture.nodes.into_iter().find(|view| view.is_this_instance).unwrap();
        own.targets.into_iter().map(|target| target.id).collect::<Vec<_>>()
    };
    wait::until_async("they share", LIMIT, async || own(&node).len() == 1 && own(&other).len() == 1)
        .await
        .unwrap();
    let (mine, theirs) = (own(&node).remove(0), own(&other).remove(0));
    let reigns = async || (stage.generation(&mine).await, stage.generation(&theirs).await);
    let before = reigns().await;
    for step in [3_600_000_000, -7_200_000_000, 3_600_000_000] {
        clock.0.fetch_add(step, Ordering::Relaxed);
        let from = (polls(&node, &mine), polls(&other, &theirs));
        // As long as ten renewals take.
        let until = BootClock.now() + Duration::from_secs(2);
        wait::until_async("both are polled on", LIMIT, async || {
            BootClock.now() > until && polls(&node, &mine) > from.0 + 3 && polls(&other, &theirs) > from.1 + 3
        })
        .await
        .unwrap();
        assert_eq!(reigns().await, before, "the same reigns");
        let told = stage.latest(&mine).await["at"].as_u64().unwrap();
        let off = told.abs_diff(BootClock.wall().as_millis());
        let stepped = clock.0.load(Ordering::Relaxed) != 0;
        assert_eq!(off > 3_000_000, stepped, "the step was seen: {off} ms");
    }
    node.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_clock_that_steps_by_an_hour_either_way_costs_no_lease_and_no_poll() {
    let clock = Stepping::default();
    let store: Arc<dyn Store> = Arc::new(Local::memory_on(Arc::new(clock.clone())));
    steps(store.clone(), clock, store).await;
}

#[tokio::test]
async fn beside_a_real_redis_a_node_whose_clock_steps_by_an_hour_loses_nothing_and_neither_do_others() {
    let redis = RedisServer::start().unwrap();
    let (clock, url) = (Stepping::default(), format!("{}?quarantine_ms=0", redis.url()));
    let store = Redis::open_with(&url, Arc::new(clock.clone())).await.unwrap();
    let others = Redis::open(&url).await.unwrap();
    steps(Arc::new(store), clock, Arc::new(others)).await;
}
