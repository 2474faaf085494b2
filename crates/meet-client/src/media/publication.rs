//! What this participant sends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_lease::Clock;
use tenure_meet_wire::media::audio::AudioPacket;
use tenure_meet_wire::media::group::{
    FrameFlags, FrameHeader, GroupHeader, encode_frame_header, encode_header,
};
use tenure_meet_wire::media::message::{Publish, Rendition};
use tenure_meet_wire::media::{Alias, StreamCode};
use tenure_meet_wire::signaling::StreamType;
use tenure_meet_wire::transport::{SendStream, Session, TransportError};
use tokio::sync::{Notify, watch};

use super::limits;
use super::session::SessionId;

/// A video or screen stream.
#[derive(Clone, PartialEq, Debug)]
pub struct VideoFormat {
    /// The stream of this participant. The controller knows it as a number.
    pub stream_id: String,
    /// Whether it is a screen.
    pub screen: bool,
    /// The WebCodecs codec string.
    pub codec: String,
    /// At most three; index 0 is the lowest.
    pub renditions: Vec<Rendition>,
    /// Temporal layers, 1 to 4.
    pub temporal_layers: u8,
}

impl VideoFormat {
    pub(super) fn publish(self, incarnation: u64) -> Publish {
        let mut publish = Publish {
            stream_id: self.stream_id,
            codec: self.codec,
            renditions: self.renditions,
            temporal_layers: self.temporal_layers.into(),
            incarnation,
            ..Publish::default()
        };
        publish.set_type(if self.screen { StreamType::Screen } else { StreamType::Video });
        publish
    }
}

/// What subscribers need of a publication. The latest value counts.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Demand {
    /// Renditions that a subscriber watches. Others need not be encoded.
    pub renditions: BTreeSet<u8>,
    /// The highest temporal layer that a subscriber watches.
    pub temporal: u8,
    /// How often a key frame was requested, by rendition. A change asks for one.
    pub keyframes: [u64; 3],
}

/// A route to a handler that accepted the publication.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) session: SessionId,
    pub(super) transport: Arc<dyn Session>,
    pub(super) alias: Alias,
}

/// What the link and the senders of a publication share.
pub(super) struct PublicationState {
    pub(super) publish: Publish,
    pub(super) clock: Arc<dyn Clock>,
    routes: Mutex<Vec<Route>>,
    /// The session that carries video; 0 if none does.
    active: AtomicU64,
    pub(super) demand: watch::Sender<Demand>,
    /// Loss towards the handler, in permille.
    pub(super) loss: AtomicU32,
    group: AtomicU64,
    gone: AtomicBool,
    wake: Arc<Notify>,
}

impl PublicationState {
    pub(super) fn new(publish: Publish, clock: Arc<dyn Clock>, wake: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            publish,
            clock,
            routes: Mutex::default(),
            active: AtomicU64::new(0),
            demand: watch::Sender::default(),
            loss: AtomicU32::new(0),
            group: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            wake,
        })
    }

    pub(super) fn add_route(&self, route: Route) {
        self.routes.lock().push(route);
    }

    pub(super) fn remove_route(&self, session: SessionId) {
        self.routes.lock().retain(|route| route.session != session);
    }

    /// Video goes to this session from now on, beginning with a key frame.
    pub(super) fn set_active(&self, session: Option<SessionId>) {
        let id = session.unwrap_or_default();
        if self.active.swap(id, Ordering::Relaxed) != id && id > 0 {
            self.demand.send_modify(|demand| demand.keyframes.iter_mut().for_each(|count| *count += 1));
        }
    }

    fn active_route(&self) -> Option<Route> {
        let active = self.active.load(Ordering::Relaxed);
        self.routes.lock().iter().find(|route| route.session == active).cloned()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

/// Why a frame was not sent. The rest of its group is not sent either.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotSent {
    /// No handler carries the publication.
    #[error("no media handler carries the stream")]
    NoSession,
    /// A group begins with a key frame, and the last one is over.
    #[error("a key frame is needed")]
    KeyframeNeeded,
    /// The handler stopped the group, with a code unless the session was lost.
    #[error("the handler stopped the group: {0:?}")]
    Stopped(Option<StreamCode>),
    /// The handler did not take the frame in time.
    #[error("the frame was not taken in time")]
    Late,
    /// The frame exceeds a limit of the protocol.
    #[error("the frame is too large")]
    TooLarge,
}

/// A frame to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingFrame {
    /// Its time on the clock that all tracks of this participant share.
    pub timestamp_us: u64,
    /// Whether a decoder can begin here. It begins a group.
    pub key: bool,
    /// No other frame depends on it.
    pub discardable: bool,
    /// Its temporal layer.
    pub temporal: u8,
    /// The encoded frame.
    pub payload: Bytes,
}

/// A published video or screen stream. Dropping it ends the stream.
pub struct VideoPublication {
    pub(super) state: Arc<PublicationState>,
}

impl VideoPublication {
    /// What subscribers need.
    pub fn demand(&self) -> watch::Receiver<Demand> {
        self.state.demand.subscribe()
    }

    /// The sender of a rendition. Have at most one of each: a sender does not know the groups of another.
    pub fn sender(&self, rendition: u8) -> RenditionSender {
        RenditionSender { state: self.state.clone(), rendition, group: None }
    }
}

impl Drop for VideoPublication {
    fn drop(&mut self) {
        self.state.end();
    }
}

struct OpenGroup {
    session: SessionId,
    began_us: u64,
    stream: Box<dyn SendStream>,
}

/// Sends the frames of one rendition.
pub struct RenditionSender {
    state: Arc<PublicationState>,
    rendition: u8,
    group: Option<OpenGroup>,
}

impl RenditionSender {
    /// Sends a frame. A key frame ends the current group and begins the next one.
    pub async fn send(&mut self, frame: OutgoingFrame) -> Result<(), NotSent> {
        let Some(route) = self.state.active_route() else {
            self.abandon(StreamCode::Superseded);
            return Err(NotSent::NoSession);
        };
        if self.group.as_ref().is_some_and(|group| group.session != route.session) {
            self.abandon(StreamCode::Superseded);
        }
        if !frame.key && self.group.is_none() {
            return Err(NotSent::KeyframeNeeded);
        }
        let clock = self.state.clock.clone();
        let late = clock.sleep_until(clock.now() + limits::SEND);
        let sent = tokio::select! {
            sent = self.write(&route, frame) => sent,
            () = late => Err(NotSent::Late),
        };
        if sent.is_err() {
            self.abandon(StreamCode::Stale);
        }
        sent
    }

    async fn write(&mut self, route: &Route, frame: OutgoingFrame) -> Result<(), NotSent> {
        if frame.key {
            self.end_group();
            self.begin(route, frame.timestamp_us).await?;
        }
        let Some(group) = &mut self.group else { return Err(NotSent::KeyframeNeeded) };
        let flags = FrameFlags { key: frame.key, discardable: frame.discardable, temporal: frame.temporal };
        let delta_us = frame.timestamp_us.saturating_sub(group.began_us);
        let header = FrameHeader { len: frame.payload.len(), delta_us, flags };
        let header = encode_frame_header(&header).map_err(|_| NotSent::TooLarge)?;
        group.stream.send(header).await.map_err(|error| stopped(&error))?;
        group.stream.send(frame.payload).await.map_err(|error| stopped(&error))
    }

    async fn begin(&mut self, route: &Route, began_us: u64) -> Result<(), NotSent> {
        let number = self.state.group.fetch_add(1, Ordering::Relaxed) + 1;
        let header = GroupHeader {
            alias: route.alias,
            rendition: self.rendition,
            group: number,
            timestamp_us: began_us,
        };
        let header = encode_header(&header).map_err(|_| NotSent::TooLarge)?;
        let mut stream = route.transport.open_uni().await.map_err(|error| stopped(&error))?;
        stream.send(header).await.map_err(|error| stopped(&error))?;
        self.group = Some(OpenGroup { session: route.session, began_us, stream });
        Ok(())
    }

    /// Ends the current group, as before a pause. The next frame must be a key frame.
    pub fn end_group(&mut self) {
        if let Some(mut group) = self.group.take() {
            group.stream.finish();
        }
    }

    fn abandon(&mut self, code: StreamCode) {
        if let Some(mut group) = self.group.take() {
            group.stream.reset(code.number());
        }
    }
}

fn stopped(error: &TransportError) -> NotSent {
    match error {
        TransportError::Reset(code) => NotSent::Stopped(code.and_then(StreamCode::from_number)),
        _ => NotSent::Stopped(None),
    }
}

/// An audio packet to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingPacket {
    /// Its time on the clock that all tracks of this participant share.
    pub timestamp_us: u64,
    /// 0 to 126 is -dBov, 127 is silence.
    pub level: u8,
    /// The Opus packet.
    pub payload: Bytes,
}

/// A published audio stream. Dropping it ends the stream.
pub struct AudioPublication {
    state: Arc<PublicationState>,
    sequence: u64,
    previous: Bytes,
}

impl AudioPublication {
    pub(super) fn new(state: Arc<PublicationState>) -> Self {
        Self { state, sequence: 0, previous: Bytes::new() }
    }

    /// Sends a packet to all sessions, so that another one can take over without a gap. Returns their number.
    pub fn send(&mut self, packet: OutgoingPacket) -> usize {
        let lossy = self.state.loss.load(Ordering::Relaxed) > limits::REDUNDANCY_FROM;
        let redundant = if lossy { self.previous.clone() } else { Bytes::new() };
        self.previous = packet.payload.clone();
        let routes = self.state.routes.lock();
        if routes.is_empty() {
            return 0;
        }
        self.sequence += 1;
        let sequence = self.sequence;
        let reached = |route: &&Route| {
            let whole = AudioPacket {
                alias: route.alias,
                sequence,
                timestamp_us: packet.timestamp_us,
                level: packet.level,
                redundant: redundant.clone(),
                payload: packet.payload.clone(),
            };
            let datagram =
                whole.encode().or_else(|_| AudioPacket { redundant: Bytes::new(), ..whole }.encode());
            datagram.is_ok_and(|datagram| route.transport.send_datagram(datagram).is_ok())
        };
        routes.iter().filter(reached).count()
    }
}

impl Drop for AudioPublication {
    fn drop(&mut self) {
        self.state.end();
    }
}
