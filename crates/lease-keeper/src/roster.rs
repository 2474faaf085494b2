//! Live members.

use std::fmt;
use std::time::Duration;

use tenure_lease::{Error as StoreError, Generation, Holder, Key, Meta, Phase, Prefix, Query, Wall, Watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Guard, Keeper, Result, Terms, limits};

/// Membership of this process: holds the key `prefix` + name while it exists, and acquires it again after a loss.
/// [`Roster::live`] lists all members.
pub struct Roster {
    keeper: Keeper,
    prefix: Prefix,
    own: Key,
    /// The longest time between two reads if no event arrives.
    refresh_interval: Duration,
    stop: CancellationToken,
    upkeep: Option<JoinHandle<()>>,
}

/// A live member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name on the roster.
    pub name: String,
    /// Its holder name.
    pub holder: Holder,
    /// Its incarnation: a restart under the same name is a new generation.
    pub generation: Generation,
    /// Its description.
    pub meta: Meta,
    /// When it joined.
    pub since: Option<Wall>,
}

impl Roster {
    /// Joins under `node`, which must be unique among live members.
    ///
    /// Waits while an earlier incarnation of the node may count as live: to other members a restart within the TTL is no
    /// change.
    pub async fn join(keeper: &Keeper, prefix: Prefix, node: &str, meta: Meta, terms: Terms) -> Result<Self> {
        if node.is_empty() {
            return Err(StoreError::invalid("node", "must not be empty").into());
        }
        let own = Key::new(format!("{prefix}{node}"))?;
        let terms = terms.meta(meta);
        let guard = keeper.acquire(own.clone(), terms.clone(), predecessor_timeout(&terms)).await?;
        let stop = CancellationToken::new();
        let (refresh_interval, upkeep) =
            (terms.heartbeat, maintain(keeper.clone(), own.clone(), terms, guard, stop.clone()));
        let upkeep = Some(keeper.tasks().spawn(upkeep));
        Ok(Self { keeper: keeper.clone(), prefix, own, refresh_interval, stop, upkeep })
    }

    /// The key of this member.
    pub fn key(&self) -> &Key {
        &self.own
    }

    /// The live members, ordered by name.
    pub async fn live(&self) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        let mut query = Query::new(self.prefix.clone());
        loop {
            let page = self.keeper.bounded(limits::READ_TIMEOUT, self.keeper.store().list(&query)).await?;
            for status in page.items {
                let name = status.key.as_str().strip_prefix(self.prefix.as_str());
                if let (Phase::Held, Some(name), Some(holder), Some(generation)) =
                    (status.phase, name, status.holder, status.generation)
                {
                    let (name, meta, since) = (name.to_owned(), status.meta, status.since);
                    members.push(Member { name, holder, generation, meta, since });
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(members),
            }
        }
    }

    /// Waits until the live members differ from `seen`, and returns them. Reads on events, and once per heartbeat in case
    /// events were lost.
    pub async fn changed(&self, seen: &[Member]) -> Result<Vec<Member>> {
        let watch = self.keeper.store().watch(&self.prefix, None);
        let mut events = self.keeper.bounded(limits::READ_TIMEOUT, watch).await.ok();
        loop {
            let live = self.live().await?;
            if live != seen {
                return Ok(live);
            }
            let next = self.keeper.clock().now() + self.refresh_interval;
            tokio::select! {
                biased;
                open = next_event(&mut events) => if !open {
                    events = None;
                },
                () = self.keeper.clock().sleep_until(next) => {}
            }
        }
    }

    /// Waits until the members did not change for `quiet`, and returns them. Acting on each of many changes would move the
    /// same work repeatedly.
    pub async fn settle(&self, quiet: Duration) -> Result<Vec<Member>> {
        let clock = self.keeper.clock();
        let mut live = self.live().await?;
        loop {
            let until = clock.now() + quiet;
            tokio::select! {
                biased;
                changed = self.changed(&live) => live = changed?,
                () = clock.sleep_until(until) => return Ok(live),
            }
        }
    }

    /// Leaves at once, without waiting for the TTL.
    pub async fn leave(mut self) {
        self.stop.cancel();
        if let Some(upkeep) = self.upkeep.take() {
            // It ends by the cancellation. If it panicked, the reaper releases its guard.
            drop(upkeep.await);
        }
    }
}

fn predecessor_timeout(terms: &Terms) -> Duration {
    terms.ttl.as_duration() + terms.call_timeout()
}

/// Keeps the membership until it is cancelled.
async fn maintain(keeper: Keeper, own: Key, terms: Terms, mut guard: Guard, stop: CancellationToken) {
    loop {
        let lost = tokio::select! {
            biased;
            () = stop.cancelled() => return drop(guard.release().await),
            lost = guard.lost() => lost,
        };
        drop(guard);
        tracing::warn!(target: "tenure::ownership", key = %own, reason = lost.as_str(), "lost the roster key, joining again");
        guard = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            again = rejoin(&keeper, &own, &terms) => again,
        };
    }
}

async fn rejoin(keeper: &Keeper, own: &Key, terms: &Terms) -> Guard {
    for failures in 1.. {
        match keeper.acquire(own.clone(), terms.clone(), predecessor_timeout(terms)).await {
            Ok(guard) => return guard,
            Err(error) => {
                tracing::warn!(target: "tenure::ownership", key = %own, %error, "cannot rejoin the roster yet")
            }
        }
        keeper.clock().sleep_until(keeper.clock().now() + terms.back_off(failures)).await;
    }
    std::future::pending().await
}

/// Waits for an event. Returns false if the watch has failed.
async fn next_event(events: &mut Option<Box<dyn Watch>>) -> bool {
    match events {
        Some(events) => events.next().await.is_ok(),
        None => std::future::pending().await,
    }
}

impl Drop for Roster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").field("own", &self.own).finish_non_exhaustive()
    }
}
