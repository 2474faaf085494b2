//! Moving ownership on purpose.

use lease::{Clock, End};
use lease_keeper::{Handed, Handoff, Lost, NotSafe};

use crate::bench::{Bench, holder, key, ms, terms};

#[tokio::test(start_paused = true)]
async fn a_parked_heir_gets_the_key_in_one_step_after_the_drain() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let (generation, held) = (guard.generation(), guard.share());
    let heir = bench.other("heir");
    let waiting = heir.acquire(key("k"), terms(), ms(60_000));
    let moving = async {
        bench.pass(1_000).await;
        let handoff = Handoff::new(guard, holder("heir"));
        assert_eq!(held.permit(ms(0)).unwrap_err(), NotSafe::Draining);
        assert!(held.is_stopping());
        let drain = async {
            // Longer than the TTL: the lease is kept while it drains.
            bench.pass(20_000).await;
            assert_eq!(bench.store.holder("k").unwrap().1, generation);
        };
        handoff.drain(drain).within(ms(30_000)).await.unwrap()
    };
    let (second, handed) = tokio::join!(waiting, moving);
    let second = second.unwrap();
    assert_eq!(handed.generation(), Some(second.generation()));
    assert!(matches!(handed, Handed::Transferred { drained: true, .. }));
    assert!(second.generation() > generation);
    second.permit(ms(0)).unwrap();
    assert_eq!(held.permit(ms(0)).unwrap_err(), NotSafe::Lost(Lost::Ended(End::Transferred)));
    assert!(bench.store.calls("release").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_heir_that_comes_a_little_late_is_waited_for() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let heir = bench.other("heir");
    let waiting = async {
        bench.pass(2_000).await;
        heir.acquire(key("k"), terms(), ms(60_000)).await.unwrap()
    };
    let moving = Handoff::new(guard, holder("heir")).within(ms(10_000));
    let (second, handed) = tokio::join!(waiting, moving);
    assert_eq!(handed.unwrap().generation(), Some(second.generation()));
}

#[tokio::test(start_paused = true)]
async fn an_heir_that_does_not_come_finds_the_key_reserved() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let generation = guard.generation();
    let start = bench.clock.now();
    let handed = Handoff::new(guard, holder("heir")).within(ms(5_000)).await.unwrap();
    assert_eq!(handed, Handed::Released { last: generation, drained: true });
    assert!(bench.clock.now().since(start) <= ms(5_000));
    assert!(bench.other("b").try_acquire(key("k"), terms()).await.is_err());
    let heir = bench.other("heir").try_acquire(key("k"), terms()).await.unwrap();
    assert!(heir.generation() > generation);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_does_not_end_is_dropped_at_the_bound() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let handoff = Handoff::new(guard, holder("heir")).drain(std::future::pending::<()>());
    let handed = handoff.within(ms(5_000)).await.unwrap();
    assert!(matches!(handed, Handed::Released { drained: false, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_on_the_way_is_not_handed_over() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.end("k", End::Revoked);
    let handoff = Handoff::new(guard, holder("heir")).drain(bench.pass(20_000));
    assert_eq!(handoff.within(ms(30_000)).await.unwrap(), Handed::Lost(Lost::Ended(End::Revoked)));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handoff_gives_the_key_back() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    drop(Handoff::new(guard, holder("heir")));
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
}
