//! A watch, read by a test.

use lease::{End, Event, Prefix, Revision, Verb, Watch, Watched};

use super::{Held, World, said};

/// A watch that must deliver.
pub struct Tail(Box<dyn Watch>);

impl World {
    /// Watches keys of this test.
    pub async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Tail {
        Tail(said(self.store().watch(prefix, from).await))
    }
}

impl Tail {
    /// What comes next.
    pub async fn watched(&mut self, world: &World) -> Watched {
        said(world.within("the next of a watch", self.0.next()).await)
    }

    /// The event that must come next.
    pub async fn next(&mut self, world: &World) -> Event {
        match self.watched(world).await {
            Watched::Event(event) => event,
            Watched::Lagged => panic!("the watch lagged behind a handful of events"),
        }
    }

    /// The next events, so many.
    pub async fn take(&mut self, world: &World, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.next(world).await);
        }
        events
    }

    /// Asserts that the next event is the grant of a lease.
    pub async fn granted(&mut self, world: &World, held: &Held) -> Event {
        self.about(world, held, Verb::Granted).await
    }

    /// Asserts that the next event is the end of a reign.
    pub async fn ended(&mut self, world: &World, held: &Held, end: End) -> Event {
        self.about(world, held, Verb::Ended(end)).await
    }

    async fn about(&mut self, world: &World, held: &Held, verb: Verb) -> Event {
        let event = self.next(world).await;
        assert_eq!((&event.key, event.verb), (held.key(), verb), "{event:?}");
        assert_eq!(event.holder.as_ref(), Some(&held.lease.holder), "{event:?}");
        assert_eq!(event.generation, Some(held.generation()), "{event:?}");
        event
    }
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tail")
    }
}
