//! Joining, losing the connection, resuming.

use super::*;

const GRACE: Duration = limits::GRACE;

#[test]
fn the_second_participant_sees_the_first() {
    let mut fixture = Fixture::new();
    let join = fixture.new_join("ada", Role::Host);
    let effects = fixture.apply(&Input::Join(Box::new(join))).unwrap();
    assert_eq!(effects.write, Write::Sync);
    assert!(effects.then.contains(&Effect::RegisterHandlers), "the first one wakes the media handlers");
    let first = welcome(&effects);
    assert!(first.roster.is_empty() && !first.resumed && first.event_seq == 1);
    let join = fixture.new_join("bob", Role::Participant);
    let effects = fixture.apply(&Input::Join(Box::new(join))).unwrap();
    assert!(!effects.then.contains(&Effect::RegisterHandlers), "the second one does not");
    let second = welcome(&effects);
    assert_eq!(second.roster, [first.seat.profile()]);
    let happened: Vec<&Event> = effects.events().collect();
    assert_eq!(happened, [&Event::Joined(Box::new(second.seat.profile()))]);
    assert_eq!((second.event_seq, fixture.meeting.log.last()), (2, 2));
    assert_ne!(first.token, second.token);
}

#[test]
fn a_full_meeting_guests_and_too_many_seats_of_one_user_are_refused() {
    let mut fixture = Fixture::new();
    fixture.meeting.settings = Settings { max_participants: 9, allow_guests: false, ..Settings::default() };
    let join = fixture.new_join("guest", Role::Guest);
    assert_eq!(fixture.decide(&Input::Join(Box::new(join))), Err(Refusal::NoGuests));
    for _ in 0..limits::SEATS_PER_USER {
        fixture.join("ada", Role::Participant);
    }
    let join = fixture.new_join("ada", Role::Participant);
    assert!(matches!(fixture.decide(&Input::Join(Box::new(join))), Err(Refusal::RateLimited(_))));
    fixture.join("bob", Role::Participant);
    let join = fixture.new_join("eve", Role::Participant);
    assert_eq!(fixture.decide(&Input::Join(Box::new(join))), Err(Refusal::Full));
}

#[test]
fn changed_settings_apply_to_later_joins_only() {
    let mut fixture = Fixture::new();
    fixture.meeting.settings.grace = Duration::from_secs(20);
    let seats = [("ada", Role::Host), ("bob", Role::Participant), ("gus", Role::Guest)];
    let welcomes = seats.map(|(user, role)| fixture.join(user, role));
    let before = fixture.meeting.clone();
    let effects = fixture
        .apply(&Input::Settings { max_participants: 2, allow_guests: false, waiting_room: false })
        .unwrap();
    let settings = Settings { max_participants: 2, allow_guests: false, ..before.settings.clone() };
    assert_eq!(effects, Effects::new(Write::Sync, vec![Change::Settings(settings.clone())], Vec::new()));
    assert_eq!(fixture.meeting, Meeting { settings, ..before }, "grace, seats and log are as they were");
    let join = |fixture: &mut Fixture, user, role| {
        let join = fixture.new_join(user, role);
        fixture.apply(&Input::Join(Box::new(join))).map(drop)
    };
    assert_eq!(join(&mut fixture, "gil", Role::Guest), Err(Refusal::NoGuests));
    assert_eq!(join(&mut fixture, "cyd", Role::Participant), Err(Refusal::Full));
    // A disconnected guest resumes its seat.
    fixture.disconnect(&welcomes[2].seat);
    let back = fixture.resume_join(&welcomes[2]);
    assert!(welcome(&fixture.apply(&Input::Join(Box::new(back))).unwrap()).resumed);
    fixture
        .apply(&Input::Settings { max_participants: 4, allow_guests: false, waiting_room: false })
        .unwrap();
    assert_eq!(join(&mut fixture, "cyd", Role::Participant), Ok(()));
    assert_eq!(join(&mut fixture, "dan", Role::Participant), Err(Refusal::Full));
}

#[test]
fn a_lost_connection_keeps_its_seat_for_thirty_seconds() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    let effects = fixture.disconnect(&bob.seat);
    let gray = Event::Presence { participant: bob.seat.participant, connected: false, grace_ms: 30_000 };
    assert_eq!(effects.events().collect::<Vec<_>>(), [&gray]);
    assert!(fixture.meeting.seats.contains_key(&bob.seat.participant), "grayed out and still there");
    assert_eq!(fixture.meeting.next_deadline(), Some(fixture.now.tick + GRACE));
    fixture.advance(Duration::from_millis(29_999));
    assert_eq!(fixture.apply(&Input::Timer).unwrap(), Effects::none());
    fixture.advance(Duration::from_millis(1));
    let effects = fixture.apply(&Input::Timer).unwrap();
    assert_eq!(effects.write, Write::Sync);
    let left = Event::Left { participant: bob.seat.participant, reason: LeaveReason::Timeout };
    assert_eq!(effects.events().collect::<Vec<_>>(), [&left]);
    assert_eq!(fixture.meeting.seats.keys().collect::<Vec<_>>(), [&ada.seat.participant]);
}

#[test]
fn a_resume_in_time_keeps_the_seat_with_a_new_token_and_a_full_replay() {
    let mut fixture = Fixture::new();
    let ada = fixture.join("ada", Role::Host);
    let bob = fixture.join("bob", Role::Participant);
    fixture.disconnect(&bob.seat);
    fixture.request(&ada.seat, Request::Chat { text: "where is bob?".to_owned() }).unwrap();
    fixture.advance(Duration::from_millis(29_999));
    let join = fixture.resume_join(&bob);
    let effects = fixture.apply(&Input::Join(Box::new(join.clone()))).unwrap();
    let back = welcome(&effects);
    assert!(back.resumed && back.seat.participant == bob.seat.participant && back.seat.epoch == 2);
    assert_eq!(back.seat.binding.correlation, join.ids.correlation);
    assert_ne!(back.token, bob.token);
    assert_eq!(effects.changes[0], Change::NonceSpent(bob.seat.binding.nonce));
    assert!(closes(&effects).is_empty(), "there was nothing to close");
    let replay = back.replay.unwrap();
    assert_eq!(replay.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [3, 4], "gray, and the question");
    assert!(matches!(&replay[1].event, Event::Chat { text, .. } if text == "where is bob?"));
    assert_eq!(fixture.meeting.log.last(), 5, "the resume is published");
}

#[test]
fn a_client_too_far_behind_gets_the_roster() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    for _ in 0..=limits::EVENTS {
        fixture.request(&ada.seat, Request::Chat { text: "hi".to_owned() }).unwrap();
    }
    let join = fixture.resume_join(&bob);
    let back = welcome(&fixture.apply(&Input::Join(Box::new(join))).unwrap());
    assert_eq!((back.replay, back.roster.len(), back.event_seq), (None, 1, fixture.meeting.log.last()));
    let mut join = fixture.resume_join(&bob);
    join.last_event_seq = 1_000_000;
    join.resume = Some(ResumeProof {
        correlation: back.seat.binding.correlation,
        token: back.token.as_str().to_owned(),
    });
    assert_eq!(welcome(&fixture.apply(&Input::Join(Box::new(join))).unwrap()).replay, None, "a liar as well");
}

#[test]
fn every_invalid_proof_gives_a_new_seat() {
    let mut fixture = Fixture::new();
    fixture.join("ada", Role::Host);
    let bob = fixture.join("bob", Role::Participant);
    fixture.disconnect(&bob.seat);
    let good = fixture.resume_join(&bob);
    let proof = good.resume.clone().unwrap();
    let with = |change: &dyn Fn(&mut Join, &mut ResumeProof)| {
        let (mut join, mut resume) = (good.clone(), proof.clone());
        change(&mut join, &mut resume);
        join.resume = Some(resume);
        join
    };
    let bad = [
        ("stolen by another user", with(&|join, _| join.user = "eve".to_owned())),
        ("tampered", with(&|_, resume| resume.token.replace_range(0..1, "x"))),
        ("short", with(&|_, resume| resume.token.truncate(63))),
        ("empty", with(&|_, resume| resume.token.clear())),
        ("unknown correlation", with(&|_, resume| resume.correlation = id(999))),
        ("another seat's", with(&|_, resume| resume.correlation = id(3))),
    ];
    let plain =
        welcome(&fixture.decide(&Input::Join(Box::new(Join { resume: None, ..good.clone() }))).unwrap());
    for (what, join) in bad {
        let effects = fixture.decide(&Input::Join(Box::new(join.clone()))).unwrap();
        let got = welcome(&effects);
        assert!(!got.resumed && got.seat.participant == join.ids.participant, "{what}");
        let same_user =
            Welcome { seat: Box::new(Seat { user: plain.seat.user.clone(), ..*got.seat.clone() }), ..got };
        assert_eq!(same_user, plain, "{what}: the answer tells nothing");
    }
    let ask =
        |fixture: &Fixture| welcome(&fixture.decide(&Input::Join(Box::new(good.clone()))).unwrap()).resumed;
    assert!(ask(&fixture), "the good one is good");
    let secrets =
        std::mem::replace(&mut fixture.secrets, Secrets::new(MasterSecret::new(vec![8; 32]).unwrap()));
    assert!(!ask(&fixture), "another region's secret");
    fixture.secrets =
        Secrets::rotated(MasterSecret::new(vec![8; 32]).unwrap(), MasterSecret::new(vec![7; 32]).unwrap());
    assert!(ask(&fixture), "the secret was changed in between");
    fixture.secrets = secrets;
    fixture.meeting.id = MeetingId::parse("abd").unwrap();
    assert!(!ask(&fixture), "another meeting");
    fixture.meeting.id = MeetingId::parse("abc").unwrap();
    fixture.advance(GRACE);
    assert!(!ask(&fixture), "too late, though not swept yet");
}

#[test]
fn a_binding_token_works_once_and_its_retransmission_gets_the_same_answer() {
    let mut fixture = Fixture::new();
    fixture.join("ada", Role::Host);
    let bob = fixture.join("bob", Role::Participant);
    fixture.disconnect(&bob.seat);
    let join = fixture.resume_join(&bob);
    let first = welcome(&fixture.apply(&Input::Join(Box::new(join.clone()))).unwrap());
    // The answer got lost with its connection; the same attempt comes again on another.
    fixture.advance(Duration::from_millis(4_999));
    let retransmitted = Join { ids: fixture.new_join("bob", Role::Participant).ids, ..join.clone() };
    let effects = fixture.apply(&Input::Join(Box::new(retransmitted.clone()))).unwrap();
    let second = welcome(&effects);
    assert!(second.resumed && second.token == first.token);
    assert_eq!(second.seat.binding, first.seat.binding);
    assert_eq!(second.seat.epoch, first.seat.epoch + 1);
    let superseded = (bob.seat.participant, first.seat.epoch, CloseCode::Superseded);
    assert_eq!(closes(&effects), [superseded]);
    assert!(!effects.changes.iter().any(|change| matches!(change, Change::NonceSpent(_))));
    // A replay by an eavesdropper is another attempt, and so is a late one.
    let others = [
        Join { attempt: "attempt-2".to_owned(), ..retransmitted.clone() },
        Join { attempt: String::new(), ..retransmitted.clone() },
        Join { user: "eve".to_owned(), ..retransmitted.clone() },
    ];
    for join in others {
        assert!(!welcome(&fixture.decide(&Input::Join(Box::new(join.clone()))).unwrap()).resumed, "{join:?}");
    }
    fixture.advance(Duration::from_millis(1));
    assert!(
        !welcome(&fixture.decide(&Input::Join(Box::new(retransmitted))).unwrap()).resumed,
        "five seconds are over"
    );
}

#[test]
fn a_resume_closes_the_older_connection_whose_late_end_is_ignored() {
    let mut fixture = Fixture::new();
    let bob = fixture.join("bob", Role::Participant);
    let join = fixture.resume_join(&bob);
    let effects = fixture.apply(&Input::Join(Box::new(join))).unwrap();
    let back = welcome(&effects);
    assert_eq!(closes(&effects), [(bob.seat.participant, 1, CloseCode::Superseded)]);
    assert_eq!(effects.events().count(), 0, "the seat was never disconnected");
    assert_eq!(fixture.disconnect(&bob.seat), Effects::none());
    assert!(fixture.meeting.seats[&bob.seat.participant].is_connected_with(back.seat.epoch));
    let late = fixture.request(&bob.seat, Request::Chat { text: "from the old connection".to_owned() });
    assert_eq!(late, Err(Refusal::NoSeat));
}

#[test]
fn many_expired_seats_are_removed_in_bounded_steps() {
    let mut fixture = Fixture::new();
    let seats: Vec<Welcome> = (0..60).map(|n| fixture.join(&format!("u{n}"), Role::Participant)).collect();
    seats.iter().for_each(|welcome| drop(fixture.disconnect(&welcome.seat)));
    fixture.advance(GRACE);
    let mut steps = 0;
    while fixture.meeting.next_deadline().is_some_and(|at| at <= fixture.now.tick) {
        assert!(fixture.apply(&Input::Timer).unwrap().changes.len() <= limits::TIMER_CHANGES + 1);
        steps += 1;
    }
    assert!(fixture.meeting.seats.is_empty() && steps == 3, "{steps}");
    assert_eq!(fixture.meeting.log.last(), 180);
}

#[test]
fn a_meeting_without_seats_ends_after_a_minute() {
    let mut fixture = Fixture::new();
    fixture.advance(limits::EMPTY - Duration::from_millis(1));
    assert_eq!(fixture.apply(&Input::Timer).unwrap(), Effects::none());
    let bob = fixture.join("bob", Role::Participant);
    fixture.advance(limits::EMPTY);
    assert_eq!(fixture.apply(&Input::Timer).unwrap(), Effects::none(), "there is a seat");
    fixture.request(&bob.seat, Request::Leave).unwrap();
    fixture.advance(limits::EMPTY);
    assert_eq!(fixture.apply(&Input::Timer).unwrap().then, [Effect::End]);
    assert_eq!(fixture.meeting.phase, Phase::Complete);
}
