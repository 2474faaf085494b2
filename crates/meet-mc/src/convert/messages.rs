//! Requests of clients, and events as clients and the log see them.

use tenure_lease::Wall;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{self as wire};
use tenure_meet_wire::{Id, limits};

use crate::meeting::{
    Event, LayoutConfig, LeaveReason, Mutes, Profile, Refusal, Request, Role, Stream, StreamKind,
};

/// Connections to media handlers in one report.
const MAX_CONNECTIONS: usize = 16;

const ROLES: [(Role, wire::Role); 3] = [
    (Role::Host, wire::Role::Host),
    (Role::Participant, wire::Role::Participant),
    (Role::Guest, wire::Role::Guest),
];
pub(super) const LEAVE_REASONS: [(LeaveReason, wire::LeaveReason); 4] = [
    (LeaveReason::Voluntary, wire::LeaveReason::Voluntary),
    (LeaveReason::Kicked, wire::LeaveReason::Kicked),
    (LeaveReason::MeetingEnded, wire::LeaveReason::MeetingEnded),
    (LeaveReason::Timeout, wire::LeaveReason::Timeout),
];
const STREAM_KINDS: [(StreamKind, wire::StreamType); 3] = [
    (StreamKind::Audio, wire::StreamType::Audio),
    (StreamKind::Video, wire::StreamType::Video),
    (StreamKind::Screen, wire::StreamType::Screen),
];

fn to_number<A: PartialEq + Copy, B: Copy + Into<i32>>(table: &[(A, B)], value: A) -> i32 {
    table.iter().find(|(known, _)| *known == value).map_or(0, |(_, wire)| (*wire).into())
}

fn from_number<A: Copy, B: Copy + Into<i32>>(table: &[(A, B)], number: i32) -> Option<A> {
    table.iter().find(|(_, known)| (*known).into() == number).map(|(value, _)| *value)
}

pub(super) fn stream_kind_to_wire(kind: StreamKind) -> i32 {
    to_number(&STREAM_KINDS, kind)
}

pub(super) fn role_to_wire(role: Role) -> i32 {
    to_number(&ROLES, role)
}

/// The URLs of media handlers that a client reports about, and whether it is connected. Other states are no news.
pub fn media_connections(update: &wire::MediaConnectionUpdate) -> Vec<(String, bool)> {
    let known = update.statuses.iter().take(MAX_CONNECTIONS).filter_map(|status| match status.state() {
        wire::MhConnectionState::Connected => Some((status.mh_url.clone(), true)),
        wire::MhConnectionState::Failed | wire::MhConnectionState::Closed => {
            Some((status.mh_url.clone(), false))
        }
        wire::MhConnectionState::Unspecified | wire::MhConnectionState::Connecting => None,
    });
    known.collect()
}

/// A request of a participant; `None` for messages that the connection handles itself.
pub fn request_from_wire(payload: Option<ClientPayload>) -> Result<Option<Request>, Refusal> {
    let payload = payload.ok_or(Refusal::Invalid("unknown message type"))?;
    Ok(Some(match payload {
        ClientPayload::JoinRequest(_) => return Err(Refusal::Invalid("already joined")),
        ClientPayload::Ping(_)
        | ClientPayload::StreamQualityUpdate(_)
        | ClientPayload::MediaConnectionUpdate(_) => return Ok(None),
        ClientPayload::LeaveRequest(_) => Request::Leave,
        ClientPayload::MuteRequest(mute) => {
            Request::Mute { audio: mute.audio_muted, video: mute.video_muted }
        }
        ClientPayload::HostMuteRequest(mute) => {
            if mute.reason.len() > limits::REASON {
                return Err(Refusal::Invalid("a reason has at most 256 bytes"));
            }
            let participant = participant_id(&mute.participant_id)?;
            Request::HostMute { participant, audio: mute.audio, video: mute.video, reason: mute.reason }
        }
        ClientPayload::UnmuteRequest(request) => {
            Request::RequestUnmute { audio: request.request_audio, video: request.request_video }
        }
        ClientPayload::UnmuteResponse(answer) => Request::AnswerUnmute {
            participant: participant_id(&answer.participant_id)?,
            audio: answer.audio_approved,
            video: answer.video_approved,
        },
        ClientPayload::ChatRequest(chat) => Request::Chat { text: chat.text },
        ClientPayload::DataRequest(data) => Request::Data {
            topic: data.topic,
            payload: data.payload,
            to: data.to_participant_ids.iter().map(|id| participant_id(id)).collect::<Result<_, _>>()?,
        },
        ClientPayload::PublishStream(stream) => {
            let kind = from_number(&STREAM_KINDS, stream.r#type);
            let kind = kind.ok_or(Refusal::Invalid("unknown stream type"))?;
            Request::Publish { stream_id: stream.stream_id, kind, metadata: stream.metadata }
        }
        ClientPayload::UnpublishStream(stream) => Request::Unpublish { stream_id: stream.stream_id },
        ClientPayload::SubscribeToLayout(layout) => subscription(layout)?,
        ClientPayload::UpdateLayout(layout) => {
            Request::UpdateLayout { config: layout_config(layout.new_config.unwrap_or_default()) }
        }
        ClientPayload::UnsubscribeLayout(_) => Request::Unsubscribe,
        ClientPayload::KickRequest(kick) => {
            Request::Kick { participant: participant_id(&kick.participant_id)? }
        }
        ClientPayload::EndMeetingRequest(_) => Request::End,
        ClientPayload::MediaGrantRequest(_) => Request::MediaGrant,
        ClientPayload::RaiseHand(hand) => {
            let participant = Some(hand.participant_id).filter(|id| !id.is_empty());
            let participant = participant.map(|id| participant_id(&id)).transpose()?;
            Request::RaiseHand { participant, raised: hand.raised }
        }
        ClientPayload::Admit(admit) => {
            let ids = admit.participant_ids.iter().map(|id| participant_id(id));
            Request::Admit { participants: ids.collect::<Result<_, _>>()?, all: admit.all }
        }
        ClientPayload::LiftBan(lift) => {
            if lift.user_id.len() > limits::USER_ID {
                return Err(Refusal::Invalid("a user id has at most 128 bytes"));
            }
            Request::LiftBan { user: lift.user_id }
        }
    }))
}

fn subscription(layout: wire::SubscribeToLayout) -> Result<Request, Refusal> {
    if wire::LayoutType::try_from(layout.layout_type).is_err() {
        return Err(Refusal::Invalid("unknown layout type"));
    }
    let config = layout_config(layout.config.unwrap_or_default());
    Ok(Request::Subscribe { kind: layout.layout_type, config, streams: layout.stream_ids })
}

fn participant_id(id: &str) -> Result<Id, Refusal> {
    Id::parse(id).ok_or(Refusal::NotFound("no such participant"))
}

fn layout_config(config: wire::LayoutConfig) -> LayoutConfig {
    LayoutConfig {
        rows: config.rows,
        columns: config.columns,
        max_streams: config.max_streams,
        pinned: config.pinned_users,
        excluded: config.excluded_users,
        prefer_video: config.prefer_video,
        include_self: config.include_self,
    }
}

/// An event as participants receive it and as the log stores it.
pub fn event_to_wire(event: &Event) -> Payload {
    match event {
        Event::Joined(profile) => Payload::ParticipantJoined(wire::ParticipantJoined {
            participant: Some(participant_to_wire(profile)),
        }),
        Event::Left { participant, reason } => Payload::ParticipantLeft(wire::ParticipantLeft {
            participant_id: participant.to_string(),
            reason: to_number(&LEAVE_REASONS, *reason),
        }),
        Event::Presence { participant, connected, grace_ms } => {
            Payload::ParticipantPresence(wire::ParticipantPresence {
                participant_id: participant.to_string(),
                presence: presence(*connected),
                grace_ms: *grace_ms,
            })
        }
        Event::Muted { participant, mutes } => {
            Payload::ParticipantMuteUpdate(mutes_to_wire(*participant, mutes))
        }
        Event::Published { participant, stream_id, stream } => {
            Payload::StreamPublished(wire::StreamPublished {
                participant_id: participant.to_string(),
                stream: Some(stream_to_wire(*stream_id, stream)),
            })
        }
        Event::Unpublished { participant, stream_id } => {
            Payload::StreamUnpublished(wire::StreamUnpublished {
                participant_id: participant.to_string(),
                stream_id: *stream_id,
            })
        }
        Event::Hand { participant, raised_at } => Payload::Hand(wire::HandUpdate {
            participant_id: participant.to_string(),
            raised: raised_at.is_some(),
            raised_at: raised_at.map_or(0, Wall::as_millis),
        }),
        Event::Chat { participant, name, text, at } => Payload::ChatMessage(wire::ChatMessage {
            participant_id: participant.to_string(),
            name: name.clone(),
            text: text.clone(),
            sent_at: at.as_millis(),
        }),
        Event::Data { participant, topic, payload, to } => Payload::DataMessage(wire::DataMessage {
            participant_id: participant.to_string(),
            topic: topic.clone(),
            payload: payload.clone(),
            to_participant_ids: to.iter().map(Id::to_string).collect(),
        }),
        Event::Ended { reason } => Payload::MeetingEnded(wire::MeetingEnded { reason: reason.clone() }),
    }
}

/// An event read from the log; `None` if this version does not know it.
pub fn event_from_wire(payload: Payload) -> Option<Event> {
    Some(match payload {
        Payload::ParticipantJoined(message) => {
            Event::Joined(Box::new(profile_from_wire(message.participant?)?))
        }
        Payload::ParticipantLeft(message) => Event::Left {
            participant: Id::parse(&message.participant_id)?,
            reason: from_number(&LEAVE_REASONS, message.reason)?,
        },
        Payload::ParticipantPresence(message) => Event::Presence {
            participant: Id::parse(&message.participant_id)?,
            connected: message.presence == presence(true),
            grace_ms: message.grace_ms,
        },
        Payload::ParticipantMuteUpdate(message) => {
            Event::Muted { participant: Id::parse(&message.participant_id)?, mutes: mutes_from_wire(message) }
        }
        Payload::StreamPublished(message) => {
            let (stream_id, stream) = stream_from_wire(message.stream?)?;
            Event::Published { participant: Id::parse(&message.participant_id)?, stream_id, stream }
        }
        Payload::StreamUnpublished(message) => Event::Unpublished {
            participant: Id::parse(&message.participant_id)?,
            stream_id: message.stream_id,
        },
        Payload::Hand(message) => Event::Hand {
            participant: Id::parse(&message.participant_id)?,
            raised_at: wall_from_wire(message.raised_at).filter(|_| message.raised),
        },
        Payload::ChatMessage(message) => Event::Chat {
            participant: Id::parse(&message.participant_id)?,
            name: message.name,
            text: message.text,
            at: Wall::from_micros(message.sent_at.saturating_mul(1_000)),
        },
        Payload::DataMessage(message) => Event::Data {
            participant: Id::parse(&message.participant_id)?,
            topic: message.topic,
            payload: message.payload,
            to: message.to_participant_ids.iter().map(|id| Id::parse(id)).collect::<Option<_>>()?,
        },
        Payload::MeetingEnded(message) => Event::Ended { reason: message.reason },
        _ => return None,
    })
}

fn presence(connected: bool) -> i32 {
    let presence = if connected { wire::Presence::Connected } else { wire::Presence::Disconnected };
    presence.into()
}

/// A participant as others see it.
pub fn participant_to_wire(profile: &Profile) -> wire::Participant {
    wire::Participant {
        participant_id: profile.participant.to_string(),
        name: profile.name.clone(),
        streams: profile.streams.iter().map(|(id, stream)| stream_to_wire(*id, stream)).collect(),
        joined_at: profile.joined_at.as_millis(),
        user_id: profile.user.clone(),
        role: role_to_wire(profile.role),
        presence: presence(profile.connected),
        mute: Some(mutes_to_wire(profile.participant, &profile.mutes)),
        hand_raised_at: profile.hand_raised_at.map_or(0, Wall::as_millis),
    }
}

fn profile_from_wire(message: wire::Participant) -> Option<Profile> {
    let streams = message.streams.into_iter().map(stream_from_wire).collect::<Option<_>>()?;
    Some(Profile {
        participant: Id::parse(&message.participant_id)?,
        user: message.user_id,
        name: message.name,
        role: from_number(&ROLES, message.role)?,
        joined_at: Wall::from_micros(message.joined_at.saturating_mul(1_000)),
        connected: message.presence == presence(true),
        mutes: message.mute.map(mutes_from_wire).unwrap_or_default(),
        streams,
        hand_raised_at: wall_from_wire(message.hand_raised_at),
    })
}

/// A time in milliseconds; zero is none.
fn wall_from_wire(millis: u64) -> Option<Wall> {
    (millis > 0).then(|| Wall::from_micros(millis.saturating_mul(1_000)))
}

fn stream_to_wire(stream_id: u32, stream: &Stream) -> wire::MediaStream {
    let stream_type = stream_kind_to_wire(stream.kind);
    wire::MediaStream { stream_id, stream_type, metadata: stream.metadata.clone() }
}

fn stream_from_wire(message: wire::MediaStream) -> Option<(u32, Stream)> {
    let kind = from_number(&STREAM_KINDS, message.stream_type)?;
    Some((message.stream_id, Stream { kind, metadata: message.metadata }))
}

fn mutes_to_wire(participant: Id, mutes: &Mutes) -> wire::ParticipantMuteUpdate {
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

fn mutes_from_wire(message: wire::ParticipantMuteUpdate) -> Mutes {
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
