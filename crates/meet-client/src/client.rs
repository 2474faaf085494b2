//! The client handle.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_meet_wire::frame;
use tenure_meet_wire::signaling::client_message::Payload;
use tenure_meet_wire::signaling::{
    ChatRequest, ClientMessage, DataRequest, EndMeetingRequest, HostMuteRequest, KickRequest, LayoutConfig,
    LayoutType, LeaveRequest, MuteRequest, Participant, PublishStream, StreamType, SubscribeToLayout,
    UnmuteRequest, UnmuteResponse, UnpublishStream, UnsubscribeLayout, UpdateLayout,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::dial::Dial;
use crate::driver::{Driver, Shared};
use crate::join_api::JoinApi;
use crate::limits;
use crate::media::controller::{ClientController, follow_servers};
use crate::media::{MediaClient, MediaOptions};
use crate::options::{Ending, Options, State};
use crate::request::{PendingRequest, Refused};
use crate::{Event, View};

/// The events of a client, in order. Empty if [`Options::events`] is zero.
pub type Events = mpsc::Receiver<Event>;

/// A participant. Dropping it acts like a crash: the participant stays for its grace period. [`Client::leave`] leaves the meeting.
pub struct Client {
    asked: mpsc::Sender<PendingRequest>,
    shared: Arc<Shared>,
    options: Options,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl Client {
    /// Joins a meeting. Returns once joined, or with the reason for the failure.
    pub async fn join(
        join_api: Arc<dyn JoinApi>,
        dial: Arc<dyn Dial>,
        options: Options,
    ) -> Result<(Self, Events), Ending> {
        let (asked, requests) = mpsc::channel(options.queue.max(1));
        let (event_sender, events) = mpsc::channel(options.events.max(1));
        let event_sender = (options.events > 0).then_some(event_sender);
        let shared = Arc::new(Shared {
            view: Mutex::new(View::new(options.lines)),
            state: watch::Sender::new(State::Connecting),
            version: watch::Sender::new(0),
        });
        let (cancel, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let driver = Driver::new(
            join_api,
            dial,
            options.clone(),
            shared.clone(),
            requests,
            event_sender,
            cancel.clone(),
        );
        let (joined, answer) = oneshot::channel();
        tasks.spawn(driver.run(joined));
        let client = Self { asked, shared, options, cancel, tasks };
        answer.await.unwrap_or(Err(Ending::Left)).map(|()| (client, events))
    }

    /// Reads the view.
    pub fn view<T>(&self, inspect: impl FnOnce(&View) -> T) -> T {
        inspect(&self.shared.view.lock())
    }

    /// This participant as the meeting sees it.
    pub fn own(&self) -> Option<Participant> {
        self.view(|view| view.own().cloned())
    }

    /// The connection state.
    pub fn state(&self) -> State {
        self.shared.state.borrow().clone()
    }

    /// Waits until `inspect` returns a value for the view. Waits forever if it never does. `None` if the client ends first.
    pub async fn until<T>(&self, inspect: impl Fn(&View) -> Option<T>) -> Option<T> {
        let mut version = self.shared.version.subscribe();
        let mut state = self.shared.state.subscribe();
        loop {
            version.mark_unchanged();
            if let Some(found) = self.view(&inspect) {
                return Some(found);
            }
            if matches!(*state.borrow_and_update(), State::Over(_)) {
                return None;
            }
            tokio::select! {
                biased;
                changed = version.changed() => changed.ok()?,
                changed = state.changed() => changed.ok()?,
            }
        }
    }

    /// Waits for the end and returns its reason.
    pub async fn over(&self) -> Ending {
        let mut state = self.shared.state.subscribe();
        let over = state.wait_for(|state| matches!(state, State::Over(_))).await;
        match over.map(|state| state.clone()) {
            Ok(State::Over(ending)) => ending,
            _ => Ending::Left,
        }
    }

    /// Sends a request and waits for the response. Without a connection, the request is queued. A caller that stops waiting cancels
    /// a request that was not sent yet.
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
        self.asked.try_send(PendingRequest { payload, answer }).map_err(|error| match error {
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

    /// Opens sessions with the media handlers of the meeting, and follows their changes until this client ends.
    pub fn open_media(&self, dial: Arc<dyn Dial>) -> MediaClient {
        let servers = watch::Sender::new(self.view(|view| view.media_servers.clone()));
        let controller = Arc::new(ClientController { asked: self.asked.clone() });
        let options = MediaOptions {
            clock: self.options.clock.clone(),
            entropy: self.options.entropy.clone(),
            traceparent: self.options.traceparent.clone().unwrap_or_default(),
        };
        let mut media = MediaClient::open(dial, controller, servers.subscribe(), options);
        media.tasks.spawn(follow_servers(self.shared.clone(), servers));
        media
    }

    /// Sends a chat message.
    pub async fn chat(&self, text: &str) -> Result<(), Refused> {
        self.ask(Payload::ChatRequest(ChatRequest { text: text.to_owned() })).await
    }

    /// Sends data to all participants, or to these.
    pub async fn data(&self, topic: &str, payload: Bytes, to: &[String]) -> Result<(), Refused> {
        let request = DataRequest { topic: topic.to_owned(), payload, to_participant_ids: to.to_vec() };
        self.ask(Payload::DataRequest(request)).await
    }

    /// Publishes the own mute state of microphone and camera.
    pub async fn mute(&self, audio: bool, video: bool) -> Result<(), Refused> {
        self.ask(Payload::MuteRequest(MuteRequest { audio_muted: audio, video_muted: video })).await
    }

    /// Host only: mutes or unmutes a participant. `false` unmutes.
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

    /// Requests the hosts to unmute this participant.
    pub async fn request_unmute(&self, audio: bool, video: bool) -> Result<(), Refused> {
        self.ask(Payload::UnmuteRequest(UnmuteRequest { request_audio: audio, request_video: video })).await
    }

    /// Host only: answers an unmute request. `false` for both declines it.
    pub async fn answer_unmute(&self, participant_id: &str, audio: bool, video: bool) -> Result<(), Refused> {
        let participant_id = participant_id.to_owned();
        let answer = UnmuteResponse { participant_id, audio_approved: audio, video_approved: video };
        let answered = self.ask(Payload::UnmuteResponse(answer.clone())).await;
        if answered.is_ok() {
            self.shared.view.lock().asks.remove(&answer.participant_id);
        }
        answered
    }

    /// Announces a published stream.
    pub async fn publish(&self, stream_id: u32, kind: StreamType, metadata: &str) -> Result<(), Refused> {
        let (r#type, metadata) = (kind.into(), metadata.to_owned());
        self.ask(Payload::PublishStream(PublishStream { stream_id, r#type, metadata })).await
    }

    /// Withdraws a published stream.
    pub async fn unpublish(&self, stream_id: u32) -> Result<(), Refused> {
        self.ask(Payload::UnpublishStream(UnpublishStream { stream_id })).await
    }

    /// Subscribes to the streams of others.
    pub async fn subscribe(&self, layout: LayoutType, config: LayoutConfig) -> Result<(), Refused> {
        let layout =
            SubscribeToLayout { layout_type: layout.into(), config: Some(config), stream_ids: Vec::new() };
        self.ask(Payload::SubscribeToLayout(layout)).await
    }

    /// Changes the layout of the subscription.
    pub async fn update_layout(&self, config: LayoutConfig) -> Result<(), Refused> {
        self.ask(Payload::UpdateLayout(UpdateLayout { new_config: Some(config) })).await
    }

    /// Ends the subscription.
    pub async fn unsubscribe(&self) -> Result<(), Refused> {
        self.ask(Payload::UnsubscribeLayout(UnsubscribeLayout {})).await
    }

    /// Host only: removes a participant.
    pub async fn kick(&self, participant_id: &str, reason: &str) -> Result<(), Refused> {
        let (participant_id, reason) = (participant_id.to_owned(), reason.to_owned());
        self.ask(Payload::KickRequest(KickRequest { participant_id, reason })).await
    }

    /// Host only: ends the meeting for all participants.
    pub async fn end_meeting(&self) -> Result<(), Refused> {
        self.ask(Payload::EndMeetingRequest(EndMeetingRequest {})).await
    }

    /// Leaves the meeting and ends the client. If the controller does not respond within five seconds, the participant
    /// stays for its grace period.
    pub async fn leave(mut self) -> Ending {
        let clock = self.options.clock.clone();
        let late = clock.sleep_until(clock.now() + limits::LEAVE);
        tokio::select! {
            biased;
            _told = self.ask(Payload::LeaveRequest(LeaveRequest {})) => {}
            () = late => {}
        }
        self.cancel.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.ended()
    }
}
