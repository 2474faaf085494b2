//! Who writes: a thread of its own, or a caller in its place.
//!
//! The writer lies on a desk while nobody writes. Its thread takes it when it is called. A store that was opened so lets
//! a caller take it himself where the disk is quick and his runtime has other threads: to wake the thread and to be woken
//! by it would take him almost as long as the disk does. What is decided while the writer is away waits for whoever brings it back.

use std::time::Duration;

use lease::Tick;

use super::writer::{self, Batch, Writer};
use crate::local::engine::{Durable, Inner, Shared};
use crate::sync::{Bystanders, MutexGuard};

/// How long the thread sleeps when nothing is decided.
const IDLE: Duration = Duration::from_millis(500);

/// How often the thread looks after callers who write, and how long one may take before others are told.
const LOOK: Duration = Duration::from_millis(10);

/// Where the writer lies, or who has it.
#[derive(Default)]
pub(crate) struct Desk {
    writer: Option<Box<Writer>>,
    /// The caller who has it.
    leader: Option<Leader>,
    /// A caller had it since the thread looked.
    led: bool,
    /// The thread sleeps for long.
    dozes: bool,
    /// The thread had something to ask the writer while it was away.
    missed: bool,
}

/// A caller who writes.
struct Leader {
    since: Tick,
    bystanders: Bystanders,
    told: bool,
}

impl Desk {
    /// Takes the writer away for good.
    pub(crate) const fn clear(&mut self) -> Option<Box<Writer>> {
        self.writer.take()
    }
}

impl Inner {
    /// Whether the writer is there, so that somebody must be called.
    pub(crate) fn must_call(&self) -> bool {
        self.desk.writer.is_some()
    }

    /// Whether what is decided may be written by a caller.
    pub(crate) fn may_lead(&self) -> bool {
        let rows = self.table.out.rows.len();
        self.failed.is_none() && self.desk.writer.as_ref().is_some_and(|writer| writer.is_for_callers(rows))
    }
}

/// The writer on its way. However that ends, it lies on the desk again.
struct Away<'a> {
    shared: &'a Shared,
    durable: &'a Durable,
    writer: Option<Box<Writer>>,
}

impl<'a> Away<'a> {
    /// Takes the writer and what it has to write, if there is either.
    fn take(
        shared: &'a Shared,
        durable: &'a Durable,
        inner: &mut MutexGuard<'_, Inner>,
    ) -> Option<(Self, Batch)> {
        if inner.desk.writer.is_none() || inner.failed.is_some() {
            return None;
        }
        let batch = writer::take(inner, durable)?;
        let writer = inner.desk.writer.take();
        Some((Self { shared, durable, writer }, batch))
    }

    fn put(&mut self, batch: Batch) {
        if let Some(writer) = &mut self.writer {
            writer.put(batch, self.shared, self.durable);
        }
    }

    /// Brings it back.
    fn back(mut self, inner: &mut MutexGuard<'_, Inner>) {
        self.lay_down(inner);
    }

    fn lay_down(&mut self, inner: &mut MutexGuard<'_, Inner>) {
        let Some(mut writer) = self.writer.take() else { return };
        if std::mem::take(&mut inner.desk.missed) {
            writer.look_for_room(self.durable);
        }
        inner.desk.leader = None;
        inner.desk.writer = Some(writer);
    }
}

/// Not brought back: it panicked.
impl Drop for Away<'_> {
    fn drop(&mut self) {
        if self.writer.is_some() {
            writer::fail(self.shared, Vec::new(), &std::io::Error::other("the writer panicked"));
            self.lay_down(&mut self.shared.inner.lock());
            self.durable.wake.notify_one();
        }
    }
}

impl Shared {
    /// Writes what is decided on this thread, or calls the writer's if that may not be.
    pub(crate) fn lead(&self, durable: &Durable, bystanders: Option<Bystanders>) {
        let mut inner = self.inner.lock();
        if !inner.has_work() || !inner.must_call() {
            return;
        }
        let Some(bystanders) = bystanders.filter(|_| inner.may_lead()) else {
            durable.wake.notify_one();
            return;
        };
        let Some((mut away, batch)) = Away::take(self, durable, &mut inner) else { return };
        inner.desk.leader = Some(Leader { since: self.clock.now(), bystanders, told: false });
        inner.desk.led = true;
        if std::mem::take(&mut inner.desk.dozes) {
            durable.wake.notify_one();
        }
        drop(inner);
        away.put(batch);
        inner = self.inner.lock();
        // Whoever only waited for this has nothing to write, and need not wake the thread for it.
        if inner.failed.is_none()
            && inner.table.out.is_empty()
            && let Some(readers) = writer::take(&mut inner, durable)
        {
            drop(inner);
            away.put(readers);
            inner = self.inner.lock();
        }
        away.back(&mut inner);
        if inner.has_work() || inner.closed || inner.failed.is_some() {
            durable.wake.notify_one();
        }
    }
}

/// The writer's thread: writes when called until the store is closed and everything decided is durable, or nothing may
/// be written any more.
pub(crate) fn serve(shared: &Shared, mut writer: Box<Writer>) {
    let Some(durable) = &shared.durable else { return };
    writer.tell_room(durable);
    let mut inner = shared.inner.lock();
    inner.desk.writer = Some(writer);
    loop {
        if let Some((mut away, batch)) = Away::take(shared, durable, &mut inner) {
            drop(inner);
            away.put(batch);
            inner = shared.inner.lock();
            away.back(&mut inner);
        } else if (inner.closed || inner.failed.is_some()) && inner.must_call() {
            break;
        } else {
            rest(shared, &mut inner, durable);
        }
    }
    // Its checkpoint may want the lock before it ends.
    let writer = inner.desk.clear();
    drop(inner);
    drop(writer);
}

/// Sleeps until called, and looks after a caller who writes: where his disk hangs, his runtime may have nobody left who
/// listens to the network.
fn rest(shared: &Shared, inner: &mut MutexGuard<'_, Inner>, durable: &Durable) {
    match &mut inner.desk.writer {
        Some(writer) => writer.look_for_room(durable),
        None => inner.desk.missed = true,
    }
    let watches = std::mem::take(&mut inner.desk.led) || inner.desk.leader.is_some();
    inner.desk.dozes = !watches;
    durable.wake.wait_for(inner, if watches { LOOK } else { IDLE });
    inner.desk.dozes = false;
    if let Some(leader) = &mut inner.desk.leader
        && !leader.told
        && shared.clock.now().since(leader.since) >= LOOK
    {
        leader.told = true;
        leader.bystanders.rouse();
    }
}
