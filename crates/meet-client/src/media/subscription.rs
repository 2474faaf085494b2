//! What this participant receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tenure_meet_wire::media::message::Subscribe;
use tenure_meet_wire::signaling::StreamType;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::inbox::{AudioInbox, AudioStats, ReceivedPacket, VideoFrame, VideoInbox, VideoStats};
use super::{Refusal, TrackDescription, TrackName};

/// What is wanted of a video or screen track.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VideoRequest {
    /// The track.
    pub track: TrackName,
    /// Whether it is a screen.
    pub screen: bool,
    /// The highest rendition; all if absent.
    pub max_rendition: Option<u8>,
    /// The highest temporal layer; all if absent.
    pub max_temporal: Option<u8>,
    /// Greater is more important.
    pub priority: u8,
    /// How far the handler may fall behind before it skips to a newer group. 300 ms if absent.
    pub max_latency: Option<Duration>,
}

impl VideoRequest {
    /// Everything of a camera, with a medium priority.
    pub fn camera(participant_id: &str, stream_id: &str) -> Self {
        let track = TrackName { participant_id: participant_id.to_owned(), stream_id: stream_id.to_owned() };
        Self {
            track,
            screen: false,
            max_rendition: None,
            max_temporal: None,
            priority: 100,
            max_latency: None,
        }
    }

    pub(super) fn subscribe(&self) -> Subscribe {
        let mut subscribe = Subscribe {
            participant_id: self.track.participant_id.clone(),
            stream_id: self.track.stream_id.clone(),
            max_rendition: self.max_rendition.map(u32::from),
            max_temporal: self.max_temporal.map(u32::from),
            priority: self.priority.into(),
            max_latency_ms: self.max_latency.map_or(0, |latency| latency.as_millis() as u32),
            ..Subscribe::default()
        };
        subscribe.set_type(if self.screen { StreamType::Screen } else { StreamType::Video });
        subscribe
    }
}

/// What is known of a track. The latest value counts.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct TrackState {
    /// How the active handler describes it.
    pub description: Option<TrackDescription>,
    /// Why it ended, until it comes back.
    pub ended: Option<String>,
    /// Why a handler refused the subscription, until it accepts it.
    pub refused: Option<Refusal>,
}

/// What the link and the owner of a subscription share.
pub(super) struct SubscriptionState {
    pub(super) track: watch::Sender<TrackState>,
    /// What the owner wants now, and how often it changed.
    pub(super) wanted: Mutex<(Subscribe, u64)>,
    /// Key frames that the owner asked for, by rendition.
    pub(super) keyframes: Mutex<Vec<u8>>,
    gone: AtomicBool,
    wake: Arc<Notify>,
}

impl SubscriptionState {
    pub(super) fn new(subscribe: Subscribe, wake: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            track: watch::Sender::default(),
            wanted: Mutex::new((subscribe, 0)),
            keyframes: Mutex::default(),
            gone: AtomicBool::new(false),
            wake,
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

/// A subscription to a video or screen track. Dropping it ends the subscription.
pub struct VideoSubscription {
    pub(super) state: Arc<SubscriptionState>,
    pub(super) inbox: Arc<VideoInbox>,
    pub(super) frames: mpsc::Receiver<VideoFrame>,
    pub(super) closed: CancellationToken,
}

impl VideoSubscription {
    /// Waits for the next frame. `None` when the media client is closed. Cancel safe.
    pub async fn next(&mut self) -> Option<VideoFrame> {
        let frame = tokio::select! {
            biased;
            frame = self.frames.recv() => frame?,
            () = self.closed.cancelled() => return None,
        };
        *self.inbox.taken.lock() = (frame.group, frame.timestamp_us);
        Some(frame)
    }

    /// What is known of the track.
    pub fn track(&self) -> watch::Receiver<TrackState> {
        self.state.track.subscribe()
    }

    /// What was received so far.
    pub fn stats(&self) -> VideoStats {
        self.inbox.stats()
    }

    /// Changes what is wanted of the track.
    pub fn change(&self, max_rendition: Option<u8>, max_temporal: Option<u8>, priority: u8) {
        let mut wanted = self.state.wanted.lock();
        let (subscribe, changes) = &mut *wanted;
        subscribe.max_rendition = max_rendition.map(u32::from);
        subscribe.max_temporal = max_temporal.map(u32::from);
        subscribe.priority = priority.into();
        *changes += 1;
        self.state.wake.notify_one();
    }

    /// Asks for a key frame, as after a failure of the decoder.
    pub fn request_keyframe(&self, rendition: u8) {
        let mut keyframes = self.state.keyframes.lock();
        if !keyframes.contains(&rendition) {
            keyframes.push(rendition);
        }
        self.state.wake.notify_one();
    }
}

impl Drop for VideoSubscription {
    fn drop(&mut self) {
        self.state.end();
    }
}

/// A subscription to the audio of one participant or of all. Dropping it ends the subscription.
pub struct AudioSubscription {
    pub(super) state: Arc<SubscriptionState>,
    pub(super) inbox: Arc<AudioInbox>,
    pub(super) packets: mpsc::Receiver<ReceivedPacket>,
    pub(super) closed: CancellationToken,
}

impl AudioSubscription {
    /// Waits for the next packet. `None` when the media client is closed. Cancel safe.
    pub async fn next(&mut self) -> Option<ReceivedPacket> {
        tokio::select! {
            biased;
            packet = self.packets.recv() => packet,
            () = self.closed.cancelled() => None,
        }
    }

    /// What was received so far.
    pub fn stats(&self) -> AudioStats {
        self.inbox.stats()
    }
}

impl Drop for AudioSubscription {
    fn drop(&mut self) {
        self.state.end();
    }
}
