//! A hash map behind a lock: the lower bound for the cost of a renewal.

use std::collections::HashMap;

use anyhow::{Result, bail};
use parking_lot::Mutex;
use tenure_lease::{Clock, Digest, Generation, Key, Renewal, Tick};
use tenure_store::BootClock;

use crate::callers::Batches;
use crate::clock::Until;

const TTL: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Keys with holder and expiry. No order, no timers, no waiters, no disk.
pub(crate) struct Map(Mutex<HashMap<Key, Held>>);

struct Held {
    digest: Digest,
    generation: Generation,
    expires: Tick,
}

impl Map {
    pub(crate) fn holding(items: &[Renewal]) -> Self {
        let expires = BootClock.now() + TTL;
        let held = |item: &Renewal| {
            let (digest, generation) = (*item.token.digest(), item.generation);
            (item.key.clone(), Held { digest, generation, expires })
        };
        Self(Mutex::new(items.iter().map(held).collect()))
    }

    /// Renews until the slice is over; a batch takes the lock once and reads the clock once.
    pub(crate) fn renewals(&self, all: &[Renewal], batch: &Batches, until: Until) -> Result<u64> {
        let mut done = 0;
        while (batch.size == 1 && done % 16 != 0) || !until.over() {
            let items = batch.next(all);
            let now = BootClock.now();
            let mut map = self.0.lock();
            for item in items {
                match map.get_mut(&item.key) {
                    Some(held)
                        if now < held.expires
                            && held.generation == item.generation
                            && held.digest == *item.token.digest() =>
                    {
                        held.expires = now + TTL;
                    }
                    _ => bail!("{} was lost", item.key),
                }
            }
            done += items.len() as u64;
        }
        Ok(done)
    }
}
