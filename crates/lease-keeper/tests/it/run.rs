//! Work that lives and dies with its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease::{Clock, End};
use lease_keeper::{Cut, Ended, Lost, Policy};

use crate::bench::{Bench, DEADLINE, TTL, key, ms, terms};
use crate::faults::{ALWAYS, Kind};

/// Says when it was dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_released_only_after_the_work_returned() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let (clock, store) = (bench.clock.clone(), bench.store.clone());
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
    assert_eq!(ended, Ended::Returned(7));
    assert_eq!(bench.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn work_is_cut_at_the_deadline_when_no_renewal_came() {
    for policy in [Policy::Pause, Policy::Abort] {
        let bench = Bench::new();
        let guard = bench.take("k", terms().policy(policy)).await;
        bench.store.faults.inject("renew", Kind::CutReply, ALWAYS);
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(dropped.clone());
        let start = bench.clock.now();
        let ended: Ended<()> = guard
            .run(|_| async move {
                let _flag = flag;
                std::future::pending().await
            })
            .await;
        let expected = match policy {
            Policy::Pause => Cut::Deadline,
            _ => Cut::Lost(Lost::Unconfirmed),
        };
        assert_eq!(ended, Ended::Cut(expected));
        assert!(dropped.load(Ordering::SeqCst));
        let took = bench.clock.now().since(start);
        assert!(took >= ms(DEADLINE - 10) && took < ms(DEADLINE + 10), "{took:?}");
        assert_eq!(bench.store.holder("k"), None, "given back after the work was gone");
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_told_to_stop_before_it_is_cut() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::Refused, ALWAYS);
    let start = bench.clock.now();
    let ended = guard
        .run(|held| async move {
            held.stopping().await;
            held.permit(ms(1_000)).is_ok()
        })
        .await;
    assert_eq!(ended, Ended::Returned(true), "there is time left to clean up under the lease");
    let took = bench.clock.now().since(start);
    assert!(took >= ms(DEADLINE - 2_510) && took < ms(DEADLINE - 2_400), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn work_is_cut_when_the_lease_is_lost() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let store = bench.store.clone();
    let revoking = async {
        bench.pass(2_000).await;
        store.end("k", End::Revoked);
    };
    let (ended, ()) = tokio::join!(guard.run(|_| std::future::pending::<()>()), revoking);
    assert_eq!(ended, Ended::Cut(Cut::Lost(Lost::Ended(End::Revoked))));
}

#[tokio::test(start_paused = true)]
async fn work_that_wakes_after_a_suspend_does_not_move_though_no_timer_fired() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let moved = Arc::new(AtomicBool::new(false));
    let (wake, woken) = tokio::sync::oneshot::channel::<()>();
    let flag = moved.clone();
    let running = guard.run(|_| async move {
        woken.await.ok();
        flag.store(true, Ordering::SeqCst);
    });
    let suspending = async {
        bench.pass(100).await;
        bench.suspend(TTL);
        wake.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, suspending);
    assert_eq!(ended, Ended::Cut(Cut::Deadline));
    assert!(!moved.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_drops_the_work_and_then_gives_back() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
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
            () = bench.pass(1_000) => {}
        }
    }
    assert!(dropped.load(Ordering::SeqCst));
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
    drop(bench.other("b").try_acquire(key("k"), terms()).await.unwrap());
}
