//! One person: joins, sends, and receives if it is asked to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Tick};
use tenure_meet_client::join_api::RestJoinApi;
use tenure_meet_client::media::{
    AudioPublication, AudioSubscription, Demand, MediaClient, MediaState, OutgoingFrame, OutgoingPacket,
    RenditionSender, VideoPublication, VideoRequest, VideoSubscription,
};
use tenure_meet_client::{Client, Ending, Options};
use tenure_meet_wire::signaling::StreamType;
use tenure_meet_wire::transport::quic::Dialer;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clip::Clip;
use super::counts::{Counts, add};

/// The streams of a person, as the page of meetings numbers them.
const AUDIO: u32 = 1;
const VIDEO: u32 = 2;
/// How long a connection is tried. Many guests of one address get their tokens one after another.
const GIVE_UP: Duration = Duration::from_secs(60);
/// People speak in turns of this length.
const TURN: Duration = Duration::from_secs(3);
const PACKET: Duration = Duration::from_millis(20);
/// The loudness of the tone, in -dBov.
const LEVEL: u8 = 21;
/// Pictures that a person watches.
const PICTURES: usize = 9;
/// Between looks at who is there.
const LOOK: Duration = Duration::from_millis(500);

/// What a person does.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) name: String,
    /// Which of how many people it is.
    pub(super) turn: (u16, u16),
    pub(super) watch: bool,
    /// When all people began.
    pub(super) origin: Tick,
    pub(super) clip: Arc<Clip>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) counts: Arc<Counts>,
}

/// A person in the meeting.
pub(super) struct Person {
    plan: Plan,
    client: Client,
    media: MediaClient,
    _picture: Option<VideoPublication>,
    tasks: JoinSet<()>,
}

impl Person {
    /// Joins and begins to send.
    pub(super) async fn join(plan: Plan, join_api: RestJoinApi) -> Result<Self, Ending> {
        let options = Options::new(&plan.name, plan.clock.clone(), Arc::new(OsEntropy)).bare();
        let options = Options { give_up: GIVE_UP, ..options };
        let (client, _) = Client::join(Arc::new(join_api), plan.dialer.clone(), options).await?;
        let media = client.open_media(plan.dialer.clone());
        let mut person = Self { plan, client, media, _picture: None, tasks: JoinSet::new() };
        person.publish().await?;
        Ok(person)
    }

    async fn publish(&mut self) -> Result<(), Ending> {
        let closed = |_| Ending::GaveUp("the media client is closed".to_owned());
        let picture = self.media.publish_video(Clip::format(&VIDEO.to_string())).await.map_err(closed)?;
        for rendition in 0..self.plan.clip.renditions.len() {
            let camera = Camera {
                plan: self.plan.clone(),
                rendition,
                sender: picture.sender(rendition as u8),
                demand: picture.demand(),
                state: self.media.state(),
            };
            self.tasks.spawn(camera.run());
        }
        self._picture = Some(picture);
        let refused = |refused: tenure_meet_client::Refused| Ending::Refused {
            code: "STREAM".to_owned(),
            message: refused.to_string(),
        };
        self.client.publish(VIDEO, StreamType::Video, "").await.map_err(refused)?;
        if !self.plan.clip.packets.is_empty() {
            let sound = self.media.publish_audio(&AUDIO.to_string()).await.map_err(closed)?;
            self.tasks.spawn(speak(self.plan.clone(), sound, self.media.state()));
            self.client.publish(AUDIO, StreamType::Audio, "").await.map_err(refused)?;
        }
        Ok(())
    }

    /// Stays until it is stopped or the meeting ends for it.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Ending {
        let received = async {
            if self.plan.watch {
                receive(&self.plan, &self.client, &self.media).await;
            }
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = self.client.over() => Some(ended),
            () = stop.cancelled() => None,
            () = received => None,
        };
        self.tasks.shutdown().await;
        self.media.close().await;
        match ended {
            Some(ending) => ending,
            None => self.client.leave().await,
        }
    }
}

/// Sends one rendition while it is needed.
struct Camera {
    plan: Plan,
    rendition: usize,
    sender: RenditionSender,
    demand: watch::Receiver<Demand>,
    state: watch::Receiver<MediaState>,
}

impl Camera {
    async fn run(mut self) {
        let clip = self.plan.clip.clone();
        let Some(rendition) = clip.renditions.get(self.rendition) else { return };
        let (clock, origin, frames) = (self.plan.clock.clone(), self.plan.origin, &rendition.frames);
        let interval = Duration::from_secs(1) / rendition.fps;
        let mut count = clock.now().since(origin).as_micros() as u64 / interval.as_micros() as u64;
        // Key frames that were asked for when the last one was sent; `None` while nothing is sent.
        let (mut answered, mut at) = (None, 0);
        loop {
            count += 1;
            clock.sleep_until(origin + interval.saturating_mul(count as u32)).await;
            let asked = self.asked();
            let Some(asked) = asked else {
                self.sender.end_group();
                answered = None;
                continue;
            };
            if answered != Some(asked) {
                // A recording cannot make a key frame, but it can skip to one.
                let next = frames.iter().cycle().skip(at).position(|frame| frame.key);
                at = (at + next.unwrap_or_default()) % frames.len();
                answered = Some(asked);
            }
            let unit = &frames[at];
            at = (at + 1) % frames.len();
            let frame = OutgoingFrame {
                timestamp_us: clock.now().since(origin).as_micros() as u64,
                key: unit.key,
                discardable: false,
                temporal: 0,
                payload: unit.bytes.clone(),
            };
            let counts = &self.plan.counts;
            match self.sender.send(frame).await {
                Ok(()) => add(&counts.frames_sent, 1),
                Err(_) => {
                    add(&counts.frames_dropped, 1);
                    answered = None;
                }
            }
        }
    }

    /// How often a key frame was asked for; `None` if the rendition is not needed or must not be sent.
    fn asked(&self) -> Option<u64> {
        let demand = self.demand.borrow();
        let needed = demand.renditions.contains(&(self.rendition as u8));
        let state = self.state.borrow();
        let sends = needed && state.active.is_some() && !state.mute.video;
        sends.then(|| demand.keyframes.get(self.rendition).copied().unwrap_or_default())
    }
}

/// Sends the tone in turns with the others.
async fn speak(plan: Plan, mut sound: AudioPublication, state: watch::Receiver<MediaState>) {
    let (clock, origin) = (&plan.clock, plan.origin);
    let mut count = clock.now().since(origin).as_micros() as u64 / PACKET.as_micros() as u64;
    for payload in plan.clip.packets.iter().cycle() {
        count += 1;
        clock.sleep_until(origin + PACKET.saturating_mul(count as u32)).await;
        let passed = clock.now().since(origin);
        let (own, people) = plan.turn;
        let turn = passed.as_secs() / TURN.as_secs() % u64::from(people.max(1));
        if turn != u64::from(own) || state.borrow().mute.audio {
            continue;
        }
        let timestamp_us = passed.as_micros() as u64;
        let packet = OutgoingPacket { timestamp_us, level: LEVEL, payload: payload.clone() };
        if sound.send(packet) > 0 {
            add(&plan.counts.packets_sent, 1);
        }
    }
}

/// Receives the sound and some pictures.
async fn receive(plan: &Plan, client: &Client, media: &MediaClient) {
    let Ok(sound) = media.listen().await else { return };
    let mut tasks = JoinSet::new();
    tasks.spawn(hear(plan.clone(), sound));
    let mut watched: BTreeMap<String, tokio::task::AbortHandle> = BTreeMap::new();
    loop {
        let there: Vec<String> = client.view(|view| {
            let with_camera =
                view.others().filter(|person| person.streams.iter().any(|it| it.stream_id == VIDEO));
            with_camera.map(|person| person.participant_id.clone()).take(PICTURES).collect()
        });
        watched.retain(|id, task| {
            let stays = there.contains(id);
            if !stays {
                task.abort();
            }
            stays
        });
        let new: Vec<String> = there.into_iter().filter(|id| !watched.contains_key(id)).collect();
        for id in new {
            let request =
                VideoRequest { max_rendition: Some(0), ..VideoRequest::camera(&id, &VIDEO.to_string()) };
            let Ok(picture) = media.watch(&request).await else { return };
            watched.insert(id, tasks.spawn(see(plan.clone(), picture)));
        }
        while tasks.try_join_next().is_some() {}
        plan.clock.sleep_until(plan.clock.now() + LOOK).await;
    }
}

async fn see(plan: Plan, mut picture: VideoSubscription) {
    while picture.next().await.is_some() {
        add(&plan.counts.frames_received, 1);
    }
}

async fn hear(plan: Plan, mut sound: AudioSubscription) {
    let mut lost = 0;
    while sound.next().await.is_some() {
        add(&plan.counts.packets_received, 1);
        let now = sound.stats().lost;
        add(&plan.counts.packets_lost, now.saturating_sub(lost));
        lost = lost.max(now);
    }
}
