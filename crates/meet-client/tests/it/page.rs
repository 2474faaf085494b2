//! The page in a real browser: its codec against the generated one, and a story against a real controller.

use std::net::SocketAddr;
use std::time::Duration;

use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{
    ChatMessage, ClientMessage, ErrorMessage, HostMuteRequest, JoinRequest, JoinResponse, MediaServerInfo,
    Participant, ParticipantCapabilities, ParticipantMuteUpdate, Presence, Role, ServerMessage,
};
use prost::Message as _;
use serde_json::{Value, json};
use testkit::{Chromium, Page};

use crate::house::House;

const LIMIT: Duration = Duration::from_secs(60);

fn hook(name: &str) -> String {
    format!("[data-test={name}]")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const HELPERS: &str =
    "window.hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  window.unhex = (words) => Uint8Array.from(words.match(/../g) ?? [], (two) => parseInt(two, 16));
  import('/meetwire.js').then((wire) => { window.wire = wire; return true; })";

#[test]
fn the_codec_of_the_page_agrees_with_the_generated_one() {
    let house = House::open();
    let chromium = Chromium::start().unwrap();
    let page = chromium.open(&format!("{}/meet", house.url)).unwrap();
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
                payload: Some(Ask::LeaveRequest(meet_wire::signaling::LeaveRequest {})),
                seq: 128,
                acknowledged_event_seq: 16_384,
                ..ClientMessage::default()
            },
        ),
    ];
    for (message, expected) in asked {
        // Fields may come in any order: what counts is that they are read as the same message.
        let framed = page.evaluate(&format!("hex(wire.frame({message}))")).unwrap();
        let bytes: Vec<u8> = unhex(framed.as_str().unwrap());
        assert_eq!(u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
        assert_eq!(ClientMessage::decode(&bytes[4..]).unwrap(), expected, "{message}");
    }
    for (message, looks) in told() {
        let bytes = hex(&message.encode_to_vec());
        let read = page.evaluate(&format!("wire.decode('ServerMessage', unhex('{bytes}'))")).unwrap();
        for (path, expected) in looks {
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
    page.no_troubles(|_| true).unwrap();
}

fn unhex(words: &str) -> Vec<u8> {
    (0..words.len()).step_by(2).map(|at| u8::from_str_radix(&words[at..at + 2], 16).unwrap()).collect()
}

/// What a server says, and what of it the page has to see.
fn told() -> Vec<(ServerMessage, Vec<(&'static str, Value)>)> {
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

fn join(chromium: &Chromium, house: &House, name: &str, host: bool) -> Page {
    let url = format!("{}/meet/tea", house.url);
    let page = chromium.open_apart(&format!("{}/favicon.svg", house.url)).unwrap();
    if host {
        page.evaluate("document.cookie = 'host=1; path=/'").unwrap();
    }
    page.navigate(&url).unwrap();
    enter(&page, name);
    page
}

/// From the lobby into the meeting.
fn enter(page: &Page, name: &str) {
    sees_element(page, &hook("lobby"));
    page.fill(&hook("join-name"), name).unwrap();
    page.click(&hook("join")).unwrap();
    sees_element(page, &hook("room"));
    live(page);
}

fn sees(page: &Page, condition: &str) {
    page.wait_for(condition, LIMIT).unwrap();
}

fn sees_element(page: &Page, selector: &str) {
    sees(page, &format!("document.querySelector({})", json!(selector)));
}

fn live(page: &Page) {
    sees_element(page, "[data-test=connection][data-state=live]");
}

fn chat(page: &Page) -> Value {
    page.evaluate(
        "[...document.querySelectorAll('[data-test=chat] li[data-seq] p')].map((p) => p.textContent)",
    )
    .unwrap()
}

fn say(page: &Page, words: &str) {
    page.fill(&hook("chat-text"), words).unwrap();
    page.press("Enter").unwrap();
    sees(
        page,
        &format!(
            "[...document.querySelectorAll('[data-test=chat] li p')].some((p) => p.textContent === {})",
            json!(words)
        ),
    );
}

fn seat(id: &str, rest: &str) -> String {
    format!("[data-test=seat][data-id='{id}']{rest}")
}

fn own(page: &Page) -> String {
    let id =
        page.wait_for("document.querySelector('[data-test=seat][data-own]')?.dataset.id", LIMIT).unwrap();
    id.as_str().unwrap().to_owned()
}

/// Every connection that was made since the others were there.
fn bobs(house: &House, others: &[SocketAddr]) -> impl Iterator<Item = SocketAddr> {
    house.proxy.clients().into_iter().filter(|client| !others.contains(client))
}

#[test]
fn three_pages_meet_one_is_muted_asks_is_lost_twice_and_comes_back_to_its_seat() {
    let house = House::open();
    let chromium = Chromium::builder().camera().start().unwrap();
    let ada = join(&chromium, &house, "Ada Host", true);
    let eve = join(&chromium, &house, "Eve", false);
    let others = house.proxy.clients();
    let bob = join(&chromium, &house, "Bob", false);
    let id = own(&bob);
    for page in [&ada, &eve, &bob] {
        sees(page, "document.querySelectorAll('[data-test=seat]').length === 3");
    }
    ada.click(&seat(&id, " [data-test=seat-mute-audio]")).unwrap();
    for page in [&ada, &eve, &bob] {
        sees_element(page, &seat(&id, "[data-audio=host]"));
    }
    bob.click(&hook("ask-unmute")).unwrap();
    ada.click(&seat(&id, " [data-test=allow]")).unwrap();
    for page in [&ada, &eve, &bob] {
        sees_element(page, &seat(&id, "[data-audio=no]"));
    }
    let mut expected = Vec::new();
    for round in ["silently", "with a refusal"] {
        if round == "silently" {
            house.proxy.lose_new(true);
            bobs(&house, &others).for_each(|client| house.proxy.lose(client));
        } else {
            bobs(&house, &others).for_each(|client| house.proxy.refuse(client).unwrap());
        }
        for page in [&ada, &eve] {
            sees_element(page, &seat(&id, "[data-presence=away]"));
        }
        sees_element(&bob, "[data-test=connection][data-state=reconnecting]");
        for word in ["one", "two"] {
            say(&ada, &format!("{word} {round}"));
            expected.push(format!("{word} {round}"));
        }
        house.proxy.pass();
        house.proxy.accept().unwrap();
        live(&bob);
        for page in [&ada, &eve, &bob] {
            sees_element(page, &seat(&id, "[data-presence=here]"));
            sees(
                page,
                &format!(
                    "document.querySelectorAll('[data-test=chat] li[data-seq]').length === {}",
                    expected.len()
                ),
            );
            assert_eq!(chat(page), json!(expected), "{round}");
        }
        assert_eq!(own(&bob), id);
    }
    bob.navigate(&format!("{}/meet/tea", house.url)).unwrap();
    live(&bob);
    assert_eq!(own(&bob), id, "a reload keeps the seat");
    sees(
        &bob,
        &format!("document.querySelectorAll('[data-test=chat] li[data-seq]').length === {}", expected.len()),
    );
    assert_eq!(chat(&bob), json!(expected), "and what was said");
    eve.click(&hook("leave")).unwrap();
    sees_element(&eve, "[data-test=over][data-code=LEFT]");
    sees(&ada, "document.querySelectorAll('[data-test=seat]').length === 2");
    eve.click(&hook("back")).unwrap();
    enter(&eve, "Eve");
    ada.click(&seat(&own(&eve), " [data-test=seat-remove]")).unwrap();
    sees_element(&eve, "[data-test=over][data-code=KICKED]");
    ada.click(&hook("end")).unwrap();
    for page in [&ada, &bob] {
        sees_element(page, "[data-test=over][data-code=OVER]");
    }
    for page in [&ada, &eve, &bob] {
        page.no_troubles(|_| true).unwrap();
    }
}
