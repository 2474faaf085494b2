//! A subscription as a feed: which group its subscriber gets next.

use std::sync::Arc;

use tenure_meet_wire::Id;
use tenure_meet_wire::media::StreamCode;

use super::choice::choose;
use super::layers::Share;
use super::meeting::Meeting;
use super::member::Link;
use super::pump::Feed;
use super::subscribe::{Next, Plan};

/// A video subscription of a participant.
pub(crate) struct Viewing {
    pub(crate) meeting: Arc<Meeting>,
    pub(crate) who: (Id, u64),
    pub(crate) alias: u16,
    pub(crate) link: Arc<Link>,
}

impl Feed for Viewing {
    fn next(&self, done: Option<(u8, u64)>) -> Next {
        self.meeting.next_group(self.who, self.alias, done)
    }

    fn plan(&self, at: (u8, u64)) -> Plan {
        self.meeting.plan(self.who, self.alias, at)
    }

    fn fell_behind(&self) {
        self.meeting.fell_behind(self.who, self.alias);
    }

    fn sent(&self) {
        self.link.mark_sent();
    }
}

impl Meeting {
    /// The next group of a subscription after the one with this serial.
    fn next_group(&self, (participant, serial): (Id, u64), alias: u16, done: Option<(u8, u64)>) -> Next {
        let now = self.now();
        let mut state = self.state.lock();
        let may_receive = state.may_receive(participant, now);
        let Some(member) = state.members.get_mut(&participant).filter(|it| it.serial == serial) else {
            return Next::Gone;
        };
        let flows = may_receive && !member.standby;
        let Some(subscription) = member.subscriptions.get_mut(&alias) else { return Next::Gone };
        let key = subscription.key.clone();
        let Share::Flows { rendition: wanted, temporal } = subscription.share else {
            subscription.current = None;
            return Next::Nothing;
        };
        let (priority, latency) = (subscription.priority, subscription.latency);
        let Some(track) = state.tracks.get(&key).filter(|_| flows) else { return Next::Nothing };
        let Some(rendition) = choose(&track.candidates(), wanted, done) else { return Next::Nothing };
        let group = track.renditions.get(usize::from(rendition)).and_then(|it| it.newest.as_ref());
        let Some(group) = group.and_then(|group| group.reading()) else { return Next::Nothing };
        let current = Some((rendition, group.info.serial));
        if let Some(subscription) =
            state.members.get_mut(&participant).and_then(|it| it.subscriptions.get_mut(&alias))
        {
            subscription.current = current;
            subscription.behind = false;
        }
        Next::Group { group, temporal, priority, latency }
    }

    /// Whether a subscription goes on with the group that it is given.
    fn plan(&self, (participant, serial): (Id, u64), alias: u16, at: (u8, u64)) -> Plan {
        let now = self.now();
        let state = self.state.lock();
        let member = state.members.get(&participant).filter(|member| member.serial == serial);
        let member = member.filter(|_| state.may_receive(participant, now));
        let Some(subscription) = member.and_then(|member| member.subscriptions.get(&alias)) else {
            return Plan::Stop(StreamCode::NotSubscribed);
        };
        let Share::Flows { rendition: wanted, temporal } = subscription.share else {
            return Plan::Stop(StreamCode::Stale);
        };
        let Some(track) = state.tracks.get(&subscription.key) else {
            return Plan::Stop(StreamCode::NotSubscribed);
        };
        match choose(&track.candidates(), wanted, Some(at)) {
            Some(rendition) if rendition != at.0 => Plan::Stop(StreamCode::RenditionSwitched),
            Some(_) if subscription.behind => Plan::Stop(StreamCode::Stale),
            other => Plan::Continue { temporal, newer: other.is_some() },
        }
    }

    /// A subscriber is behind and there is no newer group: it gets a lower rendition, else a key frame is requested.
    fn fell_behind(&self, (participant, serial): (Id, u64), alias: u16) {
        let now = self.now();
        let mut state = self.state.lock();
        let Some(member) = state.member(participant, serial) else { return };
        let Some(subscription) = member.subscriptions.get_mut(&alias) else { return };
        let key = subscription.key.clone();
        match subscription.share {
            Share::Flows { rendition, temporal } if rendition > 0 => {
                subscription.share = Share::Flows { rendition: rendition - 1, temporal };
                let share = subscription.share;
                state.want_first_keyframe(&key, share, now);
                state.update_needed(&key, now);
            }
            Share::Flows { rendition, .. } if subscription.requests.accept(now) => {
                if let Some(track) = state.tracks.get_mut(&key) {
                    if let Some(rendition) = track.renditions.get_mut(usize::from(rendition)) {
                        rendition.requests.want(false, now);
                    }
                    track.request_keyframes(now);
                }
            }
            Share::Flows { .. } | Share::Paused => {}
        }
    }
}
