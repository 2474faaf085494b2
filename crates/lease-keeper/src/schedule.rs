//! The leases of this process, and when each needs attention.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_lease::Tick;
use tokio::sync::Notify;

use crate::held_lease::HeldLease;

/// The id of a lease in the schedule.
pub(crate) type EntryId = u64;

/// All leases of the process, ordered by their next wake-up.
#[derive(Debug, Default)]
pub(crate) struct RenewalSchedule {
    entries: Mutex<Entries>,
    /// Notified when the earliest wake-up may have changed.
    pub(crate) changed: Notify,
}

/// Lock order: these entries, then the reign of a lease.
#[derive(Debug, Default)]
struct Entries {
    last_id: EntryId,
    leases: BTreeMap<EntryId, Entry>,
    wakes: BTreeSet<(Tick, EntryId)>,
}

#[derive(Debug)]
struct Entry {
    lease: Arc<HeldLease>,
    wake: Tick,
}

impl RenewalSchedule {
    pub(crate) fn insert(&self, lease: Arc<HeldLease>, now: Tick) -> EntryId {
        let mut entries = self.entries.lock();
        entries.last_id += 1;
        let id = entries.last_id;
        if let Some(wake) = lease.wake(now) {
            entries.wakes.insert((wake, id));
            entries.leases.insert(id, Entry { lease, wake });
        }
        drop(entries);
        self.changed.notify_one();
        id
    }

    pub(crate) fn remove(&self, id: EntryId) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.leases.remove(&id) {
            entries.wakes.remove(&(entry.wake, id));
        }
    }

    /// Recomputes the wake-ups of these leases, and removes those that have ended.
    pub(crate) fn reschedule(&self, ids: impl IntoIterator<Item = EntryId>, now: Tick) {
        let mut entries = self.entries.lock();
        for id in ids {
            entries.reschedule(id, now);
        }
        drop(entries);
        self.changed.notify_one();
    }

    /// The earliest wake-up.
    pub(crate) fn next_wake(&self) -> Option<Tick> {
        self.entries.lock().wakes.first().map(|(wake, _)| *wake)
    }

    /// The leases whose wake-up is not after `until`.
    pub(crate) fn due(&self, until: Tick) -> Vec<(EntryId, Arc<HeldLease>)> {
        let entries = self.entries.lock();
        let due = entries.wakes.range(..=(until, EntryId::MAX));
        due.filter_map(|(_, id)| Some((*id, entries.leases.get(id)?.lease.clone()))).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().leases.len()
    }
}

impl Entries {
    fn reschedule(&mut self, id: EntryId, now: Tick) {
        let Some(entry) = self.leases.get_mut(&id) else { return };
        let before = entry.wake;
        match entry.lease.wake(now) {
            Some(wake) => {
                entry.wake = wake;
                self.wakes.remove(&(before, id));
                self.wakes.insert((wake, id));
            }
            None => {
                self.leases.remove(&id);
                self.wakes.remove(&(before, id));
            }
        }
    }
}
