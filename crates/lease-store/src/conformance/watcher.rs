//! A watch, read by a test.

use tenure_lease::{End, Event, Prefix, Revision, Verb, Watch, Watched};

use super::{Harness, HeldLease, expect_ok};

/// A watch that must deliver.
pub struct Watcher(Box<dyn Watch>);

impl Harness {
    /// Watches keys of this test.
    pub async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Watcher {
        Watcher(expect_ok(self.store().watch(prefix, from).await))
    }
}

impl Watcher {
    /// What comes next.
    pub async fn watched(&mut self, harness: &Harness) -> Watched {
        expect_ok(harness.within("the next of a watch", self.0.next()).await)
    }

    /// The event that must come next.
    pub async fn next(&mut self, harness: &Harness) -> Event {
        match self.watched(harness).await {
            Watched::Event(event) => event,
            Watched::Lagged => panic!("the watch lagged behind a handful of events"),
        }
    }

    /// The next events, so many.
    pub async fn take(&mut self, harness: &Harness, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.next(harness).await);
        }
        events
    }

    /// Asserts that the next event is the grant of a lease.
    pub async fn granted(&mut self, harness: &Harness, held: &HeldLease) -> Event {
        self.about(harness, held, Verb::Granted).await
    }

    /// Asserts that the next event is the end of a reign.
    pub async fn ended(&mut self, harness: &Harness, held: &HeldLease, end: End) -> Event {
        self.about(harness, held, Verb::Ended(end)).await
    }

    async fn about(&mut self, harness: &Harness, held: &HeldLease, verb: Verb) -> Event {
        let event = self.next(harness).await;
        assert_eq!((&event.key, event.verb), (held.key(), verb), "{event:?}");
        assert_eq!(event.holder.as_ref(), Some(&held.lease.holder), "{event:?}");
        assert_eq!(event.generation, Some(held.generation()), "{event:?}");
        event
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watcher")
    }
}
