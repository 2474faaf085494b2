//! Effects of a step: rows for the disk, events for watchers, grants for waiters.

use tenure_lease::{Digest, Event, Generation, Grant, Holder, Key, Revision, Verb, Wall};

use super::rows::{self, Table as RowTable};
use crate::sync::oneshot;

/// Effects that become visible once they are durable, in the order of their decision.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Encoded row operations; empty without a disk.
    pub(crate) rows: Vec<u8>,
    pub(crate) events: Vec<Event>,
    /// The last revision without an event: a watch from there on has missed nothing.
    pub(crate) silent: Option<Revision>,
    pub(crate) grants: Vec<GrantDelivery>,
    /// A row has a longer TTL than the disk.
    pub(crate) raised: bool,
    /// The last revision, set when the writer takes the effects.
    pub(crate) until: Revision,
    durable: bool,
}

/// A grant for a parked claim.
#[derive(Debug)]
pub(crate) struct GrantDelivery {
    pub(crate) senders: Vec<oneshot::Sender<Grant>>,
    pub(crate) grant: Grant,
    pub(crate) digest: Digest,
}

impl GrantDelivery {
    /// Sends the grant to the latest caller that still waits; false when there is none. Only one caller gets it, so that an
    /// unused grant can be released; duplicates find the lease when they acquire again.
    pub(crate) fn deliver(self) -> bool {
        self.senders.into_iter().rev().any(|sender| sender.send(self.grant.clone()).is_ok())
    }
}

impl Effects {
    pub(crate) fn new(durable: bool) -> Self {
        Self { durable, ..Self::default() }
    }

    /// Whether effects go to disk first.
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
        reign: (&Holder, Generation),
    ) {
        let (holder, generation) = (Some(reign.0.clone()), Some(reign.1));
        self.events.push(Event { revision, at, key: key.clone(), verb, holder, generation });
    }

    pub(crate) fn record_event(&mut self, revision: Revision, at: Wall, key: &Key, verb: Verb) {
        self.events.push(Event { revision, at, key: key.clone(), verb, holder: None, generation: None });
    }
}
