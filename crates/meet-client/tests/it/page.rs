//! The page's codec in a real browser, compared with the generated one.

use prost::Message as _;
use serde_json::{Value, json};
use tenure_meet_wire::signaling::client_message::Payload as Ask;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    ChatMessage, ClientMessage, ErrorMessage, HostMuteRequest, JoinRequest, JoinResponse, MediaServerInfo,
    Participant, ParticipantCapabilities, ParticipantMuteUpdate, Presence, Role, ServerMessage,
};
use tenure_testkit::Chromium;

use crate::harness::Harness;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const HELPERS: &str =
    "window.hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  window.unhex = (words) => Uint8Array.from(words.match(/../g) ?? [], (two) => parseInt(two, 16));
  import('/meetwire.js').then((wire) => { window.wire = wire; return true; })";

#[test]
fn the_codec_of_the_page_matches_the_generated_one() {
    let harness = Harness::open();
    let chromium = Chromium::start().unwrap();
    let page = chromium.open(&format!("{}/favicon.svg", harness.url)).unwrap();
    page.evaluate(HELPERS).unwrap();
    let join = JoinRequest {
        meeting_id: "abc".to_owned(),
        join_token: "t".repeat(300),
        participant_name: "Zoë 🦊".to_owned(),
        capabilities: Some(ParticipantCapabilities {
            video_codecs: vec!["vp9".to_owned(), "h264".to_owned()],
            supports_simulcast: true,
            max_video_streams: 300,
            ..ParticipantCapabilities::default()
        }),
        last_event_seq: (1 << 53) - 1,
        ..JoinRequest::default()
    };
    let mute = HostMuteRequest { participant_id: "p".to_owned(), audio: true, ..HostMuteRequest::default() };
    let asked = [
        (
            json!({ "join_request": {
                "meeting_id": "abc", "join_token": "t".repeat(300), "participant_name": "Zoë 🦊",
                "capabilities": { "video_codecs": ["vp9", "h264"], "supports_simulcast": true, "max_video_streams": 300 },
                "last_event_seq": (1_u64 << 53) - 1,
            }, "trace_parent": "00-1", "seq": 1 }),
            ClientMessage {
                payload: Some(Ask::JoinRequest(join)),
                trace_parent: "00-1".to_owned(),
                seq: 1,
                ..ClientMessage::default()
            },
        ),
        (
            json!({ "host_mute_request": { "participant_id": "p", "audio": true, "video": false }, "seq": 300 }),
            ClientMessage { payload: Some(Ask::HostMuteRequest(mute)), seq: 300, ..ClientMessage::default() },
        ),
        (
            json!({ "leave_request": {}, "seq": 128, "acknowledged_event_seq": 16_384 }),
            ClientMessage {
                payload: Some(Ask::LeaveRequest(tenure_meet_wire::signaling::LeaveRequest {})),
                seq: 128,
                acknowledged_event_seq: 16_384,
                ..ClientMessage::default()
            },
        ),
    ];
    for (message, expected) in asked {
        // Field order may differ. The decoded messages must be equal.
        let framed = page.evaluate(&format!("hex(wire.frame({message}))")).unwrap();
        let bytes: Vec<u8> = unhex(framed.as_str().unwrap());
        assert_eq!(u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
        assert_eq!(ClientMessage::decode(&bytes[4..]).unwrap(), expected, "{message}");
    }
    for (message, expectations) in server_messages() {
        let bytes = hex(&message.encode_to_vec());
        let read = page.evaluate(&format!("wire.decode('ServerMessage', unhex('{bytes}'))")).unwrap();
        for (path, expected) in expectations {
            assert_eq!(read.pointer(path), Some(&expected), "{path} of {read}");
        }
    }
    let bad = ["ff", "0a05", "0aff", "b801ffffffffffffffffffff01", "0b", "0a0412020180"];
    for bytes in bad {
        let read = format!(
            "(() => {{ try {{ wire.decode('ServerMessage', unhex('{bytes}')); return 'read'; }} catch {{ return 'refused'; }} }})()"
        );
        assert_eq!(page.evaluate(&read).unwrap(), json!("refused"), "{bytes}");
    }
    let frames = page.evaluate(
        "(() => { const all = new wire.Frames(), out = []; const two = unhex('00000003b80108' + '00000003b80109');
           for (const byte of two) out.push(...all.push(Uint8Array.of(byte)));
           let refused = 0;
           for (const bad of ['00000000', '00010001', 'ffffffff']) try { new wire.Frames().push(unhex(bad)); } catch { refused++; }
           return [out.map((one) => one.event_seq), refused]; })()",
    );
    assert_eq!(frames.unwrap(), json!([[8, 9], 3]));
    page.expect_no_errors(|_| true).unwrap();
}

fn unhex(words: &str) -> Vec<u8> {
    (0..words.len()).step_by(2).map(|at| u8::from_str_radix(&words[at..at + 2], 16).unwrap()).collect()
}

/// Server messages, and what the page must decode from them.
fn server_messages() -> Vec<(ServerMessage, Vec<(&'static str, Value)>)> {
    let mute =
        ParticipantMuteUpdate { audio_host: true, mute_epoch: 1 << 40, ..ParticipantMuteUpdate::default() };
    let person = Participant {
        participant_id: "p".to_owned(),
        name: "Zoë".to_owned(),
        joined_at: 1_700_000_000_123,
        role: Role::Host.into(),
        presence: Presence::Disconnected.into(),
        mute: Some(mute),
        ..Participant::default()
    };
    let welcome = JoinResponse {
        existing_participants: vec![person.clone(), person],
        media_servers: vec![MediaServerInfo {
            certificate_sha256: vec![vec![1, 2].into()],
            ..Default::default()
        }],
        resumed: true,
        roster_size: 2,
        ..JoinResponse::default()
    };
    let error = ErrorMessage {
        code: 10,
        message: "slow".to_owned(),
        details: [("a".to_owned(), "b".to_owned())].into(),
    };
    let chat = ChatMessage { text: "x".repeat(4_000), ..ChatMessage::default() };
    vec![
        (
            ServerMessage {
                payload: Some(Payload::JoinResponse(welcome)),
                seq: 1,
                ..ServerMessage::default()
            },
            vec![
                ("/seq", json!(1)),
                ("/join_response/resumed", json!(true)),
                ("/join_response/binding_token", json!("")),
                ("/join_response/existing_participants/1/name", json!("Zoë")),
                ("/join_response/existing_participants/0/joined_at", json!(1_700_000_000_123_u64)),
                ("/join_response/existing_participants/0/mute/mute_epoch", json!(1_u64 << 40)),
                ("/join_response/existing_participants/0/mute/video_host", json!(false)),
                ("/join_response/media_servers/0/certificate_sha256/0/1", json!(2)),
            ],
        ),
        (
            ServerMessage {
                payload: Some(Payload::ChatMessage(chat)),
                event_seq: 9,
                durable: Some(false),
                ..ServerMessage::default()
            },
            vec![
                ("/event_seq", json!(9)),
                ("/durable", json!(false)),
                ("/chat_message/text", json!("x".repeat(4_000))),
            ],
        ),
        (
            ServerMessage { payload: Some(Payload::Error(error)), ..ServerMessage::default() },
            vec![("/error/code", json!(10)), ("/error/message", json!("slow")), ("/event_seq", json!(0))],
        ),
    ]
}
