//! Incoming groups: whether they are wanted, and where they are kept.

use std::sync::Arc;

use bytes::Bytes;
use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::group::GroupHeader;
use tokio::sync::watch;

use super::group::{Budget, Group, GroupInfo};
use super::meeting::{Meeting, State};
use super::member::Link;
use super::meter::Meter;
use super::source::{Moved, Source};
use super::track::{Description, Kind, TrackKey};
use crate::limits;

/// A group that has begun.
pub(crate) struct Begun {
    pub(crate) group: Arc<Group>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) moved: Arc<Moved>,
}

/// What becomes of an incoming group.
pub(crate) enum Begin {
    Group(Begun),
    /// The alias is not published yet, or the session is on standby.
    Wait,
    Stop(StreamCode),
}

/// The sender of groups: a participant or another handler.
pub(crate) trait GroupSource: Send + Sync {
    /// Begins a group.
    fn begin(&self, header: &GroupHeader, raw: Bytes, started: Tick) -> Begin;

    /// Changes when a group that had to wait may begin; `None` when the sender is gone.
    fn changes(&self) -> Option<watch::Receiver<u64>>;

    /// Whether this many bytes may be received now.
    fn take(&self, bytes: usize, now: Tick) -> bool;

    /// The sender violated the protocol.
    fn violation(&self);
}

/// A participant that sends groups.
pub(crate) struct Publisher {
    pub(crate) meeting: Arc<Meeting>,
    pub(crate) who: (Id, u64),
    pub(crate) link: Arc<Link>,
}

impl GroupSource for Publisher {
    fn begin(&self, header: &GroupHeader, raw: Bytes, started: Tick) -> Begin {
        self.meeting.begin_group(self.who, header, raw, started)
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        let (participant, serial) = self.who;
        self.meeting.state.lock().member(participant, serial).map(|it| it.changed.subscribe())
    }

    fn take(&self, bytes: usize, now: Tick) -> bool {
        self.link.ingest.lock().take(bytes as u64, now)
    }

    fn violation(&self) {
        self.meeting.violation(self.who.0, self.who.1);
    }
}

/// A group to be kept.
pub(super) struct Arriving<'a> {
    pub(super) key: &'a TrackKey,
    pub(super) header: &'a GroupHeader,
    pub(super) raw: Bytes,
    pub(super) started: Tick,
    pub(super) cache: Arc<Budget>,
    pub(super) source: Source,
}

impl Meeting {
    /// Begins a group that a member sends.
    fn begin_group(
        &self,
        (participant, serial): (Id, u64),
        header: &GroupHeader,
        raw: Bytes,
        started: Tick,
    ) -> Begin {
        let mut state = self.state.lock();
        let Some(member) = state.member(participant, serial) else {
            return Begin::Stop(StreamCode::Superseded);
        };
        let Some(key) = member.publications.get(&header.alias.number()).cloned() else {
            return Begin::Wait;
        };
        if member.standby {
            return Begin::Wait;
        }
        let cache = member.cache.clone();
        let Some(track) = state.tracks.get(&key) else { return Begin::Stop(StreamCode::NotSubscribed) };
        let Some(publication) = track.publication.as_ref().filter(|it| it.session == serial) else {
            return Begin::Stop(StreamCode::Superseded);
        };
        let kind = publication.stream.kind;
        if !state.may_send(participant, kind, started) {
            crate::metric::frame_dropped("muted");
            return Begin::Stop(StreamCode::Muted);
        }
        let source = Source::Local;
        state.keep(self, Arriving { key: &key, header, raw, started, cache, source })
    }

    /// The cache of a group was full: subscribers that were behind need a key frame.
    pub(crate) fn evicted(&self, group: &Group) {
        let now = self.now();
        let mut state = self.state.lock();
        if let Some(track) = state.tracks.get_mut(&group.info.key) {
            if let Some(rendition) = track.renditions.get_mut(usize::from(group.info.rendition)) {
                rendition.requests.want(false, now);
            }
            track.request_keyframes(now);
        }
    }
}

impl State {
    /// Makes a group the newest one of its rendition, unless it is out of order or too many come.
    pub(super) fn keep(&mut self, meeting: &Meeting, arriving: Arriving<'_>) -> Begin {
        let Arriving { key, header, raw, started, cache, source } = arriving;
        let Some(track) = self.tracks.get_mut(key) else { return Begin::Stop(StreamCode::NotSubscribed) };
        let Some(rendition) = track.renditions.get(usize::from(header.rendition)) else {
            return Begin::Stop(StreamCode::NotSubscribed);
        };
        let (meter, last, greatest) = (rendition.meter.clone(), rendition.last_number, track.version);
        let Some((stream, groups, moved)) = track.copy_mut(source) else {
            return Begin::Stop(StreamCode::Superseded);
        };
        let older = greatest.is_some_and(|greatest| stream.version < greatest);
        // The greatest version wins everywhere, and within it numbers rise over all senders.
        if older || last.is_some_and(|last| header.group <= last) {
            return Begin::Stop(StreamCode::Superseded);
        }
        let Some(most) = most_cached(stream, header.rendition) else {
            return Begin::Stop(StreamCode::NotSubscribed);
        };
        if !groups.take(1, started) {
            // Each group costs every subscriber a stream.
            crate::metric::frame_dropped("ingest_limit");
            return Begin::Stop(StreamCode::TooLarge);
        }
        let group = Group::new(GroupInfo {
            key: key.clone(),
            local: source == Source::Local,
            rendition: header.rendition,
            number: header.group,
            serial: meeting.shared.next_serial(),
            started,
            header: raw,
            most,
            budgets: [cache, meeting.shared.cache.clone()],
        });
        moved.mark(started);
        track.begin(&group);
        Begin::Group(Begun { group, meter, moved })
    }
}

/// Bytes that a group of a rendition may cache: four seconds of the stated rate. `None` if there is no such rendition.
fn most_cached(stream: &Description, rendition: u8) -> Option<usize> {
    let stated = stream.renditions.get(usize::from(rendition)).filter(|_| stream.kind != Kind::Audio)?;
    Some((stated.max_bitrate as usize / 2).clamp(limits::RENDITION_CACHE_MIN, limits::RENDITION_CACHE))
}
