//! What every session of a worker shares.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lease::{Clock, Store};
use lease_keeper::{Held, Keeper, Lost, Slots};
use parking_lot::Mutex;
use session::{SessionId, UnixMs};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::desk::Broken;
use crate::launch::{Launcher, Times};
use crate::pattern::Projector;
use crate::{Options, limits};

/// The surroundings of a session.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keeper: Keeper,
    /// The guard of the house, without the power to end it.
    pub(crate) guard: Held,
    pub(crate) loss: Loss,
    pub(crate) options: Options,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) slots: Slots,
    pub(crate) projector: Projector,
    /// Places among those that are being started.
    pub(crate) starts: Arc<Semaphore>,
    /// Places among those that are being stopped.
    pub(crate) stops: Arc<Semaphore>,
    /// Tuners on which something of an ended session may still run.
    withheld: Mutex<BTreeSet<(u32, SessionId)>>,
}

/// Whether the guard is lost. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Loss {
    said: CancellationToken,
    how: Arc<OnceLock<Lost>>,
}

impl Loss {
    /// Tells everybody; the first reason counts.
    pub(crate) fn tell(&self, lost: Lost) {
        let _first = self.how.set(lost);
        self.said.cancel();
    }

    pub(crate) async fn told(&self) -> Lost {
        self.said.cancelled().await;
        self.how.get().copied().unwrap_or(Lost::Unconfirmed)
    }

    pub(crate) fn is_told(&self) -> bool {
        self.said.is_cancelled()
    }
}

impl World {
    #[expect(clippy::too_many_arguments, reason = "called once, by the start of a worker")]
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keeper: Keeper,
        guard: Held,
        loss: Loss,
        options: Options,
        launcher: Arc<dyn Launcher>,
        slots: Slots,
        projector: Projector,
    ) -> Self {
        let (starts, stops) = (Semaphore::new(options.starts), Semaphore::new(options.stops));
        Self {
            clock: store.clock(),
            store,
            keeper,
            guard,
            loss,
            options,
            launcher,
            slots,
            projector,
            starts: Arc::new(starts),
            stops: Arc::new(stops),
            withheld: Mutex::default(),
        }
    }

    /// Now, for records.
    pub(crate) fn wall(&self) -> UnixMs {
        UnixMs(self.clock.wall().as_millis())
    }

    /// A question to the store: bounded, and over when the guard is.
    pub(crate) async fn ask<T>(&self, question: impl Future<Output = lease::Result<T>>) -> Result<T, Broken> {
        let give_up = self.clock.sleep_until(self.clock.now() + limits::ASK);
        tokio::select! {
            biased;
            _ = self.loss.told() => Err(Broken::GuardLost),
            answer = question => answer.map_err(|error| Broken::Store(error.to_string())),
            () = give_up => Err(Broken::Store("no answer in time".to_owned())),
        }
    }

    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    /// When a pipeline under these leases must be gone: before the first of them can be somebody else's, and before
    /// the guard can.
    pub(crate) fn times(&self, deadline: Option<lease::Deadline>) -> Times {
        let guard = self.guard.deadline();
        let deadline = deadline.map_or(guard, |deadline| deadline.min(guard));
        let shortest = self.options.lease_ttl.min(self.options.guard_ttl);
        let ttl = lease::Ttl::from_millis(shortest.as_millis() as u64).unwrap_or(self.guard.lease().ttl);
        Times::of(deadline, ttl)
    }

    /// Keeps a tuner out until nothing runs for a session that had it.
    pub(crate) fn withhold(&self, slot: u32, id: &SessionId) {
        self.withheld.lock().insert((slot, id.clone()));
        self.offer();
        tracing::error!(target: crate::metric::TARGET, session = %id, slot, "a tuner is kept out: something of the session still runs");
    }

    /// Tuners that are kept out, and whom for; one tuner may be so for several.
    pub(crate) fn withheld(&self) -> Vec<(u32, SessionId)> {
        self.withheld.lock().iter().cloned().collect()
    }

    /// Nothing runs for a session any more: the tuner is offered again, unless something of another one does.
    pub(crate) fn give_out(&self, slot: u32, id: &SessionId) {
        let mut withheld = self.withheld.lock();
        withheld.remove(&(slot, id.clone()));
        let free = withheld.iter().all(|(other, _)| *other != slot);
        drop(withheld);
        if free {
            self.offer();
            tracing::info!(target: crate::metric::TARGET, slot, "a tuner is offered again");
        }
    }

    fn offer(&self) {
        let withheld = self.withheld.lock();
        let out: BTreeSet<u32> = withheld.iter().map(|(slot, _)| *slot).collect();
        let offered: BTreeSet<u32> = self.options.slots.difference(&out).copied().collect();
        // Fewer than there were at the start, so they are not too many.
        drop(self.slots.offer(offered));
    }
}
