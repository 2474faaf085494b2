//! Resuming a seat over real QUIC to the built binary: valid and invalid proofs.

use std::time::Duration;

use tenure_lease::Clock as _;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ErrorCode, JoinRequest, JoinResponse, Participant, Presence};
use tenure_meet_wire::transport::Closed;
use tenure_store::BootClock;

use crate::meet::installation::{Installation, MeetingAccess, ServerProcess, TestClient};

/// Seats are kept for long; their proofs expire soon.
const BRIEF: [(&str, &str); 3] = [
    ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
    ("TENURE_MEET__BINDING_TOKEN_TTL_MS", "100"),
    ("TENURE_MEET__JOIN_BURST", "1000"),
];
const FIRST: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
const SECOND: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";

fn showing(place: &MeetingAccess, proof: &JoinResponse, attempt: &str) -> JoinRequest {
    JoinRequest {
        correlation_id: proof.correlation_id.clone(),
        binding_token: proof.binding_token.clone(),
        attempt_id: attempt.to_owned(),
        ..place.request("Eve")
    }
}

/// An answer without the fields that differ in every answer: ids, tokens, grants, time, event and mute numbers.
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
            assert!(std::mem::take(&mut mute.mute_epoch) > 0);
        }
    }
    for handler in &mut answer.media_servers {
        assert!(!std::mem::take(&mut handler.media_grant).is_empty());
    }
    answer.existing_participants.sort_by(|one, two| one.participant_id.cmp(&two.participant_id));
    answer
}

async fn meeting(server: &ServerProcess, name: &str) -> String {
    server.create(name).await["meeting_code"].as_str().unwrap().to_owned()
}

/// Waits for the event that the participant is disconnected.
async fn sees_away(line: &mut TestClient, participant: &str) {
    let away = |payload: &Payload| match payload {
        Payload::ParticipantPresence(update) => (update.participant_id == participant
            && update.presence() == Presence::Disconnected)
            .then_some(()),
        _ => None,
    };
    line.until(away).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_invalid_proof_gets_the_same_answer_as_none() {
    let installation = Installation::new();
    let server = installation.start_with(&["up", "--only", "meet"], &BRIEF);
    let code = meeting(&server, "one").await;
    let (mut ada, of_ada) = server.place(&code, None).await.join("Ada").await;
    let eve = server.guest(&code, "Eve").await;
    let place = server.place(&code, Some(&eve)).await;
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
    let other = meeting(&server, "two").await;
    let elsewhere = server.place(&other, Some(&server.guest(&other, "Eve").await)).await;
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
    // Nothing changed: both are still in the meeting, and the proof that was tampered with is still good.
    ada.chat("still here").await;
    third.hears("still here").await;
    let (_back, back) = place.join_with(good).await;
    assert!(back.resumed && back.participant_id == used.participant_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_token_that_is_not_for_this_meeting_gets_the_same_refusal() {
    let installation = Installation::new();
    let server = installation.start(&["up", "--only", "meet"]);
    let (one, two) = (meeting(&server, "one").await, meeting(&server, "two").await);
    let (place, other) = (server.place(&one, None).await, server.place(&two, None).await);
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
        let mut line = MeetingAccess { token, ..place.clone() }.ask_to_join("Eve").await;
        let Some(Payload::Error(refused)) = line.next().await.payload else { panic!("admitted") };
        assert_eq!(refused.code(), ErrorCode::Unauthorized);
        refusals.push(refused);
    }
    assert!(refusals.iter().all(|refused| *refused == refusals[0]), "{refusals:?}");
    let (_ada, welcome) = place.join("Ada").await;
    assert!(welcome.existing_participants.is_empty(), "no seat was given");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_with_both_secrets_survive_a_secret_rotation() {
    let installation = Installation::new();
    let start = |current: &str, previous: Option<&str>| {
        let mut variables = vec![
            ("MC_BINDING_TOKEN_SECRET", current),
            ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
            ("TENURE_MEET__BINDING_TOKEN_TTL_MS", "600000"),
        ];
        variables.extend(previous.map(|secret| ("MC_BINDING_TOKEN_SECRET_PREVIOUS", secret)));
        installation.start_with(&["up", "--only", "meet"], &variables)
    };
    let end = |server: ServerProcess| {
        server.process.terminate().unwrap();
        assert_eq!(crate::harness::code(&server.process), 0);
    };
    let server = start(FIRST, None);
    let code = meeting(&server, "long").await;
    let (_line, first) = server.place(&code, None).await.join("Ada").await;
    end(server);
    // Who has changed takes what was made before.
    let server = start(SECOND, Some(FIRST));
    let place = server.place(&code, None).await;
    let (_line, second) = place.join_with(showing(&place, &first, "2")).await;
    assert!(second.resumed && second.participant_id == first.participant_id);
    end(server);
    // Who knows only the old one, or is of another region, does not take the new one.
    let server = start(FIRST, None);
    let place = server.place(&code, None).await;
    let (_line, third) = place.join_with(showing(&place, &second, "3")).await;
    assert!(!third.resumed && third.participant_id != first.participant_id);
    end(server);
    // Who still makes tokens with the old one and was update of the new one does.
    let server = start(FIRST, Some(SECOND));
    let place = server.place(&code, None).await;
    let (_line, fourth) = place.join_with(showing(&place, &second, "4")).await;
    assert!(fourth.resumed && fourth.participant_id == first.participant_id);
    end(server);
}
