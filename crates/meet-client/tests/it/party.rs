//! An in-memory meeting and its participants, under virtual time.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Store};
use tenure_meet_client::{Client, Ending, Event, Events, News, Options, View};
use tenure_meet_wire::jwt::Role;
use tenure_store::{Local, TokioClock};
use tenure_testkit_meet::{FlakyTransport, ScriptedJoinApi, TestMeeting};

pub(crate) const MC: &str = "https://mc-1/wt/mc";

pub(crate) struct Party {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) meeting: TestMeeting,
    pub(crate) transport: Arc<FlakyTransport>,
}

/// A participant with its own transport.
pub(crate) struct Guest {
    pub(crate) client: Client,
    pub(crate) events: Events,
    pub(crate) transport: Arc<FlakyTransport>,
    pub(crate) join_api: Arc<ScriptedJoinApi>,
}

impl Party {
    pub(crate) async fn new() -> Self {
        let clock = Arc::new(TokioClock::default());
        Self::on(clock.clone(), Arc::new(Local::memory_on(clock))).await
    }

    pub(crate) async fn on(clock: Arc<TokioClock>, store: Arc<dyn Store>) -> Self {
        let mut meeting = TestMeeting::open(&store, "mc-1").unwrap();
        meeting.assign().await.unwrap();
        let transport = FlakyTransport::new();
        transport.add_route(MC, meeting.in_memory());
        Self { clock, store, meeting, transport }
    }

    pub(crate) fn options(&self, name: &str) -> Options {
        Options::new(name, self.clock.clone(), Arc::new(OsEntropy))
    }

    pub(crate) fn join_api(&self, user: &str, role: Role) -> Arc<ScriptedJoinApi> {
        ScriptedJoinApi::in_memory(self.meeting.tokens(), user, role, MC)
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
        let (transport, join_api) = (FlakyTransport::new(), self.join_api(user, role));
        transport.add_route(MC, self.meeting.in_memory());
        let (client, events) = Client::join(join_api.clone(), transport.clone(), options).await?;
        Ok(Guest { client, events, transport, join_api })
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}

impl Guest {
    pub(crate) fn id(&self) -> String {
        self.client.view(|view| view.me.clone())
    }

    pub(crate) async fn sees(&self, check: impl Fn(&View) -> bool) {
        assert_eq!(self.client.until(|view| check(view).then_some(())).await, Some(()));
    }

    pub(crate) async fn hears(&self, text: &str) {
        self.sees(|view| view.lines.iter().any(|line| line.said.text == text)).await;
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        self.client.view(|view| view.lines.iter().map(|line| line.said.text.clone()).collect())
    }

    /// Returns the next event that matches and skips the others.
    pub(crate) async fn next_event<T>(&mut self, fits: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv().await.expect("an event");
            if let Some(found) = fits(&event) {
                return found;
            }
        }
    }

    /// Drains the events: numbers, and chat as text.
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
