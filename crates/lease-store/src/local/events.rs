//! The order of changes, kept for watchers that resume.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use lease::{Error, Event, Prefix, Refusal, Result, Revision, Watch, Watched, limits};

use crate::sync::{Mutex, watch};

/// The last changes, published once they are durable.
#[derive(Debug)]
pub(crate) struct EventLog {
    ring: Mutex<Ring>,
    newest: watch::Sender<Revision>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Event>,
    /// Everything after this revision is in the ring.
    since: Revision,
}

impl EventLog {
    /// An empty log of a store that starts at `revision`.
    pub(crate) fn new(revision: Revision) -> Self {
        let ring = Ring { events: VecDeque::new(), since: revision };
        Self { ring: Mutex::new(ring), newest: watch::Sender::new(revision) }
    }

    /// Adds changes in order and wakes the watchers.
    pub(crate) fn publish(&self, events: impl IntoIterator<Item = Event>) {
        let mut events = events.into_iter().peekable();
        if events.peek().is_none() {
            return;
        }
        let mut ring = self.ring.lock();
        for event in events {
            if ring.events.len() == limits::EVENTS
                && let Some(oldest) = ring.events.pop_front()
            {
                ring.since = oldest.revision;
            }
            ring.events.push_back(event);
        }
        let newest = ring.events.back().map(|event| event.revision);
        drop(ring);
        if let Some(newest) = newest {
            self.newest.send_replace(newest);
        }
    }

    /// A watch after `from`, or from now on.
    pub(crate) fn watch(self: &Arc<Self>, prefix: Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        if self.newest.receiver_count() >= limits::WATCHERS {
            return Err(Refusal::TooMany { what: "watchers", limit: limits::WATCHERS }.into());
        }
        let newest = self.newest.subscribe();
        let after = from.unwrap_or_else(|| *newest.borrow());
        Ok(Box::new(LocalWatch { log: self.clone(), newest, prefix, after }))
    }
}

struct LocalWatch {
    log: Arc<EventLog>,
    newest: watch::Receiver<Revision>,
    prefix: Prefix,
    after: Revision,
}

impl LocalWatch {
    fn look(&mut self) -> Option<Watched> {
        let newest = *self.newest.borrow_and_update();
        let ring = self.log.ring.lock();
        // Before the ring: changes were dropped. After the newest: the revision is of another store or of a
        // time that this one has no memory of.
        if self.after < ring.since || self.after > newest.max(ring.since) {
            self.after = newest;
            return Some(Watched::Lagged);
        }
        let start = ring.events.partition_point(|event| event.revision <= self.after);
        let found = ring.events.range(start..).find(|event| event.key.starts_with(&self.prefix)).cloned();
        self.after = match &found {
            Some(event) => event.revision,
            None => ring.events.back().map_or(self.after, |last| last.revision.max(self.after)),
        };
        found.map(Watched::Event)
    }
}

#[async_trait]
impl Watch for LocalWatch {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            if let Some(watched) = self.look() {
                return Ok(watched);
            }
            if self.newest.changed().await.is_err() {
                return Err(Error::unavailable("watch", "the store was closed"));
            }
        }
    }
}
