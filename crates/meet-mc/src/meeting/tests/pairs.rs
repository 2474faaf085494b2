//! Every request in every role, and every event in every phase.

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
        ("ask", Request::AskUnmute { audio: true, video: false }),
        ("answer", Request::AnswerUnmute { participant: other, audio: true, video: false }),
        ("chat", Request::Chat { text: "hi".to_owned() }),
        ("data", Request::Data { topic: "t".to_owned(), payload: "x".into(), to: vec![other] }),
        ("publish", Request::Publish { stream_id: 1, kind: StreamKind::Audio, metadata: String::new() }),
        ("unpublish", Request::Unpublish { stream_id: 9 }),
        ("subscribe", Request::Subscribe { kind: 1, config: config.clone(), streams: vec![1] }),
        ("update", Request::UpdateLayout { config }),
        ("unsubscribe", Request::Unsubscribe),
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
        Err(Refusal::NotFound(_)) => "not_found",
        Err(Refusal::Conflict(_)) => "conflict",
        Err(Refusal::Full) => "full",
        Err(Refusal::TooOften(_)) => "too_often",
        Err(Refusal::Moving) => "moving",
        Err(Refusal::Moved { .. }) => "moved",
        Err(Refusal::Over) => "over",
        Err(Refusal::NoSeat) => "no_seat",
    }
}

#[test]
fn every_request_in_every_role_does_what_the_table_says() {
    // Host, participant, guest. Nobody is muted, published or subscribed at the start of each.
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
        ("kick", ["sync", "forbidden", "forbidden"]),
        ("end", ["sync", "forbidden", "forbidden"]),
        ("leave", ["sync"; 3]),
    ];
    for (at, role) in [Role::Host, Role::Participant, Role::Guest].into_iter().enumerate() {
        let mut tried = 0;
        let mut ground = Table::new();
        let (me, other) = (ground.seated("me", role), ground.seated("other", Role::Participant));
        for (name, request) in requests(other.seat.participant) {
            let (participant, epoch) = (me.seat.participant, me.seat.epoch);
            let outcome = ground.ask(&Event::Asked { participant, epoch, seq: 1, request });
            let expected = table.iter().find(|(row, _)| *row == name).unwrap().1[at];
            assert_eq!(word(&outcome), expected, "{name} as {role:?}");
            tried += 1;
        }
        assert_eq!(tried, table.len());
    }
}

#[test]
fn every_request_about_nobody_is_refused() {
    let mut ground = Table::new();
    let me = ground.seated("me", Role::Host);
    let (participant, epoch) = (me.seat.participant, me.seat.epoch);
    for (name, request) in requests(id(999)) {
        if ["host_mute", "answer", "data", "kick"].contains(&name) {
            let outcome = ground.ask(&Event::Asked { participant, epoch, seq: 1, request });
            assert_eq!(word(&outcome), "not_found", "{name}");
        }
    }
}

/// One of every event, by and about somebody who is there.
fn events(ground: &mut Table, me: &Seat) -> Vec<(&'static str, Event)> {
    let (participant, epoch) = (me.participant, me.epoch);
    vec![
        ("join", Event::Join(Box::new(ground.joining("new", Role::Participant)))),
        ("closed", Event::Closed { participant, epoch }),
        ("closed_late", Event::Closed { participant, epoch: epoch + 1 }),
        ("asked", Event::Asked { participant, epoch, seq: 1, request: Request::Unsubscribe }),
        ("asked_old", Event::Asked { participant, epoch: epoch - 1, seq: 1, request: Request::Unsubscribe }),
        ("asked_unnumbered", Event::Asked { participant, epoch, seq: 0, request: Request::Unsubscribe }),
        ("enforced", Event::Enforced { participant, epoch: 0, by: participant, missing: Vec::new() }),
        ("handlers", Event::Handlers(Vec::new())),
        ("settings", Event::Settings { max_participants: 5, allow_guests: false }),
        ("settings_same", Event::Settings { max_participants: 100, allow_guests: true }),
        ("time", Event::Time),
        ("freeze", Event::Freeze),
        ("thaw", Event::Thaw),
        ("move", Event::Move { endpoint: "https://there".to_owned(), certificates: Vec::new() }),
    ]
}

#[test]
fn every_event_in_every_phase_does_what_the_table_says() {
    // Active, shutting down, migrating, complete (where no seat is left).
    let table = [
        ("join", ["sync", "moving", "moved", "over"]),
        ("closed", ["async", "unwritten", "unwritten", "nothing"]),
        ("closed_late", ["nothing"; 4]),
        ("asked", ["async", "moving", "moved", "no_seat"]),
        ("asked_old", ["no_seat"; 4]),
        ("asked_unnumbered", ["invalid", "moving", "moved", "no_seat"]),
        ("enforced", ["unwritten", "unwritten", "unwritten", "nothing"]),
        ("handlers", ["sync", "moving", "moved", "over"]),
        ("settings", ["sync", "moving", "moved", "over"]),
        ("settings_same", ["nothing"; 4]),
        ("time", ["nothing"; 4]),
        ("freeze", ["unwritten", "conflict", "conflict", "conflict"]),
        ("thaw", ["conflict", "unwritten", "conflict", "conflict"]),
        ("move", ["conflict", "unwritten", "conflict", "conflict"]),
    ];
    let steps =
        [Event::Freeze, Event::Move { endpoint: "https://there".to_owned(), certificates: Vec::new() }];
    for phase in 0..4 {
        let mut ground = Table::new();
        let me = ground.seated("me", Role::Host);
        steps.iter().take(phase.min(2)).for_each(|step| drop(ground.perform(step).unwrap()));
        if phase == 3 {
            ground.meeting.absorb(&[Change::Phase(Phase::Complete)], ground.now);
        }
        let events = events(&mut ground, &me.seat);
        assert_eq!(events.len(), table.len());
        for (name, event) in events {
            let expected = table.iter().find(|(row, _)| *row == name).unwrap().1[phase];
            assert_eq!(word(&ground.ask(&event)), expected, "{name} while {}", ground.meeting.phase.as_str());
        }
    }
}

#[test]
fn a_request_that_comes_twice_takes_effect_once() {
    let mut table = Table::new();
    let me = table.seated("me", Role::Participant);
    let (participant, epoch) = (me.seat.participant, me.seat.epoch);
    let say =
        |seq| Event::Asked { participant, epoch, seq, request: Request::Chat { text: "once".to_owned() } };
    table.perform(&say(5)).unwrap();
    let last = table.meeting.journal.last();
    for seq in [5, 4, 1] {
        assert_eq!(
            table.perform(&say(seq)).unwrap().then,
            [Effect::Accept],
            "{seq} took effect or was skipped"
        );
    }
    assert_eq!(table.meeting.journal.last(), last);
    // Also after coming back, on another connection.
    let join = table.returning(&me);
    let back = welcome(&table.perform(&Event::Join(Box::new(join))).unwrap());
    assert_eq!(back.seat.applied.number(), 5);
    let event = Event::Asked { participant, epoch: back.seat.epoch, seq: 5, request: Request::End };
    assert_eq!(table.perform(&event).unwrap().then, [Effect::Accept]);
}

#[test]
fn a_frozen_meeting_says_where_it_stands_and_a_thawed_one_tells_what_was_lost() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    let frozen = told(&table.perform(&Event::Freeze).unwrap());
    let expected = Telling::Frozen { event_seq: 2 };
    assert_eq!(frozen, [(ada.seat.participant, expected.clone()), (bob.seat.participant, expected)]);
    table.lose(&bob.seat);
    assert_eq!(table.meeting.journal.last(), 2, "nothing is written while it moves");
    let effects = table.perform(&Event::Thaw).unwrap();
    let gray = Happening::Presence { participant: bob.seat.participant, here: false, grace_ms: 30_000 };
    assert_eq!(effects.happenings().collect::<Vec<_>>(), [&gray]);
    table.perform(&Event::Freeze).unwrap();
    let go = Event::Move { endpoint: "https://there".to_owned(), certificates: vec![vec![1]] };
    let redirect = Telling::Redirect { endpoint: "https://there".to_owned(), certificates: vec![vec![1]] };
    assert_eq!(told(&table.perform(&go).unwrap()), [(ada.seat.participant, redirect)]);
}

#[test]
fn what_is_too_long_or_too_many_is_refused_and_changes_nothing() {
    let mut table = Table::new();
    let me = table.seated("me", Role::Participant);
    let many = LayoutConfig { pinned: vec![String::new(); limits::NAMED + 1], ..LayoutConfig::default() };
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
        Request::AskUnmute { audio: false, video: false },
    ];
    let before = table.meeting.clone();
    for request in bad {
        assert_eq!(word(&table.request(&me.seat, request.clone())), "invalid", "{request:?}");
    }
    assert_eq!(table.meeting, before);
    (0..16).for_each(|stream| drop(table.request(&me.seat, publish(stream)).unwrap()));
    assert_eq!(word(&table.request(&me.seat, publish(16))), "too_often");
}

#[test]
fn the_host_ends_the_meeting_for_everybody() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    let away = table.seated("cyd", Role::Participant);
    table.lose(&away.seat);
    let effects = table.request(&ada.seat, Request::End).unwrap();
    let gone = |seat: &Seat| (seat.participant, seat.epoch, CloseCode::Done);
    assert_eq!(closes(&effects), [gone(&ada.seat), gone(&bob.seat)]);
    assert_eq!(effects.then.last(), Some(&Effect::End));
    assert!(table.meeting.seats.is_empty() && table.meeting.phase == Phase::Complete);
}

#[test]
fn who_is_sent_away_is_closed_with_a_reason_of_its_own() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    let itself = table.request(&ada.seat, Request::Kick { participant: ada.seat.participant });
    assert_eq!(word(&itself), "invalid");
    let effects = table.request(&ada.seat, Request::Kick { participant: bob.seat.participant }).unwrap();
    assert_eq!(closes(&effects), [(bob.seat.participant, 1, CloseCode::Kicked)]);
    let left = Happening::Left { participant: bob.seat.participant, reason: LeaveReason::Kicked };
    assert_eq!(effects.happenings().collect::<Vec<_>>(), [&left]);
}
