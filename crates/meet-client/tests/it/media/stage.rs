//! A meeting with real handlers, and participants that send and receive.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Store};
use tenure_meet_client::media::{
    AudioPublication, Demand, MediaClient, OutgoingFrame, OutgoingPacket, RenditionSender, VideoFormat,
    VideoFrame, VideoPublication, VideoSubscription,
};
use tenure_meet_client::{Client, Events, Options};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::media::message::Rendition;
use tenure_store::{Local, TokioClock};
use tenure_testkit_meet::{FlakyTransport, ScriptedJoinApi, TestHandlers, TestMeeting};

pub(crate) const MC: &str = "https://mc-1/wt/mc";

/// A meeting under virtual time.
pub(crate) struct Stage {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) handlers: TestHandlers,
    meeting: TestMeeting,
}

pub(crate) struct Actor {
    pub(crate) client: Client,
    pub(crate) media: MediaClient,
    pub(crate) transport: Arc<FlakyTransport>,
    _events: Events,
}

impl Stage {
    /// A meeting with these handlers; the first one is the primary.
    pub(crate) async fn new(ids: &[&str]) -> Self {
        let clock = Arc::new(TokioClock::default());
        let store: Arc<dyn Store> = Arc::new(Local::memory_on(clock.clone()));
        let mut handlers = TestHandlers::new(&store).unwrap();
        ids.iter().for_each(|id| handlers.add_in_memory(id).unwrap());
        let meeting = TestMeeting::with_handlers(&store, "mc-1", &handlers).unwrap();
        let infos = handlers.list().iter().map(|handler| handler.info.clone()).collect();
        meeting.assign_to(infos).await.unwrap();
        Self { clock, handlers, meeting }
    }

    pub(crate) async fn join(&mut self, user: &str, role: Role) -> Actor {
        let transport = FlakyTransport::new();
        transport.add_route(MC, self.meeting.in_memory());
        let join_api = ScriptedJoinApi::in_memory(self.meeting.tokens(), user, role, MC);
        let options = Options::new(user, self.clock.clone(), Arc::new(OsEntropy));
        let (client, events) = Client::join(join_api, transport.clone(), options).await.unwrap();
        // Media has connections of its own, so that a test cuts either.
        let media_transport = FlakyTransport::new();
        for handler in self.handlers.list() {
            media_transport.add_route(&handler.info.webtransport_endpoint, handler.dialer.clone().unwrap());
        }
        let media = client.open_media(media_transport.clone());
        assert!(media.active().await);
        Actor { client, media, transport: media_transport, _events: events }
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}

impl Actor {
    pub(crate) fn id(&self) -> String {
        self.client.view(|view| view.me.clone())
    }

    pub(crate) fn active(&self) -> Option<String> {
        self.media.state().borrow().active.clone()
    }

    /// Waits until as many handlers stand by.
    pub(crate) async fn stands_by(&self, count: usize) {
        let mut state = self.media.state();
        state.wait_for(|state| state.standby.len() == count).await.unwrap();
    }
}

/// A camera with renditions of 100, 400 and 1,200 kbit/s.
pub(crate) fn camera(renditions: usize) -> VideoFormat {
    let bitrates = [100_000, 400_000, 1_200_000];
    let renditions = bitrates.into_iter().take(renditions).enumerate();
    let renditions = renditions.map(|(at, max_bitrate)| Rendition {
        index: at as u32,
        max_bitrate,
        max_fps: 30,
        ..Rendition::default()
    });
    VideoFormat {
        stream_id: "2".to_owned(),
        screen: false,
        codec: "avc1.42C01F".to_owned(),
        renditions: renditions.collect(),
        temporal_layers: 1,
    }
}

/// A camera that sends 20 frames a second, as subscribers need them, until it is dropped.
pub(crate) struct Camera {
    _publication: VideoPublication,
    _task: tokio::task::JoinSet<()>,
}

const FRAME: Duration = Duration::from_millis(50);
/// Frames of a group without a request for a key frame.
const GROUP: u64 = 40;

impl Camera {
    pub(crate) async fn start(media: &MediaClient, clock: Arc<dyn Clock>, renditions: usize) -> Self {
        let publication = media.publish_video(camera(renditions)).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for rendition in 0..renditions as u8 {
            let (sender, demand) = (publication.sender(rendition), publication.demand());
            tasks.spawn(film(sender, demand, rendition, clock.clone()));
        }
        Self { _publication: publication, _task: tasks }
    }
}

async fn film(
    mut sender: RenditionSender,
    demand: tokio::sync::watch::Receiver<Demand>,
    rendition: u8,
    clock: Arc<dyn Clock>,
) {
    let began = clock.now();
    let (mut answered, mut in_group) = (u64::MAX, 0);
    for number in 1_u64.. {
        clock.sleep_until(began + FRAME * number as u32).await;
        let demand = demand.borrow().clone();
        if !demand.renditions.contains(&rendition) {
            sender.end_group();
            answered = u64::MAX;
            continue;
        }
        let asked = demand.keyframes[usize::from(rendition)];
        let key = asked != answered || in_group == GROUP;
        (answered, in_group) = (asked, if key { 1 } else { in_group + 1 });
        let payload = Bytes::from(vec![rendition; 500 << (2 * rendition)]);
        let timestamp_us = clock.now().since(began).as_micros() as u64;
        let frame = OutgoingFrame { timestamp_us, key, discardable: false, temporal: 0, payload };
        if sender.send(frame).await.is_err() {
            // The next frame begins a group.
            answered = u64::MAX;
        }
    }
}

/// A microphone that sends a packet every 20 ms until it is dropped.
pub(crate) struct Microphone {
    _task: tokio::task::JoinSet<()>,
}

impl Microphone {
    pub(crate) async fn start(media: &MediaClient, clock: Arc<dyn Clock>) -> Self {
        let publication = media.publish_audio("1").await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(speak(publication, clock));
        Self { _task: tasks }
    }
}

async fn speak(mut publication: AudioPublication, clock: Arc<dyn Clock>) {
    let began = clock.now();
    for number in 1_u64.. {
        clock.sleep_until(began + Duration::from_millis(20) * number as u32).await;
        let timestamp_us = number * 20_000;
        publication.send(OutgoingPacket { timestamp_us, level: 30, payload: Bytes::from(vec![7; 60]) });
    }
}

/// Takes frames until one satisfies `fits`.
pub(crate) async fn frame_where(
    subscription: &mut VideoSubscription,
    fits: impl Fn(&VideoFrame) -> bool,
) -> VideoFrame {
    loop {
        let frame = subscription.next().await.expect("the media client is open");
        if fits(&frame) {
            return frame;
        }
    }
}
