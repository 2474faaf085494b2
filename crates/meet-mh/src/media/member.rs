//! A participant with a session.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_lease::Tick;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::{KeyframeNeeded, MediaEvent};
use tenure_meet_wire::signaling::{ErrorCode, ErrorMessage};
use tenure_meet_wire::transport::{PathStats, Session};
use tenure_meet_wire::{CloseCode, Id};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::bucket::Bucket;
use super::group::Budget;
use super::keyframe::SubscriberRequests;
use super::layers::{Demand, Share};
use super::rate::Rate;
use super::track::{Kind, Track, TrackKey, Version};
use crate::registry::MediaRights;

/// The way to a participant.
pub(crate) struct Link {
    pub(crate) session: Arc<dyn Session>,
    events: mpsc::Sender<MediaEvent>,
    /// Whether anything was sent since the last look.
    sent: AtomicBool,
    /// What the participant may publish, in bytes.
    pub(crate) ingest: Mutex<Bucket>,
}

impl Link {
    pub(crate) fn new(session: Arc<dyn Session>, events: mpsc::Sender<MediaEvent>, ingest: Bucket) -> Self {
        Self { session, events, sent: AtomicBool::new(false), ingest: Mutex::new(ingest) }
    }

    /// Sends an event. A participant that does not read its events is closed.
    pub(crate) fn tell(&self, payload: Payload, seq: u64) {
        let event = MediaEvent { payload: Some(payload), seq };
        if let Err(mpsc::error::TrySendError::Full(_)) = self.events.try_send(event) {
            self.session.close_for(CloseCode::TooSlow);
        }
    }

    pub(crate) fn refuse(&self, code: ErrorCode, message: &str, seq: u64) {
        let error =
            ErrorMessage { code: code.into(), message: message.to_owned(), details: Default::default() };
        self.tell(Payload::Error(error), seq);
    }

    pub(crate) fn keyframe_needed(&self, alias: u16, rendition: u32) {
        crate::metric::keyframe_request();
        self.tell(Payload::KeyframeNeeded(KeyframeNeeded { alias: alias.into(), rendition }), 0);
    }

    /// Something was sent.
    pub(crate) fn mark_sent(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    /// Whether anything was sent since the last call.
    pub(crate) fn take_sent(&self) -> bool {
        self.sent.swap(false, Ordering::Relaxed)
    }
}

/// Connects a subscription with its pump.
#[derive(Default)]
pub(crate) struct Order {
    changed: watch::Sender<u64>,
    pub(crate) cancel: CancellationToken,
    /// When the pending write began, in nanoseconds; 0 if none is pending.
    write_since: AtomicU64,
    /// Bytes that the subscriber has not taken yet.
    queued: AtomicU64,
}

impl Order {
    /// Makes the pump look again.
    pub(crate) fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn set_write_since(&self, since: Option<Tick>) {
        self.write_since.store(since.map_or(0, Tick::as_nanos), Ordering::Relaxed);
    }

    /// States how many bytes the subscriber has not taken yet.
    pub(crate) fn set_queued(&self, bytes: usize) {
        self.queued.store(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }

    /// How long the pending write waits.
    pub(crate) fn write_pending(&self, now: Tick) -> Duration {
        match self.write_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => now.since(Tick::from_nanos(since)),
        }
    }
}

/// A subscription.
pub(crate) struct Subscription {
    pub(crate) key: TrackKey,
    pub(crate) kind: Kind,
    pub(crate) priority: u8,
    pub(crate) max_rendition: Option<u8>,
    pub(crate) max_temporal: Option<u8>,
    pub(crate) latency: Duration,
    /// What the path carries of it.
    pub(crate) share: Share,
    pub(crate) requests: SubscriberRequests,
    pub(crate) order: Arc<Order>,
    /// The version that the subscriber knows.
    pub(crate) announced: Option<Version>,
    /// The rendition and the serial of the group that is sent.
    pub(crate) current: Option<(u8, u64)>,
    /// The subscriber reported that it decodes far behind.
    pub(crate) behind: bool,
}

impl Subscription {
    /// What the subscription may take of a track.
    pub(crate) fn demand(&self, track: &Track) -> Demand {
        let (renditions, layers) = track
            .current()
            .map_or((1, 1), |stream| (stream.renditions.len().max(1), stream.temporal_layers.max(1)));
        let top = renditions as u8 - 1;
        Demand {
            priority: self.priority,
            rendition: self.max_rendition.unwrap_or(top).min(top),
            temporal: self.max_temporal.unwrap_or(layers - 1).min(layers - 1),
            rates: track.rates(),
        }
    }
}

/// A subscription to all audio.
#[derive(Clone, Copy)]
pub(crate) struct AllAudio {
    pub(crate) alias: u16,
}

/// A participant with a session.
pub(crate) struct Member {
    /// Distinguishes the sessions of a participant.
    pub(crate) serial: u64,
    pub(crate) user: String,
    pub(crate) epoch: u64,
    pub(crate) issued_at_ms: u64,
    pub(crate) mute_epoch: u64,
    pub(crate) rights: MediaRights,
    pub(crate) link: Arc<Link>,
    pub(crate) standby: bool,
    pub(crate) publications: HashMap<u16, TrackKey>,
    pub(crate) used_aliases: HashSet<u16>,
    pub(crate) subscriptions: BTreeMap<u16, Subscription>,
    pub(crate) next_alias: u16,
    pub(crate) all_audio: Option<AllAudio>,
    /// The speakers of `all_audio` that the participant knows.
    pub(crate) speakers: HashMap<TrackKey, Version>,
    /// Datagrams to be sent, with their publishers.
    pub(crate) outbox: Vec<(Id, Bytes)>,
    pub(crate) outbox_bytes: usize,
    pub(crate) rate: Rate,
    pub(crate) messages: Bucket,
    pub(crate) cache: Arc<Budget>,
    /// Changes when a publication appears or the session is activated.
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) quiet_ticks: u8,
    pub(crate) violations: u32,
    pub(crate) last_stats: PathStats,
    pub(crate) last_report: Option<(Tick, PathStats)>,
    /// Whether its mask and its rights allow it to receive.
    pub(crate) receives: bool,
}

impl Member {
    /// The next alias for a subscription, or `None` when all were used.
    pub(crate) fn take_alias(&mut self) -> Option<u16> {
        let alias = self.next_alias;
        // Greater ones are those of audio tracks, which all sessions share.
        (alias < super::meeting::FIRST_AUDIO_ALIAS).then(|| {
            self.next_alias += 1;
            alias
        })
    }

    /// The subscription to a track.
    pub(crate) fn subscription_to(&self, key: &TrackKey) -> Option<(u16, &Subscription)> {
        self.subscriptions
            .iter()
            .find(|(_, subscription)| subscription.key == *key)
            .map(|(alias, subscription)| (*alias, subscription))
    }

    /// Collects a datagram of a publisher.
    pub(crate) fn put(&mut self, from: Id, datagram: Bytes) {
        self.outbox_bytes += datagram.len();
        self.outbox.push((from, datagram));
    }

    /// Sends the collected datagrams together, so that they share packets.
    pub(crate) fn flush(&mut self, load: &super::Load) {
        self.outbox_bytes = 0;
        for (_, datagram) in self.outbox.drain(..) {
            let len = datagram.len();
            match self.link.session.send_datagram(datagram) {
                Ok(()) => load.sent(len),
                Err(_) => crate::metric::datagram_dropped("refused"),
            }
            self.link.mark_sent();
        }
    }
}
