//! Mutes: who may, what is told, what is enforced.

use super::*;

fn host_mute(participant: Id, audio: bool, video: bool) -> Request {
    Request::HostMute { participant, audio, video, reason: "noise".to_owned() }
}

#[test]
fn a_self_mute_is_told_and_not_enforced() {
    let mut table = Table::new();
    let bob = table.seated("bob", Role::Participant);
    let effects = table.request(&bob.seat, Request::Mute { audio: true, video: false }).unwrap();
    assert_eq!((effects.write, effects.happenings().count()), (Write::Async, 1));
    assert!(!effects.then.iter().any(|effect| matches!(effect, Effect::Enforce { .. })));
    assert!(table.meeting.seats[&bob.seat.participant].mutes.audio_self);
    let again = table.request(&bob.seat, Request::Mute { audio: true, video: false }).unwrap();
    assert_eq!(again.happenings().count(), 0, "nobody is told the same twice");
}

#[test]
fn a_host_mute_is_written_first_enforced_and_then_reported() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    let who = bob.seat.participant;
    let effects = table.request(&ada.seat, host_mute(who, true, false)).unwrap();
    assert_eq!(effects.write, Write::Sync);
    let mutes = table.meeting.seats[&who].mutes.clone();
    assert_eq!(
        (mutes.audio_host, mutes.video_host, mutes.epoch, mutes.by.as_deref()),
        (true, false, 1, Some("ada"))
    );
    let order = Effect::Enforce { participant: who, mutes, by: ada.seat.participant };
    assert_eq!(effects.then, [Effect::Accept, order]);
    // The handlers acknowledge: only now the host hears "enforced".
    let done = |epoch, missing: &[&str]| Event::Enforced {
        participant: who,
        epoch,
        by: ada.seat.participant,
        missing: missing.iter().map(|id| (*id).to_owned()).collect(),
    };
    let effects = table.perform(&done(1, &["mh-b"])).unwrap();
    let telling = Telling::Enforced { participant: who, epoch: 1, missing: vec!["mh-b".to_owned()] };
    assert_eq!(told(&effects), [(ada.seat.participant, telling)]);
    table.request(&ada.seat, host_mute(who, false, false)).unwrap();
    assert_eq!(table.perform(&done(1, &[])).unwrap(), Effects::none(), "another mute came in between");
    assert_eq!(table.meeting.mute_epoch, 2);
}

#[test]
fn a_host_mute_survives_coming_back() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    table.request(&ada.seat, host_mute(bob.seat.participant, true, true)).unwrap();
    table.lose(&bob.seat);
    let join = table.returning(&bob);
    let back = welcome(&table.perform(&Event::Join(Box::new(join))).unwrap());
    assert!(back.seat.mutes.audio_host && back.seat.mutes.video_host);
    let effects = table.request(&back.seat, Request::Mute { audio: false, video: false }).unwrap();
    assert!(effects.happenings().next().is_none(), "nothing changed");
    assert!(table.meeting.seats[&bob.seat.participant].mutes.audio_host, "no self-unmute lifts it");
}

#[test]
fn who_was_muted_asks_and_a_host_grants_or_denies() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    let who = bob.seat.participant;
    let ask = Request::AskUnmute { audio: true, video: true };
    assert!(matches!(table.request(&bob.seat, ask.clone()), Err(Refusal::Conflict(_))), "nobody muted bob");
    table.request(&ada.seat, host_mute(who, true, false)).unwrap();
    let effects = table.request(&bob.seat, ask.clone()).unwrap();
    let asked = Telling::AskedToUnmute { participant: who, audio: true, video: true, expires_in_ms: 60_000 };
    assert_eq!(told(&effects), [(ada.seat.participant, asked)]);
    assert!(matches!(table.request(&bob.seat, ask.clone()), Err(Refusal::TooOften(_))), "one at a time");
    // Denied.
    let deny = Request::AnswerUnmute { participant: who, audio: false, video: false };
    let effects = table.request(&ada.seat, deny.clone()).unwrap();
    let no = Telling::UnmuteAnswered { participant: who, audio: false, video: false };
    assert_eq!(told(&effects), [(who, no)]);
    assert!(table.meeting.seats[&who].mutes.audio_host);
    assert!(matches!(table.request(&ada.seat, deny), Err(Refusal::NotFound(_))), "there is no open one");
    // Granted.
    table.request(&bob.seat, ask).unwrap();
    let effects = table
        .request(&ada.seat, Request::AnswerUnmute { participant: who, audio: true, video: false })
        .unwrap();
    assert_eq!(effects.write, Write::Sync);
    let yes = Telling::UnmuteAnswered { participant: who, audio: true, video: false };
    assert_eq!(told(&effects), [(who, yes)]);
    let mutes = &table.meeting.seats[&who].mutes;
    assert_eq!(
        (mutes.audio_host, mutes.epoch, mutes.by.as_deref(), mutes.reason.as_str()),
        (false, 2, None, "")
    );
}

#[test]
fn a_wish_lapses_after_a_minute_and_waits_for_a_host_until_then() {
    let mut table = Table::new();
    let (ada, bob) = (table.seated("ada", Role::Host), table.seated("bob", Role::Participant));
    table.request(&ada.seat, host_mute(bob.seat.participant, true, false)).unwrap();
    table.lose(&ada.seat);
    let effects = table.request(&bob.seat, Request::AskUnmute { audio: true, video: false }).unwrap();
    assert!(told(&effects).is_empty(), "no host is there");
    table.pass(Duration::from_secs(20));
    let join = table.returning(&ada);
    let effects = table.perform(&Event::Join(Box::new(join))).unwrap();
    let (participant, audio) = (bob.seat.participant, true);
    let waiting = Telling::AskedToUnmute { participant, audio, video: false, expires_in_ms: 40_000 };
    assert_eq!(told(&effects), [(ada.seat.participant, waiting)]);
    table.pass(Duration::from_secs(40));
    table.perform(&Event::Time).unwrap();
    assert_eq!(table.meeting.seats[&bob.seat.participant].ask, None);
}
