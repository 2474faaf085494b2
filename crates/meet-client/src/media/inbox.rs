//! What a subscription received and its owner has not taken yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tenure_lease::Tick;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::audio::AudioPacket;
use tenure_meet_wire::media::group::{Frame, GroupHeader};
use tokio::sync::mpsc;

use super::order::{GroupKey, GroupOrder, Take};
use super::session::{SessionId, Track};
use super::voice::{Arrival, Voice};
use super::{TrackName, limits};

/// A frame of video or of a screen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VideoFrame {
    /// The index of its rendition; 0 is the lowest.
    pub rendition: u8,
    /// The number of its group, which begins with a key frame.
    pub group: u64,
    /// Its time on the clock of the sender.
    pub timestamp_us: u64,
    /// A decoder can begin here.
    pub key: bool,
    /// No other frame depends on it.
    pub discardable: bool,
    /// Its temporal layer.
    pub temporal: u8,
    /// Its time was received before, from another session: decode it, but do not show it.
    pub repeat: bool,
    /// The encoded frame.
    pub payload: Bytes,
    /// When it was complete.
    pub received_at: Tick,
}

/// What a video subscription received so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VideoStats {
    /// Frames passed on.
    pub frames: u64,
    /// Groups that began.
    pub groups: u64,
    /// Groups that the handler reset because the subscriber was behind.
    pub stale: u64,
    /// Groups that the handler reset for another reason.
    pub resets: u64,
    /// Frames dropped because the owner did not take them in time.
    pub dropped: u64,
    /// Frames that came from both sessions.
    pub doubles: u64,
}

/// The inbox of a video subscription.
pub(super) struct VideoInbox {
    frames: mpsc::Sender<VideoFrame>,
    order: Mutex<GroupOrder>,
    stats: Mutex<VideoStats>,
    /// The group and the timestamp that the owner took last.
    pub(super) taken: Mutex<(u64, u64)>,
}

impl VideoInbox {
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<VideoFrame>) {
        let (frames, receiver) = mpsc::channel(limits::FRAMES);
        let inbox =
            Self { frames, order: Mutex::default(), stats: Mutex::default(), taken: Mutex::default() };
        (Arc::new(inbox), receiver)
    }

    pub(super) fn stats(&self) -> VideoStats {
        *self.stats.lock()
    }

    pub(super) fn count_group(&self) {
        self.stats.lock().groups += 1;
    }

    pub(super) fn count_reset(&self, code: Option<u32>) {
        let mut stats = self.stats.lock();
        match code.and_then(StreamCode::from_number) {
            Some(StreamCode::Stale) => stats.stale += 1,
            _ => stats.resets += 1,
        }
    }

    /// Takes a frame. An error says that the rest of the group is not wanted.
    pub(super) fn deliver(
        &self,
        key: GroupKey,
        header: &GroupHeader,
        frame: Frame,
        active: Option<SessionId>,
        now: Tick,
    ) -> Result<(), StreamCode> {
        let timestamp_us = header.timestamp_us.saturating_add(frame.header.delta_us);
        // The lock is held until the frame is queued: groups are read concurrently.
        let mut order = self.order.lock();
        let repeat = match order.take(key, timestamp_us, active) {
            Take::Frame { repeat } => repeat,
            Take::Double => {
                self.stats.lock().doubles += 1;
                return Ok(());
            }
            Take::Stale => return Err(StreamCode::Stale),
        };
        let flags = frame.header.flags;
        let queued = self.frames.try_send(VideoFrame {
            rendition: key.rendition,
            group: key.group,
            timestamp_us,
            key: flags.key,
            discardable: flags.discardable,
            temporal: flags.temporal,
            repeat,
            payload: frame.payload,
            received_at: now,
        });
        let mut stats = self.stats.lock();
        if queued.is_err() {
            stats.dropped += 1;
            return Err(StreamCode::Stale);
        }
        stats.frames += 1;
        Ok(())
    }
}

/// An audio packet of a participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedPacket {
    /// The track.
    pub track: TrackName,
    /// Counts the packets that the sender sent.
    pub sequence: u64,
    /// Its time on the clock of the sender. That of the next packet if it is recovered.
    pub timestamp_us: u64,
    /// 0 to 126 is -dBov, 127 is silence.
    pub level: u8,
    /// It was lost and recovered from the next packet.
    pub recovered: bool,
    /// The Opus packet.
    pub payload: Bytes,
    /// When it arrived.
    pub received_at: Tick,
}

/// What an audio subscription received so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AudioStats {
    /// Packets passed on, recovered ones included.
    pub packets: u64,
    /// Packets that never came, which a player conceals.
    pub lost: u64,
    /// Packets recovered from the next one.
    pub recovered: u64,
    /// Packets that came from both sessions.
    pub doubles: u64,
    /// Packets dropped because the owner did not take them in time.
    pub dropped: u64,
}

/// The inbox of an audio subscription.
pub(super) struct AudioInbox {
    packets: mpsc::Sender<ReceivedPacket>,
    voices: Mutex<HashMap<TrackName, Voice>>,
    stats: Mutex<AudioStats>,
}

impl AudioInbox {
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<ReceivedPacket>) {
        let (packets, receiver) = mpsc::channel(limits::PACKETS);
        (Arc::new(Self { packets, voices: Mutex::default(), stats: Mutex::default() }), receiver)
    }

    pub(super) fn stats(&self) -> AudioStats {
        *self.stats.lock()
    }

    /// Takes a packet, and the one before it if that was lost and this one carries it.
    pub(super) fn deliver(&self, track: &Track, packet: AudioPacket, now: Tick) {
        let mut voices = self.voices.lock();
        if !voices.contains_key(&track.name) && voices.len() >= limits::VOICES {
            return;
        }
        let voice = voices.entry(track.name.clone()).or_insert_with(|| Voice::new(track.incarnation));
        if voice.incarnation != track.incarnation {
            *voice = Voice::new(track.incarnation);
        }
        let arrival = voice.take(packet.sequence, packet.timestamp_us);
        let mut stats = self.stats.lock();
        match arrival {
            Arrival::Double => {
                stats.doubles += 1;
                return;
            }
            Arrival::Filled => stats.lost = stats.lost.saturating_sub(1),
            Arrival::New { lost, previous } => {
                stats.lost += lost;
                if previous && !packet.redundant.is_empty() {
                    let before = packet.sequence - 1;
                    voice.take(before, packet.timestamp_us);
                    stats.lost = stats.lost.saturating_sub(1);
                    stats.recovered += 1;
                    self.queue(&mut stats, track, &packet, before, true, now);
                }
            }
        }
        self.queue(&mut stats, track, &packet, packet.sequence, false, now);
    }

    fn queue(
        &self,
        stats: &mut AudioStats,
        track: &Track,
        packet: &AudioPacket,
        sequence: u64,
        recovered: bool,
        now: Tick,
    ) {
        let payload = if recovered { &packet.redundant } else { &packet.payload };
        let received = ReceivedPacket {
            track: track.name.clone(),
            sequence,
            timestamp_us: packet.timestamp_us,
            level: packet.level,
            recovered,
            payload: payload.clone(),
            received_at: now,
        };
        match self.packets.try_send(received) {
            Ok(()) => stats.packets += 1,
            Err(_) => stats.dropped += 1,
        }
    }

    /// A track ended: its sequence is not followed any more.
    pub(super) fn forget(&self, name: &TrackName) {
        self.voices.lock().remove(name);
    }
}

/// The inboxes of all subscriptions, for the readers of sessions.
#[derive(Default)]
pub(super) struct Inboxes {
    video: RwLock<HashMap<TrackName, Arc<VideoInbox>>>,
    audio: RwLock<HashMap<TrackName, Arc<AudioInbox>>>,
    all_audio: RwLock<Option<Arc<AudioInbox>>>,
    active: AtomicU64,
}

impl Inboxes {
    pub(super) fn set_video(&self, name: &TrackName, inbox: Option<Arc<VideoInbox>>) {
        set(&self.video, name, inbox);
    }

    pub(super) fn set_audio(&self, name: &TrackName, inbox: Option<Arc<AudioInbox>>) {
        set(&self.audio, name, inbox);
    }

    pub(super) fn set_all_audio(&self, inbox: Option<Arc<AudioInbox>>) {
        *self.all_audio.write() = inbox;
    }

    pub(super) fn video(&self, name: &TrackName) -> Option<Arc<VideoInbox>> {
        self.video.read().get(name).cloned()
    }

    /// The inbox of a track of its own, or that of all audio.
    pub(super) fn audio(&self, name: &TrackName) -> Option<Arc<AudioInbox>> {
        self.audio.read().get(name).cloned().or_else(|| self.all_audio.read().clone())
    }

    /// States which session carries media. Ids begin with 1.
    pub(super) fn set_active(&self, session: Option<SessionId>) {
        self.active.store(session.unwrap_or_default(), Ordering::Relaxed);
    }

    pub(super) fn active(&self) -> Option<SessionId> {
        Some(self.active.load(Ordering::Relaxed)).filter(|id| *id > 0)
    }
}

fn set<T>(inboxes: &RwLock<HashMap<TrackName, Arc<T>>>, name: &TrackName, inbox: Option<Arc<T>>) {
    let mut inboxes = inboxes.write();
    match inbox {
        Some(inbox) => inboxes.insert(name.clone(), inbox),
        None => inboxes.remove(name),
    };
}
