//! A venue in memory and people who come to it, under virtual time.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Store};
use lease_keeper::OsEntropy;
use lease_store::{Local, TokioClock};
use meet_client::{Client, Ending, Event, Events, News, Options, View};
use meet_wire::jwt::Role;
use testkit_meet::{Cables, Usher, Venue};

pub(crate) const MC: &str = "https://mc-1/wt/mc";

pub(crate) struct Party {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) venue: Venue,
    pub(crate) cables: Arc<Cables>,
}

/// Somebody at the party, with a cable of their own.
pub(crate) struct Guest {
    pub(crate) client: Client,
    pub(crate) events: Events,
    pub(crate) cables: Arc<Cables>,
    pub(crate) usher: Arc<Usher>,
}

impl Party {
    pub(crate) async fn new() -> Self {
        let clock = Arc::new(TokioClock::default());
        Self::on(clock.clone(), Arc::new(Local::memory_on(clock))).await
    }

    pub(crate) async fn on(clock: Arc<TokioClock>, store: Arc<dyn Store>) -> Self {
        let mut venue = Venue::open(&store, "mc-1").unwrap();
        venue.assign().await.unwrap();
        let cables = Cables::new();
        cables.lead(MC, venue.in_memory());
        Self { clock, store, venue, cables }
    }

    pub(crate) fn options(&self, name: &str) -> Options {
        Options::new(name, self.clock.clone(), Arc::new(OsEntropy))
    }

    pub(crate) fn usher(&self, user: &str, role: Role) -> Arc<Usher> {
        Usher::at(self.venue.seats(), user, role, MC)
    }

    pub(crate) async fn join(&mut self, user: &str, role: Role) -> Guest {
        self.try_join(user, role, self.options(&user.to_uppercase())).await.unwrap()
    }

    pub(crate) async fn try_join(
        &mut self,
        user: &str,
        role: Role,
        options: Options,
    ) -> Result<Guest, Ending> {
        let (cables, usher) = (Cables::new(), self.usher(user, role));
        cables.lead(MC, self.venue.in_memory());
        let (client, events) = Client::join(usher.clone(), cables.clone(), options).await?;
        Ok(Guest { client, events, cables, usher })
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}

impl Guest {
    pub(crate) fn id(&self) -> String {
        self.client.view(|view| view.me.clone())
    }

    pub(crate) async fn sees(&self, look: impl Fn(&View) -> bool) {
        assert_eq!(self.client.until(|view| look(view).then_some(())).await, Some(()));
    }

    pub(crate) async fn hears(&self, text: &str) {
        self.sees(|view| view.lines.iter().any(|line| line.said.text == text)).await;
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        self.client.view(|view| view.lines.iter().map(|line| line.said.text.clone()).collect())
    }

    /// The next event that fits; others are skipped.
    pub(crate) async fn told<T>(&mut self, fits: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv().await.expect("an event");
            if let Some(found) = fits(&event) {
                return found;
            }
        }
    }

    /// What is there of events, as numbers, chat as its text.
    pub(crate) fn taken(&mut self) -> Vec<(u64, String)> {
        let mut taken = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            if let Event::News { seq, news, .. } = event
                && seq > 0
            {
                taken.push((seq, if let News::Chat(said) = news { said.text } else { String::new() }));
            }
        }
        taken
    }
}

pub(crate) fn connected(event: &Event) -> Option<(bool, bool)> {
    match event {
        Event::Connected { resumed, replay } => Some((*resumed, *replay)),
        _ => None,
    }
}
