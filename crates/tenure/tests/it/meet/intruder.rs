//! Clients that mean no good, over real QUIC to the built binary.

use bytes::Bytes;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ErrorCode, ServerMessage};
use meet_wire::transport::Closed;
use tokio::task::JoinSet;

use crate::meet::house::House;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_breaks_the_protocol_is_closed_and_those_who_meet_notice_nothing() {
    let house = House::new();
    let door = house.start(&["up", "--only", "meet"]);
    let made = door.create("quiet").await;
    let code = made["meeting_code"].as_str().unwrap();
    let place = door.place(code, None).await;
    let (mut ada, _) = place.join("Ada").await;
    let guest = door.guest(code, "Bob").await;
    let (mut bob, _) = door.place(code, Some(&guest)).await.join("Bob").await;
    let oversized = [&65_537_u32.to_be_bytes()[..], &[0; 512]].concat();
    let garbage: [&[u8]; 5] =
        [&oversized, &[0xff; 64], &[0; 4], &[0, 0, 0, 2, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n"];
    for bytes in garbage {
        // Before a seat, and with one.
        let mut stranger = place.open().await;
        let (mut member, _) = place.join("Mallory").await;
        for line in [&mut stranger, &mut member] {
            line.writer.send_frame(Bytes::copy_from_slice(bytes)).await.unwrap();
            assert_eq!(line.session.closed().await, Closed::Code(4005), "{bytes:?}");
        }
    }
    let mut early = place.open().await;
    early.chat("me first").await;
    let Some(Payload::Error(refused)) = early.next().await.payload else { panic!("heard") };
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    assert!(early.reader.next::<ServerMessage>().await.unwrap().is_none(), "and nothing more");
    ada.chat("all is well").await;
    bob.hears("all is well").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_floods_the_door_is_told_to_wait_and_others_get_in() {
    let house = House::new();
    let rate = [
        ("TENURE_MEET__JOIN_BURST", "2"),
        ("TENURE_MEET__JOIN_RATE_PER_SECOND", "1"),
        ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
    ];
    let door = house.start_with(&["up", "--only", "meet"], &rate);
    let made = door.create("popular").await;
    let code = made["meeting_code"].as_str().unwrap();
    let place = door.place(code, None).await;
    let mut flood = JoinSet::new();
    for _ in 0..60 {
        let place = place.clone();
        flood.spawn(async move {
            let mut line = place.ask_to_join("Mallory").await;
            match line.next().await.payload {
                Some(Payload::Error(refused)) => Some((refused.code(), refused.message)),
                _ => None,
            }
        });
    }
    let answers = flood.join_all().await;
    let told = (ErrorCode::RateLimited, "this user joins too often; wait a little".to_owned());
    assert!(answers.contains(&Some(told.clone())) && answers.contains(&None), "{answers:?}");
    let guest = door.guest(code, "Bob").await;
    let (_bob, welcome) = door.place(code, Some(&guest)).await.join("Bob").await;
    let seats = answers.iter().filter(|answer| answer.is_none()).count();
    assert_eq!(welcome.existing_participants.len(), seats);
    let (_, metrics) = door.ask("GET", "/metrics", None, None).await;
    let limited = answers.iter().filter(|answer| **answer == Some(told.clone())).count();
    let line = format!("mc_session_joins_total{{status=\"rate_limited\"}} {limited}");
    assert!(metrics.as_str().unwrap().contains(&line), "{line}");
}
