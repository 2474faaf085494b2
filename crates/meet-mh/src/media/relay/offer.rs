//! Offers: which streams other handlers may ask for, and which they have.

use std::sync::Arc;

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::message::Publish;
use tenure_meet_wire::media::relay::relay_message::Payload;
use tenure_meet_wire::media::relay::{Offer, Withdraw};
use tokio::sync::Notify;

use super::super::bucket::Bucket;
use super::super::layers::RENDITIONS;
use super::super::meeting::State;
use super::super::publish::check;
use super::super::source::Moved;
use super::super::track::{Description, Kind, Publication, TrackKey, Version};
use super::Offered;
use crate::limits;

/// A copy of a stream that another handler offers.
pub(crate) struct RelayedCopy {
    /// The link.
    pub(crate) link: u64,
    pub(crate) alias: u16,
    pub(crate) user: String,
    pub(crate) stream: Description,
    pub(crate) groups: Bucket,
    pub(crate) moved: Arc<Moved>,
    /// Renditions of which a key frame is to be requested.
    pub(crate) keyframes: [bool; RENDITIONS],
    /// Wakes the link.
    pub(crate) wake: Arc<Notify>,
}

/// Whether a publication is offered. Microphones are sent to all handlers of a meeting; video flows only at the active
/// one.
fn is_offered(publication: &Publication) -> bool {
    publication.stream.kind == Kind::Audio || !publication.standby
}

fn offer(key: &TrackKey, publication: &Publication, alias: u16) -> Payload {
    let stream = &publication.stream;
    let mut publish = Publish {
        alias: alias.into(),
        stream_id: key.stream_id.to_string(),
        codec: stream.codec.clone(),
        renditions: stream.renditions.clone(),
        temporal_layers: stream.temporal_layers.into(),
        incarnation: stream.version.incarnation,
        ..Publish::default()
    };
    publish.set_type(stream.kind.to_wire());
    Payload::Offer(Offer {
        participant_id: key.participant.to_string(),
        stream_id: key.stream_id.to_string(),
        incarnation: stream.version.incarnation,
        epoch: stream.version.epoch,
        user_id: publication.user.clone(),
        publish: Some(publish),
    })
}

impl State {
    /// The offers that a link lacks, and those that are not valid any more.
    pub(super) fn offer_changes(&mut self, link: u64) -> Vec<Payload> {
        let Some(link) = self.links.get_mut(&link) else { return Vec::new() };
        let published =
            self.tracks.values().filter_map(|track| Some((&track.key, track.publication.as_ref()?)));
        let mut changes = Vec::new();
        for (key, publication) in published.filter(|(_, publication)| is_offered(publication)) {
            let (version, number) = (publication.stream.version, publication.offer);
            let before = link.offered.get(key).copied();
            if before.is_some_and(|before| (before.version, before.number) == (version, number)) {
                continue;
            }
            // A copy that is offered again goes on under its alias.
            let alias = match before.filter(|before| before.version == version) {
                Some(before) => before.alias,
                None if link.next_alias == 0 => continue,
                None => {
                    let alias = link.next_alias;
                    link.next_alias = alias.wrapping_add(1);
                    alias
                }
            };
            link.offered.insert(key.clone(), Offered { alias, version, number });
            changes.push(offer(key, publication, alias));
        }
        let tracks = &self.tracks;
        let is_gone = |key: &TrackKey| {
            let publication = tracks.get(key).and_then(|track| track.publication.as_ref());
            publication.is_none_or(|publication| !is_offered(publication))
        };
        let gone: Vec<TrackKey> = link.offered.keys().filter(|key| is_gone(key)).cloned().collect();
        for key in gone {
            link.offered.remove(&key);
            changes.push(Payload::Withdraw(Withdraw {
                participant_id: key.participant.to_string(),
                stream_id: key.stream_id.to_string(),
                reason: link.ended.remove(&key).unwrap_or_default(),
            }));
        }
        // What was published again in between was not ended.
        link.ended.clear();
        changes
    }

    /// Another handler offers a stream. One that is malformed, or older than what is known, is not used.
    pub(super) fn take_offer(&mut self, link: u64, offer: Offer, now: Tick) -> Result<(), &'static str> {
        let participant = Id::parse(&offer.participant_id).ok_or("participant")?;
        let publish = offer.publish.ok_or("publish")?;
        let (alias, kind) = check(&publish).map_err(|(_, message)| message)?;
        let key = TrackKey { participant, stream_id: offer.stream_id.as_str().into() };
        let version = Version { epoch: offer.epoch, incarnation: offer.incarnation };
        let Some(known) = self.links.get_mut(&link) else { return Ok(()) };
        if known.streams.len() >= limits::RELAYED && !known.streams.contains_key(&alias) {
            return Err("too many streams are offered");
        }
        known.streams.insert(alias, key.clone());
        let wake = known.wake.clone();
        if self.tracks.get(&key).and_then(|track| track.version).is_some_and(|greatest| version < greatest) {
            return Ok(());
        }
        if kind == Kind::Audio {
            self.give_audio_alias(&key).map_err(|(_, message)| message)?;
        }
        let stream = Description {
            kind,
            codec: publish.codec,
            renditions: publish.renditions,
            temporal_layers: publish.temporal_layers.max(1) as u8,
            version,
        };
        let track = self.track(&key);
        track.adopt(version);
        let before = track.relayed.iter().position(|copy| copy.link == link);
        let mut copy = RelayedCopy {
            link,
            alias,
            user: offer.user_id,
            stream,
            groups: Bucket::new(limits::GROUPS, limits::GROUPS_BURST, now),
            moved: Arc::default(),
            keyframes: [false; RENDITIONS],
            wake,
        };
        if let Some(before) = before.map(|at| track.relayed.remove(at)).filter(|it| it.alias == alias) {
            (copy.groups, copy.moved) = (before.groups, before.moved);
        }
        // The last offer is the last one of the list.
        track.relayed.push(copy);
        self.announce(&key);
        self.update_needed(&key, now);
        if let Some(link) = self.links.get(&link) {
            link.offers.send_modify(|count| *count += 1);
            link.wake.notify_one();
        }
        Ok(())
    }

    /// Another handler withdraws a stream.
    pub(super) fn take_withdrawal(&mut self, link: u64, withdraw: &Withdraw) {
        let Some(participant) = Id::parse(&withdraw.participant_id) else { return };
        let key = TrackKey { participant, stream_id: withdraw.stream_id.as_str().into() };
        self.remove_copy(link, &key, &withdraw.reason);
    }

    fn remove_copy(&mut self, link: u64, key: &TrackKey, reason: &str) {
        if let Some(known) = self.links.get_mut(&link) {
            known.streams.retain(|_, stream| stream != key);
            let streams = &known.streams;
            known.needed.retain(|alias, _| streams.contains_key(alias));
        }
        let Some(track) = self.tracks.get_mut(key) else { return };
        track.relayed.retain(|copy| copy.link != link);
        if track.current().is_some() {
            return track.wake();
        }
        if reason.is_empty() {
            track.erase(StreamCode::Superseded);
            if track.is_unused() {
                self.tracks.remove(key);
            }
        } else {
            self.end_track(key, reason);
        }
        for link in self.links.values() {
            link.wake.notify_one();
        }
    }

    /// Removes a link that ended, with everything that it brought and everything that it took.
    pub(super) fn remove_link(&mut self, serial: u64) {
        let Some(link) = self.links.get(&serial) else { return };
        link.cancel.cancel();
        let offered: Vec<TrackKey> = link.streams.values().cloned().collect();
        for key in offered {
            self.remove_copy(serial, &key, "");
        }
        self.links.remove(&serial);
        for track in self.tracks.values_mut() {
            track.remove_peers(|peer| peer.link == serial);
        }
        self.wake_links();
    }

    /// Lets every link compare what it sent with the state.
    pub(crate) fn wake_links(&self) {
        self.links.values().for_each(|link| link.wake.notify_one());
    }
}
