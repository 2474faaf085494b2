//! Concurrent callers, and the work of each.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use tenure_lease::{Acquired, Claim, Holder, Key, Release, Released, Renewal, Token, Ttl};
use tenure_store::{OsEntropy, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::clock::Until;

/// The number of concurrent callers.
pub(crate) const CALLERS: usize = 128;

/// Runs `count` callers until the slice is over and sums their operations.
pub(crate) fn together<F, C>(runtime: &Runtime, count: usize, slice: Duration, caller: F) -> Result<u64>
where
    F: Fn(usize, Until) -> C,
    C: Future<Output = Result<u64>> + Send + 'static,
{
    let until = Until::after(slice);
    let mut tasks = JoinSet::new();
    for me in 0..count {
        tasks.spawn_on(caller(me, until), runtime.handle());
    }
    runtime.block_on(async {
        let mut done = 0;
        while let Some(ended) = tasks.join_next().await {
            done += ended??;
        }
        Ok(done)
    })
}

/// Acquires and releases its own key until the slice is over.
pub(crate) async fn cycles(store: Store, me: usize, until: Until) -> Result<u64> {
    let (key, holder) = (Key::new(format!("cycle/{me}"))?, Holder::new(format!("caller-{me}"))?);
    let ttl = Ttl::from_secs(30)?;
    let mut done = 0;
    while !until.over() {
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(key.clone(), holder.clone(), token.clone(), ttl);
        if let Acquired::Busy(busy) = store.acquire(claim).await? {
            bail!("{key} is busy: {busy:?}");
        }
        if store.release(Release::new(key.clone(), token)).await? != Released::Released {
            bail!("{key} was not held");
        }
        done += 1;
    }
    Ok(done)
}

/// Acquires `count` leases and returns a renewal for each.
pub(crate) async fn acquire_all(store: &Store, name: &str, count: usize, ttl: Ttl) -> Result<Vec<Renewal>> {
    let holder = Holder::new("renewer")?;
    let mut held = Vec::with_capacity(count);
    let wave = 1_000;
    for start in (0..count).step_by(wave) {
        let asks = (start..count.min(start + wave)).map(|i| {
            let holder = holder.clone();
            async move {
                let token = Token::random(&OsEntropy);
                let key = Key::new(format!("{name}/{i}"))?;
                let claim = Claim::new(key, holder, token.clone(), ttl);
                match store.acquire(claim).await? {
                    Acquired::Granted(grant) => Ok(renewal(grant.lease.key, token, grant.lease.generation)),
                    Acquired::Busy(busy) => bail!("{name}/{i} is busy: {busy:?}"),
                }
            }
        });
        held.extend(futures_util::future::try_join_all(asks).await?);
    }
    Ok(held)
}

pub(crate) fn renewal(key: Key, token: Token, generation: tenure_lease::Generation) -> Renewal {
    Renewal { key, token, generation, ttl: None }
}

/// Renews the leases in batches, over and over, until the slice is over.
pub(crate) async fn renewals(store: &Store, held: &[Renewal], batch: &Batches, until: Until) -> Result<u64> {
    let mut done = 0;
    // Reading the clock costs a tenth of a single renewal, so it is not read for every renewal.
    while (batch.size == 1 && done % 16 != 0) || !until.over() {
        let items = batch.next(held);
        for (answer, item) in store.renew(items).await?.into_iter().zip(items) {
            if let tenure_lease::Renewed::Lost(end) = answer? {
                bail!("{} was lost: {end}", item.key);
            }
        }
        done += items.len() as u64;
    }
    Ok(done)
}

/// The position of a caller in its items. The next slice continues there, so that all items are used.
pub(crate) struct Batches {
    pub(crate) size: usize,
    at: AtomicUsize,
}

impl Batches {
    pub(crate) fn of(size: usize) -> Self {
        Self { size, at: AtomicUsize::new(0) }
    }

    pub(crate) fn next<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let start = self.at.load(Ordering::Relaxed);
        let end = items.len().min(start + self.size);
        self.at.store(if end == items.len() { 0 } else { end }, Ordering::Relaxed);
        &items[start..end]
    }
}

/// The items in a fixed pseudo-random order, unrelated to their order in memory.
pub(crate) fn shuffled<T>(mut items: Vec<T>) -> Vec<T> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(i, (state % (i as u64 + 1)) as usize);
    }
    items
}
