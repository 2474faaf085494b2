//! The log of changes, for watchers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use tenure_lease::{Event, Prefix, Refusal, Result, Revision, Watch, Watched, limits};

use crate::sync::{Mutex, Notify};

/// The latest changes, published once they are durable.
#[derive(Debug)]
pub(crate) struct EventLog {
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Event>,
    /// Everything after this revision is in the ring.
    since: Revision,
    newest: Revision,
    watchers: BTreeMap<u64, Watcher>,
    /// The number of the last watcher.
    last: u64,
}

/// A watcher. Only changes under its prefixes wake it.
#[derive(Debug)]
struct Watcher {
    prefixes: Box<[Prefix]>,
    /// The last revision that it has seen or that did not concern it.
    after: Revision,
    /// There may be a change for it after that.
    due: bool,
    wakeup: Arc<Notify>,
}

impl EventLog {
    /// An empty log of a store that starts at `revision`.
    pub(crate) fn new(revision: Revision) -> Self {
        let ring = Ring {
            events: VecDeque::new(),
            since: revision,
            newest: revision,
            watchers: BTreeMap::new(),
            last: 0,
        };
        Self { ring: Mutex::new(ring) }
    }

    /// Adds changes in order and wakes the watchers.
    pub(crate) fn publish(&self, events: impl IntoIterator<Item = Event>) {
        let mut events = events.into_iter().peekable();
        if events.peek().is_none() {
            return;
        }
        let mut ring = self.ring.lock();
        let before = ring.newest;
        for event in events {
            ring.newest = event.revision;
            if ring.events.len() == limits::EVENTS
                && let Some(oldest) = ring.events.pop_front()
            {
                ring.since = oldest.revision;
            }
            ring.events.push_back(event);
        }
        ring.wake(before);
    }

    /// Records changes up to `revision` that have no event.
    pub(crate) fn reach(&self, revision: Revision) {
        let mut ring = self.ring.lock();
        ring.newest = ring.newest.max(revision);
    }

    /// A watch of keys under any of `prefixes`, after `from` or from now on.
    pub(crate) fn watch(
        self: &Arc<Self>,
        prefixes: &[Prefix],
        from: Option<Revision>,
    ) -> Result<Box<dyn Watch>> {
        let mut ring = self.ring.lock();
        if ring.watchers.len() >= limits::WATCHERS {
            return Err(Refusal::TooMany { what: "watchers", limit: limits::WATCHERS }.into());
        }
        let (after, wakeup) = (from.unwrap_or(ring.newest), Arc::new(Notify::new()));
        ring.last += 1;
        let number = ring.last;
        let prefixes = prefixes.into();
        ring.watchers.insert(number, Watcher { prefixes, after, due: true, wakeup: wakeup.clone() });
        Ok(Box::new(LocalWatch { log: self.clone(), number, wakeup }))
    }
}

impl Ring {
    /// Wakes the watchers that a change after `before` concerns, and advances the others.
    fn wake(&mut self, before: Revision) {
        let start = self.events.partition_point(|event| event.revision <= before);
        for watcher in self.watchers.values_mut().filter(|watcher| !watcher.due) {
            let mut fresh = self.events.range(start..);
            if fresh.any(|event| event.key.starts_with_any(&watcher.prefixes)) {
                watcher.due = true;
                watcher.wakeup.notify_one();
            } else {
                watcher.after = self.newest;
            }
        }
    }

    fn next_for(&mut self, number: u64) -> Option<Watched> {
        let (since, newest) = (self.since, self.newest);
        let watcher = self.watchers.get_mut(&number)?;
        // Before the ring: changes were dropped. After the newest: the revision is from another store, or was lost.
        if watcher.after < since || watcher.after > newest.max(since) {
            watcher.after = newest;
            return Some(Watched::Lagged);
        }
        let start = self.events.partition_point(|event| event.revision <= watcher.after);
        let found = self.events.range(start..).find(|event| event.key.starts_with_any(&watcher.prefixes));
        watcher.due = found.is_some();
        watcher.after = found.map_or(newest.max(watcher.after), |event| event.revision);
        found.cloned().map(Watched::Event)
    }
}

struct LocalWatch {
    log: Arc<EventLog>,
    number: u64,
    wakeup: Arc<Notify>,
}

#[async_trait]
impl Watch for LocalWatch {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            if let Some(watched) = self.log.ring.lock().next_for(self.number) {
                return Ok(watched);
            }
            self.wakeup.notified().await;
        }
    }
}

impl Drop for LocalWatch {
    fn drop(&mut self) {
        self.log.ring.lock().watchers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Wake};

    use tenure_lease::{Key, Verb, Wall};

    use super::*;

    /// A waker that records whether it was woken.
    #[derive(Default)]
    struct RecordingWaker(AtomicBool);

    impl Wake for RecordingWaker {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    impl RecordingWaker {
        fn is_woken(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        /// Polls once.
        fn poll<T>(self: &Arc<Self>, work: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
            std::pin::Pin::new(work).poll(&mut Context::from_waker(&self.clone().into()))
        }
    }

    fn event(revision: u64, key: &str) -> Event {
        Event {
            revision: Revision::new(revision),
            at: Wall::from_micros(0),
            key: Key::new(key).unwrap(),
            verb: Verb::Written,
            holder: None,
            generation: None,
        }
    }

    fn watch(log: &Arc<EventLog>, prefix: &str) -> Box<dyn Watch> {
        log.watch(&[Prefix::new(prefix).unwrap()], None).unwrap()
    }

    #[test]
    fn only_a_watched_change_wakes_a_watcher() {
        let log = Arc::new(EventLog::new(Revision::new(0)));
        let (mut mine, mut all) = (watch(&log, "mine/"), watch(&log, ""));
        let (one, other) = (Arc::new(RecordingWaker::default()), Arc::new(RecordingWaker::default()));
        let (mut next_of_mine, mut next_of_all) = (mine.next(), all.next());
        assert!(one.poll(&mut next_of_mine).is_pending() && other.poll(&mut next_of_all).is_pending());
        log.publish([event(1, "other/a")]);
        assert!(!one.is_woken() && other.is_woken());
        log.publish([event(2, "other/b"), event(3, "mine/a")]);
        assert!(one.is_woken());
        let seen = one.poll(&mut next_of_mine);
        assert!(matches!(seen, Poll::Ready(Ok(Watched::Event(seen))) if seen == event(3, "mine/a")));
    }

    #[test]
    fn a_watch_of_several_prefixes_is_woken_for_each_and_for_nothing_else() {
        let log = Arc::new(EventLog::new(Revision::new(0)));
        let prefixes = ["mine/", "ours/"].map(|text| Prefix::new(text).unwrap());
        let mut watch = log.watch(&prefixes, None).unwrap();
        for (revision, key) in [(2, "ours/a"), (4, "mine/a")] {
            let (mut next, sleeper) = (watch.next(), Arc::new(RecordingWaker::default()));
            assert!(sleeper.poll(&mut next).is_pending());
            log.publish([event(revision - 1, "other/a")]);
            assert!(!sleeper.is_woken());
            log.publish([event(revision, key)]);
            assert!(sleeper.is_woken());
            let seen = sleeper.poll(&mut next);
            assert!(matches!(seen, Poll::Ready(Ok(Watched::Event(seen))) if seen == event(revision, key)));
        }
    }

    #[tokio::test]
    async fn a_watch_of_a_quiet_prefix_does_not_lag_however_much_changes_elsewhere() {
        let log = Arc::new(EventLog::new(Revision::new(0)));
        let mut watch = watch(&log, "mine/");
        assert!(Arc::new(RecordingWaker::default()).poll(&mut watch.next()).is_pending());
        let many = limits::EVENTS as u64 * 2;
        (1..=many).for_each(|revision| log.publish([event(revision, "other/a")]));
        log.publish([event(many + 1, "mine/a")]);
        assert!(matches!(watch.next().await, Ok(Watched::Event(seen)) if seen == event(many + 1, "mine/a")));
        // A watch that does not read its changes lags.
        log.publish([event(many + 2, "mine/a")]);
        (3..=many).for_each(|n| log.publish([event(many + n, "other/a")]));
        assert!(matches!(watch.next().await, Ok(Watched::Lagged)));
    }

    #[test]
    fn a_watch_that_is_dropped_makes_room_for_another() {
        let log = Arc::new(EventLog::new(Revision::new(0)));
        let mut watches: Vec<_> = (0..limits::WATCHERS).map(|_| watch(&log, "")).collect();
        assert!(log.watch(&[Prefix::default()], None).is_err());
        watches.pop();
        assert!(log.watch(&[Prefix::default()], None).is_ok());
    }
}
