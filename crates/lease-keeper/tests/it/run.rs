//! Work that runs under a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_keeper::{Interruption, Lost, Policy, RunOutcome};
use tenure_lease::{Clock, End};

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{DEADLINE, Fixture, TTL, key, ms, terms};

/// Records when it was dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_released_only_after_the_work_returned() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let (clock, store) = (fixture.clock.clone(), fixture.store.clone());
    let ended = guard
        .run(|held| async move {
            for _ in 0..60 {
                clock.sleep_until(clock.now() + ms(1_000)).await;
                held.permit(ms(10)).unwrap();
                assert!(store.calls("release").is_empty());
                assert!(!held.is_stopping());
            }
            7
        })
        .await;
    assert_eq!(ended, RunOutcome::Returned(7));
    assert_eq!(fixture.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn work_is_interrupted_at_the_deadline_without_a_renewal() {
    for policy in [Policy::Pause, Policy::Abort] {
        let fixture = Fixture::new();
        let guard = fixture.take("k", terms().policy(policy)).await;
        fixture.store.faults.inject("renew", Kind::CutReply, ALWAYS);
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(dropped.clone());
        let start = fixture.clock.now();
        let ended: RunOutcome<()> = guard
            .run(|_| async move {
                let _flag = flag;
                std::future::pending().await
            })
            .await;
        let expected = match policy {
            Policy::Pause => Interruption::Deadline,
            _ => Interruption::Lost(Lost::Unconfirmed),
        };
        assert_eq!(ended, RunOutcome::Interrupted(expected));
        assert!(dropped.load(Ordering::SeqCst));
        let took = fixture.clock.now().since(start);
        assert!(took >= ms(DEADLINE - 10) && took < ms(DEADLINE + 10), "{took:?}");
        assert_eq!(fixture.store.holder("k"), None, "given back after the work was gone");
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_asked_to_stop_before_it_is_interrupted() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::Refused, ALWAYS);
    let start = fixture.clock.now();
    let ended = guard
        .run(|held| async move {
            held.stopping().await;
            held.permit(ms(1_000)).is_ok()
        })
        .await;
    assert_eq!(ended, RunOutcome::Returned(true), "there is time left to clean up under the lease");
    let took = fixture.clock.now().since(start);
    assert!(took >= ms(DEADLINE - 2_510) && took < ms(DEADLINE - 2_400), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn work_is_interrupted_when_the_lease_is_lost() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let store = fixture.store.clone();
    let revoking = async {
        fixture.pass(2_000).await;
        store.end("k", End::Revoked);
    };
    let (ended, ()) = tokio::join!(guard.run(|_| std::future::pending::<()>()), revoking);
    assert_eq!(ended, RunOutcome::Interrupted(Interruption::Lost(Lost::Ended(End::Revoked))));
}

#[tokio::test(start_paused = true)]
async fn work_does_not_continue_after_a_suspend_even_if_no_timer_fired() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let moved = Arc::new(AtomicBool::new(false));
    let (wake, woken) = tokio::sync::oneshot::channel::<()>();
    let flag = moved.clone();
    let running = guard.run(|_| async move {
        woken.await.ok();
        flag.store(true, Ordering::SeqCst);
    });
    let suspending = async {
        fixture.pass(100).await;
        fixture.suspend(TTL);
        wake.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, suspending);
    assert_eq!(ended, RunOutcome::Interrupted(Interruption::Deadline));
    assert!(!moved.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_drops_the_work_and_then_releases() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(dropped.clone());
    {
        let running = guard.run(|_| async move {
            let _flag = flag;
            std::future::pending::<()>().await;
        });
        tokio::select! {
            biased;
            _ = running => panic!("returned"),
            () = fixture.pass(1_000) => {}
        }
    }
    assert!(dropped.load(Ordering::SeqCst));
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
    drop(fixture.other("b").try_acquire(key("k"), terms()).await.unwrap());
}
