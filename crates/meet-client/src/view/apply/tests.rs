//! Messages and their effect on the view.

use super::*;
use tenure_meet_wire::signaling::{
    self as wire, ChatMessage, LeaveReason, MeetingEnded, ParticipantJoined, ParticipantLeft,
    ParticipantMuteUpdate, ParticipantPresence, Presence, Role, UnmuteRequested,
};

fn person(id: &str) -> Participant {
    Participant {
        participant_id: id.to_owned(),
        name: id.to_uppercase(),
        presence: Presence::Connected.into(),
        ..Participant::default()
    }
}

fn message(event_seq: u64, payload: Payload) -> ServerMessage {
    ServerMessage { payload: Some(payload), event_seq, ..ServerMessage::default() }
}

fn welcome() -> JoinResponse {
    JoinResponse {
        participant_id: "me".to_owned(),
        existing_participants: vec![person("ada")],
        event_seq: 7,
        role: Role::Host.into(),
        self_state: Some(person("me")),
        roster_size: 1,
        ..JoinResponse::default()
    }
}

fn joined() -> View {
    let mut view = View::new(3);
    let step = apply(&mut view, &message(0, Payload::JoinResponse(welcome())));
    assert_eq!(step, Step::Welcome { resumed: false, replay: false });
    view
}

fn said(text: &str) -> Payload {
    Payload::ChatMessage(ChatMessage { text: text.to_owned(), ..ChatMessage::default() })
}

fn lines(view: &View) -> Vec<(u64, &str)> {
    view.lines.iter().map(|line| (line.seq, line.said.text.as_str())).collect()
}

#[test]
fn a_welcome_adds_all_participants() {
    let view = joined();
    assert_eq!(view.own().unwrap().name, "ME");
    assert_eq!(view.others().map(|person| person.name.as_str()).collect::<Vec<_>>(), ["ADA"]);
    assert_eq!((view.event_seq, view.role, view.is_whole()), (7, Role::Host, true));
    assert_eq!(view.resume_from(), 7);
    assert_eq!(View::new(0).resume_from(), u64::MAX, "an empty view needs a snapshot");
}

#[test]
fn a_long_roster_is_complete_only_with_its_last_part() {
    let mut view = View::new(0);
    apply(&mut view, &message(0, Payload::JoinResponse(JoinResponse { roster_size: 3, ..welcome() })));
    assert!(!view.is_whole());
    assert_eq!(view.resume_from(), u64::MAX, "an incomplete roster needs a snapshot");
    for part in [vec![person("bob")], vec![person("eve")]] {
        let part = Snapshot { event_seq: 7, participants: part, media_servers: Vec::new() };
        assert_eq!(apply(&mut view, &message(0, Payload::Snapshot(part))), Step::Roster);
    }
    assert!(view.is_whole() && view.people.len() == 4 && view.resume_from() == 7);
}

#[test]
fn every_event_changes_the_view() {
    let id = || "ada".to_owned();
    let mute = ParticipantMuteUpdate { participant_id: id(), audio_host: true, ..Default::default() };
    let away = ParticipantPresence {
        participant_id: id(),
        presence: Presence::Disconnected.into(),
        grace_ms: 30_000,
    };
    let stream = wire::MediaStream { stream_id: 4, ..Default::default() };
    let published = wire::StreamPublished { participant_id: id(), stream: Some(stream) };
    let unpublished = wire::StreamUnpublished { participant_id: id(), stream_id: 4 };
    let left = ParticipantLeft { participant_id: id(), reason: LeaveReason::Timeout.into() };
    type ViewCheck = fn(&View) -> bool;
    let table: [(Payload, ViewCheck); 8] = [
        (Payload::ParticipantJoined(ParticipantJoined { participant: Some(person("bob")) }), |view| {
            view.people.contains_key("bob")
        }),
        (Payload::ParticipantPresence(away), |view| view.people["ada"].presence() == Presence::Disconnected),
        (Payload::ParticipantMuteUpdate(mute), |view| view.people["ada"].mute.as_ref().unwrap().audio_host),
        (Payload::StreamPublished(published), |view| view.people["ada"].streams.len() == 1),
        (Payload::StreamUnpublished(unpublished), |view| view.people["ada"].streams.is_empty()),
        (said("hi"), |view| lines(view) == [(13, "hi")]),
        (Payload::ParticipantLeft(left), |view| !view.people.contains_key("ada")),
        (Payload::MeetingEnded(MeetingEnded { reason: "over".to_owned() }), |view| {
            view.over.as_deref() == Some("over")
        }),
    ];
    let mut view = joined();
    for (number, (payload, check)) in table.into_iter().enumerate() {
        let words = format!("{payload:?}");
        assert!(matches!(apply(&mut view, &message(8 + number as u64, payload)), Step::New(_)), "{words}");
        assert!(check(&view), "{words}");
    }
    let hidden = ServerMessage { event_seq: 16, ..ServerMessage::default() };
    assert_eq!(apply(&mut view, &hidden), Step::New(News::Hidden), "hidden events still advance the number");
    assert_eq!(view.event_seq, 16);
}

#[test]
fn an_event_is_applied_once_and_none_is_skipped() {
    let mut view = joined();
    assert!(matches!(apply(&mut view, &message(8, said("a"))), Step::New(_)));
    assert_eq!(apply(&mut view, &message(8, said("a"))), Step::Repeated);
    assert_eq!(apply(&mut view, &message(3, said("old"))), Step::Repeated);
    assert_eq!(apply(&mut view, &message(10, said("c"))), Step::Gap);
    assert_eq!((lines(&view), view.event_seq), (vec![(8, "a")], 8));
}

#[test]
fn a_replay_extends_the_view_and_a_snapshot_replaces_it() {
    let mut view = joined();
    apply(&mut view, &message(8, said("a")));
    let back = JoinResponse {
        resumed: true,
        replay: true,
        existing_participants: Vec::new(),
        roster_size: 0,
        event_seq: 8,
        ..welcome()
    };
    let step = apply(&mut view, &message(0, Payload::JoinResponse(back)));
    assert_eq!(step, Step::Welcome { resumed: true, replay: true });
    assert!(view.people.contains_key("ada") && view.event_seq == 8 && view.is_whole());
    let anew = JoinResponse {
        resumed: true,
        existing_participants: vec![person("eve")],
        event_seq: 2_000,
        ..welcome()
    };
    apply(&mut view, &message(0, Payload::JoinResponse(anew)));
    let ids: Vec<&str> = view.people.keys().map(String::as_str).collect();
    assert_eq!((ids, view.event_seq), (vec!["eve", "me"], 2_000));
    assert_eq!(lines(&view), [(8, "a")], "received chat is kept");
}

#[test]
fn unpersisted_events_are_requested_again_and_compared() {
    let volatile = |seq, text| ServerMessage { durable: Some(false), ..message(seq, said(text)) };
    let mut view = joined();
    apply(&mut view, &volatile(8, "a"));
    apply(&mut view, &volatile(9, "b"));
    assert_eq!((view.event_seq, view.resume_from()), (9, 7));
    let mut same = view.clone();
    assert_eq!(apply(&mut same, &message(8, said("a"))), Step::Repeated);
    assert_eq!(apply(&mut same, &message(9, said("b"))), Step::Repeated);
    assert_eq!((same.resume_from(), lines(&same).len()), (9, 2), "persisted after all, and applied once");
    assert_eq!(apply(&mut view, &message(8, said("other"))), Step::Rewritten);
    assert!(lines(&view).is_empty(), "unpersisted chat is removed");
    let mut later = joined();
    apply(&mut later, &volatile(8, "a"));
    apply(&mut later, &message(9, said("b")));
    assert_eq!(later.resume_from(), 9, "events persist in order");
}

#[test]
fn hosts_see_unmute_requests_until_they_are_answered() {
    let mut view = joined();
    let ask = UnmuteRequested {
        participant_id: "ada".to_owned(),
        request_audio: true,
        request_video: false,
        expires_in_ms: 60_000,
    };
    apply(&mut view, &message(0, Payload::UnmuteRequest(ask)));
    assert!(view.asks.contains_key("ada"));
    let muted = |audio_host| ParticipantMuteUpdate {
        participant_id: "ada".to_owned(),
        audio_host,
        ..ParticipantMuteUpdate::default()
    };
    apply(&mut view, &message(8, Payload::ParticipantMuteUpdate(muted(true))));
    assert!(view.asks.contains_key("ada"), "still muted");
    apply(&mut view, &message(9, Payload::ParticipantMuteUpdate(muted(false))));
    assert!(view.asks.is_empty());
}

#[test]
fn the_view_keeps_a_bounded_number_of_chat_messages() {
    let mut view = joined();
    for seq in 8..20 {
        apply(&mut view, &message(seq, said(&seq.to_string())));
    }
    assert_eq!(lines(&view), [(17, "17"), (18, "18"), (19, "19")]);
}
