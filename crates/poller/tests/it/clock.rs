//! A wall clock that steps changes nothing: deadlines are kept on another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lease::{Clock, Sleep, Tick, Wall};
use lease_store::{BootClock, Local};
use testkit::wait;

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

#[tokio::test]
async fn a_clock_that_steps_by_an_hour_either_way_costs_no_lease_and_no_poll() {
    let clock = Stepping::default();
    let stage = Stage::on(Arc::new(Local::memory_on(Arc::new(clock.clone())))).await;
    stage.target("a", 20).await;
    let node = stage.start(quick());
    wait::until_async("it is polled", LIMIT, async || polls(&node, "a") > 3).await.unwrap();
    let before = stage.generation("a").await;
    for step in [3_600_000_000, -7_200_000_000, 3_600_000_000] {
        clock.0.fetch_add(step, Ordering::Relaxed);
        let from = polls(&node, "a");
        wait::until_async("it is polled on", LIMIT, async || polls(&node, "a") > from + 3).await.unwrap();
        // Longer than a TTL, so that a deadline on the wrong clock would show.
        let until = BootClock.now() + Duration::from_millis(1_500);
        BootClock.sleep_until(until).await;
        assert_eq!(stage.generation("a").await, before);
    }
    node.stop().await;
}
