//! One lock around the table, and the verbs as futures on it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Digest, Error, Fence, Key, Lease, Leases,
    LogEntry, Op, Page, Prefix, Query, Record, Records, Refusal, Reign, Release, Released, Renewal, Renewed,
    Result, Revision, Revoke, Revoked, Status, Tick, Token, Transfer, Transferred, Verified, Watch, Wipe,
    Wiped, fallback, limits,
};

use super::durable::DurableState;
use super::effects::Effects;
use super::events::EventLog;
use super::space::LARGEST_SLOT_ROW;
use super::table::{Now, Table};
use super::{timer, waiting};
use crate::sync::{JoinSet, Mutex, MutexGuard, Notify, oneshot, thread};

/// A store in this process: in memory, or embedded on a disk.
#[derive(Debug)]
pub struct Local {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tasks: JoinSet<()>,
    pub(crate) writer: Option<thread::JoinHandle<()>>,
    /// The lock of the directory. It is held for as long as the store is open, even after the writer has failed: guards of
    /// this process may rely on their leases until their deadlines, and another process that opened the directory would end
    /// these leases.
    pub(crate) lock: Option<File>,
}

impl Local {
    pub(crate) fn start(engine: Arc<Engine>) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(timer::run(Arc::downgrade(&engine)));
        Self { engine, tasks, writer: None, lock: None }
    }
}

/// Closing waits until every decided change is on disk.
impl Drop for Local {
    fn drop(&mut self) {
        self.tasks.abort_all();
        self.engine.state.lock().closed = true;
        if let Some(durable) = &self.engine.durable {
            durable.wake.notify_all();
            durable.closing.notify_all();
        }
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer thread panicked");
        }
    }
}

/// Shared by callers, the writer and the timer.
pub(crate) struct Engine {
    pub(crate) state: Mutex<EngineState>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) capabilities: Capabilities,
    pub(crate) durable: Option<DurableState>,
    /// Wakes the timer when an earlier expiry was set.
    pub(crate) earlier: Notify,
}

/// The table, and the callers that wait for its effects to become durable.
pub(crate) struct EngineState {
    pub(crate) table: Table,
    pub(crate) replies: Vec<SyncReply>,
    /// The writer has taken effects that are not durable yet.
    pub(crate) in_flight: bool,
    /// Why the engine stopped granting.
    pub(crate) failed: Option<String>,
    pub(crate) closed: bool,
    /// When the timer wakes up.
    pub(crate) alarm: Option<Tick>,
}

/// Completes once every effect decided before it is durable.
pub(crate) type SyncReply = oneshot::Sender<Result<()>>;

/// What a caller awaits before it answers; `None` when nothing needs the disk.
pub(crate) type PendingSync = Option<oneshot::Receiver<Result<()>>>;

/// The greatest age of the heartbeat on disk at which a renewal is answered.
const MAX_HEARTBEAT_AGE: Duration = Duration::from_secs(1);
/// How long a change waits for room in the journal.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);
/// Journal bytes that a change may take besides its values: the rows of a reign, its successor and two forgotten keys.
const CHANGE_OVERHEAD: u64 = 64 * 1024;

impl EngineState {
    /// Whether there are effects or callers that the writer has not taken.
    pub(crate) fn has_work(&self) -> bool {
        !self.table.effects.is_empty() || !self.replies.is_empty()
    }
}

impl Engine {
    pub(crate) fn new(
        table: Table,
        clock: Arc<dyn Clock>,
        capabilities: Capabilities,
        durable: Option<DurableState>,
    ) -> Arc<Self> {
        let events = Arc::new(EventLog::new(table.revision));
        let (replies, in_flight, failed, closed, alarm) = (Vec::new(), false, None, false, None);
        if let Some(durable) = durable.as_ref().filter(|_| table.effects.is_empty()) {
            // Otherwise opening the store decided changes that are not on disk yet.
            durable.synced_revision.store(table.revision.get(), Ordering::Release);
        }
        let state = Mutex::new(EngineState { table, replies, in_flight, failed, closed, alarm });
        Arc::new(Self { state, events, clock, capabilities, durable, earlier: Notify::new() })
    }

    /// Locks the state and reads the clock. The clock is read under the lock, so that a stalled caller decides by the time of
    /// its step, and times never go back from one step to the next.
    pub(crate) fn enter(&self) -> (MutexGuard<'_, EngineState>, Now) {
        let state = self.state.lock();
        let now = Now::read(&*self.clock);
        (state, now)
    }

    /// Refuses after a failure: the table may have changes that are not on disk.
    fn check_not_failed(&self, state: &EngineState) -> Result<()> {
        match &state.failed {
            Some(why) => Err(Error::unavailable(self.capabilities.engine, why.clone())),
            None => Ok(()),
        }
    }

    /// Takes one step on the table, which checks the room that it needs itself. A pending sync means that its effects are not
    /// on disk yet.
    pub(crate) fn step<T>(
        &self,
        decide: impl FnOnce(&mut EngineState, Now) -> Result<T>,
    ) -> Result<(T, PendingSync)> {
        let (mut state, now) = self.enter();
        self.check_not_failed(&state)?;
        let answer = decide(&mut state, now);
        let pending = self.finish(&mut state, now);
        Ok((answer?, pending))
    }

    /// Hands the effects of a step to the writer, or publishes them at once when there is no disk.
    pub(crate) fn finish(&self, state: &mut MutexGuard<'_, EngineState>, now: Now) -> PendingSync {
        let next = state.table.next_due();
        if next.is_some_and(|next| state.alarm.is_none_or(|alarm| next < alarm)) {
            state.alarm = next;
            self.earlier.notify_one();
        }
        let Some(durable) = &self.durable else {
            self.publish(state, now);
            return None;
        };
        if state.table.effects.is_empty() && !state.in_flight {
            return None;
        }
        let (reply, pending) = oneshot::channel();
        state.replies.push(reply);
        durable.wake.notify_one();
        Some(pending)
    }

    /// Waits until the writer has synced what the step decided.
    pub(crate) async fn wait(&self, pending: PendingSync) -> Result<()> {
        let Some(synced) = pending else { return Ok(()) };
        synced.await.unwrap_or_else(|_| {
            Err(Error::unknown(self.capabilities.engine, "the store was closed before the answer"))
        })
    }

    /// Makes effects visible at once.
    fn publish(&self, state: &mut MutexGuard<'_, EngineState>, now: Now) {
        while !state.table.effects.is_empty() {
            let effects = state.table.effects.take();
            self.deliver(state, effects, now);
        }
    }

    /// Notifies watchers and waiters. A grant whose waiter is gone goes to the next one.
    pub(crate) fn deliver(&self, state: &mut MutexGuard<'_, EngineState>, effects: Effects, now: Now) {
        self.events.publish(effects.events);
        if let Some(revision) = effects.silent {
            self.events.reach(revision);
        }
        for delivery in effects.grants {
            let (lease, digest) = (delivery.grant.lease.clone(), delivery.digest);
            if !delivery.deliver() {
                self.abandon_grant(state, &lease, &digest, now);
            }
        }
    }

    /// Releases a grant that its caller did not receive. Without room in the journal it stays until its TTL ends.
    pub(crate) fn abandon_grant(&self, state: &mut EngineState, lease: &Lease, digest: &Digest, now: Now) {
        let left = match self.has_room(state, 0) {
            true => state.table.abandon_grant(lease, digest, now),
            false => state.table.leave(&lease.key, digest),
        };
        if let Err(error) = left {
            tracing::error!(key = %lease.key, %error, "cannot release an undelivered grant");
        }
    }

    /// Whether the journal has room for `bytes` besides the effects that wait for it.
    pub(crate) fn has_room(&self, state: &EngineState, bytes: u64) -> bool {
        let needed = state.table.effects.rows.len() as u64 + bytes + CHANGE_OVERHEAD;
        let fits = |durable: &DurableState| durable.room.load(Ordering::Acquire) >= needed;
        self.durable.as_ref().is_none_or(fits) || broken(Break::NoRoomCheck)
    }

    /// How many changes of `bytes` each the journal has room for; `None` without a disk.
    pub(crate) fn room_for_each(&self, state: &EngineState, bytes: u64) -> Option<usize> {
        let taken = state.table.effects.rows.len() as u64 + CHANGE_OVERHEAD;
        let room = self.durable.as_ref()?.room.load(Ordering::Acquire);
        Some((room.saturating_sub(taken) / bytes) as usize)
    }

    /// Refuses a step that no journal could hold, and says why one of `bytes` does not fit now.
    fn check_waiting(&self, durable: &DurableState, bytes: u64, deadline: Tick) -> Result<()> {
        let most = durable.capacity - CHANGE_OVERHEAD;
        if bytes > most {
            let why = format!(
                "the change takes {bytes} bytes in the journal, which holds {most}: make smaller ones"
            );
            return Err(Error::invalid("size", why));
        }
        if let Some(why) = durable.checkpoint_error.lock().clone() {
            return Err(Error::unavailable(self.capabilities.engine, why));
        }
        match self.clock.now() >= deadline {
            true => Err(self.no_room()),
            false => Ok(()),
        }
    }

    pub(crate) fn no_room(&self) -> Error {
        Error::unavailable(self.capabilities.engine, "the journal is full and its checkpoint is slow")
    }

    /// Whether everything up to a revision is on disk.
    fn is_synced(&self, revision: Revision) -> bool {
        let synced = |durable: &DurableState| durable.synced_revision.load(Ordering::Acquire);
        self.durable.as_ref().is_some_and(|durable| revision.get() <= synced(durable))
    }

    /// Whether a longer TTL is decided and not durable yet.
    fn is_raising_ttl(&self, table: &Table) -> bool {
        table.effects.raised
            || self.durable.as_ref().is_some_and(|durable| durable.raising_ttl.load(Ordering::Acquire))
    }

    /// Refuses renewals whose longer TTLs do not fit into the journal. All others need no room.
    fn check_room_to_raise(&self, state: &EngineState, items: &[Renewal]) -> Result<()> {
        let raised = items.iter().filter(|item| item.ttl.is_some()).count() as u64;
        let fits = raised == 0
            || self.has_room(state, raised * LARGEST_SLOT_ROW)
            || self.has_room(state, state.table.raised_bytes(items));
        if fits { Ok(()) } else { Err(self.no_room()) }
    }

    /// Refuses while the heartbeat on disk is too old for a restart to honour a renewal.
    pub(crate) fn check_heartbeat(&self, now: Tick) -> Result<()> {
        match &self.durable {
            _ if broken(Break::RenewsWithoutHeartbeat) => Ok(()),
            Some(durable)
                if now.since(Tick::from_nanos(durable.last_heartbeat.load(Ordering::Acquire)))
                    > MAX_HEARTBEAT_AGE =>
            {
                let why =
                    "the disk has not accepted a heartbeat for a second, so a restart could lose a renewal";
                Err(Error::unavailable(self.capabilities.engine, why))
            }
            _ => Ok(()),
        }
    }

    /// Takes a step once the journal has room for the `bytes` that it may write, [`ROOM_TIMEOUT`] at most. Room is
    /// checked in the lock section that decides: no other step can take it in between.
    pub(crate) async fn decide<T>(
        &self,
        bytes: impl Fn(&Table, Now) -> u64,
        decide: impl FnOnce(&mut Table, Now) -> Result<T>,
    ) -> Result<(T, PendingSync)> {
        let deadline = self.clock.now() + ROOM_TIMEOUT;
        // Only a known break decides in a later lock section than the one that checks.
        let mut checked = false;
        let (answer, pending) = loop {
            let room_freed = self.durable.as_ref().map(|durable| durable.room_freed.notified());
            {
                let (mut state, now) = self.enter();
                self.check_not_failed(&state)?;
                let needed = if self.durable.is_some() { bytes(&state.table, now) } else { 0 };
                if !checked && !self.has_room(&state, needed) {
                    drop(state);
                    if let Some(durable) = &self.durable {
                        self.check_waiting(durable, needed, deadline)?;
                    }
                } else if checked || !broken(Break::ChecksRoomEarly) {
                    let answer = decide(&mut state.table, now);
                    break (answer, self.finish(&mut state, now));
                } else {
                    checked = true;
                }
            }
            tokio::select! {
                biased;
                () = tokio::task::yield_now(), if checked => {}
                () = async { if let Some(freed) = room_freed { freed.await } } => {}
                () = self.clock.sleep_until(deadline) => {}
            }
        };
        match answer {
            Ok(answer) => Ok((answer, pending)),
            Err(refusal) => {
                self.wait(pending).await?;
                Err(refusal)
            }
        }
    }

    /// Takes a step and waits until it is durable.
    pub(crate) async fn durably<T>(
        &self,
        bytes: impl Fn(&Table, Now) -> u64,
        decide: impl FnOnce(&mut Table, Now) -> Result<T>,
    ) -> Result<T> {
        let (answer, pending) = self.decide(bytes, decide).await?;
        self.wait(pending).await?;
        Ok(answer)
    }

    /// A step that may grant to a parked claim. Without a disk to wait for, the caller yields once after a grant, so that
    /// the successor runs first where both share a thread.
    async fn hand_over<T>(&self, decide: impl FnOnce(&mut Table, Now) -> Result<T>) -> Result<T> {
        let mut granted = false;
        let step = |table: &mut Table, now: Now| {
            let answer = decide(table, now)?;
            granted = !table.effects.grants.is_empty();
            Ok(answer)
        };
        let (answer, pending) = self.decide(no_values, step).await?;
        if pending.is_none() && granted {
            tokio::task::yield_now().await;
        }
        self.wait(pending).await?;
        Ok(answer)
    }

    /// Reads the table and waits until what was read is durable.
    async fn read<T>(&self, read: impl FnOnce(&Table, Now) -> T) -> Result<T> {
        self.read_if(read, |_, _| None).await
    }

    /// Reads the table. The result is unchanged `since` a revision, and does not wait once that revision is durable.
    async fn read_if<T>(
        &self,
        read: impl FnOnce(&Table, Now) -> T,
        since: impl FnOnce(&Table, &T) -> Option<Revision>,
    ) -> Result<T> {
        let (seen, pending) = {
            let (mut state, now) = self.enter();
            if !broken(Break::ReadsAfterFailure) {
                self.check_not_failed(&state)?;
            }
            let seen = read(&state.table, now);
            let settled = (state.table.effects.is_empty() && !state.in_flight)
                || since(&state.table, &seen).is_some_and(|since| self.is_synced(since));
            (seen, if settled { None } else { self.finish(&mut state, now) })
        };
        self.wait(pending).await?;
        Ok(seen)
    }
}

#[async_trait]
impl Leases for Local {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.engine.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.engine.capabilities.check(claim.ttl)?;
        waiting::acquire(&self.engine, claim).await
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        if items.len() > limits::BATCH {
            return Err(Refusal::TooMany { what: "leases in one renewal", limit: limits::BATCH }.into());
        }
        for ttl in items.iter().filter_map(|item| item.ttl) {
            self.engine.capabilities.check(ttl)?;
        }
        let engine = &self.engine;
        let ((answers, longer), pending) = engine.step(|state, now| {
            engine.check_heartbeat(now.tick)?;
            engine.check_room_to_raise(state, items)?;
            let (answers, longer) = state.table.renew(items, now)?;
            Ok((answers, longer || engine.is_raising_ttl(&state.table)))
        })?;
        // Wait only if the answer depends on it: a longer TTL, or the end of a reign.
        if longer || answers.iter().any(|answer| matches!(answer, Renewed::Lost(_))) {
            engine.wait(pending).await?;
        }
        Ok(answers.into_iter().map(Ok).collect())
    }

    async fn release(&self, release: Release) -> Result<Released> {
        self.engine.hand_over(|table, now| table.release(&release, now)).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        self.engine.hand_over(|table, now| table.transfer(&transfer, now)).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        if revoke.delay.is_some_and(|delay| delay > Duration::from_millis(limits::DELAY_MS)) {
            return Err(Error::invalid("delay", format!("at most {} ms are allowed", limits::DELAY_MS)));
        }
        self.engine.durably(no_values, |table, now| table.revoke(&revoke, now)).await
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        self.engine.read(|table, now| table.verify(key, token.digest(), now)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        self.engine.read(|table, now| table.status(key, now)).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        query.check()?;
        self.engine.read(|table, now| table.list(query, now)).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        self.engine.read(|table, now| table.history(key, now)).await
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        self.engine.events.watch(std::slice::from_ref(prefix), from)
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        self.engine.events.watch(prefixes, from)
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        let bytes = |table: &Table, now| table.wipe_bytes(&wipe, now);
        self.engine.durably(bytes, |table, now| table.wipe(&wipe, now)).await
    }
}

#[async_trait]
impl Records for Local {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        Op::check(ops)?;
        self.engine
            .durably(|table, _| table.commit_bytes(ops), |table, now| table.commit(ops, None, now))
            .await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        Op::check(ops)?;
        self.engine
            .durably(|table, _| table.commit_bytes(ops), |table, now| table.commit(ops, Some(fence), now))
            .await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let read = |table: &Table, now: Now| table.data.get(key, now.tick);
        // A record has the revision that wrote it; an absent one may just have been deleted.
        let since = |table: &Table, seen: &Option<Record>| {
            Some(seen.as_ref().map_or(table.data.deleted, |record| record.revision))
        };
        self.engine.read_if(read, since).await
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        query.check()?;
        self.engine.read(|table, now| table.data.scan(query, table.revision, now.tick)).await
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        fallback::discover(self, prefix).await
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        if items.len() > limits::BATCH {
            return Err(Refusal::TooMany { what: "announcements in one call", limit: limits::BATCH }.into());
        }
        let (mut published, mut pending) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            let (fence, ops) = item.fenced_write();
            Op::check(&ops)?;
            let step = |table: &mut Table, now: Now| table.commit(&ops, Some(&fence), now);
            let (committed, synced) = self.engine.decide(|table, _| table.commit_bytes(&ops), step).await?;
            published.push(matches!(committed, Committed::Written { .. }));
            pending.push(synced);
        }
        // All items share the next sync.
        for synced in pending {
            self.engine.wait(synced).await?;
        }
        Ok(published)
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        if limit == 0 || limit > limits::BATCH {
            return Err(Error::invalid("limit", format!("{limit} is not between 1 and {}", limits::BATCH)));
        }
        self.engine.read(|table, _| table.data.read_log(log, after, limit)).await
    }
}

/// The journal bytes of a step on one key: [`CHANGE_OVERHEAD`] covers them.
pub(crate) fn no_values(_: &Table, _: Now) -> u64 {
    0
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.capabilities.engine)
    }
}
