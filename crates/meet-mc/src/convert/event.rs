//! What happened, as it is told and as it lies in the log.

use lease::Wall;
use meet_wire::Id;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{self as wire};

use crate::meeting::{Happening, LeaveReason, Mutes, Profile, Role, Stream, StreamKind};

const ROLES: [(Role, wire::Role); 3] = [
    (Role::Host, wire::Role::Host),
    (Role::Participant, wire::Role::Participant),
    (Role::Guest, wire::Role::Guest),
];
const REASONS: [(LeaveReason, wire::LeaveReason); 4] = [
    (LeaveReason::Voluntary, wire::LeaveReason::Voluntary),
    (LeaveReason::Kicked, wire::LeaveReason::Kicked),
    (LeaveReason::MeetingEnded, wire::LeaveReason::MeetingEnded),
    (LeaveReason::Timeout, wire::LeaveReason::Timeout),
];
const KINDS: [(StreamKind, wire::StreamType); 3] = [
    (StreamKind::Audio, wire::StreamType::Audio),
    (StreamKind::Video, wire::StreamType::Video),
    (StreamKind::Screen, wire::StreamType::Screen),
];

fn to<A: PartialEq + Copy, B: Copy + Into<i32>>(table: &[(A, B)], word: A) -> i32 {
    table.iter().find(|(known, _)| *known == word).map_or(0, |(_, wire)| (*wire).into())
}

pub(super) fn from<A: Copy, B: Copy + Into<i32>>(table: &[(A, B)], number: i32) -> Option<A> {
    table.iter().find(|(_, known)| (*known).into() == number).map(|(word, _)| *word)
}

pub(super) fn role(role: Role) -> i32 {
    to(&ROLES, role)
}

pub(super) fn kind(number: i32) -> Option<StreamKind> {
    from(&KINDS, number)
}

fn presence(here: bool) -> i32 {
    let presence = if here { wire::Presence::Connected } else { wire::Presence::Disconnected };
    presence.into()
}

/// Somebody in a meeting, as others are told.
pub fn participant(profile: &Profile) -> wire::Participant {
    wire::Participant {
        participant_id: profile.participant.to_string(),
        name: profile.name.clone(),
        streams: profile.streams.iter().map(|(id, published)| stream(*id, published)).collect(),
        joined_at: profile.joined_at.as_millis(),
        user_id: profile.user.clone(),
        role: role(profile.role),
        presence: presence(profile.here),
        mute: Some(mutes(profile.participant, &profile.mutes)),
    }
}

fn profile(message: wire::Participant) -> Option<Profile> {
    let streams = message.streams.into_iter().map(read_stream).collect::<Option<_>>()?;
    Some(Profile {
        participant: Id::parse(&message.participant_id)?,
        user: message.user_id,
        name: message.name,
        role: from(&ROLES, message.role)?,
        joined_at: Wall::from_micros(message.joined_at.saturating_mul(1_000)),
        here: message.presence == presence(true),
        mutes: message.mute.map(read_mutes).unwrap_or_default(),
        streams,
    })
}

fn stream(stream_id: u32, stream: &Stream) -> wire::MediaStream {
    wire::MediaStream { stream_id, stream_type: to(&KINDS, stream.kind), metadata: stream.metadata.clone() }
}

fn read_stream(message: wire::MediaStream) -> Option<(u32, Stream)> {
    let stream = Stream { kind: kind(message.stream_type)?, metadata: message.metadata };
    Some((message.stream_id, stream))
}

fn mutes(participant: Id, mutes: &Mutes) -> wire::ParticipantMuteUpdate {
    wire::ParticipantMuteUpdate {
        participant_id: participant.to_string(),
        audio_self: mutes.audio_self,
        video_self: mutes.video_self,
        audio_host: mutes.audio_host,
        video_host: mutes.video_host,
        host_muted_by: mutes.by.clone().unwrap_or_default(),
        mute_epoch: mutes.epoch,
        reason: mutes.reason.clone(),
    }
}

fn read_mutes(message: wire::ParticipantMuteUpdate) -> Mutes {
    Mutes {
        audio_self: message.audio_self,
        video_self: message.video_self,
        audio_host: message.audio_host,
        video_host: message.video_host,
        by: Some(message.host_muted_by).filter(|by| !by.is_empty()),
        reason: message.reason,
        epoch: message.mute_epoch,
    }
}

/// What happened, as everybody is told.
pub fn happened(happening: &Happening) -> Payload {
    match happening {
        Happening::Joined(profile) => {
            Payload::ParticipantJoined(wire::ParticipantJoined { participant: Some(participant(profile)) })
        }
        Happening::Left { participant, reason } => Payload::ParticipantLeft(wire::ParticipantLeft {
            participant_id: participant.to_string(),
            reason: to(&REASONS, *reason),
        }),
        Happening::Presence { participant, here, grace_ms } => {
            Payload::ParticipantPresence(wire::ParticipantPresence {
                participant_id: participant.to_string(),
                presence: presence(*here),
                grace_ms: *grace_ms,
            })
        }
        Happening::Muted { participant, mutes: now } => {
            Payload::ParticipantMuteUpdate(mutes(*participant, now))
        }
        Happening::Published { participant, stream_id, stream: published } => {
            Payload::StreamPublished(wire::StreamPublished {
                participant_id: participant.to_string(),
                stream: Some(stream(*stream_id, published)),
            })
        }
        Happening::Unpublished { participant, stream_id } => {
            Payload::StreamUnpublished(wire::StreamUnpublished {
                participant_id: participant.to_string(),
                stream_id: *stream_id,
            })
        }
        Happening::Chat { participant, name, text, at } => Payload::ChatMessage(wire::ChatMessage {
            participant_id: participant.to_string(),
            name: name.clone(),
            text: text.clone(),
            sent_at: at.as_millis(),
        }),
        Happening::Data { participant, topic, payload, to } => Payload::DataMessage(wire::DataMessage {
            participant_id: participant.to_string(),
            topic: topic.clone(),
            payload: payload.clone(),
            to_participant_ids: to.iter().map(Id::to_string).collect(),
        }),
        Happening::Ended { reason } => Payload::MeetingEnded(wire::MeetingEnded { reason: reason.clone() }),
    }
}

/// What a log says that happened; none for what this version does not know.
pub fn happening(payload: Payload) -> Option<Happening> {
    Some(match payload {
        Payload::ParticipantJoined(message) => Happening::Joined(Box::new(profile(message.participant?)?)),
        Payload::ParticipantLeft(message) => Happening::Left {
            participant: Id::parse(&message.participant_id)?,
            reason: from(&REASONS, message.reason)?,
        },
        Payload::ParticipantPresence(message) => Happening::Presence {
            participant: Id::parse(&message.participant_id)?,
            here: message.presence == presence(true),
            grace_ms: message.grace_ms,
        },
        Payload::ParticipantMuteUpdate(message) => {
            Happening::Muted { participant: Id::parse(&message.participant_id)?, mutes: read_mutes(message) }
        }
        Payload::StreamPublished(message) => {
            let (stream_id, stream) = read_stream(message.stream?)?;
            Happening::Published { participant: Id::parse(&message.participant_id)?, stream_id, stream }
        }
        Payload::StreamUnpublished(message) => Happening::Unpublished {
            participant: Id::parse(&message.participant_id)?,
            stream_id: message.stream_id,
        },
        Payload::ChatMessage(message) => Happening::Chat {
            participant: Id::parse(&message.participant_id)?,
            name: message.name,
            text: message.text,
            at: Wall::from_micros(message.sent_at.saturating_mul(1_000)),
        },
        Payload::DataMessage(message) => Happening::Data {
            participant: Id::parse(&message.participant_id)?,
            topic: message.topic,
            payload: message.payload,
            to: message.to_participant_ids.iter().map(|id| Id::parse(id)).collect::<Option<_>>()?,
        },
        Payload::MeetingEnded(message) => Happening::Ended { reason: message.reason },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_happens_comes_back_from_the_log_as_it_was() {
        let id = Id::parse("018bcfe5-6800-7000-8000-000000000001").unwrap();
        let mutes = Mutes {
            audio_host: true,
            by: Some("ada".to_owned()),
            reason: "r".to_owned(),
            epoch: 3,
            ..Mutes::default()
        };
        let stream = Stream { kind: StreamKind::Screen, metadata: "m".to_owned() };
        let profile = Profile {
            participant: id,
            user: "ada".to_owned(),
            name: "Ada".to_owned(),
            role: Role::Guest,
            joined_at: Wall::from_micros(1_700_000_000_123_000),
            here: true,
            mutes: mutes.clone(),
            streams: [(7, stream.clone())].into(),
        };
        let reasons = REASONS.map(|(reason, _)| Happening::Left { participant: id, reason });
        let others = [
            Happening::Joined(Box::new(profile)),
            Happening::Presence { participant: id, here: false, grace_ms: 30_000 },
            Happening::Presence { participant: id, here: true, grace_ms: 0 },
            Happening::Muted { participant: id, mutes },
            Happening::Published { participant: id, stream_id: 7, stream },
            Happening::Unpublished { participant: id, stream_id: 7 },
            Happening::Chat {
                participant: id,
                name: "Ada".to_owned(),
                text: "hi".to_owned(),
                at: Wall::from_micros(1_700_000_000_123_000),
            },
            Happening::Data { participant: id, topic: "t".to_owned(), payload: "x".into(), to: vec![id] },
            Happening::Ended { reason: "over".to_owned() },
        ];
        for happening_ in reasons.into_iter().chain(others) {
            assert_eq!(happening(happened(&happening_)), Some(happening_));
        }
        assert_eq!(happening(Payload::Accepted(wire::Accepted {})), None);
    }
}
