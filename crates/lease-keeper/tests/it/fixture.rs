//! The fixture of the tests: a fake store, its clock, and keepers that share both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_keeper::{Builder, Guard, Keeper, Terms};
use tenure_lease::{Clock, Entropy, Holder, Key, Prefix, Ttl};
use tenure_store::TokioClock;

use crate::fake::FakeStore;

/// The TTL of most tests: due at 5 s, overdue at 10 s, deadline at 14.55 s, grace until 29.55 s.
pub(crate) const TTL: u64 = 15_000;
pub(crate) const DEADLINE: u64 = 14_550;

pub(crate) struct Fixture {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) keeper: Keeper,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TokioClock::default());
        let store = Arc::new(FakeStore::new(clock.clone()));
        let keeper = build(&store, "a").build();
        Self { clock, store, keeper }
    }

    /// Another process on the same store.
    pub(crate) fn other(&self, name: &str) -> Keeper {
        build(&self.store, name).build()
    }

    pub(crate) async fn take(&self, name: &str, terms: Terms) -> Guard {
        self.keeper.try_acquire(key(name), terms).await.unwrap()
    }

    /// Lets time pass, with every timer firing when it should.
    pub(crate) async fn pass(&self, millis: u64) {
        self.clock.sleep_until(self.clock.now() + ms(millis)).await;
    }

    /// Moves the clock without letting any timer fire: a suspended machine.
    pub(crate) fn suspend(&self, millis: u64) {
        self.clock.step(ms(millis));
    }
}

pub(crate) fn build(store: &Arc<FakeStore>, name: &str) -> Builder {
    let store: Arc<dyn tenure_lease::Store> = store.clone();
    Keeper::builder(store, holder(name)).entropy(Arc::new(Numbers::default()))
}

/// Numbers that differ from each other and are the same in every run.
pub(crate) struct Numbers(AtomicU64);

impl Default for Numbers {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(AtomicU64::new(NEXT.fetch_add(1, Ordering::Relaxed) << 32))
    }
}

impl Entropy for Numbers {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let n = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let n = (n ^ (n >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            chunk.copy_from_slice(&n.to_le_bytes()[..chunk.len()]);
        }
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn prefix(text: &str) -> Prefix {
    Prefix::new(text).unwrap()
}

pub(crate) fn holder(name: &str) -> Holder {
    Holder::new(name).unwrap()
}

pub(crate) fn terms() -> Terms {
    Terms::new(Ttl::from_millis(TTL).unwrap())
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
