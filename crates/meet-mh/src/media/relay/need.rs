//! What a handler needs of the streams that another one offers, and what the other one needs.

use std::sync::Arc;

use tenure_lease::Tick;
use tenure_meet_wire::media::relay::relay_message::Payload;
use tenure_meet_wire::media::relay::{Need, RelayKeyframe};

use super::super::layers::{RENDITIONS, Share, TEMPORAL};
use super::super::meeting::State;
use super::super::source::Source;
use super::super::track::{Kind, PeerSubscriber, Track, TrackKey};
use super::Needed;

/// A pump to be started for another handler.
pub(super) struct RelayPump {
    pub(super) key: TrackKey,
    pub(super) peer: PeerSubscriber,
    pub(super) kind: &'static str,
}

impl State {
    /// What the viewers of this handler need of a track of another one. Those on standby do not count: their media comes
    /// with the activation.
    fn needed(&self, track: &Track, kind: Kind) -> Needed {
        if kind == Kind::Audio {
            let listens = self.members.iter().any(|(id, member)| {
                let own = track.subscribers.iter().any(|subscriber| subscriber.participant == *id);
                !member.standby && member.receives && (own || member.all_audio.is_some())
            });
            return Needed { renditions: if listens { vec![0] } else { Vec::new() }, temporal: 0 };
        }
        let (mut wanted, mut temporal) = ([false; RENDITIONS], 0);
        for subscriber in &track.subscribers {
            let member = self.members.get(&subscriber.participant).filter(|member| !member.standby);
            let subscription = member.and_then(|member| member.subscriptions.get(&subscriber.alias));
            let Some(subscription) = subscription else { continue };
            let Share::Flows { rendition, temporal: layer } = subscription.share else { continue };
            temporal = temporal.max(u32::from(layer));
            // The present one goes on until the next key frame of the other.
            for at in [Some(rendition), subscription.current.map(|(at, _)| at)].into_iter().flatten() {
                if let Some(wanted) = wanted.get_mut(usize::from(at)) {
                    *wanted = true;
                }
            }
        }
        let renditions = (0..RENDITIONS as u32).filter(|at| wanted[*at as usize]).collect();
        Needed { renditions, temporal }
    }

    /// What a link must send: changed needs, and requests for key frames.
    pub(super) fn need_changes(&mut self, serial: u64, now: Tick) -> Vec<Payload> {
        let Some(link) = self.links.get(&serial) else { return Vec::new() };
        let mut changes = Vec::new();
        for (alias, key) in link.streams.clone() {
            let Some(track) = self.tracks.get(&key) else { continue };
            let at = track.relayed.iter().position(|copy| copy.link == serial && copy.alias == alias);
            let Some(copy) = at.and_then(|at| track.relayed.get(at)) else { continue };
            let kind = copy.stream.kind;
            let is_source = track.source(now) == at.map(Source::Relayed);
            let needed = match is_source && self.may_relay(key.participant, kind, now) {
                true => self.needed(track, kind),
                false => Needed::default(),
            };
            let keyframes = self
                .tracks
                .get_mut(&key)
                .and_then(|track| track.relayed.get_mut(at.unwrap_or_default()))
                .map(|copy| std::mem::take(&mut copy.keyframes))
                .unwrap_or_default();
            let Some(link) = self.links.get_mut(&serial) else { return changes };
            let before = link.needed.get(&alias).cloned().unwrap_or_default();
            if before != needed {
                let (renditions, temporal) = (needed.renditions.clone(), needed.temporal);
                changes.push(Payload::Need(Need { alias: alias.into(), renditions, temporal }));
                link.needed.insert(alias, needed);
            }
            let wanted = (0..).zip(keyframes).filter(|(_, wanted)| *wanted);
            changes.extend(
                wanted.map(|(rendition, _)| {
                    Payload::Keyframe(RelayKeyframe { alias: alias.into(), rendition })
                }),
            );
        }
        changes
    }

    /// Another handler states what it needs. Returns the pumps to start.
    pub(super) fn take_need(&mut self, serial: u64, need: &Need, now: Tick) -> Vec<RelayPump> {
        let Some(link) = self.links.get(&serial) else { return Vec::new() };
        let session = link.session.clone();
        let offered = link.offered.iter().find(|(_, offered)| u32::from(offered.alias) == need.alias);
        let Some((key, alias)) = offered.map(|(key, offered)| (key.clone(), offered.alias)) else {
            return Vec::new();
        };
        let Some(track) = self.tracks.get_mut(&key) else { return Vec::new() };
        let Some(stream) = track.publication.as_ref().map(|publication| publication.stream.clone()) else {
            return Vec::new();
        };
        let temporal = need.temporal.min(TEMPORAL as u32 - 1) as u8;
        let count = stream.renditions.len().max(1) as u32;
        track.remove_peers(|peer| {
            let wanted = peer.alias == alias && need.renditions.contains(&u32::from(peer.rendition));
            peer.link == serial && !wanted
        });
        let mut pumps = Vec::new();
        for rendition in (0..count).filter(|at| need.renditions.contains(at)) {
            let rendition = rendition as u8;
            let known = track.peers.iter_mut().find(|it| it.link == serial && it.rendition == rendition);
            if let Some(known) = known {
                known.temporal = temporal;
                known.order.wake();
                continue;
            }
            let order = Arc::default();
            let peer =
                PeerSubscriber { link: serial, alias, rendition, temporal, order, session: session.clone() };
            track.peers.push(peer.clone());
            if stream.kind != Kind::Audio {
                pumps.push(RelayPump { key: key.clone(), peer, kind: stream.kind.as_str() });
            }
        }
        for pump in &pumps {
            let share = Share::Flows { rendition: pump.peer.rendition, temporal };
            self.want_first_keyframe(&key, share, now);
        }
        self.update_needed(&key, now);
        pumps
    }

    /// Another handler needs a key frame.
    pub(super) fn take_keyframe(&mut self, serial: u64, request: &RelayKeyframe, now: Tick) {
        let Some(link) = self.links.get(&serial) else { return };
        let offered = link.offered.iter().find(|(_, offered)| u32::from(offered.alias) == request.alias);
        let Some(key) = offered.map(|(key, _)| key.clone()) else { return };
        let Some(track) = self.tracks.get_mut(&key) else { return };
        if let Some(rendition) = track.renditions.get_mut(request.rendition as usize) {
            // The other handler has limited its requests already.
            rendition.requests.want(true, now);
        }
        track.request_keyframes(now);
    }
}
