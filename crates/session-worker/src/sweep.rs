//! The periodic sweep: reconciles tuner claims with leases and ends sessions whose time has passed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_lease::{Revoke, RevokeReason, Tick};
use tenure_session::{Reason, Session, SessionEvent, SessionId, SessionState, UnixMs};

use crate::orchestrator::SessionHandle;
use crate::reconcile::{self, Reconciliation, Violation, ViolationTracker};
use crate::record::{SessionError, SessionRecord};
use crate::state::WorkerState;
use crate::{keys, orphan_processes, output_dir, recovery, scan, telemetry};

/// The state kept between sweeps.
#[derive(Default)]
pub(crate) struct Sweeper {
    violations_seen: ViolationTracker,
    /// The last access time that the API recorded for each session, and since when it has that value. Only changes of the
    /// value matter, because the API may run on another clock.
    watched: HashMap<SessionId, (Option<UnixMs>, Tick)>,
    /// Since when each session is in STOPPING.
    stopping: HashMap<SessionId, Tick>,
    /// Sessions in a running state without a task, as of the last sweep.
    orphans: HashSet<SessionId>,
}

impl Sweeper {
    /// Runs one sweep over the active `sessions`.
    pub(crate) async fn sweep(
        &mut self,
        worker: &WorkerState,
        handles: &HashMap<SessionId, SessionHandle>,
        sessions: &[SessionRecord],
    ) -> Result<(), SessionError> {
        self.reconcile(worker, handles, sessions).await?;
        self.end_idle(worker, handles, sessions).await?;
        self.end_stuck(worker, handles, sessions);
        self.fail_orphans(worker, handles, sessions).await?;
        release_ended(worker, handles, sessions).await?;
        restore_withheld_slots(worker).await;
        remove_output_dirs(worker, handles, sessions).await;
        Ok(())
    }

    /// Compares claims with leases.
    pub(crate) async fn reconcile(
        &mut self,
        worker: &WorkerState,
        handles: &HashMap<SessionId, SessionHandle>,
        sessions: &[SessionRecord],
    ) -> Result<(), SessionError> {
        let holders = holders(worker).await?;
        let settled = |session: &&Session| {
            handles.get(&session.id).is_none_or(|handle| !handle.ending.load(Ordering::Acquire))
        };
        let all = || sessions.iter().map(|entry| &entry.session);
        let Reconciliation { in_use, .. } = reconcile::compare_claims(all(), &holders);
        let Reconciliation { violations, .. } = reconcile::compare_claims(all().filter(settled), &holders);
        telemetry::tuners_in_use(in_use);
        telemetry::sessions_active(sessions.len());
        let mut proven = std::collections::BTreeSet::new();
        for violation in violations {
            // Sessions and leases were not read atomically, so a violation must persist in a second read.
            if is_still_violated(worker, handles, &violation).await? {
                proven.insert(violation);
            }
        }
        for (session, slot, rule) in self.violations_seen.update(proven) {
            telemetry::violated(rule.as_str());
            tracing::warn!(target: telemetry::TARGET, %session, slot, rule = rule.as_str(), "tuner claim does not match its lease");
        }
        Ok(())
    }

    /// Stops sessions without a viewer.
    async fn end_idle(
        &mut self,
        worker: &WorkerState,
        handles: &HashMap<SessionId, SessionHandle>,
        sessions: &[SessionRecord],
    ) -> Result<(), SessionError> {
        let seen = scan::read_last_seen(worker).await?;
        let now = worker.clock.now();
        self.watched.retain(|id, _| handles.contains_key(id));
        let watchable = |state| matches!(state, SessionState::Ready | SessionState::Draining);
        for SessionRecord { session, .. } in sessions.iter().filter(|entry| watchable(entry.session.state)) {
            let Some(handle) = handles.get(&session.id) else { continue };
            let last_seen = seen.get(&session.id).copied();
            let (before, since) = self.watched.entry(session.id.clone()).or_insert((last_seen, now));
            if *before != last_seen {
                (*before, *since) = (last_seen, now);
            } else if now.since(*since) >= worker.options.idle() && handle.stop(Reason::IdleTimeout, false) {
                telemetry::expired(session.state);
            }
        }
        Ok(())
    }

    /// Ends sessions that are stuck in STOPPING.
    fn end_stuck(
        &mut self,
        worker: &WorkerState,
        handles: &HashMap<SessionId, SessionHandle>,
        sessions: &[SessionRecord],
    ) {
        let now = worker.clock.now();
        let stopping: HashSet<_> = sessions
            .iter()
            .filter(|entry| entry.session.state == SessionState::Stopping)
            .map(|entry| entry.session.id.clone())
            .collect();
        self.stopping.retain(|id, _| stopping.contains(id));
        for id in stopping {
            let since = *self.stopping.entry(id.clone()).or_insert(now);
            if now.since(since) >= worker.options.stuck_timeout
                && let Some(handle) = handles.get(&id)
            {
                handle.commands.send_modify(|commands| (commands.kill, commands.force) = (true, true));
            }
        }
    }

    /// Fails sessions in a running state without a task. Only in the second sweep, because the first may have read them just
    /// before their end.
    async fn fail_orphans(
        &mut self,
        worker: &WorkerState,
        handles: &HashMap<SessionId, SessionHandle>,
        sessions: &[SessionRecord],
    ) -> Result<(), SessionError> {
        let before = std::mem::take(&mut self.orphans);
        for entry in sessions.iter().filter(|entry| !handles.contains_key(&entry.session.id)) {
            if recovery::recovery_event(entry.session.state).is_none() {
                continue;
            }
            if !before.contains(&entry.session.id) {
                self.orphans.insert(entry.session.id.clone());
                continue;
            }
            // Also in STARTING: a restart might end the same way.
            recovery::recover(worker, &mut entry.clone(), SessionEvent::Fail).await?;
        }
        Ok(())
    }
}

/// Reads the holder of each tuner lease.
async fn holders(worker: &WorkerState) -> Result<BTreeMap<u32, String>, SessionError> {
    let held = scan::list_held_leases(worker, keys::TUNER).await?;
    let holder = |status: &tenure_lease::Status| {
        Some((keys::slot_in(&status.key)?, status.holder.as_ref()?.to_string()))
    };
    Ok(held.iter().filter_map(holder).collect())
}

/// Whether a violation persists. The lease is read first, so that a session that releases it in between has marked itself
/// as ending by the time its record is read.
async fn is_still_violated(
    worker: &WorkerState,
    handles: &HashMap<SessionId, SessionHandle>,
    (id, slot, rule): &Violation,
) -> Result<bool, SessionError> {
    let key = tenure_lease::Key::new(format!("{}{slot}", keys::TUNER))
        .map_err(|error| SessionError::Store(error.to_string()))?;
    let status = worker.call_store(worker.store.inspect(&key)).await?;
    let holds = status.phase == tenure_lease::Phase::Held
        && status.holder.is_some_and(|holder| holder.as_str() == id.as_str());
    let claims = scan::read_session(worker, id)
        .await?
        .is_some_and(|entry| entry.session.slot == Some(*slot) && entry.session.state.may_hold());
    let ending = handles.get(id).is_some_and(|handle| handle.ending.load(Ordering::Acquire));
    Ok(claims && !ending && (!holds || *rule == reconcile::Rule::DuplicateSlotClaim))
}

/// Revokes leases that are still held for ended sessions.
async fn release_ended(
    worker: &WorkerState,
    handles: &HashMap<SessionId, SessionHandle>,
    sessions: &[SessionRecord],
) -> Result<(), SessionError> {
    let live: HashSet<&str> = sessions.iter().map(|entry| entry.session.id.as_str()).collect();
    for prefix in keys::WIPED_PREFIXES {
        for status in scan::list_held_leases(worker, prefix).await? {
            let (Some(holder), Some(generation)) = (&status.holder, status.generation) else { continue };
            let Ok(id) = SessionId::new(holder.as_str()) else { continue };
            if live.contains(holder.as_str()) || handles.contains_key(&id) {
                continue;
            }
            // Not a known active session: the record decides.
            if scan::read_session(worker, &id).await?.is_none_or(|entry| !entry.session.state.is_terminal()) {
                continue;
            }
            let (key, reason) =
                (status.key.clone(), RevokeReason::new("the session has ended").unwrap_or_default());
            worker
                .call_store(worker.store.revoke(Revoke {
                    key,
                    generation,
                    delay: Some(Duration::ZERO),
                    reason,
                }))
                .await?;
            tracing::warn!(target: telemetry::TARGET, key = %status.key, %holder, "revoked a lease of an ended session");
        }
    }
    Ok(())
}

/// Offers withheld tuners again once their processes have exited.
pub(crate) async fn restore_withheld_slots(worker: &WorkerState) {
    for (slot, id) in worker.withheld() {
        let session = id.clone();
        let checked = tokio::task::spawn_blocking(move || {
            orphan_processes::kill(&session);
            orphan_processes::is_gone(&session)
        });
        if checked.await.unwrap_or(false) {
            worker.restore_slot(slot, &id);
        }
    }
}

/// Removes output directories of sessions that have ended or do not exist.
async fn remove_output_dirs(
    worker: &WorkerState,
    handles: &HashMap<SessionId, SessionHandle>,
    sessions: &[SessionRecord],
) {
    let mut kept: HashSet<SessionId> = sessions.iter().map(|entry| entry.session.id.clone()).collect();
    kept.extend(handles.keys().cloned());
    let root = worker.options.output_dir.clone();
    let removed = tokio::task::spawn_blocking(move || {
        for id in output_dir::all(&root).into_iter().filter(|id| !kept.contains(id)) {
            match output_dir::remove(&output_dir::of(&root, &id)) {
                Ok(()) => {
                    tracing::info!(target: telemetry::TARGET, session = %id, "removed an unused output directory")
                }
                Err(error) => {
                    tracing::warn!(target: telemetry::TARGET, session = %id, %error, "failed to remove an output directory")
                }
            }
        }
    });
    if removed.await.is_err() {
        tracing::warn!(target: telemetry::TARGET, "failed to list output directories");
    }
}
