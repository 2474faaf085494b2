//! What hosts decide about users: bans, mutes, admission.

use super::*;

fn kick(participant: Id) -> Request {
    Request::Kick { participant }
}

fn mute(participant: Id, audio: bool, video: bool) -> Request {
    Request::HostMute { participant, audio, video, reason: String::new() }
}

fn try_join(fixture: &mut Fixture, user: &str, role: Role) -> Result<Effects, Refusal> {
    let join = fixture.new_join(user, role);
    fixture.apply(&Input::Join(Box::new(join)))
}

/// The host mutes of a seat: microphone and camera.
fn muted(welcome: &Welcome) -> (bool, bool) {
    (welcome.seat.mutes.audio_host, welcome.seat.mutes.video_host)
}

#[test]
fn a_kick_removes_all_seats_of_the_user_and_bans_it_until_a_host_lifts_the_ban() {
    let mut fixture = Fixture::new();
    let ada = fixture.join("ada", Role::Host);
    let (phone, laptop) = (fixture.join("eve", Role::Participant), fixture.join("eve", Role::Participant));
    let effects = fixture.request(&ada.seat, kick(phone.seat.participant)).unwrap();
    let closed = [&phone, &laptop].map(|seat| (seat.seat.participant, 1, CloseCode::Kicked));
    assert_eq!(closes(&effects), closed);
    assert_eq!((fixture.meeting.seats.len(), effects.write), (1, Write::Sync));
    assert_eq!(try_join(&mut fixture, "eve", Role::Participant), Err(Refusal::Banned));
    assert!(sent(&effects).contains(&(ada.seat.participant, DirectMessage::BannedUsers)));
    let unknown = fixture.request(&ada.seat, Request::LiftBan { user: "bob".to_owned() });
    assert!(matches!(unknown, Err(Refusal::NotFound(_))));
    fixture.request(&ada.seat, Request::LiftBan { user: "eve".to_owned() }).unwrap();
    assert!(try_join(&mut fixture, "eve", Role::Participant).is_ok());
}

#[test]
fn a_host_removes_its_own_second_seat_or_another_host_without_a_ban() {
    let mut fixture = Fixture::new();
    let (ada, second) = (fixture.join("ada", Role::Host), fixture.join("ada", Role::Host));
    fixture.request(&ada.seat, kick(second.seat.participant)).unwrap();
    assert!(fixture.meeting.seats.contains_key(&ada.seat.participant));
    let other = fixture.join("bob", Role::Host);
    fixture.request(&ada.seat, kick(other.seat.participant)).unwrap();
    assert!(fixture.meeting.users.is_empty());
    assert!(try_join(&mut fixture, "bob", Role::Host).is_ok());
}

#[test]
fn a_host_mute_holds_for_other_seats_of_the_user_and_after_joining_again() {
    let mut fixture = Fixture::new();
    let ada = fixture.join("ada", Role::Host);
    let (phone, laptop) = (fixture.join("bob", Role::Participant), fixture.join("bob", Role::Participant));
    let effects = fixture.request(&ada.seat, mute(phone.seat.participant, true, false)).unwrap();
    let ordered = effects.then.iter().filter(|effect| matches!(effect, Effect::EnforceMute { .. }));
    assert_eq!(ordered.count(), 2, "both seats");
    assert!(fixture.meeting.seats[&laptop.seat.participant].mutes.audio_host);
    fixture.request(&phone.seat, Request::Leave).unwrap();
    fixture.request(&laptop.seat, Request::Leave).unwrap();
    let again = fixture.join("bob", Role::Participant);
    assert_eq!(muted(&again), (true, false));
    assert_eq!(again.seat.mutes.by.as_deref(), Some("ada"));
    fixture.request(&ada.seat, mute(again.seat.participant, false, false)).unwrap();
    assert_eq!(muted(&fixture.join("bob", Role::Participant)), (false, false));
}

#[test]
fn every_seat_has_a_mute_epoch_from_the_start() {
    let mut fixture = Fixture::new();
    let epochs = ["ada", "bob", "cyd"].map(|user| fixture.join(user, Role::Participant).seat.mutes.epoch);
    assert_eq!((epochs, fixture.meeting.mute_epoch), ([1, 2, 3], 3));
}

#[test]
fn after_a_guest_was_muted_or_kicked_new_guests_enter_muted() {
    for request in [|id| mute(id, true, false), kick as fn(Id) -> Request] {
        let mut fixture = Fixture::new();
        let ada = fixture.join("ada", Role::Host);
        let first = fixture.join("guest-1", Role::Guest);
        assert_eq!(muted(&first), (false, false));
        fixture.request(&ada.seat, request(first.seat.participant)).unwrap();
        assert_eq!(muted(&fixture.join("guest-2", Role::Guest)), (true, true));
        assert_eq!(muted(&fixture.join("bob", Role::Participant)), (false, false), "only guests");
    }
}

#[test]
fn a_mute_of_a_participant_with_an_account_does_not_mute_guests() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    fixture.request(&ada.seat, mute(bob.seat.participant, true, true)).unwrap();
    assert_eq!(muted(&fixture.join("guest", Role::Guest)), (false, false));
}

#[test]
fn a_host_admits_or_unmutes_guests_that_entered_muted_and_they_stay_so() {
    let unmute = |id| mute(id, false, false);
    let admit: fn(Id) -> Request = |id| Request::Admit { participants: vec![id], all: false };
    for request in [unmute as fn(Id) -> Request, admit] {
        let mut fixture = Fixture::new();
        let (ada, eve) = (fixture.join("ada", Role::Host), fixture.join("eve", Role::Guest));
        fixture.request(&ada.seat, kick(eve.seat.participant)).unwrap();
        let guest = fixture.join("guest", Role::Guest);
        let effects = fixture.request(&ada.seat, request(guest.seat.participant)).unwrap();
        assert_eq!(effects.write, Write::Sync);
        assert!(effects.then.iter().any(|effect| matches!(effect, Effect::EnforceMute { .. })));
        assert!(!fixture.meeting.seats[&guest.seat.participant].mutes.audio_host);
        assert_eq!(muted(&fixture.join("guest", Role::Guest)), (false, false), "also on another device");
    }
}

#[test]
fn a_host_enters_a_full_meeting() {
    let mut fixture = Fixture::new();
    fixture.meeting.settings.max_participants = 2;
    fixture.join("bob", Role::Participant);
    fixture.join("cyd", Role::Participant);
    assert_eq!(try_join(&mut fixture, "dan", Role::Participant), Err(Refusal::Full));
    assert!(try_join(&mut fixture, "ada", Role::Host).is_ok());
}

fn with_waiting_room() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.meeting.settings.waiting_room = true;
    fixture
}

/// Joins as an admitted participant, as the actor does for [`Effect::Admit`].
fn enter(fixture: &mut Fixture, mut join: Join) -> Result<Effects, Refusal> {
    join.admitted = true;
    fixture.apply(&Input::Join(Box::new(join)))
}

#[test]
fn participants_wait_before_and_after_the_host_arrives_until_it_admits_them() {
    let mut fixture = with_waiting_room();
    let (bob, eve) = (fixture.new_join("bob", Role::Participant), fixture.new_join("eve", Role::Guest));
    let effects = fixture.apply(&Input::Join(Box::new(bob.clone()))).unwrap();
    assert_eq!(
        (effects.waits, effects.write, effects.welcome),
        (Some(bob.ids.participant), Write::None, None)
    );
    assert!(fixture.meeting.seats.is_empty());
    let ada = try_join(&mut fixture, "ada", Role::Host).unwrap();
    let notified = sent(&ada);
    let ada = welcome(&ada);
    assert!(notified.contains(&(ada.seat.participant, DirectMessage::WaitingRoom)));
    assert!(notified.contains(&(bob.ids.participant, DirectMessage::WaitingRoom)), "a host arrived");
    let effects = fixture.apply(&Input::Join(Box::new(eve.clone()))).unwrap();
    assert_eq!(sent(&effects), [(ada.seat.participant, DirectMessage::WaitingRoom)]);
    let one = Request::Admit { participants: vec![bob.ids.participant], all: false };
    let effects = fixture.request(&ada.seat, one).unwrap();
    assert_eq!(effects.then, [Effect::Accept, Effect::Admit(vec![bob.ids.participant])]);
    let entered = enter(&mut fixture, bob).unwrap();
    assert_eq!(welcome(&entered).seat.user, "bob");
    assert_eq!(fixture.meeting.waiting.len(), 1);
    let all = fixture.request(&ada.seat, Request::Admit { participants: Vec::new(), all: true }).unwrap();
    assert_eq!(all.then[1], Effect::Admit(vec![eve.ids.participant]));
    enter(&mut fixture, eve).unwrap();
    assert!(fixture.meeting.waiting.is_empty());
    assert!(try_join(&mut fixture, "eve", Role::Guest).unwrap().welcome.is_some(), "admitted once");
}

#[test]
fn a_participant_that_waits_is_turned_away_and_banned() {
    let mut fixture = with_waiting_room();
    let ada = welcome(&try_join(&mut fixture, "ada", Role::Host).unwrap());
    let eve = fixture.new_join("eve", Role::Guest);
    fixture.apply(&Input::Join(Box::new(eve.clone()))).unwrap();
    let effects = fixture.request(&ada.seat, kick(eve.ids.participant)).unwrap();
    assert!(effects.then.contains(&Effect::TurnAway { participant: eve.ids.participant }));
    assert!(fixture.meeting.waiting.is_empty());
    assert_eq!(try_join(&mut fixture, "eve", Role::Guest), Err(Refusal::Banned));
}

#[test]
fn the_waiting_room_is_bounded_and_keeps_the_meeting_open() {
    let mut fixture = with_waiting_room();
    for number in 0..limits::WAITING {
        try_join(&mut fixture, &format!("u{number}"), Role::Participant).unwrap();
    }
    assert_eq!(try_join(&mut fixture, "late", Role::Participant), Err(Refusal::Full));
    fixture.advance(10 * limits::EMPTY);
    assert_eq!(fixture.meeting.next_deadline(), None);
    let waiting: Vec<Id> = fixture.meeting.waiting.keys().copied().collect();
    for participant in waiting {
        fixture.apply(&Input::StoppedWaiting { participant }).unwrap();
    }
    assert_eq!(fixture.meeting.next_deadline(), Some(fixture.now.tick + limits::EMPTY));
}

#[test]
fn turning_the_waiting_room_off_admits_all_that_wait() {
    let mut fixture = with_waiting_room();
    let bob = fixture.new_join("bob", Role::Participant);
    fixture.apply(&Input::Join(Box::new(bob.clone()))).unwrap();
    let off = Input::Settings { max_participants: 100, allow_guests: true, waiting_room: false };
    assert_eq!(fixture.apply(&off).unwrap().then, [Effect::Admit(vec![bob.ids.participant])]);
}

#[test]
fn too_many_admissions_are_forgotten_before_bans() {
    let mut fixture = Fixture::new();
    let (ada, eve) = (fixture.join("ada", Role::Host), fixture.join("eve", Role::Guest));
    fixture.request(&ada.seat, kick(eve.seat.participant)).unwrap();
    let admitted = UserRecord { admitted: true, ..UserRecord::default() };
    for number in 1..limits::USERS {
        fixture.meeting.users.insert(format!("u{number}"), admitted.clone());
    }
    let mallory = fixture.join("mallory", Role::Participant);
    fixture.request(&ada.seat, kick(mallory.seat.participant)).unwrap();
    assert_eq!(fixture.meeting.users.len(), limits::USERS);
    for user in ["eve", "mallory"] {
        assert!(fixture.meeting.users[user].ban.is_some(), "{user}");
    }
}

#[test]
fn a_hand_is_raised_once_and_lowered_by_its_owner_or_a_host() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    let target = bob.seat.participant;
    let hand = |participant, raised| Request::RaiseHand { participant, raised };
    let raised = fixture.request(&bob.seat, hand(None, true)).unwrap();
    let event = Event::Hand { participant: target, raised_at: Some(fixture.now.wall) };
    assert_eq!(raised.events().collect::<Vec<_>>(), [&event]);
    assert_eq!(fixture.request(&bob.seat, hand(None, true)).unwrap().events().count(), 0);
    assert_eq!(fixture.meeting.seats[&target].profile().hand_raised_at, Some(fixture.now.wall));
    let other = fixture.request(&bob.seat, hand(Some(ada.seat.participant), false));
    assert_eq!(other, Err(Refusal::Forbidden));
    assert!(matches!(fixture.request(&ada.seat, hand(Some(target), true)), Err(Refusal::Invalid(_))));
    let lowered = fixture.request(&ada.seat, hand(Some(target), false)).unwrap();
    let event = Event::Hand { participant: target, raised_at: None };
    assert_eq!(lowered.events().collect::<Vec<_>>(), [&event]);
}
