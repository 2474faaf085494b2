//! Waiting without depending on speed.

use std::future::Future;
use std::time::Duration;

use tenure_lease::{Key, Phase, Renewed, Tick, Ttl};

use super::{Harness, HeldLease, expect_renewals};

/// How long a condition may take. Shorter than the long TTL, so that an expiry cannot pass for a wake-up.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The interval at which a condition is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// What rounding to milliseconds on both sides may hide.
pub(crate) const ROUNDING: Duration = Duration::from_millis(30);

/// When something ends, as precisely as responses allow: between two ticks of the test's clock.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Not before.
    pub earliest: Tick,
    /// Not after.
    pub latest: Tick,
}

impl Harness {
    /// Now on the clock of the test.
    pub fn now(&self) -> Tick {
        self.clock().now()
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        self.clock().sleep_until(self.now() + time).await;
    }

    /// Lets a TTL that started before now expire, without calling the store.
    pub async fn outlive(&self, ttl: Ttl) {
        self.pass(ttl.as_duration() + ROUNDING).await;
    }

    /// Waits for an answer that must come.
    pub async fn within<T>(&self, what: &str, answer: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.clock().sleep_until(self.now() + TIMEOUT) => panic!("{what}: not within {TIMEOUT:?}"),
        }
    }

    /// Waits until a condition holds.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        self.within(what, async {
            while !holds().await {
                self.pass(CHECK_INTERVAL).await;
            }
        })
        .await;
    }

    /// Waits until so many claims are parked on a key.
    pub async fn until_parked(&self, key: &Key, count: u32) {
        self.until(&format!("{count} claims are parked"), || async {
            self.inspect(key).await.waiters == count
        })
        .await;
    }

    /// Waits until a key is free.
    pub async fn until_free(&self, key: &Key) {
        self.until("the key is free", || async { self.inspect(key).await.phase == Phase::Free }).await;
    }

    /// Shortens a lease and lets it expire, without calling the store after that.
    pub async fn expire(&self, held: &HeldLease) {
        let items = [held.renewal(Some(self.ttl()))];
        let answers = expect_renewals(self.store().renew(&items).await);
        assert!(matches!(answers[..], [Renewed::Renewed { .. }]), "a live lease is shortened: {answers:?}");
        self.outlive(self.ttl()).await;
    }

    /// When the present phase of a key ends.
    pub async fn ends(&self, key: &Key) -> Span {
        let asked = self.now();
        let status = self.inspect(key).await;
        match status.remaining {
            Some(left) => self.span(asked, left),
            None => panic!("nothing expires: {status:?}"),
        }
    }

    /// When that ends of which so much was left between `asked` and now.
    pub fn span(&self, asked: Tick, left: Duration) -> Span {
        Span { earliest: asked + left, latest: self.now() + left }
    }
}

impl Span {
    /// Asserts that the end was put off to a full `ttl` after `sent`.
    #[track_caller]
    pub fn assert_after(self, sent: Tick, ttl: Duration) {
        assert!(self.latest + ROUNDING >= sent + ttl, "{self:?} is before {sent:?} and {ttl:?}");
    }

    /// Asserts that the end is at most `ttl` after `answered`.
    #[track_caller]
    pub fn assert_before(self, answered: Tick, ttl: Duration) {
        assert!(self.earliest <= answered + ttl + ROUNDING, "{self:?} is after {answered:?} and {ttl:?}");
    }
}
