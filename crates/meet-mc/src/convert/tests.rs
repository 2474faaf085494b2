use tenure_lease::Wall;
use tenure_meet_wire::Id;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{self as wire, ClientMessage};

use super::messages::LEAVE_REASONS;
use super::*;
use crate::meeting::{Event, Mutes, Profile, Refusal, Request, Role, Stream, StreamKind};

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

fn convert_join(join: wire::JoinRequest) -> Result<UnverifiedJoin, Refusal> {
    let payload = Some(ClientPayload::JoinRequest(join));
    join_from_wire(ClientMessage { payload, ..ClientMessage::default() })
}

#[test]
fn the_first_message_is_a_join_request_within_bounds() {
    let good = convert_join(join()).unwrap();
    assert!(good.resume.is_some() && good.last_event_seq == 9);
    let odd = convert_join(wire::JoinRequest { correlation_id: "x".to_owned(), ..join() }).unwrap();
    assert_eq!(odd.resume, None, "an invalid proof is not an error");
    let bad = [
        wire::JoinRequest { participant_name: "x".repeat(257), ..join() },
        wire::JoinRequest { attempt_id: "x".repeat(65), ..join() },
        wire::JoinRequest { meeting_id: "a b".to_owned(), ..join() },
        wire::JoinRequest { meeting_id: String::new(), ..join() },
    ];
    for join in bad {
        assert!(matches!(convert_join(join), Err(Refusal::Invalid(_))));
    }
    assert!(matches!(join_from_wire(ClientMessage::default()), Err(Refusal::Invalid(_))));
}

#[test]
fn later_messages_become_requests_or_are_refused() {
    let convert = |payload| request_from_wire(Some(payload));
    assert_eq!(convert(ClientPayload::LeaveRequest(wire::LeaveRequest {})), Ok(Some(Request::Leave)));
    assert_eq!(convert(ClientPayload::Ping(wire::Ping { nonce: 1 })), Ok(None));
    let kick = wire::KickRequest { participant_id: "x".to_owned(), reason: String::new() };
    assert!(matches!(convert(ClientPayload::KickRequest(kick)), Err(Refusal::NotFound(_))));
    let publish = wire::PublishStream { stream_id: 1, r#type: 0, metadata: String::new() };
    assert!(matches!(convert(ClientPayload::PublishStream(publish)), Err(Refusal::Invalid(_))));
    let layout = wire::SubscribeToLayout { layout_type: 99, ..wire::SubscribeToLayout::default() };
    assert!(matches!(convert(ClientPayload::SubscribeToLayout(layout)), Err(Refusal::Invalid(_))));
    assert!(matches!(convert(ClientPayload::JoinRequest(join())), Err(Refusal::Invalid(_))));
    assert!(matches!(request_from_wire(None), Err(Refusal::Invalid(_))));
}

#[test]
fn every_event_is_read_back_from_the_log_unchanged() {
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
        connected: true,
        mutes: mutes.clone(),
        streams: [(7, stream.clone())].into(),
        hand_raised_at: Some(Wall::from_micros(1_700_000_000_123_000)),
    };
    let reasons = LEAVE_REASONS.map(|(reason, _)| Event::Left { participant: id, reason });
    let others = [
        Event::Joined(Box::new(profile)),
        Event::Presence { participant: id, connected: false, grace_ms: 30_000 },
        Event::Presence { participant: id, connected: true, grace_ms: 0 },
        Event::Muted { participant: id, mutes },
        Event::Published { participant: id, stream_id: 7, stream },
        Event::Unpublished { participant: id, stream_id: 7 },
        Event::Hand { participant: id, raised_at: Some(Wall::from_micros(1_700_000_000_123_000)) },
        Event::Hand { participant: id, raised_at: None },
        Event::Chat {
            participant: id,
            name: "Ada".to_owned(),
            text: "hi".to_owned(),
            at: Wall::from_micros(1_700_000_000_123_000),
        },
        Event::Data { participant: id, topic: "t".to_owned(), payload: "x".into(), to: vec![id] },
        Event::Ended { reason: "over".to_owned() },
    ];
    for event in reasons.into_iter().chain(others) {
        assert_eq!(event_from_wire(event_to_wire(&event)), Some(event));
    }
    assert_eq!(event_from_wire(Payload::Accepted(wire::Accepted {})), None);
}
