//! Which leases this process holds, and when to look at each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lease::Tick;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::core::Core;

/// The number of a lease on the roll.
pub(crate) type Number = u64;

/// Every lease of the process, ordered by when to look at it next.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    list: Mutex<List>,
    /// Told whenever the earliest wake may have changed.
    pub(crate) changed: Notify,
}

/// Lock order: this list, then a lease's reign.
#[derive(Debug, Default)]
struct List {
    next: Number,
    leases: BTreeMap<Number, Entry>,
    wakes: BTreeSet<(Tick, Number)>,
}

#[derive(Debug)]
struct Entry {
    core: Arc<Core>,
    wake: Tick,
}

impl Roll {
    pub(crate) fn enlist(&self, core: Arc<Core>, now: Tick) -> Number {
        let mut list = self.list.lock();
        list.next += 1;
        let number = list.next;
        if let Some(wake) = core.wake(now) {
            list.wakes.insert((wake, number));
            list.leases.insert(number, Entry { core, wake });
        }
        drop(list);
        self.changed.notify_one();
        number
    }

    pub(crate) fn strike(&self, number: Number) {
        let mut list = self.list.lock();
        if let Some(entry) = list.leases.remove(&number) {
            list.wakes.remove(&(entry.wake, number));
        }
    }

    /// Looks up again when to wake for these leases, and strikes those that are over.
    pub(crate) fn reschedule(&self, numbers: impl IntoIterator<Item = Number>, now: Tick) {
        let mut list = self.list.lock();
        for number in numbers {
            list.reschedule(number, now);
        }
        drop(list);
        self.changed.notify_one();
    }

    /// When to look next.
    pub(crate) fn next_wake(&self) -> Option<Tick> {
        self.list.lock().wakes.first().map(|(wake, _)| *wake)
    }

    /// The leases to look at up to `until`.
    pub(crate) fn due(&self, until: Tick) -> Vec<(Number, Arc<Core>)> {
        let list = self.list.lock();
        let due = list.wakes.range(..=(until, Number::MAX));
        due.filter_map(|(_, number)| Some((*number, list.leases.get(number)?.core.clone()))).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.lock().leases.len()
    }
}

impl List {
    fn reschedule(&mut self, number: Number, now: Tick) {
        let Some(entry) = self.leases.get_mut(&number) else { return };
        let before = entry.wake;
        match entry.core.wake(now) {
            Some(wake) => {
                entry.wake = wake;
                self.wakes.remove(&(before, number));
                self.wakes.insert((wake, number));
            }
            None => {
                self.leases.remove(&number);
                self.wakes.remove(&(before, number));
            }
        }
    }
}
