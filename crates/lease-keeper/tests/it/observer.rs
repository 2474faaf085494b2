//! An observer is notified of each renewal, and of nothing else.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_keeper::{GuardState, Observer};
use tenure_lease::{Clock, Error, Lease};
use tenure_store::TokioClock;

use crate::fake::FakeStore;
use crate::faults::{ALWAYS, Kind};
use crate::fixture::{TTL, build, key, ms, terms};

/// A notification: a key, its generation, and whether it was renewed.
#[derive(Default)]
struct Diary(Mutex<Vec<(String, u64, bool)>>);

impl Observer for Diary {
    fn renewed(&self, lease: &Lease) {
        self.0.lock().push((lease.key.as_str().to_owned(), lease.generation.get(), true));
    }

    fn failed(&self, lease: &Lease, _: &Error) {
        self.0.lock().push((lease.key.as_str().to_owned(), lease.generation.get(), false));
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_notified_of_each_renewal_and_of_each_failure() {
    let clock = Arc::new(TokioClock::default());
    let store = Arc::new(FakeStore::new(clock.clone()));
    let diary = Arc::new(Diary::default());
    let keeper = build(&store, "a").observer(diary.clone()).build();
    let pass = async |millis| clock.sleep_until(clock.now() + ms(millis)).await;
    let first = keeper.try_acquire(key("k/1"), terms()).await.unwrap();
    let second = keeper.try_acquire(key("k/2"), terms()).await.unwrap();
    assert!(diary.0.lock().is_empty(), "being granted is no renewal");
    pass(5_100).await;
    let mut heard = std::mem::take(&mut *diary.0.lock());
    heard.sort();
    let named = |yes| {
        [
            ("k/1".to_owned(), first.generation().get(), yes),
            ("k/2".to_owned(), second.generation().get(), yes),
        ]
    };
    assert_eq!(heard, named(true));

    // One attempt of each that fails, and one that succeeds.
    store.faults.inject_for("renew", "k/1", Kind::Refused, 1);
    store.faults.inject_for("renew", "k/2", Kind::Refused, 1);
    pass(5_500).await;
    let heard = std::mem::take(&mut *diary.0.lock());
    let (failed, renewed): (Vec<_>, Vec<_>) = heard.into_iter().partition(|(.., yes)| !yes);
    let sorted = |mut list: Vec<_>| {
        list.sort();
        // If both share a call, both get the fault.
        list.dedup();
        list
    };
    assert_eq!(sorted(failed), named(false));
    assert_eq!(sorted(renewed), named(true));
    assert_eq!(first.state(), GuardState::Held);

    // A renewal without a response has failed as well; a released lease is not renewed.
    second.release().await.unwrap();
    store.faults.inject("renew", Kind::Hang, ALWAYS);
    pass(TTL).await;
    let heard = std::mem::take(&mut *diary.0.lock());
    assert!(!heard.is_empty());
    assert!(
        heard.iter().all(|entry| *entry == ("k/1".to_owned(), first.generation().get(), false)),
        "{heard:?}"
    );
}
