//! The QUIC transport behaves like the in-memory one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_lease::{Clock, Sleep, Tick, Wall};
use tenure_meet_wire::frame;
use tenure_meet_wire::signaling::{
    ChatRequest, ClientMessage, ServerMessage, client_message, server_message,
};
use tenure_meet_wire::transport::certificate::Pair;
use tenure_meet_wire::transport::quic::{Congestion, Dialer, Listener, ListenerOptions, Timing};
use tenure_meet_wire::transport::{
    Closed, Listener as _, MessageReader, MessageWriter, RELAY, ReadError, ReceiveLimits, Session,
    TransportError,
};
use tenure_meet_wire::{CloseCode, signaling};
use tenure_store::BootClock;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Generous, because a busy machine can stall a test.
const PATIENT: Timing = Timing { idle: Duration::from_secs(60), keep_alive: Duration::from_secs(5) };

fn pair() -> Pair {
    Pair::new(&["127.0.0.1".to_owned()], BootClock.wall()).unwrap()
}

fn hashes(pair: &Pair) -> Vec<Vec<u8>> {
    pair.hashes().unwrap().iter().map(|hash| hash.to_vec()).collect()
}

fn listen(pair: &Pair) -> (Arc<Listener>, String) {
    listen_by(Arc::new(BootClock), pair)
}

fn listen_by(clock: Arc<dyn Clock>, pair: &Pair) -> (Arc<Listener>, String) {
    let current = pair.current();
    let listener =
        Listener::bind(ANY, vec![current.der().unwrap()], current.private_key().unwrap(), clock, PATIENT)
            .unwrap();
    let url = format!("https://{}/wt/mc", listener.address().unwrap());
    (Arc::new(listener), url)
}

/// Both ends of a session.
async fn connected(listener: &Listener, url: &str, pair: &Pair) -> (Arc<dyn Session>, Arc<dyn Session>) {
    let dialer = Dialer::new(ANY, PATIENT).unwrap();
    let hashes = hashes(pair);
    let dial = dialer.dial(url, &hashes, None);
    let accept = async { listener.offer().await.unwrap().accept().await.unwrap() };
    let (client, server) = tokio::join!(dial, accept);
    (client.unwrap(), server)
}

fn chat(seq: u64, text: &str) -> ClientMessage {
    let payload = Some(client_message::Payload::ChatRequest(ChatRequest { text: text.to_owned() }));
    ClientMessage { payload, seq, ..ClientMessage::default() }
}

#[tokio::test]
async fn messages_arrive_both_ways_and_so_does_the_close_code() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let (client, server) = connected(&listener, &url, &pair).await;
    let (send, receive) = client.open_bi().await.unwrap();
    let (mut to_server, mut from_server) = (MessageWriter::new(send), MessageReader::new(receive));
    let long = "x".repeat(60_000);
    to_server.send(&chat(1, &long)).await.unwrap();
    let (send, receive) = server.accept_bi().await.unwrap();
    let (mut to_client, mut from_client) = (MessageWriter::new(send), MessageReader::new(receive));
    for seq in 2..200 {
        to_server.send(&chat(seq, "hello")).await.unwrap();
    }
    assert_eq!(from_client.next::<ClientMessage>().await.unwrap(), Some(chat(1, &long)));
    for seq in 2..200 {
        assert_eq!(from_client.next::<ClientMessage>().await.unwrap(), Some(chat(seq, "hello")));
        let payload = Some(server_message::Payload::Accepted(signaling::Accepted {}));
        to_client.send(&ServerMessage { payload, seq, ..ServerMessage::default() }).await.unwrap();
    }
    for seq in 2..200 {
        assert_eq!(from_server.next::<ServerMessage>().await.unwrap().unwrap().seq, seq);
    }
    assert!(server.remote().unwrap().ip().is_loopback());
    server.close_for(CloseCode::Superseded);
    assert_eq!(client.closed().await, Closed::Code(4001));
    let ended = from_server.next::<ServerMessage>().await;
    assert_eq!(ended, Err(ReadError::Transport(TransportError::Closed(Closed::Code(4001)))));
}

#[tokio::test]
async fn a_finished_stream_that_is_not_read_is_taken_back() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let (client, server) = connected(&listener, &url, &pair).await;
    let mut send = server.open_uni().await.unwrap();
    // Many round trips, of which the first ones have passed when the client knows the stream.
    send.send(Bytes::from(vec![0; 900_000])).await.unwrap();
    send.finish();
    let mut receive = client.accept_uni().await.unwrap();
    send.reset(2);
    let end = loop {
        match receive.receive(64 * 1024).await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert_eq!(end, Err(TransportError::Reset(Some(2))));
    let mut send = server.open_uni().await.unwrap();
    send.send(Bytes::from_static(b"whole")).await.unwrap();
    send.finish();
    let mut receive = client.accept_uni().await.unwrap();
    assert_eq!(receive.receive(9).await, Ok(Some(Bytes::from_static(b"whole"))));
    assert_eq!(receive.receive(9).await, Ok(None));
    send.acknowledged().await;
}

#[tokio::test]
async fn two_handlers_connect_without_webtransport_and_check_the_certificate() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let dialer = Dialer::new(ANY, PATIENT).unwrap();
    let others = [vec![0; 32]];
    let refused = tokio::select! {
        dialled = dialer.dial_relay(&url, &others) => dialled.err(),
        _ = listener.offer() => panic!("a connection came"),
    };
    assert!(matches!(refused, Some(TransportError::Refused(_))), "{refused:?}");
    let known = hashes(&pair);
    let dial = dialer.dial_relay(&url, &known);
    let accept = async {
        let offer = listener.offer().await.unwrap();
        assert_eq!(offer.connect().path, RELAY);
        offer.accept().await.unwrap()
    };
    let (near, far) = tokio::join!(dial, accept);
    let near = near.unwrap();
    let mut send = near.open_uni().await.unwrap();
    send.send(Bytes::from_static(b"group")).await.unwrap();
    let mut receive = far.accept_uni().await.unwrap();
    assert_eq!(receive.receive(9).await, Ok(Some(Bytes::from_static(b"group"))));
    send.reset(2);
    assert_eq!(receive.receive(9).await, Err(TransportError::Reset(Some(2))));
    far.close_for(CloseCode::Done);
    assert_eq!(near.closed().await, Closed::Code(0));
}

#[tokio::test]
async fn a_listener_with_bbr_serves_as_well() {
    let pair = pair();
    let current = pair.current();
    let options = ListenerOptions { timing: PATIENT, congestion: Congestion::Bbr, reset_key: None };
    let (chain, key) = (vec![current.der().unwrap()], current.private_key().unwrap());
    let listener = Listener::bind_with(ANY, chain, key, Arc::new(BootClock), options).unwrap();
    let url = format!("https://{}/wt/mh", listener.address().unwrap());
    let (client, server) = connected(&listener, &url, &pair).await;
    let mut send = server.open_uni().await.unwrap();
    let sent = async {
        send.send(Bytes::from(vec![7; 2_000_000])).await.unwrap();
        send.finish();
    };
    let read = async {
        let (mut receive, mut count) = (client.accept_uni().await.unwrap(), 0);
        while let Some(bytes) = receive.receive(64 * 1024).await.unwrap() {
            count += bytes.len();
        }
        count
    };
    assert_eq!(tokio::join!(sent, read).1, 2_000_000);
}

#[tokio::test]
async fn unidirectional_streams_carry_data_and_codes_both_ways() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let (client, server) = connected(&listener, &url, &pair).await;
    let mut send = client.open_uni().await.unwrap();
    send.set_priority(7);
    send.send(Bytes::from_static(b"group")).await.unwrap();
    let mut receive = server.accept_uni().await.unwrap();
    assert_eq!(receive.receive(9).await, Ok(Some(Bytes::from_static(b"group"))));
    send.finish();
    assert_eq!(receive.receive(9).await, Ok(None));

    let mut send = server.open_uni().await.unwrap();
    send.send(Bytes::from_static(b"x")).await.unwrap();
    let mut receive = client.accept_uni().await.unwrap();
    send.reset(3);
    let reset = loop {
        match receive.receive(9).await {
            Ok(Some(_)) => {}
            ended => break ended,
        }
    };
    assert_eq!(reset, Err(TransportError::Reset(Some(3))));

    let mut send = client.open_uni().await.unwrap();
    send.send(Bytes::from_static(b"x")).await.unwrap();
    server.accept_uni().await.unwrap().stop(2);
    let stopped = loop {
        match send.send(Bytes::from_static(b"x")).await {
            Ok(()) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(stopped, TransportError::Reset(Some(2)));
}

#[tokio::test]
async fn datagrams_arrive_and_one_that_is_too_long_is_refused() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let (client, server) = connected(&listener, &url, &pair).await;
    assert!(client.max_datagram() >= 1_150, "an audio datagram fits: {}", client.max_datagram());
    client.send_datagram(Bytes::from_static(&[2, 1])).unwrap();
    assert_eq!(server.receive_datagram().await, Ok(Bytes::from_static(&[2, 1])));
    server.send_datagram(Bytes::from_static(&[3])).unwrap();
    assert_eq!(client.receive_datagram().await, Ok(Bytes::from_static(&[3])));
    let long = vec![0; 65_536];
    assert_eq!(client.send_datagram(long.into()), Err(TransportError::Datagram(65_536)));
    server.close(7, "");
    assert_eq!(client.receive_datagram().await, Err(TransportError::Closed(Closed::Code(7))));
}

#[tokio::test]
async fn the_connect_request_is_visible_before_the_session_is_accepted() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let dialer = Dialer::new(ANY, PATIENT).unwrap();
    let (hashes, trace) = (hashes(&pair), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let reject = async {
        let offer = listener.offer().await.unwrap();
        let seen = offer.connect().clone();
        offer.reject(404).await;
        seen
    };
    let (refused, seen) = tokio::join!(dialer.dial(&url, &hashes, Some(trace)), reject);
    assert!(matches!(refused.map(|_| ()), Err(TransportError::Refused(_))));
    assert_eq!((seen.path.as_str(), seen.traceparent.as_deref(), seen.origin), ("/wt/mc", Some(trace), None));
}

#[tokio::test]
async fn an_unpinned_certificate_is_rejected_and_the_next_one_is_accepted() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let dialer = Dialer::new(ANY, PATIENT).unwrap();
    let wrong = [vec![0; 32]];
    tokio::select! {
        refused = dialer.dial(&url, &wrong, None) => assert!(refused.is_err()),
        _ = listener.offer() => panic!("the handshake must fail"),
    }
    // Nine days later the next certificate is served. A client with the old pair of hashes still connects.
    let later = Wall::from_micros(pair.due().as_micros());
    let turned = pair.turned(&["127.0.0.1".to_owned()], later).unwrap().unwrap();
    let current = turned.current();
    listener.renew(vec![current.der().unwrap()], current.private_key().unwrap()).unwrap();
    let (client, server) = connected(&listener, &url, &pair).await;
    client.close(0, "");
    assert_eq!(server.closed().await, Closed::Code(0));
}

#[tokio::test]
async fn garbage_on_a_stream_is_an_error_at_its_first_frame() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let (client, server) = connected(&listener, &url, &pair).await;
    let (mut send, _receive) = client.open_bi().await.unwrap();
    send.send(Bytes::from_static(&[0xff; 64])).await.unwrap();
    let (_send, receive) = server.accept_bi().await.unwrap();
    let read = MessageReader::new(receive).next::<ClientMessage>().await;
    assert_eq!(read, Err(ReadError::Frame(frame::FrameError::TooLong(u32::MAX as usize))));
}

/// Writes to a new stream until nothing more is accepted for a while, and returns the bytes.
async fn fill(client: &Arc<dyn Session>) -> usize {
    let mut sent = 0;
    let mut stream = client.open_uni().await.unwrap();
    loop {
        let written = stream.send(vec![0; 4_096].into());
        tokio::select! {
            written = written => written.unwrap(),
            () = BootClock.sleep_until(BootClock.now() + Duration::from_millis(300)) => return sent,
        }
        sent += 4_096;
    }
}

#[tokio::test]
async fn an_unknown_peer_is_buffered_little_and_an_admitted_one_more() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let (client, server) = connected(&listener, &url, &pair).await;
    // What the client itself buffers to send comes on top, so the data that arrives is counted.
    client.set_send_window(16 * 1024);
    let before = fill(&client).await;
    assert!(before <= (64 + 16 + 8) * 1024, "{before} bytes");
    server.set_receive_limits(ReceiveLimits::MEDIA);
    let after = fill(&client).await;
    assert!((256 * 1024..=2 * 1024 * 1024).contains(&after), "{after} bytes");
}

#[tokio::test]
async fn an_unknown_peer_opens_few_streams() {
    let pair = pair();
    let (listener, url) = listen(&pair);
    let (client, _server) = connected(&listener, &url, &pair).await;
    let mut streams = Vec::new();
    loop {
        tokio::select! {
            stream = client.open_uni() => streams.push(stream.unwrap()),
            () = BootClock.sleep_until(BootClock.now() + Duration::from_millis(300)) => break,
        }
    }
    assert!((1..=8).contains(&streams.len()), "{} streams", streams.len());
}

/// A clock whose timers never fire.
struct Still;

impl Clock for Still {
    fn now(&self) -> Tick {
        BootClock.now()
    }

    fn wall(&self) -> Wall {
        BootClock.wall()
    }

    fn sleep_until(&self, _: Tick) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// Connections that complete the handshake and then send no request.
async fn idlers(url: &str, pair: &Pair, count: usize) -> Vec<quinn::Connection> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pair.current().der().unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let mut endpoint = quinn::Endpoint::client(ANY).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    let address = url::Url::parse(url).unwrap().socket_addrs(|| None).unwrap()[0];
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        idle.push(endpoint.connect(address, "127.0.0.1").unwrap().await.unwrap());
    }
    idle
}

#[tokio::test]
async fn a_connection_beyond_the_handshake_limit_waits_and_is_not_refused() {
    let pair = pair();
    // No handshake slot frees up by itself, however long this takes.
    let (listener, url) = listen_by(Arc::new(Still), &pair);
    let come = async {
        let idle = idlers(&url, &pair, tenure_meet_wire::limits::HANDSHAKES).await;
        let (dialer, hashes) = (Dialer::new(ANY, PATIENT).unwrap(), hashes(&pair));
        let dial = dialer.dial(&url, &hashes, None);
        tokio::pin!(dial);
        // All connections have been polled, so the request is pending: no slot is free yet.
        for _ in 0..100 {
            tokio::select! {
                biased;
                early = &mut dial => panic!("refused or served too early: {:?}", early.map(|_| ())),
                () = tokio::task::yield_now() => {}
            }
        }
        idle[0].close(0_u32.into(), b"");
        let client = dial.await.unwrap();
        (client, idle)
    };
    let accept = async { listener.offer().await.unwrap().accept().await.unwrap() };
    let ((client, _idle), server) = tokio::join!(come, accept);
    client.close(7, "");
    assert_eq!(server.closed().await, Closed::Code(7));
}
