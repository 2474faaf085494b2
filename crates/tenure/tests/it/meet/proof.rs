//! Coming back to a seat, over real QUIC to the built binary: what proves it, and what does not.

use std::time::Duration;

use lease::Clock as _;
use lease_store::BootClock;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ErrorCode, JoinRequest, JoinResponse, Participant, Presence};
use meet_wire::transport::Closed;

use crate::meet::house::{Door, House, Line, Place};

/// A seat is kept for long, its proof after a loss for a moment.
const BRIEF: [(&str, &str); 3] = [
    ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
    ("TENURE_MEET__BINDING_TOKEN_TTL_MS", "100"),
    ("TENURE_MEET__JOIN_BURST", "1000"),
];
const FIRST: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
const SECOND: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";

fn showing(place: &Place, proof: &JoinResponse, attempt: &str) -> JoinRequest {
    JoinRequest {
        correlation_id: proof.correlation_id.clone(),
        binding_token: proof.binding_token.clone(),
        attempt_id: attempt.to_owned(),
        ..place.request("Eve")
    }
}

/// An answer without what is new in every answer: the ids, the token, the time and the place among the events.
fn shape(mut answer: JoinResponse) -> JoinResponse {
    let same = |text: &mut String, length: usize| {
        assert_eq!(text.len(), length, "{text}");
        text.clear();
    };
    same(&mut answer.participant_id, 36);
    same(&mut answer.correlation_id, 36);
    same(&mut answer.binding_token, 64);
    assert!(std::mem::take(&mut answer.event_seq) > 0);
    if let Some(Participant { participant_id, joined_at, mute, .. }) = &mut answer.self_state {
        same(participant_id, 36);
        *joined_at = 0;
        if let Some(mute) = mute {
            mute.participant_id.clear();
        }
    }
    answer.existing_participants.sort_by(|one, two| one.participant_id.cmp(&two.participant_id));
    answer
}

async fn meeting(door: &Door, name: &str) -> String {
    door.create(name).await["meeting_code"].as_str().unwrap().to_owned()
}

/// Waits until somebody's seat is away, which everybody is told.
async fn sees_away(line: &mut Line, participant: &str) {
    let away = |payload: &Payload| match payload {
        Payload::ParticipantPresence(told) => {
            (told.participant_id == participant && told.presence() == Presence::Disconnected).then_some(())
        }
        _ => None,
    };
    line.until(away).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_proof_that_fails_gets_the_same_answer_as_no_proof_and_disturbs_nobody() {
    let house = House::new();
    let door = house.start_with(&["up", "--only", "meet"], &BRIEF);
    let code = meeting(&door, "one").await;
    let (mut ada, of_ada) = door.place(&code, None).await.join("Ada").await;
    let eve = door.guest(&code, "Eve").await;
    let place = door.place(&code, Some(&eve)).await;
    // A proof that ends: its seat is away for longer than that.
    let (gone, expired) = place.join("Eve").await;
    gone.session.close(0, "");
    sees_away(&mut ada, &expired.participant_id).await;
    BootClock.sleep_until(BootClock.now() + Duration::from_millis(300)).await;
    // A proof that is used, and used again by the same attempt: connected beforehand, since that is answered for five seconds only.
    let (first, used) = place.join("Eve").await;
    let (mut second, mut third) = (place.open().await, place.open().await);
    let back = second.join(showing(&place, &used, "again")).await;
    let same = third.join(showing(&place, &used, "again")).await;
    assert!(back.resumed && back.participant_id == used.participant_id);
    assert!(back.binding_token != used.binding_token && back.correlation_id != used.correlation_id);
    assert!(same.resumed && same.binding_token == back.binding_token, "a retransmission");
    assert_eq!(same.correlation_id, back.correlation_id);
    assert_eq!(first.session.closed().await, Closed::Code(4001));
    assert_eq!(second.session.closed().await, Closed::Code(4001));
    // A proof of another meeting.
    let other = meeting(&door, "two").await;
    let elsewhere = door.place(&other, Some(&door.guest(&other, "Eve").await)).await;
    let (_there, foreign) = elsewhere.join("Eve").await;

    let (plain, answer) = place.join("Eve").await;
    plain.leave().await;
    let usual = shape(answer);
    assert!(!usual.resumed && !usual.replay && usual.existing_participants.len() == 3);
    let good = showing(&place, &same, "tampered");
    let (digit, rest) = good.binding_token.split_at(1);
    let flipped = format!("{}{rest}", if digit == "0" { "1" } else { "0" });
    let (last, _) = good.binding_token.split_at(63);
    let failing = [
        ("stolen", showing(&place, &of_ada, "stolen")),
        ("replayed", showing(&place, &used, "another")),
        ("replayed without an attempt", showing(&place, &used, "")),
        ("expired", showing(&place, &expired, "late")),
        ("of another meeting", showing(&place, &foreign, "wrong")),
        ("changed", JoinRequest { binding_token: flipped, ..good.clone() }),
        ("cut", JoinRequest { binding_token: last.to_owned(), ..good.clone() }),
        ("in capitals", JoinRequest { binding_token: good.binding_token.to_uppercase(), ..good.clone() }),
        ("long", JoinRequest { binding_token: "a".repeat(20_000), ..good.clone() }),
        ("without a token", JoinRequest { binding_token: String::new(), ..good.clone() }),
        ("of another seat", JoinRequest { correlation_id: expired.correlation_id.clone(), ..good.clone() }),
        ("of no seat", JoinRequest { correlation_id: used.participant_id.clone(), ..good.clone() }),
        ("of nothing", JoinRequest { correlation_id: "x".to_owned(), ..good.clone() }),
    ];
    for (what, request) in failing {
        let (line, answer) = place.join_with(request).await;
        assert_eq!(shape(answer), usual, "{what}");
        line.leave().await;
    }
    // Nobody noticed: both have their seats, and the proof that was tampered with is still good.
    ada.chat("still here").await;
    third.hears("still here").await;
    let (_back, back) = place.join_with(good).await;
    assert!(back.resumed && back.participant_id == used.participant_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_token_that_is_not_for_this_meeting_gets_the_same_refusal() {
    let house = House::new();
    let door = house.start(&["up", "--only", "meet"]);
    let (one, two) = (meeting(&door, "one").await, meeting(&door, "two").await);
    let (place, other) = (door.place(&one, None).await, door.place(&two, None).await);
    let (signed, signature) = place.token.rsplit_once('.').unwrap();
    let (head, claims) = signed.split_once('.').unwrap();
    let (other_signed, other_signature) = other.token.rsplit_once('.').unwrap();
    let mut refusals = Vec::new();
    for token in [
        other.token.clone(),
        format!("{signed}.{other_signature}"),
        format!("{other_signed}.{signature}"),
        format!("eyJhbGciOiJub25lIn0.{claims}."),
        format!("{head}.{claims}"),
        "x".repeat(20_000),
        String::new(),
    ] {
        let mut line = Place { token, ..place.clone() }.ask_to_join("Eve").await;
        let Some(Payload::Error(refused)) = line.next().await.payload else { panic!("let in") };
        assert_eq!(refused.code(), ErrorCode::Unauthorized);
        refusals.push(refused);
    }
    assert!(refusals.iter().all(|refused| *refused == refusals[0]), "{refusals:?}");
    let (_ada, welcome) = place.join("Ada").await;
    assert!(welcome.existing_participants.is_empty(), "nobody got a seat");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_secret_is_survived_in_both_directions_by_who_was_told_of_both() {
    let house = House::new();
    let start = |current: &str, previous: Option<&str>| {
        let mut variables = vec![
            ("MC_BINDING_TOKEN_SECRET", current),
            ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
            ("TENURE_MEET__BINDING_TOKEN_TTL_MS", "600000"),
        ];
        variables.extend(previous.map(|secret| ("MC_BINDING_TOKEN_SECRET_PREVIOUS", secret)));
        house.start_with(&["up", "--only", "meet"], &variables)
    };
    let end = |door: Door| {
        door.process.terminate().unwrap();
        assert_eq!(crate::rig::code(&door.process), 0);
    };
    let door = start(FIRST, None);
    let code = meeting(&door, "long").await;
    let (_line, first) = door.place(&code, None).await.join("Ada").await;
    end(door);
    // Who has changed takes what was made before.
    let door = start(SECOND, Some(FIRST));
    let place = door.place(&code, None).await;
    let (_line, second) = place.join_with(showing(&place, &first, "2")).await;
    assert!(second.resumed && second.participant_id == first.participant_id);
    end(door);
    // Who knows only the old one, or is of another region, does not take the new one.
    let door = start(FIRST, None);
    let place = door.place(&code, None).await;
    let (_line, third) = place.join_with(showing(&place, &second, "3")).await;
    assert!(!third.resumed && third.participant_id != first.participant_id);
    end(door);
    // Who still makes tokens with the old one and was told of the new one does.
    let door = start(FIRST, Some(SECOND));
    let place = door.place(&code, None).await;
    let (_line, fourth) = place.join_with(showing(&place, &second, "4")).await;
    assert!(fourth.resumed && fourth.participant_id == first.participant_id);
    end(door);
}
