//! What is looked at every few seconds: the truth about tuners, and what only time brings.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use lease::{Motive, Revoke, Tick};
use session::{Event, Reason, Session, SessionId, State, UnixMs};

use crate::desk::{Broken, Entry};
use crate::orchestrator::Handle;
use crate::reconcile::{self, Episodes, Truth, Violation};
use crate::world::World;
use crate::{folder, keys, leftovers, metric, recovery, scan};

/// What is remembered from look to look.
#[derive(Default)]
pub(crate) struct Round {
    episodes: Episodes,
    /// When somebody was last seen to watch each session, as the door said it, and since when it says so. Only the change
    /// counts: the door's clock may be another one.
    watched: HashMap<SessionId, (Option<UnixMs>, Tick)>,
    /// Since when a session is stopping.
    stopping: HashMap<SessionId, Tick>,
    /// Sessions that run and that nobody of us runs, as of the last look.
    orphans: HashSet<SessionId>,
}

impl Round {
    /// Everything that time brings, in bounded steps. `sessions` are those that are not over.
    pub(crate) async fn sweep(
        &mut self,
        world: &World,
        handles: &HashMap<SessionId, Handle>,
        sessions: &[Entry],
    ) -> Result<(), Broken> {
        self.judge(world, handles, sessions).await?;
        self.end_idle(world, handles, sessions).await?;
        self.end_stuck(world, handles, sessions);
        self.fail_orphans(world, handles, sessions).await?;
        release_ended(world, handles, sessions).await?;
        offer_again(world).await;
        remove_folders(world, handles, sessions).await;
        Ok(())
    }

    /// Compares claims with leases now.
    pub(crate) async fn judge(
        &mut self,
        world: &World,
        handles: &HashMap<SessionId, Handle>,
        sessions: &[Entry],
    ) -> Result<(), Broken> {
        let holders = holders(world).await?;
        let settled = |session: &&Session| {
            handles.get(&session.id).is_none_or(|handle| !handle.ending.load(Ordering::Acquire))
        };
        let all = || sessions.iter().map(|entry| &entry.session);
        let Truth { in_use, .. } = reconcile::judge(all(), &holders);
        let Truth { violations, .. } = reconcile::judge(all().filter(settled), &holders);
        metric::tuners_in_use(in_use);
        metric::sessions_active(sessions.len());
        let mut proven = std::collections::BTreeSet::new();
        for violation in violations {
            // The two looks were not one: what is wrong is wrong at a second look too.
            if still_claims(world, handles, &violation).await? {
                proven.insert(violation);
            }
        }
        for (session, slot, rule) in self.episodes.begin(proven) {
            metric::violated(rule.word());
            tracing::warn!(target: metric::TARGET, %session, slot, rule = rule.word(), "a claim on a tuner is not true");
        }
        Ok(())
    }

    /// Ends sessions that nobody watches.
    async fn end_idle(
        &mut self,
        world: &World,
        handles: &HashMap<SessionId, Handle>,
        sessions: &[Entry],
    ) -> Result<(), Broken> {
        let seen = scan::seen(world).await?;
        let now = world.clock.now();
        self.watched.retain(|id, _| handles.contains_key(id));
        let watchable = |state| matches!(state, State::Ready | State::Draining);
        for Entry { session, .. } in sessions.iter().filter(|entry| watchable(entry.session.state)) {
            let Some(handle) = handles.get(&session.id) else { continue };
            let said = seen.get(&session.id).copied();
            let (before, since) = self.watched.entry(session.id.clone()).or_insert((said, now));
            if *before != said {
                (*before, *since) = (said, now);
            } else if now.since(*since) >= world.options.idle() && handle.stop(Reason::IdleTimeout, false) {
                metric::expired(session.state);
            }
        }
        Ok(())
    }

    /// Sweeps away what hangs while stopping.
    fn end_stuck(&mut self, world: &World, handles: &HashMap<SessionId, Handle>, sessions: &[Entry]) {
        let now = world.clock.now();
        let stopping: HashSet<_> = sessions
            .iter()
            .filter(|entry| entry.session.state == State::Stopping)
            .map(|entry| entry.session.id.clone())
            .collect();
        self.stopping.retain(|id, _| stopping.contains(id));
        for id in stopping {
            let since = *self.stopping.entry(id.clone()).or_insert(now);
            if now.since(since) >= world.options.stuck_timeout
                && let Some(handle) = handles.get(&id)
            {
                handle.orders.send_modify(|orders| (orders.kill, orders.force) = (true, true));
            }
        }
    }

    /// Fails what claims to run and that nobody runs, at the second look: the first may have met its last moment.
    async fn fail_orphans(
        &mut self,
        world: &World,
        handles: &HashMap<SessionId, Handle>,
        sessions: &[Entry],
    ) -> Result<(), Broken> {
        let before = std::mem::take(&mut self.orphans);
        for entry in sessions.iter().filter(|entry| !handles.contains_key(&entry.session.id)) {
            if recovery::event(entry.session.state).is_none() {
                continue;
            }
            if !before.contains(&entry.session.id) {
                self.orphans.insert(entry.session.id.clone());
                continue;
            }
            // Also half-way through its start: starting it again may end the same way.
            recovery::recover(world, &mut entry.clone(), Event::Fail).await?;
        }
        Ok(())
    }
}

/// Who holds which tuner.
async fn holders(world: &World) -> Result<BTreeMap<u32, String>, Broken> {
    let held = scan::held(world, keys::TUNER).await?;
    let holder =
        |status: &lease::Status| Some((keys::slot_in(&status.key)?, status.holder.as_ref()?.to_string()));
    Ok(held.iter().filter_map(holder).collect())
}

/// Whether a violation is still one: the lease is looked at first, so that a session that gives it back meanwhile has said
/// so by the second look.
async fn still_claims(
    world: &World,
    handles: &HashMap<SessionId, Handle>,
    (id, slot, rule): &Violation,
) -> Result<bool, Broken> {
    let key = lease::Key::new(format!("{}{slot}", keys::TUNER))
        .map_err(|error| Broken::Store(error.to_string()))?;
    let status = world.ask(world.store.inspect(&key)).await?;
    let holds = status.phase == lease::Phase::Held
        && status.holder.is_some_and(|holder| holder.as_str() == id.as_str());
    let claims = scan::one(world, id)
        .await?
        .is_some_and(|entry| entry.session.slot == Some(*slot) && entry.session.state.may_hold());
    let ending = handles.get(id).is_some_and(|handle| handle.ending.load(Ordering::Acquire));
    Ok(claims && !ending && (!holds || *rule == reconcile::Rule::DuplicateSlotClaim))
}

/// Ends the leases of sessions that are over, should any be left.
async fn release_ended(
    world: &World,
    handles: &HashMap<SessionId, Handle>,
    sessions: &[Entry],
) -> Result<(), Broken> {
    let live: HashSet<&str> = sessions.iter().map(|entry| entry.session.id.as_str()).collect();
    for prefix in keys::WIPED {
        for status in scan::held(world, prefix).await? {
            let (Some(holder), Some(generation)) = (&status.holder, status.generation) else { continue };
            let Ok(id) = SessionId::new(holder.as_str()) else { continue };
            if live.contains(holder.as_str()) || handles.contains_key(&id) {
                continue;
            }
            // Not known as one that lives: what the record says decides.
            if scan::one(world, &id).await?.is_none_or(|entry| !entry.session.state.is_terminal()) {
                continue;
            }
            let (key, reason) = (status.key.clone(), Motive::new("its session is over").unwrap_or_default());
            world
                .ask(world.store.revoke(Revoke { key, generation, delay: Some(Duration::ZERO), reason }))
                .await?;
            tracing::warn!(target: metric::TARGET, key = %status.key, %holder, "a lease of a session that is over was ended");
        }
    }
    Ok(())
}

/// Offers tuners again on which nothing runs any more.
pub(crate) async fn offer_again(world: &World) {
    for (slot, id) in world.withheld() {
        let whom = id.clone();
        let looked = tokio::task::spawn_blocking(move || {
            leftovers::kill(&whom);
            leftovers::is_gone(&whom)
        });
        if looked.await.unwrap_or(false) {
            world.give_out(slot, &id);
        }
    }
}

/// Removes folders of sessions that are over or that nobody knows.
async fn remove_folders(world: &World, handles: &HashMap<SessionId, Handle>, sessions: &[Entry]) {
    let mut kept: HashSet<SessionId> = sessions.iter().map(|entry| entry.session.id.clone()).collect();
    kept.extend(handles.keys().cloned());
    let root = world.options.output_dir.clone();
    let removed = tokio::task::spawn_blocking(move || {
        for id in folder::all(&root).into_iter().filter(|id| !kept.contains(id)) {
            match folder::remove(&folder::of(&root, &id)) {
                Ok(()) => {
                    tracing::info!(target: metric::TARGET, session = %id, "a folder that nobody needs was removed")
                }
                Err(error) => {
                    tracing::warn!(target: metric::TARGET, session = %id, %error, "a folder could not be removed")
                }
            }
        }
    });
    if removed.await.is_err() {
        tracing::warn!(target: metric::TARGET, "folders could not be looked at");
    }
}
