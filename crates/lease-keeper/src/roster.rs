//! Who is alive.

use std::fmt;
use std::time::Duration;

use lease::{Error as StoreError, Generation, Holder, Key, Meta, Phase, Prefix, Query, Wall, Watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Guard, Keeper, Result, Terms, limits};

/// A place among the living: holds `prefix` + name for as long as it exists, and takes it again when it was
/// lost. Reading the others needs no place: see [`Roster::live`].
pub struct Roster {
    keeper: Keeper,
    prefix: Prefix,
    own: Key,
    /// The longest time without a look, should no event come.
    every: Duration,
    stop: CancellationToken,
    upkeep: Option<JoinHandle<()>>,
}

/// Somebody alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name on the roster.
    pub name: String,
    /// Its process.
    pub holder: Holder,
    /// Its incarnation: a restart under the same name is a new generation.
    pub generation: Generation,
    /// What it says about itself.
    pub meta: Meta,
    /// Since when it is there.
    pub since: Option<Wall>,
}

impl Roster {
    /// Joins under `node`, which nobody else alive may use.
    ///
    /// Waits as long as an earlier incarnation of the node may still count as alive: a restart within the TTL
    /// changes nothing for the others.
    pub async fn join(keeper: &Keeper, prefix: Prefix, node: &str, meta: Meta, terms: Terms) -> Result<Self> {
        if node.is_empty() {
            return Err(StoreError::invalid("node", "must not be empty").into());
        }
        let own = Key::new(format!("{prefix}{node}"))?;
        let terms = terms.meta(meta);
        let guard = keeper.acquire(own.clone(), terms.clone(), earlier_self(&terms)).await?;
        let stop = CancellationToken::new();
        let (every, upkeep) =
            (terms.heartbeat, stay(keeper.clone(), own.clone(), terms, guard, stop.clone()));
        let upkeep = Some(keeper.tasks().spawn(upkeep));
        Ok(Self { keeper: keeper.clone(), prefix, own, every, stop, upkeep })
    }

    /// The own key.
    pub fn key(&self) -> &Key {
        &self.own
    }

    /// Who is alive now, ordered by name.
    pub async fn live(&self) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        let mut query = Query::new(self.prefix.clone());
        loop {
            let page = self.keeper.bounded(limits::LOOK, self.keeper.store().list(&query)).await?;
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

    /// Waits until the living are not those in `seen` any more, and answers who they are. Events wake, and a
    /// look at every heartbeat makes up for those that were lost.
    pub async fn changed(&self, seen: &[Member]) -> Result<Vec<Member>> {
        let watch = self.keeper.store().watch(&self.prefix, None);
        let mut events = self.keeper.bounded(limits::LOOK, watch).await.ok();
        loop {
            let live = self.live().await?;
            if live != seen {
                return Ok(live);
            }
            let next = self.keeper.clock().now() + self.every;
            tokio::select! {
                biased;
                heard = event(&mut events) => if !heard {
                    events = None;
                },
                () = self.keeper.clock().sleep_until(next) => {}
            }
        }
    }

    /// Waits until nobody came or went for `quiet`, and answers who is alive. Acting on each of many changes
    /// would move work that moves again.
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

    /// Leaves at once: the others see it without waiting for the TTL.
    pub async fn leave(mut self) {
        self.stop.cancel();
        if let Some(upkeep) = self.upkeep.take() {
            // It ends by the token; were it to panic, its guard is the reaper's.
            drop(upkeep.await);
        }
    }
}

fn earlier_self(terms: &Terms) -> Duration {
    terms.ttl.as_duration() + terms.patience()
}

/// Keeps the place until told to leave.
async fn stay(keeper: Keeper, own: Key, terms: Terms, mut guard: Guard, stop: CancellationToken) {
    loop {
        let lost = tokio::select! {
            biased;
            () = stop.cancelled() => return drop(guard.release().await),
            lost = guard.lost() => lost,
        };
        drop(guard);
        tracing::warn!(target: "tenure::ownership", key = %own, reason = lost.as_str(), "off the roster, joining again");
        guard = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            again = rejoin(&keeper, &own, &terms) => again,
        };
    }
}

async fn rejoin(keeper: &Keeper, own: &Key, terms: &Terms) -> Guard {
    for failures in 1.. {
        match keeper.acquire(own.clone(), terms.clone(), earlier_self(terms)).await {
            Ok(guard) => return guard,
            Err(error) => {
                tracing::warn!(target: "tenure::ownership", key = %own, %error, "cannot join again yet")
            }
        }
        keeper.clock().sleep_until(keeper.clock().now() + terms.back_off(failures)).await;
    }
    std::future::pending().await
}

/// Waits for an event. False when the watch is of no use any more.
async fn event(events: &mut Option<Box<dyn Watch>>) -> bool {
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
