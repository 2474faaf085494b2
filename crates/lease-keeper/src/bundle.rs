//! Several keys, all or none.

use std::time::Duration;

use futures_util::future::{FutureExt, select_all};
use tenure_lease::{Deadline, Error as StoreError, Key};

use crate::entropy::Jitter;
use crate::{Error, Guard, Keeper, Lost, PermitError, Result, Terms, limits};

/// Guards acquired in the order of their keys, all or none, and released in reverse.
#[derive(Debug, Default)]
pub struct Bundle {
    guards: Vec<Guard>,
}

impl Bundle {
    /// Acquires all keys or none, waiting up to `wait` in total. Keys are acquired in their order, whatever the order of
    /// the arguments; a duplicate key is refused.
    ///
    /// Bundles over the same keys therefore compete for the first one and queue there. A bundle does not wait while it
    /// holds a key: if a later key is busy, everything is released in reverse order before the next attempt.
    pub async fn acquire(keeper: &Keeper, requests: &[(Key, Terms)], wait: Duration) -> Result<Self> {
        let requests = sort_requests(keeper, requests)?;
        let clock = keeper.clock().clone();
        let end = clock.now() + wait;
        loop {
            let error = match Self::try_all(keeper, &requests, end.since(clock.now())).await {
                Ok(bundle) => return Ok(bundle),
                Err(error) => error,
            };
            let now = clock.now();
            let Error::Busy { key, busy } = &error else { return Err(error) };
            if now >= end {
                return Err(error);
            }
            let terms = requests.iter().find(|(requested, _)| requested == key).map(|(_, terms)| terms);
            let pause = terms.map_or(limits::RENEWAL_WINDOW, |terms| {
                let most = terms.back_off(u32::MAX);
                busy.remaining.unwrap_or(most).clamp(terms.back_off(1), most)
            });
            // Bundles that were blocked by the same holder should not retry all at once.
            let jitter = Jitter::draw(&*keeper.state().entropy);
            clock.sleep_until(end.min(now + jitter.shorten(pause))).await;
        }
    }

    async fn try_all(keeper: &Keeper, requests: &[&(Key, Terms)], wait: Duration) -> Result<Self> {
        let mut taken = Self::default();
        for (key, terms) in requests {
            let wait = if taken.guards.is_empty() { wait } else { Duration::ZERO };
            match keeper.acquire(key.clone(), terms.clone(), wait).await {
                Ok(guard) => taken.guards.push(guard),
                Err(error) => {
                    // The reaper retries failed releases.
                    drop(taken.release().await);
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// Adds a guard as the last one.
    pub fn add(&mut self, guard: Guard) {
        self.guards.push(guard);
    }

    /// The guards in the order of their keys, then those that were added.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of a key.
    pub fn get(&self, key: &Key) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.key() == key)
    }

    /// The earliest deadline; none for an empty bundle.
    pub fn deadline(&self) -> Option<Deadline> {
        self.guards.iter().map(|guard| guard.deadline()).min()
    }

    /// Checks that every guard permits an act that takes up to `need`.
    pub fn check(&self, need: Duration) -> Result<(), PermitError> {
        self.guards.iter().try_for_each(|guard| guard.permit(need).map(drop))
    }

    /// Waits for the first loss. An empty bundle waits for ever.
    pub fn lost(&self) -> impl Future<Output = (Key, Lost)> + Send + 'static {
        let losses: Vec<_> = self
            .guards
            .iter()
            .map(|guard| {
                let (key, lost) = (guard.key().clone(), guard.lost());
                async move { (key, lost.await) }.boxed()
            })
            .collect();
        async move {
            match losses.is_empty() {
                true => std::future::pending().await,
                false => select_all(losses).await.0,
            }
        }
    }

    /// Releases everything in reverse order. Continues after a failure, which the reaper retries, and returns the first
    /// one.
    pub async fn release(mut self) -> Result<()> {
        // All permits end while the first release waits for its own.
        self.guards.iter().for_each(|guard| guard.held_lease().drain(true));
        let mut result = Ok(());
        while let Some(guard) = self.guards.pop() {
            let released = guard.release().await.map(drop);
            result = result.and(released);
        }
        result
    }
}

/// The requests in the order of their keys.
fn sort_requests<'w>(keeper: &Keeper, requests: &'w [(Key, Terms)]) -> Result<Vec<&'w (Key, Terms)>> {
    if requests.is_empty() || requests.len() > limits::BUNDLE {
        let why = format!("{} keys were given, 1 to {} are allowed", requests.len(), limits::BUNDLE);
        return Err(StoreError::invalid("bundle", why).into());
    }
    requests.iter().try_for_each(|(_, terms)| keeper.check(terms))?;
    let mut requests: Vec<_> = requests.iter().collect();
    requests.sort_unstable_by_key(|(key, _)| key);
    match requests.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(StoreError::invalid("bundle", format!("{} is given twice", pair[0].0)).into()),
        None => Ok(requests),
    }
}

impl From<Vec<Guard>> for Bundle {
    fn from(guards: Vec<Guard>) -> Self {
        Self { guards }
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        while let Some(guard) = self.guards.pop() {
            drop(guard);
        }
    }
}
