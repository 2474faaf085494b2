//! Interchangeable keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{
    Busy, BusyReason, Error as StoreError, Key, Phase, Prefix, Query, Status, Tick, Verb, Watch, Watched,
};
use tokio::sync::watch;

use crate::entropy;
use crate::{Error, Guard, Keeper, Result, Terms, limits, telemetry};

/// Numbered keys under one name that are interchangeable. Each is an ordinary lease with its own generations. Clones share
/// the offered numbers.
#[derive(Clone)]
pub struct Slots {
    state: Arc<SlotsState>,
}

struct SlotsState {
    keeper: Keeper,
    name: Key,
    prefix: Prefix,
    /// The numbers that may be acquired. Others may still be held, and drain.
    offered: watch::Sender<BTreeSet<u32>>,
}

/// A held slot.
#[derive(Debug)]
pub struct Slot {
    index: u32,
    guard: Guard,
}

impl Slots {
    /// Slots `name/0` to `name/<size − 1>`.
    pub fn new(keeper: &Keeper, name: Key, size: u32) -> Result<Self> {
        let prefix = Prefix::new(format!("{name}/"))?;
        Self::build(keeper, name, prefix, slot_numbers(size))
    }

    /// Slots whose keys are the prefix followed by the number, as in `lease:tuner:3`.
    pub fn under(keeper: &Keeper, prefix: Prefix, offered: BTreeSet<u32>) -> Result<Self> {
        let name = Key::new(prefix.as_str())?;
        Self::build(keeper, name, prefix, offered)
    }

    fn build(keeper: &Keeper, name: Key, prefix: Prefix, offered: BTreeSet<u32>) -> Result<Self> {
        check(&offered)?;
        let offered = watch::Sender::new(offered);
        let state = SlotsState { keeper: keeper.clone(), name, prefix, offered };
        Ok(Self { state: Arc::new(state) })
    }

    /// Acquires any free slot, waiting for up to `wait`. Begins at a random one, so that callers seldom collide.
    pub async fn take(&self, terms: Terms, wait: Duration) -> Result<Slot> {
        let random = entropy::number(&*self.state.keeper.state().entropy) as usize;
        let first = {
            let offered = self.state.offered.borrow();
            offered.iter().nth(random % offered.len().max(1)).copied().unwrap_or(0)
        };
        self.take_from(first, terms, wait).await
    }

    /// Acquires any free slot, beginning with `first`, waiting for up to `wait`.
    pub async fn take_from(&self, first: u32, terms: Terms, wait: Duration) -> Result<Slot> {
        let keeper = &self.state.keeper;
        keeper.check(&terms)?;
        let end = keeper.clock().now() + wait;
        let mut resized = self.state.offered.subscribe();
        // The watch begins before the first read, so that no release is missed in between.
        let mut events = match wait.is_zero() {
            true => None,
            false => {
                let watch = keeper.store().watch(&self.state.prefix, None);
                keeper.bounded(limits::READ_TIMEOUT, watch).await.ok()
            }
        };
        loop {
            resized.borrow_and_update();
            let (key, busy) = match self.try_take(first, &terms).await? {
                Ok(slot) => return Ok(slot),
                Err(busy) => busy,
            };
            let now = keeper.clock().now();
            if now >= end {
                return Err(Error::Busy { key, busy });
            }
            let fallback = busy.remaining.unwrap_or(terms.ttl.as_duration()).max(terms.back_off(1));
            self.wait(&mut events, &mut resized, end.min(now + fallback)).await;
        }
    }

    /// Offers slots 0 to `size − 1` from now on. Growing wakes waiters. Shrinking evicts no holder: a withdrawn slot is not
    /// granted again.
    pub fn resize(&self, size: u32) -> Result<()> {
        self.offer(slot_numbers(size))
    }

    /// Offers exactly these slots from now on, as [`Slots::resize`] does.
    pub fn offer(&self, offered: BTreeSet<u32>) -> Result<()> {
        check(&offered)?;
        self.state.offered.send_replace(offered);
        Ok(())
    }

    /// The slots that are held, including withdrawn ones.
    pub async fn in_use(&self) -> Result<BTreeMap<u32, Status>> {
        let mut taken = self.taken().await?;
        taken.retain(|_, status| status.phase == Phase::Held);
        telemetry::slots(self.state.name.as_str(), taken.len(), self.state.offered.borrow().len());
        Ok(taken)
    }

    /// Acquires the first free slot from `first` on, or returns the one that becomes free soonest.
    async fn try_take(&self, first: u32, terms: &Terms) -> Result<Result<Slot, (Key, Busy)>> {
        let taken = self.taken().await?;
        let offered = self.state.offered.borrow().clone();
        let mut soonest: Option<(Key, Busy)> = None;
        for index in offered.range(first..).chain(offered.range(..first)).copied() {
            let busy = match taken.get(&index) {
                Some(status) => (status.key.clone(), busy(status)),
                None => match self.claim(index, terms).await {
                    Ok(Some(slot)) => return Ok(Ok(slot)),
                    Ok(None) => continue,
                    Err(Error::Busy { key, busy }) => (key, busy),
                    Err(error) => return Err(error),
                },
            };
            let left = |busy: &Busy| busy.remaining.unwrap_or(Duration::MAX);
            if soonest.as_ref().is_none_or(|(_, best)| left(&busy.1) < left(best)) {
                soonest = Some(busy);
            }
        }
        let none =
            Busy { holder: None, generation: None, remaining: None, position: 1, reason: BusyReason::Held };
        Ok(Err(soonest.unwrap_or((self.state.name.clone(), none))))
    }

    async fn claim(&self, index: u32, terms: &Terms) -> Result<Option<Slot>> {
        let key = match broken(Break::SlotsPerHolder) {
            true => Key::new(format!("{}{index}/{}", self.state.prefix, self.state.keeper.holder()))?,
            false => self.key(index)?,
        };
        let guard = self.state.keeper.try_acquire(key, terms.clone()).await?;
        if self.state.offered.borrow().contains(&index) {
            return Ok(Some(Slot { index, guard }));
        }
        // Withdrawn while it was acquired.
        drop(guard.release().await);
        Ok(None)
    }

    /// Waits for a reason to try again: a slot was released, more are offered, or the time is up.
    async fn wait(
        &self,
        events: &mut Option<Box<dyn Watch>>,
        resized: &mut watch::Receiver<BTreeSet<u32>>,
        until: Tick,
    ) {
        let clock = self.state.keeper.clock();
        tokio::select! {
            biased;
            _ = resized.changed() => {}
            open = next_release(events) => if !open {
                // The timer remains.
                *events = None;
            },
            () = clock.sleep_until(until) => telemetry::wake_up_missed(),
        }
    }

    async fn taken(&self) -> Result<BTreeMap<u32, Status>> {
        let mut taken = BTreeMap::new();
        let mut query = Query::new(self.state.prefix.clone());
        loop {
            let list = self.state.keeper.store().list(&query);
            let page = self.state.keeper.bounded(limits::READ_TIMEOUT, list).await?;
            for status in page.items {
                let number = status.key.as_str().strip_prefix(self.state.prefix.as_str());
                if let Some(index) = number.and_then(|number| number.parse().ok()) {
                    taken.insert(index, status);
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(taken),
            }
        }
    }

    fn key(&self, index: u32) -> Result<Key> {
        Ok(Key::new(format!("{}{index}", self.state.prefix))?)
    }
}

/// Waits until a reign under the prefix ended. Returns false if the watch has failed.
async fn next_release(events: &mut Option<Box<dyn Watch>>) -> bool {
    let Some(events) = events else { return std::future::pending().await };
    loop {
        match events.next().await {
            Ok(Watched::Event(event)) if !matches!(event.verb, Verb::Ended(_)) => {}
            Ok(Watched::Event(_) | Watched::Lagged) => return true,
            Err(_) => return false,
        }
    }
}

fn busy(status: &Status) -> Busy {
    let reason = match status.phase {
        Phase::Held | Phase::Free => BusyReason::Held,
        Phase::Delayed => BusyReason::Delayed,
        Phase::Reserved => BusyReason::Reserved,
    };
    let (holder, generation) = (status.holder.clone(), status.generation);
    Busy { holder, generation, remaining: status.remaining, position: status.waiters + 1, reason }
}

/// The numbers up to `size`; one more than allowed is enough to be refused.
fn slot_numbers(size: u32) -> BTreeSet<u32> {
    (0..size.min(limits::SLOTS + 1)).collect()
}

fn check(offered: &BTreeSet<u32>) -> Result<()> {
    match offered.len() <= limits::SLOTS as usize {
        true => Ok(()),
        false => Err(StoreError::invalid("slots", format!("at most {} are allowed", limits::SLOTS)).into()),
    }
}

impl Slot {
    /// The number of the slot.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The guard, as for a bundle.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl Deref for Slot {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offered = self.state.offered.borrow();
        f.debug_struct("Slots").field("name", &self.state.name).field("offered", &*offered).finish()
    }
}
