//! One lock around the table, and the verbs as futures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease::{
    Acquired, Capabilities, Claim, Clock, Committed, Error, Fence, Key, Leases, LogEntry, Op, Page, Prefix,
    Query, Record, Records, Refusal, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke,
    Revoked, Status, Tick, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped, limits,
};

use super::disk::{Desk, Stamp};
use super::events::EventLog;
use super::out::Out;
use super::pending::{Answer, Pending};
use super::table::{Now, Table};
use super::{timer, waiting};
use crate::sync::{AtomicU64, Condvar, JoinSet, Mutex, MutexGuard, Notify, oneshot, thread};

/// A store in this process: in memory, or embedded on a disk.
#[derive(Debug)]
pub struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: JoinSet<()>,
    pub(crate) writer: Option<thread::JoinHandle<()>>,
}

impl Local {
    pub(crate) fn start(shared: Arc<Shared>) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(timer::run(Arc::downgrade(&shared)));
        Self { shared, tasks, writer: None }
    }
}

/// Closing waits for what was decided to be on disk.
impl Drop for Local {
    fn drop(&mut self) {
        self.tasks.abort_all();
        self.shared.inner.lock().closed = true;
        if let Some(durable) = &self.shared.durable {
            durable.wake.notify_all();
            durable.closing.notify_all();
        }
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store had panicked");
        }
        // What a panic left behind.
        let writer = self.shared.inner.lock().desk.clear();
        drop(writer);
    }
}

/// What callers, the writer and the timer share.
pub(crate) struct Shared {
    pub(crate) inner: Mutex<Inner>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) capabilities: Capabilities,
    pub(crate) durable: Option<Durable>,
    /// Wakes the timer when an earlier moment was set.
    pub(crate) earlier: Notify,
}

/// The table and who waits for its effects to become durable.
pub(crate) struct Inner {
    pub(crate) table: Table,
    pub(crate) replies: Vec<Reply>,
    /// Who writes.
    pub(crate) desk: Desk,
    /// The writer has taken effects that are not durable yet.
    pub(crate) in_flight: bool,
    /// Why nothing is granted any more.
    pub(crate) failed: Option<String>,
    pub(crate) closed: bool,
    /// The moment the timer sleeps until.
    pub(crate) alarm: Option<Tick>,
}

/// Told when everything decided before is durable.
pub(crate) type Reply = oneshot::Sender<Result<()>>;

/// What a store with a disk adds.
pub(crate) struct Durable {
    /// The sign of life.
    pub(crate) stamp: Mutex<Stamp>,
    /// Wakes the writer.
    pub(crate) wake: Condvar,
    /// Wakes the checkpoint thread when the store is closed.
    pub(crate) closing: Condvar,
    /// When the sign of life was last written, in nanoseconds.
    pub(crate) stamped: AtomicU64,
    /// Bytes that may still be written before something must be checkpointed.
    pub(crate) room: AtomicU64,
    /// Told when room was made.
    pub(crate) roomier: Notify,
    /// The revision up to which everything is on the disk.
    pub(crate) reached: AtomicU64,
    /// A longer TTL is on its way to the disk.
    pub(crate) raising: AtomicBool,
    /// Why checkpoints fail, if they do: then waiting for room is pointless.
    pub(crate) stuck: Mutex<Option<String>>,
}

/// How old the sign of life on disk may be when a renewal is answered.
const STALE: Duration = Duration::from_secs(1);
/// How long a change waits for room in the journal.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a change may take in the journal besides its values.
const CHANGE: u64 = 64 * 1024;

impl Durable {
    pub(crate) fn new(stamp: Stamp, stamped: Tick, room: u64) -> Self {
        Self {
            stamp: Mutex::new(stamp),
            wake: Condvar::new(),
            closing: Condvar::new(),
            stamped: AtomicU64::new(stamped.as_nanos()),
            room: AtomicU64::new(room),
            roomier: Notify::new(),
            reached: AtomicU64::new(0),
            raising: AtomicBool::new(false),
            stuck: Mutex::new(None),
        }
    }

    /// Writes the sign of life if the last one is older than `age`.
    pub(crate) fn sign(&self, now: Tick, age: Duration) -> std::io::Result<()> {
        if now.since(Tick::from_nanos(self.stamped.load(Ordering::Acquire))) > age {
            self.stamp.lock().write(now)?;
            self.stamped.fetch_max(now.as_nanos(), Ordering::AcqRel);
        }
        Ok(())
    }
}

impl Inner {
    /// Whether something was decided that is not on its way to the disk.
    pub(crate) fn has_work(&self) -> bool {
        !self.table.out.is_empty() || !self.replies.is_empty()
    }
}

impl Shared {
    pub(crate) fn new(
        table: Table,
        clock: Arc<dyn Clock>,
        capabilities: Capabilities,
        durable: Option<Durable>,
    ) -> Arc<Self> {
        let events = Arc::new(EventLog::new(table.revision));
        let (replies, in_flight, failed, closed, alarm) = (Vec::new(), false, None, false, None);
        if let Some(durable) = durable.as_ref().filter(|_| table.out.is_empty()) {
            // What the opening itself decided would not be on the disk yet.
            durable.reached.store(table.revision.get(), Ordering::Release);
        }
        let desk = Desk::default();
        let inner = Mutex::new(Inner { table, replies, desk, in_flight, failed, closed, alarm });
        Arc::new(Self { inner, events, clock, capabilities, durable, earlier: Notify::new() })
    }

    /// The table and the moment of a step on it. Read under the lock, so that whoever was stopped on the way decides by the
    /// time of its step, and no step comes before one whose answer was given.
    pub(crate) fn enter(&self) -> (MutexGuard<'_, Inner>, Now) {
        let inner = self.inner.lock();
        let now = Now::read(&*self.clock);
        (inner, now)
    }

    /// Takes one step on the table. `Some` means that its effects are on their way to the disk.
    pub(crate) fn step<T>(
        &self,
        decide: impl FnOnce(&mut Table, Now) -> Result<T>,
    ) -> Result<(T, Pending<'_>)> {
        let (answer, pending) = self.try_step(decide)?;
        Ok((answer?, pending))
    }

    /// A step whose refusal, like any answer, may rest on what is not durable yet.
    fn try_step<T>(
        &self,
        decide: impl FnOnce(&mut Table, Now) -> Result<T>,
    ) -> Result<(Result<T>, Pending<'_>)> {
        let (mut inner, now) = self.enter();
        if let Some(why) = &inner.failed {
            return Err(Error::unavailable(self.capabilities.engine, why.clone()));
        }
        let answer = decide(&mut inner.table, now);
        let pending = self.finish(&mut inner, now);
        Ok((answer, pending))
    }

    /// Passes on what a step left behind. With a disk, the answer must wait for the receiver.
    pub(crate) fn finish<'a>(&'a self, inner: &mut MutexGuard<'_, Inner>, now: Now) -> Pending<'a> {
        let next = inner.table.next_due();
        if next.is_some_and(|next| inner.alarm.is_none_or(|alarm| next < alarm)) {
            inner.alarm = next;
            self.earlier.notify_one();
        }
        let Some(durable) = &self.durable else {
            self.publish(inner, now);
            return None;
        };
        if inner.table.out.is_empty() && !inner.in_flight {
            return None;
        }
        let (told, pending) = oneshot::channel();
        inner.replies.push(told);
        let mut answer = Answer::new(pending, inner.must_call().then_some(durable));
        if !inner.may_lead() {
            answer.call();
        }
        Some(answer)
    }

    /// Makes effects visible at once: there is no disk to wait for.
    fn publish(&self, inner: &mut MutexGuard<'_, Inner>, now: Now) {
        while !inner.table.out.is_empty() {
            let out = inner.table.out.take();
            self.deliver(inner, out, now);
        }
    }

    /// Tells watchers and waiters; a grant that nobody hears goes to the next in line.
    pub(crate) fn deliver(&self, inner: &mut MutexGuard<'_, Inner>, out: Out, now: Now) {
        self.events.publish(out.events);
        if let Some(revision) = out.silent {
            self.events.reach(revision);
        }
        for delivery in out.grants {
            let (lease, digest) = (delivery.grant.lease.clone(), delivery.digest);
            if !delivery.deliver()
                && let Err(error) = inner.table.lost(&lease, &digest, now)
            {
                tracing::error!(key = %lease.key, %error, "an unheard grant could not be given back");
            }
        }
    }

    /// Whether the journal has room for a change of `bytes` besides what is already decided.
    pub(crate) fn has_room(&self, inner: &Inner, bytes: u64) -> bool {
        self.durable.as_ref().is_none_or(|durable| {
            durable.room.load(Ordering::Acquire) >= inner.table.out.rows.len() as u64 + bytes + CHANGE
        })
    }

    /// Ends when there is room for a change of `bytes` besides what is already decided.
    async fn room(&self, bytes: u64) -> Result<()> {
        let Some(durable) = &self.durable else { return Ok(()) };
        let deadline = self.clock.now() + PATIENCE;
        loop {
            let roomier = durable.roomier.notified();
            if self.has_room(&self.inner.lock(), bytes) {
                return Ok(());
            }
            if let Some(why) = durable.stuck.lock().clone() {
                return Err(Error::unavailable(self.capabilities.engine, why));
            }
            if self.clock.now() >= deadline {
                let why = "the journal is full and its checkpoint is slow";
                return Err(Error::unavailable(self.capabilities.engine, why));
            }
            tokio::select! {
                biased;
                () = roomier => {}
                () = self.clock.sleep_until(deadline) => {}
            }
        }
    }

    /// Whether everything up to a revision is on the disk.
    fn reached(&self, revision: Revision) -> bool {
        let reached = |durable: &Durable| durable.reached.load(Ordering::Acquire);
        self.durable.as_ref().is_some_and(|durable| revision.get() <= reached(durable))
    }

    /// Whether somebody's longer TTL is decided and not durable yet.
    fn raising(&self, table: &Table) -> bool {
        table.out.raised
            || self.durable.as_ref().is_some_and(|durable| durable.raising.load(Ordering::Acquire))
    }

    /// Refuses while the sign of life on disk is older than holders may rely on.
    pub(crate) fn alive(&self, now: Tick) -> Result<()> {
        match &self.durable {
            Some(durable) if now.since(Tick::from_nanos(durable.stamped.load(Ordering::Acquire))) > STALE => {
                let why =
                    "the disk has not taken a sign of life for a second, so a renewal could be forgotten";
                Err(Error::unavailable(self.capabilities.engine, why))
            }
            _ => Ok(()),
        }
    }

    /// A step that may write up to `bytes` of values, taken once there is room for it.
    pub(crate) async fn decide<T>(
        &self,
        bytes: u64,
        decide: impl FnOnce(&mut Table, Now) -> Result<T>,
    ) -> Result<(T, Pending<'_>)> {
        self.room(bytes).await?;
        match self.try_step(decide)? {
            (Ok(answer), pending) => Ok((answer, pending)),
            (Err(refusal), pending) => {
                self.wait(pending).await?;
                Err(refusal)
            }
        }
    }

    /// A step whose answer waits until it is durable.
    pub(crate) async fn durably<T>(
        &self,
        bytes: u64,
        decide: impl FnOnce(&mut Table, Now) -> Result<T>,
    ) -> Result<T> {
        let (answer, pending) = self.decide(bytes, decide).await?;
        self.wait(pending).await?;
        Ok(answer)
    }

    /// Reads the table once all that it shows is durable.
    async fn read<T>(&self, look: impl FnOnce(&Table, Now) -> T) -> Result<T> {
        self.read_if(look, |_, _| None).await
    }

    /// Reads the table. What is seen is as it is `since` a revision, and need not wait for others once that is durable.
    async fn read_if<T>(
        &self,
        look: impl FnOnce(&Table, Now) -> T,
        since: impl FnOnce(&Table, &T) -> Option<Revision>,
    ) -> Result<T> {
        let (seen, pending) = {
            let (mut inner, now) = self.enter();
            let seen = look(&inner.table, now);
            let settled = inner.failed.is_some()
                || (inner.table.out.is_empty() && !inner.in_flight)
                || since(&inner.table, &seen).is_some_and(|since| self.reached(since));
            (seen, if settled { None } else { self.finish(&mut inner, now) })
        };
        self.wait(pending).await?;
        Ok(seen)
    }
}

#[async_trait]
impl Leases for Local {
    fn capabilities(&self) -> Capabilities {
        self.shared.capabilities
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.shared.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.shared.capabilities.check(claim.ttl)?;
        waiting::acquire(&self.shared, claim).await
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        if items.len() > limits::BATCH {
            return Err(Refusal::TooMany { what: "leases in one renewal", limit: limits::BATCH }.into());
        }
        for ttl in items.iter().filter_map(|item| item.ttl) {
            self.shared.capabilities.check(ttl)?;
        }
        let shared = &self.shared;
        let ((answers, longer), pending) = shared.step(|table, now| {
            shared.alive(now.tick)?;
            let (answers, longer) = table.renew(items, now)?;
            Ok((answers, longer || shared.raising(table)))
        })?;
        // What is in flight belongs to others, unless a longer TTL of ours may be among it, or an end that we tell.
        if longer || answers.iter().any(|answer| matches!(answer, Renewed::Lost(_))) {
            shared.wait(pending).await?;
        }
        Ok(answers)
    }

    async fn release(&self, release: Release) -> Result<Released> {
        self.shared.hand_over(&release.key, |table, now| table.release(&release, now)).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        self.shared.hand_over(&transfer.key, |table, now| table.transfer(&transfer, now)).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        if revoke.delay.is_some_and(|delay| delay > Duration::from_millis(limits::DELAY_MS)) {
            return Err(Error::invalid("delay", format!("at most {} ms are allowed", limits::DELAY_MS)));
        }
        self.shared.durably(0, |table, now| table.revoke(&revoke, now)).await
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        self.shared.read(|table, now| table.verify(key, token.digest(), now)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        self.shared.read(|table, now| table.status(key, now)).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        query.check()?;
        self.shared.read(|table, now| table.list(query, now)).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        self.shared.read(|table, now| table.history(key, now)).await
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        self.shared.events.watch(std::slice::from_ref(prefix), from)
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        self.shared.events.watch(prefixes, from)
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        self.shared.durably(limits::WIPE as u64 * 256, |table, now| table.wipe(&wipe, now)).await
    }
}

#[async_trait]
impl Records for Local {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        Op::check(ops)?;
        self.shared.durably(size(ops), |table, now| table.commit(ops, None, now)).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        Op::check(ops)?;
        self.shared.durably(size(ops), |table, now| table.commit(ops, Some(fence), now)).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let look = |table: &Table, now: Now| table.data.get(key, now.tick);
        // A record carries the revision that wrote it; one that is not there may just have been deleted.
        let since = |table: &Table, seen: &Option<Record>| {
            Some(seen.as_ref().map_or(table.data.deleted, |record| record.revision))
        };
        self.shared.read_if(look, since).await
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        query.check()?;
        self.shared.read(|table, now| table.data.scan(query, table.revision, now.tick)).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        if limit == 0 || limit > limits::BATCH {
            return Err(Error::invalid("limit", format!("{limit} is not within 1 and {}", limits::BATCH)));
        }
        self.shared.read(|table, _| table.data.read_log(log, after, limit)).await
    }
}

/// What a commit may take in the journal.
fn size(ops: &[Op]) -> u64 {
    let value = |op: &Op| match op {
        Op::Put { value, .. }
        | Op::PutIfAbsent { value, .. }
        | Op::PutIfRevision { value, .. }
        | Op::Append { value, .. } => value.len() as u64,
        Op::Delete { .. } => 0,
    };
    ops.iter().map(|op| value(op) + limits::KEY as u64 + 64).sum()
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({})", self.capabilities.engine)
    }
}
