//! Joining, losing the connection, coming back.

use super::*;

const GRACE: Duration = limits::GRACE;

#[test]
fn the_first_to_join_sees_nobody_and_the_second_sees_the_first() {
    let mut table = Table::new();
    let join = table.joining("ada", Role::Host);
    let effects = table.perform(&Event::Join(Box::new(join))).unwrap();
    assert_eq!(effects.write, Write::Sync);
    assert!(effects.then.contains(&Effect::Register), "the first one wakes the media handlers");
    let first = welcome(&effects);
    assert!(first.roster.is_empty() && !first.resumed && first.event_seq == 1);
    let join = table.joining("bob", Role::Participant);
    let effects = table.perform(&Event::Join(Box::new(join))).unwrap();
    assert!(!effects.then.contains(&Effect::Register), "the second one does not");
    let second = welcome(&effects);
    assert_eq!(second.roster, [first.seat.profile()]);
    let happened: Vec<&Happening> = effects.happenings().collect();
    assert_eq!(happened, [&Happening::Joined(Box::new(second.seat.profile()))]);
    assert_eq!((second.event_seq, table.meeting.journal.last()), (2, 2));
    assert_ne!(first.token, second.token);
}

#[test]
fn a_full_meeting_an_uninvited_guest_and_a_flood_of_one_user_are_refused() {
    let mut table = Table::new();
    table.meeting.settings = Settings { max_participants: 9, allow_guests: false, ..Settings::default() };
    let join = table.joining("guest", Role::Guest);
    assert_eq!(table.ask(&Event::Join(Box::new(join))), Err(Refusal::NoGuests));
    for _ in 0..limits::SEATS_PER_USER {
        table.seated("ada", Role::Participant);
    }
    let join = table.joining("ada", Role::Participant);
    assert!(matches!(table.ask(&Event::Join(Box::new(join))), Err(Refusal::TooOften(_))));
    table.seated("bob", Role::Participant);
    let join = table.joining("eve", Role::Participant);
    assert_eq!(table.ask(&Event::Join(Box::new(join))), Err(Refusal::Full));
}

#[test]
fn joins_are_judged_by_the_settings_of_now_and_nobody_who_has_a_seat_loses_it() {
    let mut table = Table::new();
    table.meeting.settings.grace = Duration::from_secs(20);
    let seats = [("ada", Role::Host), ("bob", Role::Participant), ("gus", Role::Guest)];
    let welcomes = seats.map(|(user, role)| table.seated(user, role));
    let before = table.meeting.clone();
    let effects = table.perform(&Event::Settings { max_participants: 2, allow_guests: false }).unwrap();
    let settings = Settings { max_participants: 2, allow_guests: false, ..before.settings.clone() };
    assert_eq!(effects, Effects::new(Write::Sync, vec![Change::Settings(settings.clone())], Vec::new()));
    assert_eq!(table.meeting, Meeting { settings, ..before }, "grace, seats and log are as they were");
    let join = |table: &mut Table, user, role| {
        let join = table.joining(user, role);
        table.perform(&Event::Join(Box::new(join))).map(drop)
    };
    assert_eq!(join(&mut table, "gil", Role::Guest), Err(Refusal::NoGuests));
    assert_eq!(join(&mut table, "cyd", Role::Participant), Err(Refusal::Full));
    // A guest who dropped comes back to the seat that it has.
    table.lose(&welcomes[2].seat);
    let back = table.returning(&welcomes[2]);
    assert!(welcome(&table.perform(&Event::Join(Box::new(back))).unwrap()).resumed);
    table.perform(&Event::Settings { max_participants: 4, allow_guests: false }).unwrap();
    assert_eq!(join(&mut table, "cyd", Role::Participant), Ok(()));
    assert_eq!(join(&mut table, "dan", Role::Participant), Err(Refusal::Full));
}

#[test]
fn a_lost_connection_keeps_its_seat_for_thirty_seconds_and_not_longer() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    let effects = table.lose(&bob.seat);
    let gray = Happening::Presence { participant: bob.seat.participant, here: false, grace_ms: 30_000 };
    assert_eq!(effects.happenings().collect::<Vec<_>>(), [&gray]);
    assert!(table.meeting.seats.contains_key(&bob.seat.participant), "grayed out and still there");
    assert_eq!(table.meeting.next_deadline(), Some(table.now.tick + GRACE));
    table.pass(Duration::from_millis(29_999));
    assert_eq!(table.perform(&Event::Time).unwrap(), Effects::none());
    table.pass(Duration::from_millis(1));
    let effects = table.perform(&Event::Time).unwrap();
    assert_eq!(effects.write, Write::Sync);
    let left = Happening::Left { participant: bob.seat.participant, reason: LeaveReason::Timeout };
    assert_eq!(effects.happenings().collect::<Vec<_>>(), [&left]);
    assert_eq!(table.meeting.seats.keys().collect::<Vec<_>>(), [&ada.seat.participant]);
}

#[test]
fn who_comes_back_in_time_has_the_same_seat_a_new_token_and_missed_nothing() {
    let mut table = Table::new();
    let ada = table.seated("ada", Role::Host);
    let bob = table.seated("bob", Role::Participant);
    table.lose(&bob.seat);
    table.request(&ada.seat, Request::Chat { text: "where is bob?".to_owned() }).unwrap();
    table.pass(Duration::from_millis(29_999));
    let join = table.returning(&bob);
    let effects = table.perform(&Event::Join(Box::new(join.clone()))).unwrap();
    let back = welcome(&effects);
    assert!(back.resumed && back.seat.participant == bob.seat.participant && back.seat.epoch == 2);
    assert_eq!(back.seat.binding.correlation, join.fresh.correlation);
    assert_ne!(back.token, bob.token);
    assert_eq!(effects.changes[0], Change::NonceSpent(bob.seat.binding.nonce));
    assert!(closes(&effects).is_empty(), "there was nothing to close");
    let replay = back.replay.unwrap();
    assert_eq!(replay.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [3, 4], "gray, and the question");
    assert!(matches!(&replay[1].happening, Happening::Chat { text, .. } if text == "where is bob?"));
    assert_eq!(table.meeting.journal.last(), 5, "everybody is told that bob is back");
}

#[test]
fn who_is_too_far_behind_gets_the_roster_instead() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    for _ in 0..=limits::EVENTS {
        table.request(&ada.seat, Request::Chat { text: "hi".to_owned() }).unwrap();
    }
    let join = table.returning(&bob);
    let back = welcome(&table.perform(&Event::Join(Box::new(join))).unwrap());
    assert_eq!((back.replay, back.roster.len(), back.event_seq), (None, 1, table.meeting.journal.last()));
    let mut join = table.returning(&bob);
    join.last_event_seq = 1_000_000;
    join.resume =
        Some(Resume { correlation: back.seat.binding.correlation, token: back.token.as_str().to_owned() });
    assert_eq!(welcome(&table.perform(&Event::Join(Box::new(join))).unwrap()).replay, None, "a liar as well");
}

#[test]
fn a_bad_proof_gives_a_new_seat_whatever_was_wrong_with_it() {
    let mut table = Table::new();
    table.seated("ada", Role::Host);
    let bob = table.seated("bob", Role::Participant);
    table.lose(&bob.seat);
    let good = table.returning(&bob);
    let proof = good.resume.clone().unwrap();
    let with = |change: &dyn Fn(&mut Join, &mut Resume)| {
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
    let plain = welcome(&table.ask(&Event::Join(Box::new(Join { resume: None, ..good.clone() }))).unwrap());
    for (what, join) in bad {
        let effects = table.ask(&Event::Join(Box::new(join.clone()))).unwrap();
        let got = welcome(&effects);
        assert!(!got.resumed && got.seat.participant == join.fresh.participant, "{what}");
        let same_user =
            Welcome { seat: Box::new(Seat { user: plain.seat.user.clone(), ..*got.seat.clone() }), ..got };
        assert_eq!(same_user, plain, "{what}: the answer tells nothing");
    }
    let ask = |table: &Table| welcome(&table.ask(&Event::Join(Box::new(good.clone()))).unwrap()).resumed;
    assert!(ask(&table), "the good one is good");
    let secrets =
        std::mem::replace(&mut table.secrets, Secrets::new(MasterSecret::new(vec![8; 32]).unwrap()));
    assert!(!ask(&table), "another region's secret");
    table.secrets =
        Secrets::rotated(MasterSecret::new(vec![8; 32]).unwrap(), MasterSecret::new(vec![7; 32]).unwrap());
    assert!(ask(&table), "the secret was changed in between");
    table.secrets = secrets;
    table.meeting.id = MeetingId::parse("abd").unwrap();
    assert!(!ask(&table), "another meeting");
    table.meeting.id = MeetingId::parse("abc").unwrap();
    table.pass(GRACE);
    assert!(!ask(&table), "too late, though not swept yet");
}

#[test]
fn a_token_is_taken_once_and_its_retransmission_gets_the_same_answer() {
    let mut table = Table::new();
    table.seated("ada", Role::Host);
    let bob = table.seated("bob", Role::Participant);
    table.lose(&bob.seat);
    let join = table.returning(&bob);
    let first = welcome(&table.perform(&Event::Join(Box::new(join.clone()))).unwrap());
    // The answer got lost with its connection; the same attempt comes again on another.
    table.pass(Duration::from_millis(4_999));
    let retransmitted = Join { fresh: table.joining("bob", Role::Participant).fresh, ..join.clone() };
    let effects = table.perform(&Event::Join(Box::new(retransmitted.clone()))).unwrap();
    let second = welcome(&effects);
    assert!(second.resumed && second.token == first.token);
    assert_eq!(second.seat.binding, first.seat.binding);
    assert_eq!(second.seat.epoch, first.seat.epoch + 1);
    let superseded = (bob.seat.participant, first.seat.epoch, CloseCode::Superseded);
    assert_eq!(closes(&effects), [superseded]);
    assert!(!effects.changes.iter().any(|change| matches!(change, Change::NonceSpent(_))));
    // A replay by somebody who overheard it is another attempt, and so is one that is late.
    let others = [
        Join { attempt: "attempt-2".to_owned(), ..retransmitted.clone() },
        Join { attempt: String::new(), ..retransmitted.clone() },
        Join { user: "eve".to_owned(), ..retransmitted.clone() },
    ];
    for join in others {
        assert!(!welcome(&table.ask(&Event::Join(Box::new(join.clone()))).unwrap()).resumed, "{join:?}");
    }
    table.pass(Duration::from_millis(1));
    assert!(
        !welcome(&table.ask(&Event::Join(Box::new(retransmitted))).unwrap()).resumed,
        "five seconds are over"
    );
}

#[test]
fn a_good_proof_closes_the_older_connection_whose_late_end_harms_nobody() {
    let mut table = Table::new();
    let bob = table.seated("bob", Role::Participant);
    let join = table.returning(&bob);
    let effects = table.perform(&Event::Join(Box::new(join))).unwrap();
    let back = welcome(&effects);
    assert_eq!(closes(&effects), [(bob.seat.participant, 1, CloseCode::Superseded)]);
    assert_eq!(effects.happenings().count(), 0, "nobody saw bob go");
    assert_eq!(table.lose(&bob.seat), Effects::none());
    assert!(table.meeting.seats[&bob.seat.participant].is_here(back.seat.epoch));
    let late = table.request(&bob.seat, Request::Chat { text: "from the old connection".to_owned() });
    assert_eq!(late, Err(Refusal::NoSeat));
}

#[test]
fn many_seats_that_run_out_at_once_are_swept_in_bounded_steps() {
    let mut table = Table::new();
    let seats: Vec<Welcome> = (0..60).map(|n| table.seated(&format!("u{n}"), Role::Participant)).collect();
    seats.iter().for_each(|welcome| drop(table.lose(&welcome.seat)));
    table.pass(GRACE);
    let mut steps = 0;
    while table.meeting.next_deadline().is_some_and(|at| at <= table.now.tick) {
        assert!(table.perform(&Event::Time).unwrap().changes.len() <= limits::SWEEP + 1);
        steps += 1;
    }
    assert!(table.meeting.seats.is_empty() && steps == 3, "{steps}");
    assert_eq!(table.meeting.journal.last(), 180);
}

#[test]
fn a_meeting_without_seats_ends_after_a_minute() {
    let mut table = Table::new();
    table.pass(limits::EMPTY - Duration::from_millis(1));
    assert_eq!(table.perform(&Event::Time).unwrap(), Effects::none());
    let bob = table.seated("bob", Role::Participant);
    table.pass(limits::EMPTY);
    assert_eq!(table.perform(&Event::Time).unwrap(), Effects::none(), "somebody is there");
    table.request(&bob.seat, Request::Leave).unwrap();
    table.pass(limits::EMPTY);
    assert_eq!(table.perform(&Event::Time).unwrap().then, [Effect::End]);
    assert_eq!(table.meeting.phase, Phase::Complete);
}
