//! Mutes: permissions, events and enforcement.

use super::*;

fn host_mute(participant: Id, audio: bool, video: bool) -> Request {
    Request::HostMute { participant, audio, video, reason: "noise".to_owned() }
}

#[test]
fn a_self_mute_is_published_and_not_enforced() {
    let mut fixture = Fixture::new();
    let bob = fixture.join("bob", Role::Participant);
    let effects = fixture.request(&bob.seat, Request::Mute { audio: true, video: false }).unwrap();
    assert_eq!((effects.write, effects.events().count()), (Write::Async, 1));
    assert!(!effects.then.iter().any(|effect| matches!(effect, Effect::EnforceMute { .. })));
    assert!(fixture.meeting.seats[&bob.seat.participant].mutes.audio_self);
    let again = fixture.request(&bob.seat, Request::Mute { audio: true, video: false }).unwrap();
    assert_eq!(again.events().count(), 0, "an unchanged mute is not published");
}

#[test]
fn a_host_mute_is_persisted_enforced_and_then_reported() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    let target = bob.seat.participant;
    let effects = fixture.request(&ada.seat, host_mute(target, true, false)).unwrap();
    assert_eq!(effects.write, Write::Sync);
    let mutes = fixture.meeting.seats[&target].mutes.clone();
    assert_eq!(
        (mutes.audio_host, mutes.video_host, mutes.epoch, mutes.by.as_deref()),
        (true, false, 3, Some("ada"))
    );
    let order = Effect::EnforceMute { participant: target, mutes, by: Some(ada.seat.participant) };
    assert_eq!(effects.then, [Effect::Accept, order]);
    // The handlers acknowledge: only now the host hears "enforced".
    let done = |epoch, missing: &[&str]| Input::MuteEnforced {
        participant: target,
        epoch,
        by: ada.seat.participant,
        missing: missing.iter().map(|id| (*id).to_owned()).collect(),
    };
    let effects = fixture.apply(&done(3, &["mh-b"])).unwrap();
    let message =
        DirectMessage::MuteEnforced { participant: target, epoch: 3, missing: vec!["mh-b".to_owned()] };
    assert_eq!(sent(&effects), [(ada.seat.participant, message)]);
    fixture.request(&ada.seat, host_mute(target, false, false)).unwrap();
    assert_eq!(fixture.apply(&done(3, &[])).unwrap(), Effects::none(), "another mute came in between");
    assert_eq!(fixture.meeting.mute_epoch, 4);
}

#[test]
fn a_host_mute_survives_a_resume() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    fixture.request(&ada.seat, host_mute(bob.seat.participant, true, true)).unwrap();
    fixture.disconnect(&bob.seat);
    let join = fixture.resume_join(&bob);
    let back = welcome(&fixture.apply(&Input::Join(Box::new(join))).unwrap());
    assert!(back.seat.mutes.audio_host && back.seat.mutes.video_host);
    let effects = fixture.request(&back.seat, Request::Mute { audio: false, video: false }).unwrap();
    assert!(effects.events().next().is_none(), "nothing changed");
    assert!(fixture.meeting.seats[&bob.seat.participant].mutes.audio_host, "no self-unmute lifts it");
}

#[test]
fn a_host_grants_or_denies_an_unmute_request() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    let target = bob.seat.participant;
    let ask = Request::RequestUnmute { audio: true, video: true };
    assert!(matches!(fixture.request(&bob.seat, ask.clone()), Err(Refusal::Conflict(_))), "not muted");
    fixture.request(&ada.seat, host_mute(target, true, false)).unwrap();
    let effects = fixture.request(&bob.seat, ask.clone()).unwrap();
    let asked = DirectMessage::UnmuteRequested {
        participant: target,
        audio: true,
        video: true,
        expires_in_ms: 60_000,
    };
    assert_eq!(sent(&effects), [(ada.seat.participant, asked)]);
    assert!(matches!(fixture.request(&bob.seat, ask.clone()), Err(Refusal::RateLimited(_))), "one at a time");
    // Denied.
    let deny = Request::AnswerUnmute { participant: target, audio: false, video: false };
    let effects = fixture.request(&ada.seat, deny.clone()).unwrap();
    let no = DirectMessage::UnmuteAnswered { participant: target, audio: false, video: false };
    assert_eq!(sent(&effects), [(target, no)]);
    assert!(fixture.meeting.seats[&target].mutes.audio_host);
    assert!(matches!(fixture.request(&ada.seat, deny), Err(Refusal::NotFound(_))), "there is no open one");
    // Granted.
    fixture.request(&bob.seat, ask).unwrap();
    let effects = fixture
        .request(&ada.seat, Request::AnswerUnmute { participant: target, audio: true, video: false })
        .unwrap();
    assert_eq!(effects.write, Write::Sync);
    let yes = DirectMessage::UnmuteAnswered { participant: target, audio: true, video: false };
    assert_eq!(sent(&effects), [(target, yes)]);
    let mutes = &fixture.meeting.seats[&target].mutes;
    assert_eq!(
        (mutes.audio_host, mutes.epoch, mutes.by.as_deref(), mutes.reason.as_str()),
        (false, 4, None, "")
    );
}

#[test]
fn an_unmute_request_waits_for_a_host_and_lapses_after_a_minute() {
    let mut fixture = Fixture::new();
    let (ada, bob) = (fixture.join("ada", Role::Host), fixture.join("bob", Role::Participant));
    fixture.request(&ada.seat, host_mute(bob.seat.participant, true, false)).unwrap();
    fixture.disconnect(&ada.seat);
    let effects = fixture.request(&bob.seat, Request::RequestUnmute { audio: true, video: false }).unwrap();
    assert!(sent(&effects).is_empty(), "no host is there");
    fixture.advance(Duration::from_secs(20));
    let join = fixture.resume_join(&ada);
    let effects = fixture.apply(&Input::Join(Box::new(join))).unwrap();
    let (participant, audio) = (bob.seat.participant, true);
    let waiting = DirectMessage::UnmuteRequested { participant, audio, video: false, expires_in_ms: 40_000 };
    assert_eq!(sent(&effects), [(ada.seat.participant, waiting)]);
    fixture.advance(Duration::from_secs(40));
    fixture.apply(&Input::Timer).unwrap();
    assert_eq!(fixture.meeting.seats[&bob.seat.participant].unmute_request, None);
}
