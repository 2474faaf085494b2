//! A track: one stream of a participant, published or waited for.

use std::sync::{Arc, Weak};

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::message::{Rendition, Subscribed};
use tenure_meet_wire::signaling::StreamType;
use tenure_meet_wire::transport::Session;

use super::bucket::Bucket;
use super::choice::{Candidate, Candidates};
use super::group::Group;
use super::keyframe::TrackRequests;
use super::layers::{RENDITIONS, TEMPORAL};
use super::member::{Link, Order};
use super::meter::Meter;
use super::relay::RelayedCopy;
use super::source::{Moved, Source, choose_source};

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

/// What a publisher states about a stream.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) kind: Kind,
    pub(crate) codec: String,
    pub(crate) renditions: Vec<Rendition>,
    pub(crate) temporal_layers: u8,
    pub(crate) version: Version,
}

/// A track that is published at this handler.
pub(crate) struct Publication {
    /// The session that publishes it.
    pub(crate) session: u64,
    pub(crate) link: Arc<Link>,
    pub(crate) alias: u16,
    pub(crate) user: String,
    pub(crate) stream: Description,
    /// Whether its session is on standby.
    pub(crate) standby: bool,
    /// The number of its offer to other handlers: the last one counts.
    pub(crate) offer: u64,
    pub(crate) moved: Arc<Moved>,
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

/// Another handler that gets one rendition of a track, or its audio.
#[derive(Clone)]
pub(crate) struct PeerSubscriber {
    /// The link.
    pub(crate) link: u64,
    pub(crate) alias: u16,
    pub(crate) rendition: u8,
    pub(crate) temporal: u8,
    pub(crate) order: Arc<Order>,
    pub(crate) session: Arc<dyn Session>,
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
    /// Copies of other handlers, in the order of their offers.
    pub(crate) relayed: Vec<RelayedCopy>,
    /// The greatest version that was published.
    pub(crate) version: Option<Version>,
    pub(crate) renditions: [RenditionState; RENDITIONS],
    pub(crate) subscribers: Vec<Subscriber>,
    /// Other handlers that get what is published here.
    pub(crate) peers: Vec<PeerSubscriber>,
    /// Groups that may still be read.
    groups: Vec<Weak<Group>>,
}

impl Track {
    pub(crate) fn new(key: TrackKey) -> Self {
        Self {
            key,
            audio_alias: None,
            publication: None,
            relayed: Vec::new(),
            version: None,
            renditions: Default::default(),
            subscribers: Vec::new(),
            peers: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// The stream with the greatest version, published here or offered by another handler.
    pub(crate) fn current(&self) -> Option<&Description> {
        let relayed = self.relayed.iter().map(|copy| &copy.stream);
        let local = self.publication.iter().map(|publication| &publication.stream);
        // The last of equal ones is the greatest: the local one.
        relayed.chain(local).max_by_key(|stream| stream.version)
    }

    /// The copy that is forwarded now.
    pub(crate) fn source(&self, now: Tick) -> Option<Source> {
        let local = self.publication.as_ref().map(|it| (it.stream.version, &*it.moved));
        choose_source(local, self.relayed.iter().map(|copy| copy.stream.version), now)
    }

    /// A copy: what is known of it, its limit of groups, and when it moved.
    pub(crate) fn copy_mut(&mut self, source: Source) -> Option<(&Description, &mut Bucket, Arc<Moved>)> {
        match source {
            Source::Local => {
                self.publication.as_mut().map(|it| (&it.stream, &mut it.groups, it.moved.clone()))
            }
            Source::Relayed(at) => {
                self.relayed.get_mut(at).map(|it| (&it.stream, &mut it.groups, it.moved.clone()))
            }
        }
    }

    /// Takes a version into account. A greater one than before takes the place of all others.
    pub(crate) fn adopt(&mut self, version: Version) {
        if self.version.is_none_or(|before| before < version) {
            self.erase(StreamCode::Superseded);
            for rendition in &mut self.renditions {
                rendition.last_number = None;
            }
            self.version = Some(version);
        }
    }

    /// Sends nothing more to these handlers.
    pub(crate) fn remove_peers(&mut self, gone: impl Fn(&PeerSubscriber) -> bool) {
        self.peers.retain(|peer| {
            let keep = !gone(peer);
            if !keep {
                peer.order.cancel.cancel();
            }
            keep
        });
    }

    /// Whether the track can be forgotten. A track with an alias at all listeners keeps it until its participant is
    /// released.
    pub(crate) fn is_unused(&self) -> bool {
        self.current().is_none() && self.subscribers.is_empty() && self.audio_alias.is_none()
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
        let subscribers = self.subscribers.iter().map(|subscriber| &subscriber.order);
        subscribers.chain(self.peers.iter().map(|peer| &peer.order)).for_each(|order| order.wake());
    }

    /// The bitrate up to each temporal layer of each rendition: measured, or what the publisher stated.
    pub(crate) fn rates(&self) -> [[u64; TEMPORAL]; RENDITIONS] {
        let stated = |at: usize| Some(u64::from(self.current()?.renditions.get(at)?.max_bitrate));
        std::array::from_fn(|at| {
            let measured =
                self.renditions.get(at).map(|rendition| rendition.meter.rates()).unwrap_or_default();
            match measured.last() {
                Some(0) | None => [stated(at).unwrap_or_default(); TEMPORAL],
                Some(_) => measured,
            }
        })
    }

    /// Requests the key frames that are due, where the track comes from.
    pub(crate) fn request_keyframes(&mut self, now: Tick) {
        let Some(source) = self.source(now) else { return };
        for (at, rendition) in self.renditions.iter_mut().enumerate() {
            if !rendition.requests.take_due(now) {
                continue;
            }
            match (source, &self.publication) {
                (Source::Local, Some(local)) => local.link.keyframe_needed(local.alias, at as u32),
                (Source::Local, None) => {}
                (Source::Relayed(copy), _) => {
                    let copy = self.relayed.get_mut(copy);
                    if let Some((wanted, wake)) =
                        copy.and_then(|it| Some((it.keyframes.get_mut(at)?, &it.wake)))
                    {
                        *wanted = true;
                        wake.notify_one();
                    }
                }
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
        if let Some(stream) = self.current() {
            described.set_type(stream.kind.to_wire());
            described.codec = stream.codec.clone();
            described.renditions = stream.renditions.clone();
            described.incarnation = stream.version.incarnation;
        }
        described
    }
}
