//! Sends the groups of one rendition to another handler.

use std::sync::Arc;

use super::super::meeting::Meeting;
use super::super::pump::Feed;
use super::super::subscribe::{Next, Plan};
use super::super::track::{RenditionState, TrackKey};
use crate::limits;
use tenure_meet_wire::media::StreamCode;

/// The priority of relayed groups on their link: all are alike.
const PRIORITY: u8 = 0;

/// One rendition of a track for one link.
pub(super) struct RelayFeed {
    pub(super) meeting: Arc<Meeting>,
    pub(super) link: u64,
    pub(super) key: TrackKey,
    pub(super) rendition: u8,
}

/// The serial of the newest group that is published here. What came over another link is not passed on.
fn newest(rendition: &RenditionState) -> Option<u64> {
    rendition.newest.as_ref().filter(|group| group.info.local && group.is_whole()).map(|it| it.info.serial)
}

impl Feed for RelayFeed {
    fn next(&self, done: Option<(u8, u64)>) -> Next {
        let state = self.meeting.state.lock();
        let Some(track) = state.tracks.get(&self.key) else { return Next::Gone };
        let peer = track.peers.iter().find(|it| it.link == self.link && it.rendition == self.rendition);
        let Some(peer) = peer else { return Next::Gone };
        let Some(rendition) = track.renditions.get(usize::from(self.rendition)) else { return Next::Gone };
        let serial = newest(rendition).filter(|serial| done.is_none_or(|(_, done)| *serial > done));
        let group = serial.and_then(|_| rendition.newest.as_ref()?.reading());
        match group {
            Some(group) => {
                Next::Group { group, temporal: peer.temporal, priority: PRIORITY, latency: limits::LATENCY }
            }
            None => Next::Nothing,
        }
    }

    fn plan(&self, (_, serial): (u8, u64)) -> Plan {
        let state = self.meeting.state.lock();
        let Some(track) = state.tracks.get(&self.key) else { return Plan::Stop(StreamCode::NotSubscribed) };
        let peer = track.peers.iter().find(|it| it.link == self.link && it.rendition == self.rendition);
        let Some(peer) = peer else { return Plan::Stop(StreamCode::NotSubscribed) };
        let newest = track.renditions.get(usize::from(self.rendition)).and_then(newest);
        Plan::Continue { temporal: peer.temporal, newer: newest.is_some_and(|newest| newest > serial) }
    }

    fn fell_behind(&self) {
        let now = self.meeting.now();
        let mut state = self.meeting.state.lock();
        let Some(track) = state.tracks.get_mut(&self.key) else { return };
        if let Some(rendition) = track.renditions.get_mut(usize::from(self.rendition)) {
            rendition.requests.want(false, now);
        }
        track.request_keyframes(now);
    }

    fn sent(&self) {}
}
