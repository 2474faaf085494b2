//! Every request in every role, and every input in every phase.

use super::*;

/// One of every request, about `other`.
fn requests(other: Id) -> Vec<(&'static str, Request)> {
    let config = LayoutConfig::default();
    vec![
        ("mute", Request::Mute { audio: true, video: true }),
        (
            "host_mute",
            Request::HostMute { participant: other, audio: true, video: false, reason: String::new() },
        ),
        ("ask", Request::RequestUnmute { audio: true, video: false }),
        ("answer", Request::AnswerUnmute { participant: other, audio: true, video: false }),
        ("chat", Request::Chat { text: "hi".to_owned() }),
        ("data", Request::Data { topic: "t".to_owned(), payload: "x".into(), to: vec![other] }),
        ("publish", Request::Publish { stream_id: 1, kind: StreamKind::Audio, metadata: String::new() }),
        ("unpublish", Request::Unpublish { stream_id: 9 }),
        ("subscribe", Request::Subscribe { kind: 1, config: config.clone(), streams: vec![1] }),
        ("update", Request::UpdateLayout { config }),
        ("unsubscribe", Request::Unsubscribe),
        ("hand", Request::RaiseHand { participant: None, raised: true }),
        ("lower", Request::RaiseHand { participant: Some(other), raised: false }),
        ("grant", Request::MediaGrant),
        ("admit", Request::Admit { participants: vec![other], all: false }),
        ("admit_all", Request::Admit { participants: Vec::new(), all: true }),
        ("lift_ban", Request::LiftBan { user: "other".to_owned() }),
        ("kick", Request::Kick { participant: other }),
        ("end", Request::End),
        ("leave", Request::Leave),
    ]
}

/// The outcome in a word.
fn word(outcome: &Result<Effects, Refusal>) -> &'static str {
    match outcome {
        Ok(effects) => match effects.write {
            Write::None if effects.changes.is_empty() && effects.then.is_empty() => "nothing",
            Write::None => "unwritten",
            Write::Async => "async",
            Write::Sync => "sync",
        },
        Err(Refusal::Invalid(_)) => "invalid",
        Err(Refusal::Forbidden) => "forbidden",
        Err(Refusal::NoGuests) => "no_guests",
        Err(Refusal::Banned) => "banned",
        Err(Refusal::NotFound(_)) => "not_found",
        Err(Refusal::Conflict(_)) => "conflict",
        Err(Refusal::Full) => "full",
        Err(Refusal::RateLimited(_)) => "rate_limited",
        Err(Refusal::Moving) => "moving",
        Err(Refusal::Moved { .. }) => "moved",
        Err(Refusal::MeetingEnded) => "ended",
        Err(Refusal::NoSeat) => "no_seat",
    }
}

#[test]
fn every_request_in_every_role_matches_the_table() {
    // Host, participant, guest. No one is muted, published or subscribed at the start of each.
    let table = [
        ("mute", ["async"; 3]),
        ("host_mute", ["sync", "forbidden", "forbidden"]),
        ("ask", ["conflict"; 3]),
        ("answer", ["not_found", "forbidden", "forbidden"]),
        ("chat", ["async"; 3]),
        ("data", ["async"; 3]),
        ("publish", ["async"; 3]),
        ("unpublish", ["not_found"; 3]),
        ("subscribe", ["async"; 3]),
        ("update", ["conflict"; 3]),
        ("unsubscribe", ["async"; 3]),
        ("hand", ["async"; 3]),
        ("lower", ["async", "forbidden", "forbidden"]),
        ("grant", ["async"; 3]),
        ("admit", ["not_found", "forbidden", "forbidden"]),
        ("admit_all", ["async", "forbidden", "forbidden"]),
        ("lift_ban", ["not_found", "forbidden", "forbidden"]),
        ("kick", ["sync", "forbidden", "forbidden"]),
        ("end", ["sync", "forbidden", "forbidden"]),
        ("leave", ["sync"; 3]),
    ];
    for (at, role) in [Role::Host, Role::Participant, Role::Guest].into_iter().enumerate() {
        let mut tried = 0;
        let mut fixture = Fixture::new();
        let (me, other) = (fixture.join("me", role), fixture.join("other", Role::Participant));
        for (name, request) in requests(other.seat.participant) {
            let (participant, epoch) = (me.seat.participant, me.seat.epoch);
            let outcome = fixture.decide(&Input::Request { participant, epoch, seq: 1, request });
            let expected = table.iter().find(|(row, _)| *row == name).unwrap().1[at];
            assert_eq!(word(&outcome), expected, "{name} as {role:?}");
            tried += 1;
        }
        assert_eq!(tried, table.len());
    }
}

#[test]
fn every_request_about_an_unknown_participant_is_refused() {
    let mut fixture = Fixture::new();
    let me = fixture.join("me", Role::Host);
    let (participant, epoch) = (me.seat.participant, me.seat.epoch);
    for (name, request) in requests(id(999)) {
        if ["host_mute", "answer", "data", "lower", "admit", "kick"].contains(&name) {
            let outcome = fixture.decide(&Input::Request { participant, epoch, seq: 1, request });
            assert_eq!(word(&outcome), "not_found", "{name}");
        }
    }
}

/// One of every input, about a connected participant.
fn events(fixture: &mut Fixture, me: &Seat) -> Vec<(&'static str, Input)> {
    let (participant, epoch) = (me.participant, me.epoch);
    vec![
        ("join", Input::Join(Box::new(fixture.new_join("new", Role::Participant)))),
        ("closed", Input::Disconnected { participant, epoch }),
        ("closed_late", Input::Disconnected { participant, epoch: epoch + 1 }),
        ("asked", Input::Request { participant, epoch, seq: 1, request: Request::Unsubscribe }),
        (
            "asked_old",
            Input::Request { participant, epoch: epoch - 1, seq: 1, request: Request::Unsubscribe },
        ),
        ("asked_unnumbered", Input::Request { participant, epoch, seq: 0, request: Request::Unsubscribe }),
        (
            "enforced",
            Input::MuteEnforced { participant, epoch: me.mutes.epoch, by: participant, missing: Vec::new() },
        ),
        ("handlers", Input::Handlers(Vec::new())),
        ("settings", Input::Settings { max_participants: 5, allow_guests: false, waiting_room: false }),
        ("settings_same", Input::Settings { max_participants: 100, allow_guests: true, waiting_room: false }),
        ("stopped_waiting", Input::StoppedWaiting { participant }),
        ("speakers", Input::Speakers { participants: vec![participant] }),
        ("time", Input::Timer),
        ("end", Input::End),
        ("freeze", Input::Freeze),
        ("thaw", Input::Thaw),
        ("move", Input::Move { endpoint: "https://there".to_owned(), certificates: Vec::new() }),
    ]
}

#[test]
fn every_input_in_every_phase_matches_the_table() {
    // Active, shutting down, migrating, complete (where no seat is left).
    let table = [
        ("join", ["sync", "moving", "moved", "ended"]),
        ("closed", ["async", "unwritten", "unwritten", "nothing"]),
        ("closed_late", ["nothing"; 4]),
        ("asked", ["async", "moving", "moved", "no_seat"]),
        ("asked_old", ["no_seat"; 4]),
        ("asked_unnumbered", ["invalid", "moving", "moved", "no_seat"]),
        ("enforced", ["unwritten", "unwritten", "unwritten", "nothing"]),
        ("handlers", ["sync", "moving", "moved", "ended"]),
        ("settings", ["sync", "moving", "moved", "ended"]),
        ("settings_same", ["nothing"; 4]),
        ("stopped_waiting", ["nothing"; 4]),
        ("speakers", ["unwritten", "nothing", "nothing", "nothing"]),
        ("time", ["nothing"; 4]),
        ("end", ["sync", "moving", "moved", "ended"]),
        ("freeze", ["unwritten", "conflict", "conflict", "conflict"]),
        ("thaw", ["conflict", "unwritten", "conflict", "conflict"]),
        ("move", ["conflict", "unwritten", "conflict", "conflict"]),
    ];
    let steps =
        [Input::Freeze, Input::Move { endpoint: "https://there".to_owned(), certificates: Vec::new() }];
    for phase in 0..4 {
        let mut fixture = Fixture::new();
        let me = fixture.join("me", Role::Host);
        steps.iter().take(phase.min(2)).for_each(|step| drop(fixture.apply(step).unwrap()));
        if phase == 3 {
            fixture.meeting.apply_changes(&[Change::Phase(Phase::Complete)], fixture.now);
        }
        let events = events(&mut fixture, &me.seat);
        assert_eq!(events.len(), table.len());
        for (name, event) in events {
            let expected = table.iter().find(|(row, _)| *row == name).unwrap().1[phase];
            assert_eq!(
                word(&fixture.decide(&event)),
                expected,
                "{name} while {}",
                fixture.meeting.phase.as_str()
            );
        }
    }
}

#[test]
fn a_repeated_request_is_applied_once() {
    let mut fixture = Fixture::new();
    let me = fixture.join("me", Role::Participant);
    let (participant, epoch) = (me.seat.participant, me.seat.epoch);
    let say =
        |seq| Input::Request { participant, epoch, seq, request: Request::Chat { text: "once".to_owned() } };
    fixture.apply(&say(5)).unwrap();
    let last = fixture.meeting.log.last();
    for seq in [5, 4, 1] {
        assert_eq!(
            fixture.apply(&say(seq)).unwrap().then,
            [Effect::Accept],
            "{seq} took effect or was skipped"
        );
    }
    assert_eq!(fixture.meeting.log.last(), last);
    // Also after coming back, on another connection.
    let join = fixture.resume_join(&me);
    let back = welcome(&fixture.apply(&Input::Join(Box::new(join))).unwrap());
    assert_eq!(back.seat.applied.number(), 5);
    let event = Input::Request { participant, epoch: back.seat.epoch, seq: 5, request: Request::End };
    assert_eq!(fixture.apply(&event).unwrap().then, [Effect::Accept]);
}

#[test]
fn a_freeze_reports_the_last_event_and_a_thaw_publishes_missed_disconnects() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    let frozen = sent(&fixture.apply(&Input::Freeze).unwrap());
    let expected = DirectMessage::Frozen { event_seq: 2 };
    assert_eq!(frozen, [(ada.seat.participant, expected.clone()), (bob.seat.participant, expected)]);
    fixture.disconnect(&bob.seat);
    assert_eq!(fixture.meeting.log.last(), 2, "nothing is written while it moves");
    let effects = fixture.apply(&Input::Thaw).unwrap();
    let gray = Event::Presence { participant: bob.seat.participant, connected: false, grace_ms: 30_000 };
    assert_eq!(effects.events().collect::<Vec<_>>(), [&gray]);
    fixture.apply(&Input::Freeze).unwrap();
    let go = Input::Move { endpoint: "https://there".to_owned(), certificates: vec![vec![1]] };
    let redirect =
        DirectMessage::Redirect { endpoint: "https://there".to_owned(), certificates: vec![vec![1]] };
    assert_eq!(sent(&fixture.apply(&go).unwrap()), [(ada.seat.participant, redirect)]);
}

#[test]
fn out_of_bounds_requests_are_refused_and_change_nothing() {
    let mut fixture = Fixture::new();
    let me = fixture.join("me", Role::Participant);
    let many =
        LayoutConfig { pinned: vec![String::new(); limits::LAYOUT_NAMES + 1], ..LayoutConfig::default() };
    let publish =
        |stream_id| Request::Publish { stream_id, kind: StreamKind::Video, metadata: String::new() };
    let bad = [
        Request::Chat { text: String::new() },
        Request::Chat { text: "x".repeat(4_097) },
        Request::Data { topic: "x".repeat(129), payload: Default::default(), to: Vec::new() },
        Request::Data { topic: String::new(), payload: vec![0; 32_769].into(), to: Vec::new() },
        Request::Publish { stream_id: 1, kind: StreamKind::Video, metadata: "x".repeat(1_025) },
        Request::Subscribe { kind: 1, config: many, streams: Vec::new() },
        Request::Subscribe { kind: 1, config: LayoutConfig::default(), streams: vec![0; 65] },
        Request::RequestUnmute { audio: false, video: false },
    ];
    let before = fixture.meeting.clone();
    for request in bad {
        assert_eq!(word(&fixture.request(&me.seat, request.clone())), "invalid", "{request:?}");
    }
    assert_eq!(fixture.meeting, before);
    (0..16).for_each(|stream| drop(fixture.request(&me.seat, publish(stream)).unwrap()));
    assert_eq!(word(&fixture.request(&me.seat, publish(16))), "rate_limited");
}

#[test]
fn a_host_ends_the_meeting_for_all() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    let away = fixture.join("cyd", Role::Participant);
    fixture.disconnect(&away.seat);
    let effects = fixture.request(&ada.seat, Request::End).unwrap();
    let gone = |seat: &Seat| (seat.participant, seat.epoch, CloseCode::Done);
    assert_eq!(closes(&effects), [gone(&ada.seat), gone(&bob.seat)]);
    assert_eq!(effects.then.last(), Some(&Effect::End));
    assert!(fixture.meeting.seats.is_empty() && fixture.meeting.phase == Phase::Complete);
}

#[test]
fn a_kicked_participant_is_closed_with_its_own_code() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    let itself = fixture.request(&ada.seat, Request::Kick { participant: ada.seat.participant });
    assert_eq!(word(&itself), "invalid");
    let effects = fixture.request(&ada.seat, Request::Kick { participant: bob.seat.participant }).unwrap();
    assert_eq!(closes(&effects), [(bob.seat.participant, 1, CloseCode::Kicked)]);
    let left = Event::Left { participant: bob.seat.participant, reason: LeaveReason::Kicked };
    assert_eq!(effects.events().collect::<Vec<_>>(), [&left]);
}
