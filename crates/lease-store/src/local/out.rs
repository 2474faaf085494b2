//! What a change leaves behind for others: rows for the disk, events for watchers, grants for waiters.

use lease::{Digest, Event, Generation, Grant, Holder, Key, Revision, Verb, Wall};

use super::rows::{self, Table as RowTable};
use crate::sync::oneshot;

/// Effects that become visible once they are durable, in the order they were decided.
#[derive(Debug, Default)]
pub(crate) struct Out {
    /// Encoded row operations; stays empty in engines without a disk.
    pub(crate) rows: Vec<u8>,
    pub(crate) events: Vec<Event>,
    /// The last revision of a change that no event tells: whoever watches from there on has missed nothing.
    pub(crate) silent: Option<Revision>,
    pub(crate) grants: Vec<Delivery>,
    /// A reign among the rows was given a longer TTL than the disk knew.
    pub(crate) raised: bool,
    /// The last revision among them, known once they are taken.
    pub(crate) until: Revision,
    durable: bool,
}

/// A grant on its way to whoever parked for it.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) told: Vec<oneshot::Sender<Grant>>,
    pub(crate) grant: Grant,
    pub(crate) digest: Digest,
}

impl Delivery {
    /// Tells the latest that waits; false when nobody was there to hear it. Only one is told, so that a
    /// grant nobody takes up can be given back; its duplicates find the lease by asking again.
    pub(crate) fn deliver(self) -> bool {
        self.told.into_iter().rev().any(|told| told.send(self.grant.clone()).is_ok())
    }
}

impl Out {
    pub(crate) fn new(durable: bool) -> Self {
        Self { durable, ..Self::default() }
    }

    /// Whether effects go to a disk first.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.events.is_empty() && self.silent.is_none() && self.grants.is_empty()
    }

    /// Takes everything and leaves an empty one of the same kind.
    pub(crate) fn take(&mut self) -> Self {
        let empty = Self::new(self.durable);
        std::mem::replace(self, empty)
    }

    pub(crate) fn put<V: serde::Serialize>(&mut self, table: RowTable, key: &[&[u8]], value: &V) {
        if self.durable {
            rows::put(&mut self.rows, table, key, value);
        }
    }

    pub(crate) fn delete(&mut self, table: RowTable, key: &[&[u8]]) {
        if self.durable {
            rows::delete(&mut self.rows, table, key);
        }
    }

    pub(crate) fn lease_event(
        &mut self,
        revision: Revision,
        at: Wall,
        key: &Key,
        verb: Verb,
        who: (&Holder, Generation),
    ) {
        let (holder, generation) = (Some(who.0.clone()), Some(who.1));
        self.events.push(Event { revision, at, key: key.clone(), verb, holder, generation });
    }

    pub(crate) fn record_event(&mut self, revision: Revision, at: Wall, key: &Key, verb: Verb) {
        self.events.push(Event { revision, at, key: key.clone(), verb, holder: None, generation: None });
    }
}
