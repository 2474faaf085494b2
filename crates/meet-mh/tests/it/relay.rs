//! Media between the handlers of one meeting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_meet_mh::RelayDialer;
use tenure_meet_wire::internal::CrossRegionPeer;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{
    Activate, MediaGrant, RequestKeyframe, Subscribe, Subscribed, Unpublish,
};
use tenure_meet_wire::transport::memory::{Dialer, Session};
use tenure_meet_wire::transport::{Connect, RELAY, Session as TransportSession, TransportError};
use tenure_store::TokioClock;

use crate::client::{GroupEnd, MediaClient, listen, microphone, video, watch};
use crate::harness::{Harness, harness_as, id, seat};

/// The network between handlers. Each presents the bytes of its id as the hash of its certificate.
#[derive(Default)]
struct Network {
    handlers: Mutex<HashMap<String, Dialer>>,
    sessions: Mutex<Vec<Arc<Session>>>,
}

#[async_trait]
impl RelayDialer for Network {
    async fn dial(
        &self,
        endpoint: &str,
        certificates: &[Vec<u8>],
    ) -> Result<Arc<dyn TransportSession>, TransportError> {
        if !certificates.iter().any(|hash| hash == endpoint.as_bytes()) {
            return Err(TransportError::Refused("certificate".to_owned()));
        }
        let dialer = self.handlers.lock().unwrap().get(endpoint).cloned();
        let dialer = dialer.ok_or_else(|| TransportError::Refused("unknown".to_owned()))?;
        let session = dialer.dial(Connect { path: RELAY.to_owned(), ..Connect::default() }).await?;
        self.sessions.lock().unwrap().push(session.clone());
        Ok(session)
    }
}

impl Network {
    /// Bytes that the dialling end of the nth connection sent.
    fn sent(&self, n: usize) -> u64 {
        self.sessions.lock().unwrap()[n].stats().sent_bytes
    }

    fn count(&self) -> usize {
        self.sessions.lock().unwrap().len()
    }

    fn cut(&self) {
        self.sessions.lock().unwrap().iter().for_each(|session| session.wire().cut());
    }
}

fn named(handler: &str) -> CrossRegionPeer {
    CrossRegionPeer {
        mh_id: handler.to_owned(),
        endpoint: handler.to_owned(),
        certificate_sha256: vec![handler.as_bytes().to_vec().into()],
        ..CrossRegionPeer::default()
    }
}

/// Handlers `mh-1`, `mh-2` and so on, of one meeting with nine seats.
async fn handlers(count: usize) -> (Vec<Harness>, Arc<Network>) {
    let (network, clock) = (Arc::new(Network::default()), Arc::new(TokioClock::default()));
    let ids: Vec<String> = (1..=count).map(|n| format!("mh-{n}")).collect();
    let handlers: Vec<Harness> =
        ids.iter().map(|id| harness_as(id, clock.clone(), 100, Some(network.clone()))).collect();
    for handler in &handlers {
        network.handlers.lock().unwrap().insert(handler.id.clone(), handler.relay.clone());
        let others = ids.iter().filter(|id| **id != handler.id);
        *handler.peers.lock().unwrap() = others.map(|id| named(id)).collect();
        handler.open(10).await;
    }
    (handlers, network)
}

async fn view(handler: &Harness, n: u8, of: u8) -> MediaClient<Session> {
    view_described(handler, n, of).await.0
}

/// A viewer, and the stream once it is known to its handler.
async fn view_described(handler: &Harness, n: u8, of: u8) -> (MediaClient<Session>, Subscribed) {
    let mut viewer = handler.join(n).await;
    let mut described = viewer.subscribe(watch(id(of))).await;
    viewer.subscribe(listen(None, 1)).await;
    if described.codec.is_empty() {
        described = viewer.subscribed().await;
    }
    (viewer, described)
}

/// A viewer of a stream that its handler does not know.
async fn wait_for(handler: &Harness, n: u8, of: u8) -> MediaClient<Session> {
    let mut viewer = handler.join(n).await;
    assert_eq!(viewer.subscribe(watch(id(of))).await.codec, "");
    viewer.subscribe(listen(None, 1)).await;
    viewer
}

async fn publish(handler: &Harness, n: u8) -> MediaClient<Session> {
    let mut publisher = handler.join(n).await;
    publisher.publish(video(5, 2)).await;
    publisher.publish(microphone(6)).await;
    publisher
}

/// The renditions that a publisher is asked for, once they are these.
async fn asked_for(publisher: &mut MediaClient<Session>, renditions: &[u32]) {
    while publisher.renditions_needed().await != renditions {}
}

async fn gets_nothing(handler: &Harness, viewer: &MediaClient<Session>) {
    tokio::select! {
        biased;
        _ = viewer.next_group() => panic!("a group came"),
        packet = viewer.hear() => panic!("{packet:?}"),
        () = handler.pass(Duration::from_secs(1)) => {}
    }
}

/// Sends a whole group with one frame.
async fn send(publisher: &MediaClient<Session>, rendition: u8, number: u64, payload: &[u8]) {
    let mut group = publisher.group(5, rendition, number).await;
    group.frame(0, payload).await.unwrap();
    group.stream.finish();
}

#[tokio::test(start_paused = true)]
async fn a_viewer_at_another_handler_gets_the_same_bytes() {
    // Once the publisher is at the handler that dials, once the viewer.
    for (here, there) in [(0, 1), (1, 0)] {
        let (handlers, _network) = handlers(2).await;
        let mut publisher = publish(&handlers[here], 1).await;
        let (viewer, described) = view_described(&handlers[there], 2, 1).await;
        assert_eq!((described.codec.as_str(), described.renditions.len()), ("avc1.42e01f", 2));
        asked_for(&mut publisher, &[1]).await;
        for number in 1..=3 {
            let mut group = publisher.group(5, 1, number).await;
            for payload in ["key", "delta", "last"] {
                group.frame(u8::from(payload == "delta"), payload.as_bytes()).await.unwrap();
            }
            group.stream.finish();
            let mut got = viewer.next_group().await;
            let header = got.header().await;
            assert_eq!((u32::from(header.alias.number()), header.rendition), (described.alias, 1));
            assert_eq!(header.group, number);
            for payload in ["key", "delta", "last"] {
                assert_eq!(got.next().await, Ok(payload.to_owned()));
            }
            assert_eq!(got.next().await, Err(GroupEnd::Finished));
            publisher.speak(6, number, 30);
            let packet = viewer.hear().await;
            assert_eq!((packet.sequence, packet.payload), (number, vec![number as u8; 40].into()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mute_at_either_handler_stops_what_is_relayed() {
    for muted in [0, 1] {
        let (handlers, _network) = handlers(2).await;
        let mut publisher = publish(&handlers[0], 1).await;
        let viewer = view(&handlers[1], 2, 1).await;
        asked_for(&mut publisher, &[1]).await;
        let mut group = publisher.group(5, 1, 1).await;
        group.frame(0, b"key").await.unwrap();
        let mut got = viewer.next_group().await;
        assert_eq!(got.next().await, Ok("key".into()));
        assert!(handlers[muted].mute(1, 2, true, true).await.enforced);
        assert_eq!(handlers[muted].handler.cached_bytes(), 0, "erased from the cache");
        let end = got.next().await;
        // What the source erases is lost for the other handler.
        assert!([2, 3].map(|code| Err(GroupEnd::Reset(Some(code)))).contains(&end), "{end:?}");
        assert!(handlers[1 - muted].mute(1, 2, true, true).await.enforced);
        assert!(handlers.iter().all(|handler| handler.handler.cached_bytes() == 0));
        publisher.speak(6, 1, 30);
        let mut next = publisher.group(5, 1, 2).await;
        assert_eq!(next.stopped().await, Some(2));
        gets_nothing(&handlers[1], &viewer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_muted_participant_is_not_forwarded_by_the_far_handler_alone() {
    let (handlers, _network) = handlers(2).await;
    let mut publisher = publish(&handlers[0], 1).await;
    let viewer = view(&handlers[1], 2, 1).await;
    asked_for(&mut publisher, &[1]).await;
    // The near handler never hears of the mute.
    assert!(handlers[1].mute(1, 2, true, true).await.enforced);
    for number in 1..=20 {
        send(&publisher, 1, number, b"key").await;
        publisher.speak(6, number, 30);
        handlers[0].pass(Duration::from_millis(100)).await;
    }
    gets_nothing(&handlers[1], &viewer).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_not_named_gets_nothing() {
    for forgetful in [0, 1] {
        let (handlers, network) = handlers(2).await;
        handlers[forgetful].peers.lock().unwrap().clear();
        handlers[forgetful].open(10).await;
        let publisher = publish(&handlers[0], 1).await;
        let viewer = wait_for(&handlers[1], 2, 1).await;
        handlers[0].pass(Duration::from_secs(1)).await;
        send(&publisher, 1, 1, &[7; 1_000]).await;
        publisher.speak(6, 1, 30);
        gets_nothing(&handlers[1], &viewer).await;
        assert!((0..network.count()).all(|n| network.sent(n) < 1_000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_named_no_more_loses_its_link() {
    let (handlers, _network) = handlers(2).await;
    let mut publisher = publish(&handlers[0], 1).await;
    let viewer = view(&handlers[1], 2, 1).await;
    asked_for(&mut publisher, &[1]).await;
    handlers[1].peers.lock().unwrap().clear();
    handlers[1].open(10).await;
    handlers[0].pass(Duration::from_millis(10)).await;
    send(&publisher, 1, 1, b"key").await;
    gets_nothing(&handlers[1], &viewer).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_with_another_certificate_gets_nothing() {
    let (handlers, network) = handlers(2).await;
    let other = CrossRegionPeer { certificate_sha256: vec![vec![0; 32].into()], ..named("mh-2") };
    *handlers[0].peers.lock().unwrap() = vec![other];
    handlers[0].open(10).await;
    let publisher = publish(&handlers[0], 1).await;
    let viewer = wait_for(&handlers[1], 2, 1).await;
    handlers[0].pass(Duration::from_secs(1)).await;
    send(&publisher, 1, 1, b"key").await;
    gets_nothing(&handlers[1], &viewer).await;
    assert_eq!(network.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_crosses_once_whatever_the_number_of_its_viewers() {
    let (handlers, network) = handlers(2).await;
    let mut publisher = publish(&handlers[0], 1).await;
    let mut viewers = Vec::new();
    for n in 2..=6 {
        viewers.push(view(&handlers[1], n, 1).await);
    }
    asked_for(&mut publisher, &[1]).await;
    let before = network.sent(0);
    send(&publisher, 1, 1, &[7; 10_000]).await;
    for viewer in &viewers {
        assert_eq!(viewer.next_group().await.rest().await, (1, GroupEnd::Finished));
    }
    let sent = network.sent(0) - before;
    assert!((10_000..12_000).contains(&sent), "{sent}");
    // A late viewer costs the link nothing.
    let late = view(&handlers[1], 7, 1).await;
    assert_eq!(late.next_group().await.rest().await, (1, GroupEnd::Finished));
    assert!(network.sent(0) - before < 12_000);
}

#[tokio::test(start_paused = true)]
async fn what_came_from_another_handler_is_not_passed_on() {
    let (handlers, network) = handlers(3).await;
    let mut publisher = publish(&handlers[0], 1).await;
    let two = view(&handlers[1], 2, 1).await;
    let three = view(&handlers[2], 3, 1).await;
    asked_for(&mut publisher, &[1]).await;
    handlers[0].pass(Duration::from_millis(500)).await;
    for number in 1..=5 {
        send(&publisher, 1, number, &[7; 10_000]).await;
        for viewer in [&two, &three] {
            let mut group = viewer.next_group().await;
            assert_eq!((group.header().await.group, group.rest().await.0), (number, 1));
        }
    }
    // Handlers 1 and 2 dial: the link of 2 and 3 carried no media.
    assert_eq!(network.count(), 3);
    let mut sent: Vec<u64> = (0..3).map(|n| network.sent(n)).collect();
    sent.sort_unstable();
    assert!(sent[0] < 1_000 && sent[1] > 50_000 && sent[2] > 50_000, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_is_dialled_again_and_the_picture_goes_on() {
    let (handlers, network) = handlers(2).await;
    let mut publisher = publish(&handlers[0], 1).await;
    let viewer = view(&handlers[1], 2, 1).await;
    asked_for(&mut publisher, &[1]).await;
    let mut group = publisher.group(5, 1, 1).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    let alias = got.header().await.alias;
    assert_eq!(got.next().await, Ok("key".into()));
    network.cut();
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(3))), "the source is lost");
    asked_for(&mut publisher, &[]).await;
    asked_for(&mut publisher, &[1]).await;
    send(&publisher, 1, 2, b"again").await;
    let mut got = viewer.next_group().await;
    assert_eq!((got.header().await.alias, got.next().await), (alias, Ok("again".into())));
    assert_eq!(network.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn needed_renditions_and_key_requests_go_to_the_publisher() {
    let (handlers, _network) = handlers(2).await;
    let mut publisher = publish(&handlers[0], 1).await;
    let mut viewer = handlers[1].join(2).await;
    let small = Subscribe { max_rendition: Some(0), ..watch(id(1)) };
    let alias = viewer.subscribe(small).await.alias;
    asked_for(&mut publisher, &[0]).await;
    assert_eq!(publisher.keyframe_needed().await, 0, "the viewer has no picture");
    send(&publisher, 0, 1, b"key").await;
    assert_eq!(viewer.next_group().await.rest().await, (1, GroupEnd::Finished));
    handlers[0].pass(Duration::from_secs(3)).await;
    viewer.accept(Request::RequestKeyframe(RequestKeyframe { alias, rendition: 0 })).await;
    assert_eq!(publisher.keyframe_needed().await, 0);
    drop(viewer);
    asked_for(&mut publisher, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_loudest_speakers_cross() {
    let (handlers, _network) = handlers(2).await;
    let mut speakers = Vec::new();
    for n in 1..=9 {
        let mut speaker = handlers[0].join(n).await;
        speaker.publish(microphone(6)).await;
        speakers.push(speaker);
    }
    let mut listener = handlers[1].join(10).await;
    listener.subscribe(listen(None, 1)).await;
    handlers[0].pass(Duration::from_millis(500)).await;
    for sequence in 0..3 {
        for speaker in &speakers {
            speaker.speak(6, sequence, 40);
        }
        handlers[0].pass(Duration::from_millis(20)).await;
    }
    let mut heard = HashMap::new();
    for _ in 0..24 {
        *heard.entry(listener.hear().await.alias).or_insert(0) += 1;
    }
    assert_eq!((heard.len(), heard.values().all(|count| *count == 3)), (8, true), "{heard:?}");
    tokio::select! {
        biased;
        packet = listener.hear() => panic!("{packet:?}"),
        () = handlers[0].pass(Duration::from_secs(1)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_microphone_at_both_handlers_is_heard_once_from_the_near_one() {
    let (handlers, _network) = handlers(2).await;
    let mut near = handlers[1].join_standby(1).await;
    near.publish(microphone(6)).await;
    let mut far = handlers[0].join(1).await;
    far.publish(microphone(6)).await;
    let mut listener = handlers[1].join(2).await;
    listener.subscribe(listen(None, 1)).await;
    handlers[0].pass(Duration::from_millis(500)).await;
    let hear = |until: u64| {
        let listener = &listener;
        async move {
            let mut heard = Vec::new();
            while heard.last() != Some(&until) {
                heard.push(listener.hear().await.sequence);
            }
            heard
        }
    };
    for sequence in 1..=50 {
        near.speak(6, sequence, 30);
        far.speak(6, sequence, 30);
        handlers[0].pass(Duration::from_millis(20)).await;
    }
    assert_eq!(hear(50).await, (1..=50).collect::<Vec<_>>());
    // The near copy stops: the far one takes over, within the time in which it counts as moving.
    for sequence in 51..=100 {
        far.speak(6, sequence, 30);
        handlers[0].pass(Duration::from_millis(20)).await;
    }
    let heard = hear(100).await;
    assert!((51..=72).contains(&heard[0]) && heard.len() as u64 == 101 - heard[0], "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn video_follows_its_publisher_to_the_handler_that_it_activates() {
    let (handlers, _network) = handlers(3).await;
    let (mut first, mut second) = (publish(&handlers[0], 1).await, handlers[1].join_standby(1).await);
    second.publish(video(5, 2)).await;
    let viewer = view(&handlers[2], 2, 1).await;
    asked_for(&mut first, &[1]).await;
    send(&first, 1, 1, b"one").await;
    assert_eq!(viewer.next_group().await.next().await, Ok("one".into()));
    second.accept(Request::Activate(Activate {})).await;
    asked_for(&mut second, &[1]).await;
    send(&second, 1, 2, b"two").await;
    let mut got = viewer.next_group().await;
    assert_eq!((got.header().await.group, got.next().await), (2, Ok("two".into())));
    drop(first);
    handlers[0].pass(Duration::from_millis(500)).await;
    send(&second, 1, 3, b"three").await;
    assert_eq!(viewer.next_group().await.next().await, Ok("three".into()));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_its_publisher_ends_ends_at_the_other_handler() {
    let (handlers, _network) = handlers(2).await;
    let mut publisher = publish(&handlers[0], 1).await;
    let (mut viewer, described) = view_described(&handlers[1], 2, 1).await;
    asked_for(&mut publisher, &[1]).await;
    publisher.accept(Request::Unpublish(Unpublish { alias: 5 })).await;
    assert_eq!(viewer.ended().await, (described.alias, "unpublished".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_participant_without_a_seat_at_the_far_handler_is_not_forwarded() {
    let (handlers, _network) = handlers(2).await;
    // The far handler learns of another owner, which does not know the publisher.
    let seats: Vec<_> = (2..=10).map(seat).collect();
    assert!(handlers[1].register_seats(2, seats).await.accepted);
    let publisher = publish(&handlers[0], 1).await;
    let grant = MediaGrant { generation: 2, ..handlers[1].grant(2) };
    let mut viewer = handlers[1].greet(&grant, false).await;
    viewer.welcome().await;
    viewer.subscribe(watch(id(1))).await;
    viewer.subscribe(listen(None, 1)).await;
    handlers[0].pass(Duration::from_secs(1)).await;
    send(&publisher, 1, 1, b"key").await;
    publisher.speak(6, 1, 30);
    gets_nothing(&handlers[1], &viewer).await;
}
