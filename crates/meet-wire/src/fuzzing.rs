//! Bodies of the fuzz targets.
#![expect(clippy::expect_used, reason = "a fuzz target panics when a property is violated")]

use std::time::Duration;

use prost::Message;
use tenure_lease::Wall;

use crate::binding::{Bound, MasterSecret, Nonce, Secrets};
use crate::frame::{self, Decoder, FrameError};
use crate::jwt::{
    Checker, Claims, GuestClaims, Jwks, KeySet, Kind, MeetingClaims, ParticipantType, Role, ServiceClaims,
    SigningKey, UserClaims, sign,
};
use crate::signaling::{
    ChatRequest, ClientMessage, JoinRequest, MhClientMessage, ServerMessage, client_message::Payload,
};
use crate::{CloseCode, Id, MeetingId, TraceParent, limits};

const NOW: Wall = Wall::from_micros(1_700_000_000_000_000);

/// Decodes frames from arbitrary chunks. The first byte is the chunk size.
pub fn frames(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else { return };
    let whole = read::<ClientMessage>(stream, stream.len().max(1));
    let pieces = read::<ClientMessage>(stream, usize::from(*cut).max(1));
    assert!(whole == pieces, "chunking changed the result");
    for message in whole.0.iter().filter(|message| **message != ClientMessage::default()) {
        there_and_back(message);
    }
    for message in read::<ServerMessage>(stream, 7).0.iter().filter(|m| **m != ServerMessage::default()) {
        there_and_back(message);
    }
    let _ = read::<MhClientMessage>(stream, 7);
}

fn read<M: Message + Default>(stream: &[u8], cut: usize) -> (Vec<M>, Option<FrameError>) {
    let (mut decoder, mut got) = (Decoder::default(), Vec::new());
    for piece in stream.chunks(cut) {
        decoder.push(piece);
        loop {
            match decoder.message() {
                Ok(Some(message)) => got.push(message),
                Ok(None) => break,
                Err(error) => return (got, Some(error)),
            }
        }
        assert!(decoder.kept() < frame::HEADER + limits::FRAME, "more than one frame is buffered");
    }
    (got, None)
}

/// A re-encoded message may be no longer than a frame: unknown fields are dropped and defaults are not written.
fn there_and_back<M: Message + Default + PartialEq>(message: &M) {
    let Ok(sent) = frame::encode(message) else { return };
    let mut decoder = Decoder::default();
    decoder.push(&sent);
    let arrived: M = decoder.message().expect("an encoded message decodes").expect("the frame is complete");
    // NaN is not equal to itself, so the bytes are compared then.
    assert!(arrived == *message || arrived.encode_to_vec() == message.encode_to_vec(), "the message changed");
}

/// Frames as a client sends them.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let join = JoinRequest {
        meeting_id: "abc".to_owned(),
        join_token: "a.b.c".to_owned(),
        participant_name: "Ada".to_owned(),
        attempt_id: "1".to_owned(),
        last_event_seq: 7,
        ..JoinRequest::default()
    };
    let payloads =
        [Payload::JoinRequest(join), Payload::ChatRequest(ChatRequest { text: "hello".to_owned() })];
    let messages = payloads.into_iter().zip(1..).map(|(payload, seq)| ClientMessage {
        payload: Some(payload),
        seq,
        ..ClientMessage::default()
    });
    let frames: Vec<Vec<u8>> =
        messages.map(|message| frame::encode(&message).expect("a frame").to_vec()).collect();
    let all = frames.concat();
    frames.into_iter().chain([all]).map(|stream| [vec![3], stream].concat()).collect()
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32]).expect("a key")
}

fn claims() -> MeetingClaims {
    MeetingClaims {
        sub: "u_1".to_owned(),
        token_type: Kind::Meeting,
        meeting_id: "abc".to_owned(),
        home_org_id: None,
        meeting_org_id: String::new(),
        participant_type: ParticipantType::Member,
        role: Role::Host,
        capabilities: vec!["chat".to_owned()],
        iat: 1_700_000_000,
        exp: 1_700_000_900,
        jti: "1".to_owned(),
    }
}

/// Checks tokens: an accepted token was signed with our key, and any change outside the signature is rejected.
pub fn jwts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let checker = Checker::new(KeySet::from(&Jwks { keys: vec![key().public()] }));
    taken::<MeetingClaims>(&checker, text);
    taken::<GuestClaims>(&checker, text);
    taken::<UserClaims>(&checker, text);
    taken::<ServiceClaims>(&checker, text);
}

fn taken<C: Claims + PartialEq>(checker: &Checker, text: &str) {
    let Ok(claims) = checker.check::<C>(text, NOW) else { return };
    assert!(claims.kind() == C::KIND && claims.exp() > 1_700_000_000, "an expired token was accepted");
    let again = sign(&key(), &claims).expect("parsed claims serialize");
    assert!(checker.check_ended::<C>(&again, NOW, Duration::ZERO).is_ok_and(|read| read == claims));
}

/// A valid token.
pub fn jwt_seeds() -> Vec<Vec<u8>> {
    vec![sign(&key(), &claims()).expect("a token").into_bytes()]
}

/// Key sets.
pub fn jwks(data: &[u8]) {
    let Some(set) = Jwks::parse(data) else { return };
    let written = serde_json::to_vec(&set).expect("a parsed set serializes");
    assert!(Jwks::parse(&written) == Some(set.clone()), "the set changed");
    let keys = KeySet::from(&set);
    assert!(
        set.keys
            .iter()
            .filter(|key| keys.knows(&key.kid))
            .all(|key| key.kty == "OKP" || twice(&set, &key.kid))
    );
}

/// With two keys of the same name, the usable one may be either.
fn twice(set: &Jwks, kid: &str) -> bool {
    set.keys.iter().filter(|key| key.kid == kid).count() > 1
}

/// A published set.
pub fn jwks_seeds() -> Vec<Vec<u8>> {
    vec![serde_json::to_vec(&Jwks { keys: vec![key().public()] }).expect("a set")]
}

/// Ids, meeting names, traces, binding tokens and close codes.
pub fn names(data: &[u8]) {
    if let Some(number) = data.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)) {
        assert!(CloseCode::from_number(number).is_none_or(|code| code.number() == number));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert!(Id::parse(text).is_none_or(|id| id.to_string() == text), "an id has one text form");
    assert!(
        TraceParent::parse(text).is_none_or(|trace| trace.to_string() == text),
        "a trace has one text form"
    );
    if let Some(meeting) = MeetingId::parse(text) {
        assert!(
            tenure_lease::Key::new(format!("meeting:{meeting}:gen")).is_ok(),
            "a meeting id is valid in a key"
        );
    }
    let secrets = Secrets::new(MasterSecret::new(vec![7; 32]).expect("a secret"));
    let meeting = MeetingId::parse("abc").expect("a name");
    let id = Id::parse("018bcfe5-6800-7fff-bfff-ffffffffffff").expect("an id");
    let nonce = Nonce::parse("000102030405060708090a0b0c0d0e0f").expect("a nonce");
    let bound = Bound { meeting: &meeting, correlation: id, participant: id, nonce: &nonce };
    assert!(secrets.verify(&bound, text) == (secrets.issue(&bound).as_str() == text), "a forged binding");
}

/// A valid input of each kind.
pub fn name_seeds() -> Vec<Vec<u8>> {
    let secrets = Secrets::new(MasterSecret::new(vec![7; 32]).expect("a secret"));
    let meeting = MeetingId::parse("abc").expect("a name");
    let id = Id::parse("018bcfe5-6800-7fff-bfff-ffffffffffff").expect("an id");
    let nonce = Nonce::parse("000102030405060708090a0b0c0d0e0f").expect("a nonce");
    let token = secrets.issue(&Bound { meeting: &meeting, correlation: id, participant: id, nonce: &nonce });
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    [id.to_string(), meeting.to_string(), trace.to_owned(), token.as_str().to_owned()]
        .map(String::into_bytes)
        .to_vec()
}
