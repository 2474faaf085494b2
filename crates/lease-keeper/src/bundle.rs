//! Several keys or none.

use std::time::Duration;

use futures_util::future::{FutureExt, select_all};
use lease::{Deadline, Error as StoreError, Key};

use crate::entropy::Jitter;
use crate::{Error, Guard, Keeper, Lost, NotSafe, Result, Terms, limits};

/// Guards taken in a fixed order, that of their keys, all or none, and given back in reverse.
#[derive(Debug, Default)]
pub struct Bundle {
    guards: Vec<Guard>,
}

impl Bundle {
    /// Takes all keys or none of them, waiting up to `wait` in all. They are taken in the order of the keys, whatever
    /// order they are given in; a key that is given twice is refused.
    ///
    /// Bundles over the same keys so meet at the first of them, where one waits in line for the other. Nobody waits while
    /// holding: when a key after the first is busy, everything is given back in reverse order before the next try.
    pub async fn acquire(keeper: &Keeper, wants: &[(Key, Terms)], wait: Duration) -> Result<Self> {
        let wants = in_order(keeper, wants)?;
        let clock = keeper.clock().clone();
        let end = clock.now() + wait;
        loop {
            let error = match Self::try_all(keeper, &wants, end.since(clock.now())).await {
                Ok(bundle) => return Ok(bundle),
                Err(error) => error,
            };
            let now = clock.now();
            let Error::Busy { key, busy } = &error else { return Err(error) };
            if now >= end {
                return Err(error);
            }
            let terms = wants.iter().find(|(wanted, _)| wanted == key).map(|(_, terms)| terms);
            let pause = terms.map_or(limits::WINDOW, |terms| {
                let most = terms.back_off(u32::MAX);
                busy.remaining.unwrap_or(most).clamp(terms.back_off(1), most)
            });
            // Those who met the same holder at once do not all come back at once.
            let jitter = Jitter::draw(&*keeper.shared().entropy);
            clock.sleep_until(end.min(now + jitter.shorten(pause))).await;
        }
    }

    async fn try_all(keeper: &Keeper, wants: &[&(Key, Terms)], wait: Duration) -> Result<Self> {
        let mut taken = Self::default();
        for (key, terms) in wants {
            let wait = if taken.guards.is_empty() { wait } else { Duration::ZERO };
            match keeper.acquire(key.clone(), terms.clone(), wait).await {
                Ok(guard) => taken.guards.push(guard),
                Err(error) => {
                    // What cannot be given back now is the reaper's.
                    drop(taken.release().await);
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// Takes a guard in as the last one.
    pub fn add(&mut self, guard: Guard) {
        self.guards.push(guard);
    }

    /// The guards, in the order taken: by their keys, then those that were added.
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

    /// Whether an act that takes up to `need` is allowed by every guard.
    pub fn check(&self, need: Duration) -> Result<(), NotSafe> {
        self.guards.iter().try_for_each(|guard| guard.permit(need).map(drop))
    }

    /// Waits for the first loss. An empty bundle has nothing to lose and waits for ever.
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

    /// Gives everything back in reverse order. Goes on after a failure, which the reaper makes good, and
    /// answers the first.
    pub async fn release(mut self) -> Result<()> {
        let mut result = Ok(());
        while let Some(guard) = self.guards.pop() {
            let released = guard.release().await.map(drop);
            result = result.and(released);
        }
        result
    }
}

/// What is wanted, in the one order in which everybody takes it.
fn in_order<'w>(keeper: &Keeper, wants: &'w [(Key, Terms)]) -> Result<Vec<&'w (Key, Terms)>> {
    if wants.is_empty() || wants.len() > limits::BUNDLE {
        let why = format!("{} keys, 1 to {} are allowed", wants.len(), limits::BUNDLE);
        return Err(StoreError::invalid("bundle", why).into());
    }
    wants.iter().try_for_each(|(_, terms)| keeper.check(terms))?;
    let mut wants: Vec<_> = wants.iter().collect();
    wants.sort_unstable_by_key(|(key, _)| key);
    match wants.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(StoreError::invalid("bundle", format!("{} is in it twice", pair[0].0)).into()),
        None => Ok(wants),
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
