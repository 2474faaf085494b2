//! The handle of a client.

use std::sync::Arc;

use bytes::Bytes;
use meet_wire::frame;
use meet_wire::signaling::client_message::Payload;
use meet_wire::signaling::{
    ChatRequest, ClientMessage, DataRequest, EndMeetingRequest, HostMuteRequest, KickRequest, LayoutConfig,
    LayoutType, LeaveRequest, MuteRequest, Participant, PublishStream, StreamType, SubscribeToLayout,
    UnmuteRequest, UnmuteResponse, UnpublishStream, UnsubscribeLayout, UpdateLayout,
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::dial::Dial;
use crate::door::Door;
use crate::life::{Life, Shared};
use crate::limits;
use crate::options::{Ending, Options, State};
use crate::request::{Asked, Refused};
use crate::{Event, View};

/// What a client is told, in order. With [`Options::events`] zero there is nothing in it.
pub type Events = mpsc::Receiver<Event>;

/// A participant. Dropping it drops the connection as a crash would: the seat is kept for its time of grace. [`Client::leave`] gives it up.
pub struct Client {
    asked: mpsc::Sender<Asked>,
    shared: Arc<Shared>,
    options: Options,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl Client {
    /// Joins a meeting: returns with a seat, or with why there is none.
    pub async fn join(
        door: Arc<dyn Door>,
        dial: Arc<dyn Dial>,
        options: Options,
    ) -> Result<(Self, Events), Ending> {
        let (asked, requests) = mpsc::channel(options.queue.max(1));
        let (tell, events) = mpsc::channel(options.events.max(1));
        let tell = (options.events > 0).then_some(tell);
        let shared = Arc::new(Shared {
            view: Mutex::new(View::new(options.lines)),
            state: watch::Sender::new(State::Connecting),
            version: watch::Sender::new(0),
        });
        let (cancel, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let life = Life::new(door, dial, options.clone(), shared.clone(), requests, tell, cancel.clone());
        let (joined, answer) = oneshot::channel();
        tasks.spawn(life.run(joined));
        let client = Self { asked, shared, options, cancel, tasks };
        answer.await.unwrap_or(Err(Ending::Left)).map(|()| (client, events))
    }

    /// Looks at what is known.
    pub fn view<T>(&self, look: impl FnOnce(&View) -> T) -> T {
        look(&self.shared.view.lock())
    }

    /// This participant as the meeting sees it.
    pub fn own(&self) -> Option<Participant> {
        self.view(|view| view.own().cloned())
    }

    /// How it stands with the meeting.
    pub fn state(&self) -> State {
        self.shared.state.borrow().clone()
    }

    /// Waits until a look at what is known gives something. Without end if it never does; nothing if the client ends first.
    pub async fn until<T>(&self, look: impl Fn(&View) -> Option<T>) -> Option<T> {
        let mut version = self.shared.version.subscribe();
        let mut state = self.shared.state.subscribe();
        loop {
            version.mark_unchanged();
            if let Some(found) = self.view(&look) {
                return Some(found);
            }
            if matches!(*state.borrow_and_update(), State::Over(_)) {
                return None;
            }
            tokio::select! {
                changed = version.changed() => changed.ok()?,
                changed = state.changed() => changed.ok()?,
            }
        }
    }

    /// Waits for the end and says which it was.
    pub async fn over(&self) -> Ending {
        let mut state = self.shared.state.subscribe();
        let over = state.wait_for(|state| matches!(state, State::Over(_))).await;
        match over.map(|state| state.clone()) {
            Ok(State::Over(ending)) => ending,
            _ => Ending::Left,
        }
    }

    /// Asks the meeting for something and waits for its answer. While there is no connection the request waits; who stops waiting takes it
    /// back if it was not sent.
    pub async fn ask(&self, payload: Payload) -> Result<(), Refused> {
        let message = ClientMessage {
            payload: Some(payload),
            seq: u64::MAX,
            acknowledged_event_seq: u64::MAX,
            ..ClientMessage::default()
        };
        frame::encode(&message).map_err(|_| Refused::TooLong)?;
        let Some(payload) = message.payload else { return Err(Refused::TooLong) };
        let (answer, answered) = oneshot::channel();
        self.asked.try_send(Asked { payload, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::QueueFull,
            mpsc::error::TrySendError::Closed(_) => Refused::Over(self.ended()),
        })?;
        answered.await.unwrap_or_else(|_| Err(Refused::Over(self.ended())))
    }

    fn ended(&self) -> Ending {
        match self.state() {
            State::Over(ending) => ending,
            _ => Ending::Left,
        }
    }

    /// Says something to everybody.
    pub async fn chat(&self, text: &str) -> Result<(), Refused> {
        self.ask(Payload::ChatRequest(ChatRequest { text: text.to_owned() })).await
    }

    /// Sends bytes to everybody, or to these.
    pub async fn data(&self, topic: &str, payload: Bytes, to: &[String]) -> Result<(), Refused> {
        let request = DataRequest { topic: topic.to_owned(), payload, to_participant_ids: to.to_vec() };
        self.ask(Payload::DataRequest(request)).await
    }

    /// Shows that the own microphone and camera are muted, or not.
    pub async fn mute(&self, audio: bool, video: bool) -> Result<(), Refused> {
        self.ask(Payload::MuteRequest(MuteRequest { audio_muted: audio, video_muted: video })).await
    }

    /// For hosts: mutes somebody, or takes that back; what is false is not muted afterwards.
    pub async fn host_mute(
        &self,
        participant_id: &str,
        audio: bool,
        video: bool,
        reason: &str,
    ) -> Result<(), Refused> {
        let (participant_id, reason) = (participant_id.to_owned(), reason.to_owned());
        self.ask(Payload::HostMuteRequest(HostMuteRequest { participant_id, audio, video, reason })).await
    }

    /// Asks the hosts to be unmuted.
    pub async fn request_unmute(&self, audio: bool, video: bool) -> Result<(), Refused> {
        self.ask(Payload::UnmuteRequest(UnmuteRequest { request_audio: audio, request_video: video })).await
    }

    /// For hosts: answers such a wish; neither is a no.
    pub async fn answer_unmute(&self, participant_id: &str, audio: bool, video: bool) -> Result<(), Refused> {
        let participant_id = participant_id.to_owned();
        let answer = UnmuteResponse { participant_id, audio_approved: audio, video_approved: video };
        let answered = self.ask(Payload::UnmuteResponse(answer.clone())).await;
        if answered.is_ok() {
            self.shared.view.lock().asks.remove(&answer.participant_id);
        }
        answered
    }

    /// Says that a stream is published.
    pub async fn publish(&self, stream_id: u32, kind: StreamType, metadata: &str) -> Result<(), Refused> {
        let (r#type, metadata) = (kind.into(), metadata.to_owned());
        self.ask(Payload::PublishStream(PublishStream { stream_id, r#type, metadata })).await
    }

    /// Says that it is not any more.
    pub async fn unpublish(&self, stream_id: u32) -> Result<(), Refused> {
        self.ask(Payload::UnpublishStream(UnpublishStream { stream_id })).await
    }

    /// Asks to see others.
    pub async fn subscribe(&self, layout: LayoutType, config: LayoutConfig) -> Result<(), Refused> {
        let layout =
            SubscribeToLayout { layout_type: layout.into(), config: Some(config), stream_ids: Vec::new() };
        self.ask(Payload::SubscribeToLayout(layout)).await
    }

    /// Asks to see them in another way.
    pub async fn update_layout(&self, config: LayoutConfig) -> Result<(), Refused> {
        self.ask(Payload::UpdateLayout(UpdateLayout { new_config: Some(config) })).await
    }

    /// Asks to see nobody.
    pub async fn unsubscribe(&self) -> Result<(), Refused> {
        self.ask(Payload::UnsubscribeLayout(UnsubscribeLayout {})).await
    }

    /// For hosts: sends somebody away.
    pub async fn kick(&self, participant_id: &str, reason: &str) -> Result<(), Refused> {
        let (participant_id, reason) = (participant_id.to_owned(), reason.to_owned());
        self.ask(Payload::KickRequest(KickRequest { participant_id, reason })).await
    }

    /// For hosts: ends the meeting for everybody.
    pub async fn end_meeting(&self) -> Result<(), Refused> {
        self.ask(Payload::EndMeetingRequest(EndMeetingRequest {})).await
    }

    /// Gives up the seat and ends. If the meeting cannot be told within five seconds, the seat ends by its time of grace.
    pub async fn leave(mut self) -> Ending {
        let clock = self.options.clock.clone();
        let late = clock.sleep_until(clock.now() + limits::LEAVE);
        tokio::select! {
            _told = self.ask(Payload::LeaveRequest(LeaveRequest {})) => {}
            () = late => {}
        }
        self.cancel.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.ended()
    }
}
