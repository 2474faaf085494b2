//! The same over QUIC on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Clock;
use tenure_meet_mh::{PATH, SessionAcceptor};
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::transport::certificate::Pair;
use tenure_meet_wire::transport::quic::{Dialer, Listener, Timing};
use tenure_meet_wire::transport::{Closed, Session};
use tenure_store::BootClock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::{GroupEnd, MediaClient, listen, microphone, video, watch};
use crate::harness::{Harness, harness_by, id};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PATIENT: Timing = Timing { idle: Duration::from_secs(60), keep_alive: Duration::from_secs(5) };

struct Loopback {
    harness: Harness<BootClock>,
    url: String,
    hashes: Vec<Vec<u8>>,
    _tasks: JoinSet<()>,
}

async fn loopback() -> Loopback {
    let harness = harness_by(Arc::new(BootClock), 100);
    let pair = Pair::new(&["127.0.0.1".to_owned()], BootClock.wall()).unwrap();
    let current = pair.current();
    let listener = Listener::bind(
        ANY,
        vec![current.der().unwrap()],
        current.private_key().unwrap(),
        Arc::new(BootClock),
        PATIENT,
    )
    .unwrap();
    let url = format!("https://{}{PATH}", listener.address().unwrap());
    let hashes = pair.hashes().unwrap().iter().map(|hash| hash.to_vec()).collect();
    let mut tasks = JoinSet::new();
    let acceptor = SessionAcceptor::new(harness.handler.clone());
    tasks.spawn(acceptor.serve(Arc::new(listener), CancellationToken::new()));
    Loopback { harness, url, hashes, _tasks: tasks }
}

impl Loopback {
    async fn join(&self, n: u8) -> MediaClient<dyn Session> {
        let dialer = Dialer::new(ANY, PATIENT).unwrap();
        let session = dialer.dial(&self.url, &self.hashes, None).await.unwrap();
        let grant = self.harness.seal(&self.harness.grant(n));
        let mut client = MediaClient::greet(session, grant, false).await;
        client.welcome().await;
        client
    }
}

#[tokio::test]
async fn video_and_audio_are_forwarded_and_muted_over_quic() {
    let loopback = loopback().await;
    loopback.harness.open(2).await;
    let (mut publisher, mut viewer) = (loopback.join(1).await, loopback.join(2).await);
    publisher.publish(video(5, 1)).await;
    publisher.publish(microphone(6)).await;
    viewer.subscribe(watch(id(1))).await;
    viewer.subscribe(listen(None, 1)).await;
    let long = "x".repeat(150_000);
    for number in 1..=5 {
        let mut group = publisher.group(5, 0, number).await;
        group.frame(0, long.as_bytes()).await.unwrap();
        group.frame(1, b"delta").await.unwrap();
        group.stream.finish();
        let mut got = viewer.next_group().await;
        assert_eq!(got.header().await.group, number);
        assert_eq!(got.next().await.map(|payload| payload.len()), Ok(150_000));
        assert_eq!(got.next().await, Ok("delta".into()));
        assert_eq!(got.next().await, Err(GroupEnd::Finished));
        publisher.speak(6, number, 30);
        assert_eq!(viewer.hear().await.sequence, number);
    }
    let mut group = publisher.group(5, 0, 6).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("key".into()));
    assert!(loopback.harness.mute(1, 2, true, true).await.enforced);
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(2))));
    assert_eq!(group.stopped().await, Some(2));
    let muted = publisher.event(|event| match event {
        Event::Mute(mute) => Some(mute.audio_muted),
        _ => None,
    });
    assert!(muted.await);
    loopback.harness.release_meeting(1).await;
    assert_eq!(viewer.session.closed().await, Closed::Code(0));
}
