//! The in-memory transport keeps the promises of a session.

use std::time::Duration;

use tenure_lease::Clock;
use tenure_store::TokioClock;

use super::*;
use crate::CloseCode;
use crate::signaling::{ClientMessage, LeaveRequest, client_message::Payload};
use crate::transport::{Connect, Listener as _, MessageReader, MessageWriter, ReadError};

fn leave(seq: u64) -> ClientMessage {
    let payload = Some(Payload::LeaveRequest(LeaveRequest {}));
    ClientMessage { payload, seq, ..ClientMessage::default() }
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_in_order_until_the_stream_ends() {
    let (client, server) = pair();
    let (send, _receive) = client.open_bi().await.unwrap();
    let (_send, receive) = server.accept_bi().await.unwrap();
    let (mut writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
    for seq in 1..=10 {
        writer.send(&leave(seq)).await.unwrap();
    }
    writer.finish();
    for seq in 1..=10 {
        assert_eq!(reader.next::<ClientMessage>().await.unwrap(), Some(leave(seq)));
    }
    assert_eq!(reader.next::<ClientMessage>().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_close_carries_its_code_and_a_cut_carries_none() {
    let (client, server) = pair();
    let (_send, mut receive) = client.open_bi().await.unwrap();
    let server: Arc<dyn TransportSession> = server;
    server.close_for(CloseCode::Fenced);
    assert_eq!(client.closed().await, Closed::Code(4002));
    assert_eq!(receive.receive(1).await, Err(TransportError::Closed(Closed::Code(4002))));
    let (client, server) = pair();
    client.wire().cut();
    assert!(matches!(server.closed().await, Closed::Lost(_)));
    assert!(matches!(server.accept_bi().await, Err(TransportError::Closed(Closed::Lost(_)))));
    let (client, server) = pair();
    drop(client);
    assert!(matches!(server.closed().await, Closed::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn a_finished_stream_is_reset_until_it_was_read() {
    let (client, server) = pair();
    let mut send = client.open_uni().await.unwrap();
    let mut receive = server.accept_uni().await.unwrap();
    send.send(Bytes::from_static(b"not read")).await.unwrap();
    send.finish();
    send.reset(2);
    assert_eq!(receive.receive(8).await, Err(TransportError::Reset(Some(2))));
    let mut send = client.open_uni().await.unwrap();
    let mut receive = server.accept_uni().await.unwrap();
    send.send(Bytes::from_static(b"read")).await.unwrap();
    send.finish();
    assert_eq!(receive.receive(8).await, Ok(Some(Bytes::from_static(b"read"))));
    assert_eq!(receive.receive(8).await, Ok(None));
    send.acknowledged().await;
    send.reset(2);
    assert_eq!(receive.receive(8).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_reset_and_stopped_with_a_code() {
    let (client, server) = pair();
    let mut send = client.open_uni().await.unwrap();
    let mut receive = server.accept_uni().await.unwrap();
    send.send(Bytes::from_static(b"not read")).await.unwrap();
    send.reset(3);
    assert_eq!(receive.receive(8).await, Err(TransportError::Reset(Some(3))), "what was buffered is dropped");
    let mut send = client.open_uni().await.unwrap();
    let mut receive = server.accept_uni().await.unwrap();
    receive.stop(2);
    assert_eq!(send.send(Bytes::from_static(b"x")).await, Err(TransportError::Reset(Some(2))));
}

#[tokio::test(start_paused = true)]
async fn a_finished_stream_is_read_to_its_end() {
    let (client, server) = pair();
    let mut send = client.open_uni().await.unwrap();
    let mut receive = server.accept_uni().await.unwrap();
    send.send(Bytes::from_static(b"group")).await.unwrap();
    send.finish();
    assert_eq!(receive.receive(9).await, Ok(Some(Bytes::from_static(b"group"))));
    assert_eq!(receive.receive(9).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn datagrams_arrive_or_are_lost_and_never_wait() {
    let (client, server) = pair();
    for n in 0..=DATAGRAMS {
        client.send_datagram(vec![n as u8; 3].into()).unwrap();
    }
    for n in 0..DATAGRAMS {
        assert_eq!(server.receive_datagram().await.unwrap(), vec![n as u8; 3]);
    }
    let long = vec![0; client.max_datagram() + 1];
    assert_eq!(client.send_datagram(long.into()), Err(TransportError::Datagram(MAX_DATAGRAM + 1)));
    client.wire().cut();
    assert!(client.send_datagram(Bytes::new()).is_err());
    assert!(server.receive_datagram().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_truncated_frame_is_an_error() {
    let (client, server) = pair();
    let (mut send, _receive) = client.open_bi().await.unwrap();
    let (_send, receive) = server.accept_bi().await.unwrap();
    send.send(Bytes::from_static(&[0, 0, 0, 9, 1])).await.unwrap();
    send.finish();
    assert_eq!(MessageReader::new(receive).next::<ClientMessage>().await, Err(ReadError::Cut));
}

#[tokio::test(start_paused = true)]
async fn a_listener_accepts_and_rejects() {
    let (listener, dialer) = listener();
    let connect = Connect { path: "/wt/mc".to_owned(), ..Connect::default() };
    let serve = async {
        let offer = listener.offer().await.unwrap();
        assert_eq!(offer.connect().path, "/wt/mc");
        let session = offer.accept().await.unwrap();
        listener.offer().await.unwrap().reject(404).await;
        session
    };
    let dial = async {
        let first = dialer.dial(connect.clone()).await;
        (first, dialer.dial(connect.clone()).await.map(|_| ()))
    };
    let (session, (first, second)) = tokio::join!(serve, dial);
    session.close(7, "");
    assert_eq!(first.unwrap().closed().await, Closed::Code(7));
    assert_eq!(second, Err(TransportError::Refused("404".to_owned())));
}

fn conditions(clock: &Arc<TokioClock>) -> Conditions {
    Conditions {
        clock: clock.clone(),
        delay: Duration::from_millis(50),
        loss_permille: 0,
        reorder_permille: 0,
        bytes_per_second: None,
        seed: 3,
    }
}

#[tokio::test(start_paused = true)]
async fn data_and_datagrams_take_the_delay_of_the_link() {
    let (clock, (client, server)) = (Arc::new(TokioClock::default()), pair());
    client.wire().set(&conditions(&clock));
    let began = clock.now();
    let mut send = client.open_uni().await.unwrap();
    send.send(Bytes::from_static(b"x")).await.unwrap();
    let mut receive = server.accept_uni().await.unwrap();
    assert_eq!(receive.receive(9).await.unwrap(), Some(Bytes::from_static(b"x")));
    assert_eq!(clock.now().since(began), Duration::from_millis(50));
    server.send_datagram(Bytes::from_static(b"y")).unwrap();
    assert_eq!(client.receive_datagram().await, Ok(Bytes::from_static(b"y")));
    assert_eq!(clock.now().since(began), Duration::from_millis(100));
    assert_eq!(client.stats().rtt, Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn lost_datagrams_are_counted_and_reordered_ones_arrive_later() {
    let (clock, (client, server)) = (Arc::new(TokioClock::default()), pair());
    client.wire().set(&Conditions { loss_permille: 200, reorder_permille: 200, ..conditions(&clock) });
    for n in 0..100 {
        client.send_datagram(Bytes::copy_from_slice(&[n])).unwrap();
    }
    let stats = client.stats();
    assert!(stats.lost_packets > 5 && stats.lost_packets < 50, "{stats:?}");
    let mut came = Vec::new();
    for _ in stats.lost_packets..100 {
        came.push(server.receive_datagram().await.unwrap()[0]);
    }
    let mut sorted = came.clone();
    sorted.sort_unstable();
    assert_ne!(came, sorted, "none arrives out of order");
}

#[tokio::test(start_paused = true)]
async fn a_slow_link_queues_and_its_round_trip_grows() {
    let (clock, (client, server)) = (Arc::new(TokioClock::default()), pair());
    client.wire().set(&Conditions { bytes_per_second: Some(10_000), ..conditions(&clock) });
    let mut send = client.open_uni().await.unwrap();
    for _ in 0..10 {
        send.send(vec![0; 1_000].into()).await.unwrap();
    }
    assert_eq!(client.stats().rtt, Duration::from_millis(1_100));
    assert_eq!(client.stats().min_rtt, Duration::from_millis(100));
    let (began, mut receive) = (clock.now(), server.accept_uni().await.unwrap());
    for _ in 0..10 {
        receive.receive(1_000).await.unwrap();
    }
    assert_eq!(clock.now().since(began), Duration::from_millis(1_050));
}
