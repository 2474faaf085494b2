//! Publications: what a participant announces.

use std::sync::Arc;

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::{Publish, Published, RenditionsNeeded};
use tenure_meet_wire::signaling::ErrorCode;

use super::bucket::Bucket;
use super::layers::{RENDITIONS, Share, TEMPORAL};
use super::meeting::{FIRST_AUDIO_ALIAS, State};
use super::track::{Description, Kind, Publication, TrackKey, Version};
use crate::limits;

/// Why a request is refused.
pub(crate) type Refused = (ErrorCode, &'static str);

const VIDEO_CODECS: [&str; 4] = ["avc1", "vp8", "vp09", "av01"];

/// Checks a publication by itself.
pub(crate) fn check(publish: &Publish) -> Result<(u16, Kind), Refused> {
    let invalid = |message| Err((ErrorCode::InvalidRequest, message));
    let Some(alias) = u16::try_from(publish.alias).ok().filter(|alias| *alias > 0) else {
        return invalid("the alias is not between 1 and 65535");
    };
    let Some(kind) = Kind::from_wire(publish.r#type()) else { return invalid("the type is missing") };
    if publish.stream_id.is_empty() || publish.stream_id.len() > limits::STREAM_ID {
        return invalid("the stream id is empty or too long");
    }
    if !publish.description.is_empty() {
        return invalid("a description is not supported");
    }
    if publish.codec.len() > limits::CODEC {
        return invalid("the codec is too long");
    }
    let codec = publish.codec.split('.').next().unwrap_or_default();
    let fits = match kind {
        Kind::Audio => codec == "opus" && publish.renditions.is_empty(),
        Kind::Video | Kind::Screen => VIDEO_CODECS.contains(&codec) && !publish.renditions.is_empty(),
    };
    if !fits {
        return invalid("the codec or the renditions do not fit the type");
    }
    if publish.renditions.len() > RENDITIONS || publish.temporal_layers as usize > TEMPORAL {
        return invalid("there are too many renditions or temporal layers");
    }
    if publish.renditions.iter().enumerate().any(|(at, rendition)| rendition.index as usize != at) {
        return invalid("renditions are not numbered from 0");
    }
    Ok((alias, kind))
}

impl State {
    /// Publishes a track.
    pub(crate) fn publish(
        &mut self,
        participant: Id,
        serial: u64,
        publish: Publish,
        now: Tick,
    ) -> Result<Payload, Refused> {
        let (alias, kind) = check(&publish)?;
        let key = TrackKey { participant, stream_id: publish.stream_id.as_str().into() };
        let version = self.check_publisher(participant, serial, &key, alias, kind, publish.incarnation)?;
        if kind == Kind::Audio {
            self.give_audio_alias(&key)?;
        }
        let Some(member) = self.member(participant, serial) else {
            return Err((ErrorCode::NotFound, "the session is over"));
        };
        let (link, user, standby) = (member.link.clone(), member.user.clone(), member.standby);
        // A newer copy of the same stream takes the place of the older one.
        member.publications.retain(|_, published| *published != key);
        member.publications.insert(alias, key.clone());
        member.used_aliases.insert(alias);
        let offer = self.next_offer();
        let track = self.track(&key);
        track.adopt(version);
        track.publication = Some(Publication {
            session: serial,
            link,
            alias,
            user,
            stream: Description {
                kind,
                codec: publish.codec,
                renditions: publish.renditions,
                temporal_layers: publish.temporal_layers.max(1) as u8,
                version,
            },
            standby,
            offer,
            moved: Arc::default(),
            needed: None,
            datagrams: Bucket::new(limits::AUDIO_DATAGRAMS, limits::AUDIO_DATAGRAMS, now),
            bits: Bucket::new(limits::AUDIO_BITS, limits::AUDIO_BITS, now),
            groups: Bucket::new(limits::GROUPS, limits::GROUPS_BURST, now),
        });
        self.limit_ingest(participant, serial);
        self.announce(&key);
        self.update_needed(&key, now);
        self.wake_links();
        if let Some(member) = self.member(participant, serial) {
            member.changed.send_modify(|count| *count += 1);
        }
        Ok(Payload::Published(Published { alias: alias.into() }))
    }

    fn check_publisher(
        &mut self,
        participant: Id,
        serial: u64,
        key: &TrackKey,
        alias: u16,
        kind: Kind,
        incarnation: u64,
    ) -> Result<Version, Refused> {
        let known = self.tracks.get(key).and_then(|track| track.version);
        let kinds: Vec<Kind> = self
            .members
            .get(&participant)
            .into_iter()
            .flat_map(|member| member.publications.values())
            .filter(|published| *published != key)
            .filter_map(|published| Some(self.tracks.get(published)?.publication.as_ref()?.stream.kind))
            .collect();
        let owner = self.control.rights(participant);
        let Some(member) = self.member(participant, serial) else {
            return Err((ErrorCode::NotFound, "the session is over"));
        };
        let may = match kind {
            Kind::Audio => member.rights.send_audio && owner.is_none_or(|owner| owner.send_audio),
            _ => member.rights.send_video && owner.is_none_or(|owner| owner.send_video),
        };
        if !may {
            return Err((ErrorCode::Forbidden, "the participant may not publish this"));
        }
        if member.used_aliases.contains(&alias) {
            return Err((ErrorCode::Conflict, "the alias was used before"));
        }
        let videos = kinds.iter().filter(|kind| **kind != Kind::Audio).count();
        let full = kind != Kind::Audio && videos >= limits::VIDEO_PUBLICATIONS;
        if kinds.len() >= limits::PUBLICATIONS || full {
            return Err((ErrorCode::CapacityExceeded, "there are too many publications"));
        }
        let version = Version { epoch: member.epoch, incarnation };
        if known.is_some_and(|known| version < known) {
            return Err((ErrorCode::Conflict, "a newer copy of this stream is published"));
        }
        Ok(version)
    }

    /// Gives an audio track the alias that all subscribers to all audio know it by.
    pub(crate) fn give_audio_alias(&mut self, key: &TrackKey) -> Result<(), Refused> {
        if self.track(key).audio_alias.is_some() {
            return Ok(());
        }
        let alias = self.next_audio_alias;
        let given = self.audio_tracks.entry(key.participant).or_default();
        if alias < FIRST_AUDIO_ALIAS || *given >= limits::AUDIO_TRACKS {
            return Err((ErrorCode::CapacityExceeded, "the participant has published too many audio tracks"));
        }
        *given += 1;
        // After the last one, 0 follows and none is given any more.
        self.next_audio_alias = alias.wrapping_add(1);
        self.track(key).audio_alias = Some(alias);
        Ok(())
    }

    /// Limits what a session may send to what it has published.
    fn limit_ingest(&mut self, participant: Id, serial: u64) {
        let stated: u64 = self
            .members
            .get(&participant)
            .into_iter()
            .flat_map(|member| member.publications.values())
            .filter_map(|key| self.tracks.get(key)?.publication.as_ref())
            .flat_map(|publication| &publication.stream.renditions)
            .map(|rendition| u64::from(rendition.max_bitrate))
            .sum();
        let bytes = (stated * 3 / 2).min(limits::INGEST) / 8;
        if let Some(member) = self.member(participant, serial) {
            // A key frame is a burst.
            member.link.ingest.lock().set(bytes, limits::INGEST_BURST.max(bytes * 2));
        }
    }

    /// Describes a track to the subscribers that do not know this version of it.
    pub(crate) fn announce(&mut self, key: &TrackKey) {
        let Some(track) = self.tracks.get(key) else { return };
        let Some((version, kind)) = track.current().map(|stream| (stream.version, stream.kind)) else {
            return;
        };
        for subscriber in &track.subscribers {
            let Some(member) = self.members.get_mut(&subscriber.participant) else { continue };
            let Some(subscription) = member.subscriptions.get_mut(&subscriber.alias) else { continue };
            if subscription.announced.replace(version) != Some(version) {
                subscription.share = subscription.demand(track).whole();
                subscription.current = None;
                let described = track.describe(subscriber.alias, kind);
                member.link.tell(Payload::Subscribed(described), 0);
            }
        }
        track.wake();
    }

    /// Tells the publisher which renditions and layers its subscribers need, if that changed.
    pub(crate) fn update_needed(&mut self, key: &TrackKey, now: Tick) {
        let Some(track) = self.tracks.get(key) else { return };
        if track.current().is_none_or(|stream| stream.kind == Kind::Audio) {
            return;
        }
        let (mut needed, mut layer) = ([false; RENDITIONS], 0);
        for peer in &track.peers {
            if let Some(need) = needed.get_mut(usize::from(peer.rendition)) {
                *need = true;
            }
            layer = layer.max(u32::from(peer.temporal));
        }
        for subscriber in &track.subscribers {
            let Some(member) = self.members.get(&subscriber.participant) else { continue };
            let Some(subscription) = member.subscriptions.get(&subscriber.alias) else { continue };
            let mut need = |rendition: u8| {
                if let Some(need) = needed.get_mut(usize::from(rendition)) {
                    *need = true;
                }
            };
            if let Share::Flows { rendition, temporal } = subscription.share {
                need(rendition);
                layer = layer.max(u32::from(temporal));
                // The present one goes on until the next key frame of the other.
                if let Some((rendition, _)) = subscription.current {
                    need(rendition);
                }
            }
        }
        let renditions: Vec<u32> = (0..RENDITIONS as u32).filter(|at| needed[*at as usize]).collect();
        let Some(track) = self.tracks.get_mut(key) else { return };
        // What another handler sends is stated to it by the link.
        let Some(publication) = &mut track.publication else { return track.request_keyframes(now) };
        let count = publication.stream.renditions.len();
        let renditions: Vec<u32> = renditions.into_iter().filter(|at| (*at as usize) < count).collect();
        if publication.needed.as_ref() != Some(&(renditions.clone(), layer)) {
            publication.needed = Some((renditions.clone(), layer));
            let alias = publication.alias.into();
            let message = RenditionsNeeded { alias, renditions, temporal: layer };
            publication.link.tell(Payload::RenditionsNeeded(message), 0);
        }
        track.request_keyframes(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_meet_wire::media::message::Rendition;
    use tenure_meet_wire::signaling::StreamType;

    fn publish(kind: StreamType, codec: &str, renditions: u32) -> Publish {
        let renditions = (0..renditions).map(|index| Rendition { index, ..Rendition::default() }).collect();
        let mut publish = Publish {
            alias: 1,
            stream_id: "s".into(),
            codec: codec.into(),
            renditions,
            ..Publish::default()
        };
        publish.set_type(kind);
        publish
    }

    #[test]
    fn only_known_codecs_with_fitting_renditions_are_published() {
        for (kind, codec, renditions, accepted) in [
            (StreamType::Audio, "opus", 0, true),
            (StreamType::Audio, "opus", 1, false),
            (StreamType::Audio, "mp4a.40.2", 0, false),
            (StreamType::Video, "opus", 1, false),
            (StreamType::Video, "avc1.42e01f", 3, true),
            (StreamType::Video, "vp8", 1, true),
            (StreamType::Video, "vp09.00.10.08", 1, true),
            (StreamType::Screen, "av01.0.04M.08", 1, true),
            (StreamType::Video, "vp80", 1, false),
            (StreamType::Video, "avc1.42e01f", 0, false),
            (StreamType::Video, "avc1.42e01f", 4, false),
            (StreamType::Unspecified, "opus", 0, false),
        ] {
            assert_eq!(check(&publish(kind, codec, renditions)).is_ok(), accepted, "{kind:?} {codec}");
        }
    }

    #[test]
    fn odd_numbers_and_names_are_refused() {
        let good = publish(StreamType::Video, "vp8", 2);
        assert!(check(&good).is_ok());
        for bad in [
            Publish { alias: 0, ..good.clone() },
            Publish { alias: 65_536, ..good.clone() },
            Publish { stream_id: String::new(), ..good.clone() },
            Publish { stream_id: "x".repeat(129), ..good.clone() },
            Publish { description: vec![1].into(), ..good.clone() },
            Publish { temporal_layers: 5, ..good.clone() },
            Publish { codec: format!("vp8.{}", "x".repeat(64)), ..good.clone() },
            Publish { renditions: good.renditions.iter().rev().copied().collect(), ..good.clone() },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }
}
