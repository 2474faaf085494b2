//! A person: a real client that joins the meeting and does what the plan says, over every restart of its process.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tenure_lease::Clock as _;
use tenure_meet_client::join_api::{RestJoinApi, RestRequest, RestTransport as _};
use tenure_meet_client::{Client, Ending, Event, Events, Options, Refused};
use tenure_meet_wire::signaling::ErrorCode;
use tokio::task::JoinSet;

use super::call::{SimDial, SimRest};
use super::judge::Sentence;
use super::nodes::{GRACE, Start};
use super::plan::{Act, Plan};
use super::tokens;
use super::world::{Life, World};
use crate::history::Nanos;

/// How long a person waits before it tries again.
const AGAIN: Duration = Duration::from_millis(500);
/// A client that is back within this time must have its seat. Less than the grace period, by how late a controller may
/// notice the loss of the connection.
const IN_TIME: Nanos = GRACE.as_nanos() as u64 - 6_000_000_000;

/// What is known of a person from outside, over all of its processes.
#[derive(Default)]
pub(super) struct Presence {
    /// The client, while it takes part.
    pub(super) client: Option<Arc<Client>>,
    pub(super) life: Option<Life>,
    /// How many acts it has begun.
    begun: usize,
    /// It left, was removed, or the meeting ended: it does not come back.
    pub(super) out: Option<String>,
    /// It has done everything.
    pub(super) done: bool,
    /// Its process was stopped: it may have lost its seat without knowing.
    pub(super) stopped: bool,
}

/// One process of a person.
pub(super) struct PersonTask {
    pub(super) world: Arc<World>,
    pub(super) plan: Arc<Plan>,
    pub(super) number: usize,
    pub(super) start: Start,
    pub(super) presence: Arc<Mutex<Presence>>,
}

impl PersonTask {
    pub(super) async fn run(mut self) {
        self.presence.lock().life = Some(self.start.life);
        if self.presence.lock().out.is_some() {
            return;
        }
        let Ok(token) = tokens::user(&self.plan.people[self.number].user, self.start.clock.wall()) else {
            return;
        };
        let code = self.invitation(&token).await;
        let mut tasks = JoinSet::new();
        while self.presence.lock().out.is_none() {
            if self.presence.lock().client.is_none() && !self.join(&code, &token, &mut tasks).await {
                self.sleep(AGAIN).await;
                continue;
            }
            let next = self.presence.lock().begun;
            let Some((rest, act)) = self.plan.people[self.number].acts.get(next).copied() else { break };
            self.sleep(Duration::from_millis(rest)).await;
            self.presence.lock().begun += 1;
            self.act(act, next).await;
            self.look();
        }
        self.presence.lock().done = true;
        // The client goes on until the process ends.
        loop {
            self.sleep(AGAIN).await;
            self.look();
            let gone = self.presence.lock().client.is_none() && self.presence.lock().out.is_none();
            if gone {
                self.join(&code, &token, &mut tasks).await;
            }
        }
    }

    async fn sleep(&self, time: Duration) {
        let clock = &self.start.clock;
        clock.sleep_until(clock.now() + time).await;
    }

    /// The code of the meeting. The host creates it; the others wait for it.
    async fn invitation(&self, token: &str) -> String {
        loop {
            let code = self.world.invitation.lock().clone();
            match code {
                Some(code) => return code,
                None if self.number == 0 => self.create(token).await,
                None => {}
            }
            self.sleep(AGAIN).await;
        }
    }

    async fn create(&self, token: &str) {
        let request = RestRequest {
            method: http::Method::POST,
            url: "/api/v1/meetings".to_owned(),
            bearer: Some(token.to_owned()),
            body: Some(json!({ "display_name": "sim" })),
        };
        let rest = SimRest { world: self.world.clone(), life: self.start.life };
        let answer = tokio::select! {
            biased;
            answer = rest.send(request) => answer.ok(),
            () = self.sleep(AGAIN * 4) => None,
        };
        let body = answer.and_then(|(_, body)| serde_json::from_slice::<serde_json::Value>(&body).ok());
        if let Some(code) = body.as_ref().and_then(|body| body["meeting_code"].as_str()) {
            *self.world.invitation.lock() = Some(code.to_owned());
        }
    }

    /// Joins as a new participant. Returns whether it takes part.
    async fn join(&mut self, code: &str, token: &str, tasks: &mut JoinSet<()>) -> bool {
        let (world, life, clock) = (self.world.clone(), self.start.life, self.start.clock());
        let rest = Arc::new(SimRest { world: world.clone(), life });
        let api = Arc::new(RestJoinApi::user_over(rest, code, token, clock.clone()));
        let dial = Arc::new(SimDial { world: world.clone(), life });
        let options = Options::new(&name(self.number), clock, self.start.entropy());
        match Client::join(api, dial, options).await {
            Ok((client, events)) => {
                let client = Arc::new(client);
                self.presence.lock().client = Some(client);
                let (presence, number) = (self.presence.clone(), self.number);
                tasks.spawn(watch(world, number, presence, events));
                true
            }
            Err(ending) => {
                self.ended(&ending);
                false
            }
        }
    }

    /// Notices that the client ended by itself.
    fn look(&self) {
        let client = self.presence.lock().client.clone();
        let Some(client) = client else { return };
        if let tenure_meet_client::State::Over(ending) = client.state() {
            self.presence.lock().client = None;
            self.ended(&ending);
        }
    }

    fn ended(&self, ending: &Ending) {
        let host = self.start.life.host;
        self.world.note(|| format!("{host}: the client ended: {ending}"));
        let over = match ending {
            Ending::Superseded => {
                let text = format!("another connection took the seat of {}", name(self.number));
                self.world.judge.lock().broke(self.world.now(), Sentence::OneResume, text);
                false
            }
            Ending::GaveUp(_) | Ending::Left => false,
            Ending::Refused { code, .. } => code != "UNAVAILABLE",
            Ending::Kicked | Ending::MeetingOver(_) | Ending::Protocol => true,
        };
        if over {
            self.presence.lock().out = Some(ending.to_string());
        }
    }

    async fn act(&self, act: Act, number: usize) {
        let client = self.presence.lock().client.clone();
        let Some(client) = client else { return };
        self.world.note(|| format!("{}: {act:?}", self.start.life.host));
        match act {
            Act::Chat => {
                let text = format!("{}-{number}", name(self.number));
                if client.chat(&text).await.is_ok() {
                    self.world.judge.lock().acknowledged(self.world.now(), &text);
                }
            }
            Act::Mute(on) => drop(client.mute(on, false).await),
            Act::HostMute(person, on) => self.host_mute(&client, person, on).await,
            Act::Kick(person) => {
                if let Some(id) = self.id_of(&client, person) {
                    drop(client.kick(&id, "sim").await);
                }
            }
            Act::Reload => {
                self.presence.lock().client = None;
                drop(client);
            }
            Act::Leave => {
                self.presence.lock().client = None;
                if let Some(client) = Arc::into_inner(client) {
                    let ending = client.leave().await;
                    self.presence.lock().out = Some(ending.to_string());
                }
            }
            Act::End => {
                self.world.judge.lock().ending = true;
                drop(client.end_meeting().await);
            }
        }
    }

    async fn host_mute(&self, client: &Client, person: usize, on: bool) {
        let user = &self.plan.people[person].user;
        let Some(id) = self.id_of(client, person) else { return };
        let before = self.world.judge.lock().must_be_muted(user);
        let certain = self.world.judge.lock().deciding(user);
        match client.host_mute(&id, on, false, "sim").await {
            Ok(()) if certain => self.world.judge.lock().decided(user, on),
            // It did not happen: what held before holds on. A write in doubt is unavailable as well.
            Err(Refused::No { code, .. }) if certain && code != ErrorCode::Unavailable => {
                if let Some(before) = before {
                    self.world.judge.lock().decided(user, before);
                }
            }
            _ => {}
        }
    }

    /// The participant id of a person, as this client sees it.
    fn id_of(&self, client: &Client, person: usize) -> Option<String> {
        let wanted = name(person);
        client.view(|view| {
            let found = view.people.values().find(|known| known.name == wanted);
            found.map(|known| known.participant_id.clone())
        })
    }
}

/// The display name of a person: unlike the user it is its own.
pub(super) fn name(number: usize) -> String {
    format!("p{number}")
}

/// Follows the events of a client, and sees that it keeps its seat.
async fn watch(world: Arc<World>, number: usize, presence: Arc<Mutex<Presence>>, mut events: Events) {
    let mut heard = None;
    while let Some(event) = events.recv().await {
        let now = world.now();
        if let Event::Connected { resumed: false, .. } = event
            && let Some(heard) = heard
            && now - heard < IN_TIME
            && !presence.lock().stopped
        {
            world.judge.lock().lost_its_seat(now, &name(number), heard);
        }
        heard = Some(now);
        if matches!(event, Event::Over(_)) {
            return;
        }
    }
}
