//! Abusive clients, over real QUIC to the built binary.

use bytes::Bytes;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ErrorCode, ServerMessage};
use tenure_meet_wire::transport::Closed;
use tokio::task::JoinSet;

use crate::meet::installation::Installation;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protocol_violation_closes_only_that_client() {
    let installation = Installation::new();
    let server = installation.start(&["up", "--only", "meet"]);
    let made = server.create("quiet").await;
    let code = made["meeting_code"].as_str().unwrap();
    let place = server.place(code, None).await;
    let (mut ada, _) = place.join("Ada").await;
    let guest = server.guest(code, "Bob").await;
    let (mut bob, _) = server.place(code, Some(&guest)).await.join("Bob").await;
    let oversized = [&65_537_u32.to_be_bytes()[..], &[0; 512]].concat();
    let garbage: [&[u8]; 5] =
        [&oversized, &[0xff; 64], &[0; 4], &[0, 0, 0, 2, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n"];
    for bytes in garbage {
        // Before a seat, and with one.
        let mut unjoined = place.open().await;
        let (mut member, _) = place.join("Mallory").await;
        for line in [&mut unjoined, &mut member] {
            line.writer.send_frame(Bytes::copy_from_slice(bytes)).await.unwrap();
            assert_eq!(line.session.closed().await, Closed::Code(4005), "{bytes:?}");
        }
    }
    let mut early = place.open().await;
    early.chat("me first").await;
    let Some(Payload::Error(refused)) = early.next().await.payload else { panic!("accepted") };
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    assert!(early.reader.next::<ServerMessage>().await.unwrap().is_none(), "and nothing more");
    ada.chat("all is well").await;
    bob.hears("all is well").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_beyond_the_rate_limit_are_refused_per_user() {
    let installation = Installation::new();
    let rate = [
        ("TENURE_MEET__JOIN_BURST", "2"),
        ("TENURE_MEET__JOIN_RATE_PER_SECOND", "1"),
        ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
    ];
    let server = installation.start_with(&["up", "--only", "meet"], &rate);
    let made = server.create("popular").await;
    let code = made["meeting_code"].as_str().unwrap();
    let place = server.place(code, None).await;
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
    let limited_answer = (ErrorCode::RateLimited, "too many joins of this user; retry later".to_owned());
    assert!(answers.contains(&Some(limited_answer.clone())) && answers.contains(&None), "{answers:?}");
    let guest = server.guest(code, "Bob").await;
    let (_bob, welcome) = server.place(code, Some(&guest)).await.join("Bob").await;
    let seats = answers.iter().filter(|answer| answer.is_none()).count();
    assert_eq!(welcome.existing_participants.len(), seats);
    let (_, metrics) = server.ask("GET", "/metrics", None, None).await;
    let limited = answers.iter().filter(|answer| **answer == Some(limited_answer.clone())).count();
    let line = format!("mc_session_joins_total{{status=\"rate_limited\"}} {limited}");
    assert!(metrics.as_str().unwrap().contains(&line), "{line}");
}
