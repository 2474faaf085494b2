//! What clients ask for.

use meet_wire::signaling::client_message::Payload;
use meet_wire::signaling::{self as wire, ClientMessage};
use meet_wire::{Id, MeetingId, limits};

use crate::convert::event::kind;
use crate::meeting::{LayoutConfig, Refusal, Request, Resume};

/// A wish to join whose token has not been checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Knock {
    /// The meeting.
    pub meeting: MeetingId,
    /// The JWT.
    pub token: String,
    /// The name that others shall see.
    pub name: String,
    /// The proof of a seat that was left.
    pub resume: Option<Resume>,
    /// The last event that the client has seen.
    pub last_event_seq: u64,
    /// The attempt.
    pub attempt: String,
}

/// The first message of a client, which asks to join.
pub fn knock(message: ClientMessage) -> Result<Knock, Refusal> {
    let Some(Payload::JoinRequest(join)) = message.payload else {
        return Err(Refusal::Invalid("the first message asks to join"));
    };
    if join.participant_name.len() > limits::NAME {
        return Err(Refusal::Invalid("a name has at most 256 bytes"));
    }
    if join.attempt_id.len() > limits::ATTEMPT_ID {
        return Err(Refusal::Invalid("an attempt id has at most 64 bytes"));
    }
    // What is no id at all is a proof that fails, like any other.
    let correlation = Id::parse(&join.correlation_id);
    let resume = correlation.map(|correlation| Resume { correlation, token: join.binding_token });
    Ok(Knock {
        meeting: MeetingId::parse(&join.meeting_id).ok_or(Refusal::Invalid("there is no such meeting id"))?,
        token: join.join_token,
        name: join.participant_name,
        resume,
        last_event_seq: join.last_event_seq,
        attempt: join.attempt_id,
    })
}

/// Any later message, as far as it is about the meeting; none for those that only the connection answers.
pub fn request(payload: Option<Payload>) -> Result<Option<Request>, Refusal> {
    let payload = payload.ok_or(Refusal::Invalid("a message of no kind that is known here"))?;
    Ok(Some(match payload {
        Payload::JoinRequest(_) => return Err(Refusal::Invalid("only the first message asks to join")),
        Payload::Ping(_) | Payload::StreamQualityUpdate(_) | Payload::MediaConnectionUpdate(_) => {
            return Ok(None);
        }
        Payload::LeaveRequest(_) => Request::Leave,
        Payload::MuteRequest(mute) => Request::Mute { audio: mute.audio_muted, video: mute.video_muted },
        Payload::HostMuteRequest(mute) => {
            if mute.reason.len() > limits::REASON {
                return Err(Refusal::Invalid("a reason has at most 256 bytes"));
            }
            let participant = somebody(&mute.participant_id)?;
            Request::HostMute { participant, audio: mute.audio, video: mute.video, reason: mute.reason }
        }
        Payload::UnmuteRequest(ask) => {
            Request::AskUnmute { audio: ask.request_audio, video: ask.request_video }
        }
        Payload::UnmuteResponse(answer) => Request::AnswerUnmute {
            participant: somebody(&answer.participant_id)?,
            audio: answer.audio_approved,
            video: answer.video_approved,
        },
        Payload::ChatRequest(chat) => Request::Chat { text: chat.text },
        Payload::DataRequest(data) => Request::Data {
            topic: data.topic,
            payload: data.payload,
            to: data.to_participant_ids.iter().map(|id| somebody(id)).collect::<Result<_, _>>()?,
        },
        Payload::PublishStream(stream) => Request::Publish {
            stream_id: stream.stream_id,
            kind: kind(stream.r#type).ok_or(Refusal::Invalid("a stream is audio, video or a screen"))?,
            metadata: stream.metadata,
        },
        Payload::UnpublishStream(stream) => Request::Unpublish { stream_id: stream.stream_id },
        Payload::SubscribeToLayout(layout) => {
            if wire::LayoutType::try_from(layout.layout_type).is_err() {
                return Err(Refusal::Invalid("there is no such layout"));
            }
            let config = config(layout.config.unwrap_or_default());
            Request::Subscribe { kind: layout.layout_type, config, streams: layout.stream_ids }
        }
        Payload::UpdateLayout(layout) => {
            Request::UpdateLayout { config: config(layout.new_config.unwrap_or_default()) }
        }
        Payload::UnsubscribeLayout(_) => Request::Unsubscribe,
        Payload::KickRequest(kick) => Request::Kick { participant: somebody(&kick.participant_id)? },
        Payload::EndMeetingRequest(_) => Request::End,
    }))
}

fn somebody(id: &str) -> Result<Id, Refusal> {
    Id::parse(id).ok_or(Refusal::NotFound("there is no such participant"))
}

fn config(config: wire::LayoutConfig) -> LayoutConfig {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn join() -> wire::JoinRequest {
        wire::JoinRequest {
            meeting_id: "abc".to_owned(),
            join_token: "t".to_owned(),
            correlation_id: "018bcfe5-6800-7000-8000-000000000001".to_owned(),
            binding_token: "b".to_owned(),
            attempt_id: "1".to_owned(),
            last_event_seq: 9,
            ..wire::JoinRequest::default()
        }
    }

    fn ask(join: wire::JoinRequest) -> Result<Knock, Refusal> {
        knock(ClientMessage { payload: Some(Payload::JoinRequest(join)), ..ClientMessage::default() })
    }

    #[test]
    fn the_first_message_asks_to_join_within_bounds() {
        let good = ask(join()).unwrap();
        assert!(good.resume.is_some() && good.last_event_seq == 9);
        let odd = ask(wire::JoinRequest { correlation_id: "x".to_owned(), ..join() }).unwrap();
        assert_eq!(odd.resume, None, "a proof that fails, and no error");
        let bad = [
            wire::JoinRequest { participant_name: "x".repeat(257), ..join() },
            wire::JoinRequest { attempt_id: "x".repeat(65), ..join() },
            wire::JoinRequest { meeting_id: "a b".to_owned(), ..join() },
            wire::JoinRequest { meeting_id: String::new(), ..join() },
        ];
        for join in bad {
            assert!(matches!(ask(join), Err(Refusal::Invalid(_))));
        }
        assert!(matches!(knock(ClientMessage::default()), Err(Refusal::Invalid(_))));
    }

    #[test]
    fn later_messages_are_requests_or_refused() {
        assert_eq!(request(Some(Payload::LeaveRequest(wire::LeaveRequest {}))), Ok(Some(Request::Leave)));
        assert_eq!(request(Some(Payload::Ping(wire::Ping { nonce: 1 }))), Ok(None));
        let kick = wire::KickRequest { participant_id: "x".to_owned(), reason: String::new() };
        assert!(matches!(request(Some(Payload::KickRequest(kick))), Err(Refusal::NotFound(_))));
        let publish = wire::PublishStream { stream_id: 1, r#type: 0, metadata: String::new() };
        assert!(matches!(request(Some(Payload::PublishStream(publish))), Err(Refusal::Invalid(_))));
        let layout = wire::SubscribeToLayout { layout_type: 99, ..wire::SubscribeToLayout::default() };
        assert!(matches!(request(Some(Payload::SubscribeToLayout(layout))), Err(Refusal::Invalid(_))));
        assert!(matches!(request(Some(Payload::JoinRequest(join()))), Err(Refusal::Invalid(_))));
        assert!(matches!(request(None), Err(Refusal::Invalid(_))));
    }
}
