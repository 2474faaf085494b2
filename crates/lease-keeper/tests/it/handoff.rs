//! Planned transfers of ownership.

use tenure_keeper::{Handoff, HandoffOutcome, Lost, PermitError};
use tenure_lease::{Clock, End};

use crate::fixture::{Fixture, holder, key, ms, terms};

#[tokio::test(start_paused = true)]
async fn a_waiting_successor_gets_the_key_in_one_step_after_the_drain() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let (generation, held) = (guard.generation(), guard.share());
    let successor = fixture.other("successor");
    let waiting = successor.acquire(key("k"), terms(), ms(60_000));
    let moving = async {
        fixture.pass(1_000).await;
        let handoff = Handoff::new(guard, holder("successor"));
        assert_eq!(held.permit(ms(0)).unwrap_err(), PermitError::Draining);
        assert!(held.is_stopping());
        let drain = async {
            // Longer than the TTL: the lease is kept while it drains.
            fixture.pass(20_000).await;
            assert_eq!(fixture.store.holder("k").unwrap().1, generation);
        };
        handoff.drain(drain).within(ms(30_000)).await.unwrap()
    };
    let (second, handed) = tokio::join!(waiting, moving);
    let second = second.unwrap();
    assert_eq!(handed.generation(), Some(second.generation()));
    assert!(matches!(handed, HandoffOutcome::Transferred { drained: true, .. }));
    assert!(second.generation() > generation);
    second.permit(ms(0)).unwrap();
    assert_eq!(held.permit(ms(0)).unwrap_err(), PermitError::Lost(Lost::Ended(End::Transferred)));
    assert!(fixture.store.calls("release").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_handoff_waits_for_a_successor_that_is_a_little_late() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let successor = fixture.other("successor");
    let waiting = async {
        fixture.pass(2_000).await;
        successor.acquire(key("k"), terms(), ms(60_000)).await.unwrap()
    };
    let moving = Handoff::new(guard, holder("successor")).within(ms(10_000));
    let (second, handed) = tokio::join!(waiting, moving);
    assert_eq!(handed.unwrap().generation(), Some(second.generation()));
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_does_not_come_in_time_finds_the_key_reserved() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let generation = guard.generation();
    let start = fixture.clock.now();
    let handed = Handoff::new(guard, holder("successor")).within(ms(5_000)).await.unwrap();
    assert_eq!(handed, HandoffOutcome::Released { last: generation, drained: true });
    assert!(fixture.clock.now().since(start) <= ms(5_000));
    assert!(fixture.other("b").try_acquire(key("k"), terms()).await.is_err());
    let successor = fixture.other("successor").try_acquire(key("k"), terms()).await.unwrap();
    assert!(successor.generation() > generation);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_does_not_end_is_dropped_at_the_limit() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let handoff = Handoff::new(guard, holder("successor")).drain(std::future::pending::<()>());
    let handed = handoff.within(ms(5_000)).await.unwrap();
    assert!(matches!(handed, HandoffOutcome::Released { drained: false, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_meanwhile_is_not_handed_over() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.end("k", End::Revoked);
    let handoff = Handoff::new(guard, holder("successor")).drain(fixture.pass(20_000));
    assert_eq!(handoff.within(ms(30_000)).await.unwrap(), HandoffOutcome::Lost(Lost::Ended(End::Revoked)));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handoff_releases_the_key() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    drop(Handoff::new(guard, holder("successor")));
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
}
