//! A track: one stream of a participant, published or waited for.

use std::sync::{Arc, Weak};

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::message::{Rendition, Subscribed};
use tenure_meet_wire::signaling::StreamType;

use super::bucket::Bucket;
use super::choice::{Candidate, Candidates};
use super::group::Group;
use super::keyframe::TrackRequests;
use super::layers::{RENDITIONS, TEMPORAL};
use super::member::{Link, Order};
use super::meter::Meter;

/// Names a track in a meeting.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TrackKey {
    pub(crate) participant: Id,
    pub(crate) stream_id: Arc<str>,
}

/// The kind of a track.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Audio,
    Video,
    Screen,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Audio, Self::Video, Self::Screen];

    pub(crate) fn from_wire(kind: StreamType) -> Option<Self> {
        match kind {
            StreamType::Unspecified => None,
            StreamType::Audio => Some(Self::Audio),
            StreamType::Video => Some(Self::Video),
            StreamType::Screen => Some(Self::Screen),
        }
    }

    pub(crate) fn to_wire(self) -> StreamType {
        match self {
            Self::Audio => StreamType::Audio,
            Self::Video => StreamType::Video,
            Self::Screen => StreamType::Screen,
        }
    }

    /// The label of metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Screen => "screen",
        }
    }
}

/// Orders the copies of a track: the greatest one wins everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version {
    pub(crate) epoch: u64,
    pub(crate) incarnation: u64,
}

/// A published track.
pub(crate) struct Publication {
    /// The session that publishes it.
    pub(crate) session: u64,
    pub(crate) link: Arc<Link>,
    pub(crate) alias: u16,
    pub(crate) kind: Kind,
    pub(crate) codec: String,
    pub(crate) renditions: Vec<Rendition>,
    pub(crate) temporal_layers: u8,
    pub(crate) version: Version,
    /// The last message about what is needed.
    pub(crate) needed: Option<(Vec<u32>, u32)>,
    pub(crate) datagrams: Bucket,
    pub(crate) bits: Bucket,
    pub(crate) groups: Bucket,
}

/// A subscriber of a track.
pub(crate) struct Subscriber {
    pub(crate) participant: Id,
    pub(crate) alias: u16,
    pub(crate) order: Arc<Order>,
}

/// One rendition of a track.
#[derive(Default)]
pub(crate) struct RenditionState {
    pub(crate) newest: Option<Arc<Group>>,
    pub(crate) last_number: Option<u64>,
    pub(crate) requests: TrackRequests,
    pub(crate) meter: Arc<Meter>,
}

/// A track.
pub(crate) struct Track {
    pub(crate) key: TrackKey,
    /// The alias of this track at subscribers to all audio.
    pub(crate) audio_alias: Option<u16>,
    pub(crate) publication: Option<Publication>,
    /// The greatest version that was published.
    pub(crate) version: Option<Version>,
    pub(crate) renditions: [RenditionState; RENDITIONS],
    pub(crate) subscribers: Vec<Subscriber>,
    /// Groups that may still be read.
    groups: Vec<Weak<Group>>,
}

impl Track {
    pub(crate) fn new(key: TrackKey) -> Self {
        Self {
            key,
            audio_alias: None,
            publication: None,
            version: None,
            renditions: Default::default(),
            subscribers: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Whether the track can be forgotten. A track with an alias at all listeners keeps it until its participant is
    /// released.
    pub(crate) fn is_unused(&self) -> bool {
        self.publication.is_none() && self.subscribers.is_empty() && self.audio_alias.is_none()
    }

    /// The groups that a subscriber can begin with.
    pub(crate) fn candidates(&self) -> Candidates {
        std::array::from_fn(|at| {
            let group = self.renditions.get(at)?.newest.as_ref().filter(|group| group.is_whole())?;
            Some(Candidate { serial: group.info.serial, open: group.is_open() })
        })
    }

    /// Installs a group as the newest one of its rendition and wakes the subscribers.
    pub(crate) fn begin(&mut self, group: &Arc<Group>) {
        let Some(rendition) = self.renditions.get_mut(usize::from(group.info.rendition)) else { return };
        if let Some(older) = rendition.newest.replace(group.clone()) {
            older.retire();
        }
        rendition.last_number = Some(group.info.number);
        rendition.requests.arrived();
        self.groups.retain(|group| group.strong_count() > 0);
        self.groups.push(Arc::downgrade(group));
        self.wake();
    }

    /// Erases every group that is cached or on its way. Returns those that may still be read.
    pub(crate) fn erase(&mut self, code: StreamCode) -> Vec<Arc<Group>> {
        for rendition in &mut self.renditions {
            rendition.newest = None;
        }
        let groups: Vec<Arc<Group>> = self.groups.drain(..).filter_map(|group| group.upgrade()).collect();
        for group in &groups {
            group.erase(code);
        }
        groups
    }

    /// Wakes all subscribers, because there may be something to do.
    pub(crate) fn wake(&self) {
        for subscriber in &self.subscribers {
            subscriber.order.wake();
        }
    }

    /// The bitrate up to each temporal layer of each rendition: measured, or what the publisher stated.
    pub(crate) fn rates(&self) -> [[u64; TEMPORAL]; RENDITIONS] {
        let stated = |at: usize| {
            let publication = self.publication.as_ref()?;
            Some(u64::from(publication.renditions.get(at)?.max_bitrate))
        };
        std::array::from_fn(|at| {
            let measured =
                self.renditions.get(at).map(|rendition| rendition.meter.rates()).unwrap_or_default();
            match measured.last() {
                Some(0) | None => [stated(at).unwrap_or_default(); TEMPORAL],
                Some(_) => measured,
            }
        })
    }

    /// Requests the key frames that are due.
    pub(crate) fn request_keyframes(&mut self, now: Tick) {
        let Some(publication) = &self.publication else { return };
        for (at, rendition) in self.renditions.iter_mut().enumerate() {
            if rendition.requests.take_due(now) {
                publication.link.keyframe_needed(publication.alias, at as u32);
            }
        }
    }

    /// The message that describes the track to a subscriber.
    pub(crate) fn describe(&self, alias: u16, kind: Kind) -> Subscribed {
        let mut described = Subscribed {
            alias: alias.into(),
            participant_id: self.key.participant.to_string(),
            stream_id: self.key.stream_id.to_string(),
            ..Subscribed::default()
        };
        described.set_type(kind.to_wire());
        if let Some(publication) = &self.publication {
            described.set_type(publication.kind.to_wire());
            described.codec = publication.codec.clone();
            described.renditions = publication.renditions.clone();
            described.incarnation = publication.version.incarnation;
        }
        described
    }
}
