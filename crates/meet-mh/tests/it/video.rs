//! Groups from a publisher to its subscribers.

use std::time::Duration;

use tenure_meet_wire::internal::ReleaseReason;
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{
    Change, MediaGrant, Publish, RequestKeyframe, Subscribe, Unpublish, Unsubscribe,
};
use tenure_meet_wire::signaling::ErrorCode;
use tenure_meet_wire::transport::memory::Session;
use tenure_meet_wire::transport::{Closed, Session as _, TransportError};

use crate::client::{GroupEnd, MediaClient, microphone, video, watch};
use crate::harness::{Harness, harness, id};

/// A publisher with three renditions and a subscriber of it.
async fn two(harness: &Harness) -> (MediaClient<Session>, MediaClient<Session>, u16) {
    harness.open(3).await;
    let (mut publisher, mut viewer) = (harness.join(1).await, harness.join(2).await);
    publisher.publish(video(5, 3)).await;
    let alias = viewer.subscribe(watch(id(1))).await.alias as u16;
    (publisher, viewer, alias)
}

#[tokio::test(start_paused = true)]
async fn a_group_is_forwarded_while_it_arrives() {
    let harness = harness(100);
    let (publisher, viewer, alias) = two(&harness).await;
    let mut group = publisher.group(5, 2, 7).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    let header = got.header().await;
    assert_eq!((header.alias.number(), header.rendition, header.group), (alias, 2, 7));
    assert_eq!(header.timestamp_us, 7_000_000);
    assert_eq!(got.next().await, Ok("key".into()), "before the group is complete");
    group.frame(1, b"delta").await.unwrap();
    let frame = got.frame().await.unwrap();
    assert_eq!((frame.header.delta_us, frame.header.flags.temporal), (33_333, 1));
    group.stream.finish();
    assert_eq!(got.next().await, Err(GroupEnd::Finished));
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_frame_is_forwarded_before_the_rest_arrives() {
    let harness = harness(100);
    let (publisher, viewer, _) = two(&harness).await;
    let mut group = publisher.group(5, 2, 1).await;
    // A key frame of four bytes, of which two are sent.
    group.stream.send(bytes::Bytes::from_static(&[4, 0, 1, b'a', b'b'])).await.unwrap();
    let mut stream = viewer.session.accept_uni().await.unwrap();
    let mut came = Vec::new();
    while !came.ends_with(b"ab") {
        came.extend_from_slice(&stream.receive(99).await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_joiner_gets_the_current_group_from_its_beginning() {
    let harness = harness(100);
    let (publisher, _viewer, _) = two(&harness).await;
    let mut group = publisher.group(5, 2, 1).await;
    for frame in ["key", "one", "two"] {
        group.frame(0, frame.as_bytes()).await.unwrap();
    }
    harness.pass(Duration::from_secs(1)).await;
    let mut late = harness.join(3).await;
    late.subscribe(watch(id(1))).await;
    let mut got = late.next_group().await;
    for frame in ["key", "one", "two"] {
        assert_eq!(got.next().await, Ok(frame.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_waits_for_its_publication() {
    let harness = harness(100);
    harness.open(2).await;
    let mut viewer = harness.join(2).await;
    let waiting = viewer.subscribe(watch(id(1))).await;
    assert!(waiting.codec.is_empty() && waiting.alias > 0);
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 2)).await;
    let subscribed = viewer.subscribed().await;
    assert_eq!((subscribed.alias, subscribed.codec.as_str()), (waiting.alias, "avc1.42e01f"));
    assert_eq!((subscribed.renditions.len(), subscribed.incarnation), (2, 1));
    publisher.group(5, 1, 1).await.frame(0, b"key").await.unwrap();
    assert_eq!(viewer.next_group().await.next().await, Ok("key".into()));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_ahead_of_its_publication_waits_a_second() {
    let harness = harness(100);
    harness.open(2).await;
    let (mut publisher, mut viewer) = (harness.join(1).await, harness.join(2).await);
    viewer.subscribe(watch(id(1))).await;
    let mut early = publisher.group(5, 0, 1).await;
    early.frame(0, b"early").await.unwrap();
    publisher.publish(video(5, 1)).await;
    assert_eq!(viewer.next_group().await.next().await, Ok("early".into()));
    let began = harness.now();
    let mut unknown = publisher.group(6, 0, 1).await;
    unknown.frame(0, b"x").await.unwrap();
    harness.pass(Duration::from_millis(1_001)).await;
    assert_eq!(unknown.stopped().await, Some(6));
    assert!(harness.now().since(began) < Duration::from_millis(1_100));
}

#[tokio::test(start_paused = true)]
async fn a_lost_source_resets_and_never_finishes_a_group() {
    let harness = harness(100);
    let (publisher, viewer, _) = two(&harness).await;
    let mut group = publisher.group(5, 2, 1).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("key".into()));
    group.stream.reset(1);
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(3))));
    // The end of the stream inside a frame is no end either.
    let mut group = publisher.group(5, 2, 2).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("key".into()));
    group.stream.send(bytes::Bytes::from_static(&[4, 0, 1, b'a'])).await.unwrap();
    group.stream.finish();
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(3))));
    // Nor is the loss of the session.
    let mut group = publisher.group(5, 2, 3).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("key".into()));
    drop(publisher);
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(3))));
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_comes_back_keeps_its_subscribers() {
    let harness = harness(100);
    let (publisher, mut viewer, alias) = two(&harness).await;
    drop(publisher);
    harness.pass(Duration::from_millis(1)).await;
    let mut again = harness.greet(&MediaGrant { epoch: 2, ..harness.grant(1) }, false).await;
    again.welcome().await;
    again.publish(Publish { incarnation: 9, ..video(1, 1) }).await;
    let subscribed = viewer.subscribed().await;
    assert_eq!((subscribed.alias as u16, subscribed.incarnation), (alias, 9));
    again.group(1, 0, 1).await.frame(0, b"back").await.unwrap();
    assert_eq!(viewer.next_group().await.next().await, Ok("back".into()));
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_left_ends_the_subscriptions_to_it() {
    let harness = harness(100);
    let (publisher, mut viewer, alias) = two(&harness).await;
    drop(publisher);
    harness.pass(Duration::from_millis(10)).await;
    assert!(harness.release_participant(1, 1, ReleaseReason::Timeout).await);
    let ended = viewer.event(|event| match event {
        Event::Ended(ended) => Some((ended.alias as u16, ended.reason.clone())),
        _ => None,
    });
    assert_eq!(ended.await, (alias, "left".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn group_numbers_rise_and_older_copies_are_refused() {
    let harness = harness(100);
    let (mut publisher, _viewer, _) = two(&harness).await;
    publisher.group(5, 2, 4).await.frame(0, b"key").await.unwrap();
    harness.pass(Duration::from_millis(10)).await;
    assert_eq!(publisher.group(5, 2, 4).await.stopped().await, Some(3));
    let older = Publish { incarnation: 0, ..video(6, 1) };
    assert_eq!(publisher.error(Request::Publish(older)).await, ErrorCode::Conflict);
    assert_eq!(publisher.error(Request::Publish(video(5, 1))).await, ErrorCode::Conflict, "alias used");
    publisher.publish(Publish { incarnation: 2, ..video(7, 1) }).await;
    publisher.group(7, 0, 1).await.frame(0, b"key").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unpublish_and_unsubscribe_end_what_they_name() {
    let harness = harness(100);
    let (mut publisher, mut viewer, alias) = two(&harness).await;
    let mut group = publisher.group(5, 2, 1).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("key".into()));
    viewer.accept(Request::Unsubscribe(Unsubscribe { alias: alias.into() })).await;
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(6))));
    let unknown = viewer.error(Request::Unsubscribe(Unsubscribe { alias: alias.into() })).await;
    assert_eq!(unknown, ErrorCode::NotFound);
    let again = viewer.subscribe(watch(id(1))).await;
    assert_ne!(again.alias as u16, alias, "an alias is never reused");
    publisher.accept(Request::Unpublish(Unpublish { alias: 5 })).await;
    let ended = viewer.event(|event| match event {
        Event::Ended(ended) => Some((ended.alias, ended.reason.clone())),
        _ => None,
    });
    assert_eq!(ended.await, (again.alias, "unpublished".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_gets_its_rendition_and_layers() {
    let harness = harness(100);
    harness.open(2).await;
    let (mut publisher, mut viewer) = (harness.join(1).await, harness.join(2).await);
    publisher.publish(video(5, 3)).await;
    assert!(publisher.renditions_needed().await.is_empty(), "not watched, not encoded");
    let wanted = Subscribe { max_rendition: Some(0), max_temporal: Some(0), ..watch(id(1)) };
    let alias = viewer.subscribe(wanted).await.alias;
    assert_eq!(publisher.renditions_needed().await, [0]);
    for rendition in [2, 1, 0] {
        let mut group = publisher.group(5, rendition, 1).await;
        for (temporal, name) in [(0, "key"), (1, "high"), (0, "low")] {
            group.frame(temporal, format!("{name}{rendition}").as_bytes()).await.unwrap();
        }
        group.stream.finish();
    }
    let mut got = viewer.next_group().await;
    assert_eq!((got.next().await, got.next().await), (Ok("key0".into()), Ok("low0".into())));
    assert_eq!(got.next().await, Err(GroupEnd::Finished));
    let change = Change { alias, max_rendition: Some(1), max_temporal: None, priority: 200 };
    viewer.accept(Request::Change(change)).await;
    assert_eq!(publisher.renditions_needed().await, [0, 1], "the present one goes on until the switch");
    let mut low = publisher.group(5, 0, 2).await;
    low.frame(0, b"key").await.unwrap();
    let mut before = viewer.next_group().await;
    while before.header().await.rendition != 0 {
        before = viewer.next_group().await;
    }
    let mut high = publisher.group(5, 1, 2).await;
    high.frame(0, b"key").await.unwrap();
    assert_eq!(before.next().await, Ok("key".into()));
    assert_eq!(before.next().await, Err(GroupEnd::Reset(Some(4))));
    assert_eq!(viewer.next_group().await.header().await.rendition, 1);
    assert_eq!(publisher.renditions_needed().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn key_frames_are_requested_once_for_many() {
    let harness = harness(100);
    let (mut publisher, mut viewer, alias) = two(&harness).await;
    assert_eq!(publisher.keyframe_needed().await, 2, "for a joiner without a picture");
    let mut other = harness.join(3).await;
    other.subscribe(watch(id(1))).await;
    let request = || Request::RequestKeyframe(RequestKeyframe { alias: alias.into(), rendition: 2 });
    let began = harness.now();
    viewer.accept(request()).await;
    viewer.accept(request()).await;
    assert_eq!(publisher.keyframe_needed().await, 2);
    let took = harness.now().since(began).as_millis();
    assert!((500..=600).contains(&took), "one request for both: {took} ms");
    tokio::select! {
        biased;
        rendition = publisher.keyframe_needed() => panic!("requested again: {rendition}"),
        () = harness.pass(Duration::from_millis(900)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn publications_and_subscriptions_are_limited() {
    let harness = harness(1_000);
    harness.open(2).await;
    let mut client = harness.join(1).await;
    let named = |alias: u16, name: &str| Publish { stream_id: name.to_owned(), ..video(alias, 1) };
    client.publish(named(1, "camera")).await;
    client.publish(named(2, "other")).await;
    let third = client.error(Request::Publish(named(3, "third"))).await;
    assert_eq!(third, ErrorCode::CapacityExceeded, "two videos");
    for at in 3..5 {
        client.publish(Publish { stream_id: format!("m{at}"), ..microphone(at) }).await;
    }
    let fifth = client.error(Request::Publish(microphone(9))).await;
    assert_eq!(fifth, ErrorCode::CapacityExceeded, "four in all");
    let subscribe = |n: u8| Request::Subscribe(Subscribe { stream_id: format!("s{n}"), ..watch(id(2)) });
    for n in 0..16 {
        assert!(matches!(client.call(subscribe(n)).await, Event::Subscribed(_)));
    }
    assert_eq!(client.error(subscribe(16)).await, ErrorCode::CapacityExceeded, "16 may wait");
    assert_eq!(client.error(subscribe(3)).await, ErrorCode::Conflict);
}

#[tokio::test(start_paused = true)]
async fn streams_beyond_the_limits_are_stopped_and_repetition_closes_the_session() {
    let harness = harness(100);
    let (publisher, _viewer, _) = two(&harness).await;
    let mut unknown = publisher.session.open_uni().await.unwrap();
    unknown.send(bytes::Bytes::from_static(&[9, 9, 9])).await.unwrap();
    harness.pass(Duration::from_millis(10)).await;
    assert_eq!(unknown.send(bytes::Bytes::from_static(&[9])).await, Err(TransportError::Reset(Some(0))));
    for group in 1..=8 {
        let mut long = publisher.group(5, 2, group).await;
        // A frame of more than 1 MiB.
        long.stream.send(bytes::Bytes::from_static(&[0x80, 0x10, 0, 1, 0, 1])).await.unwrap();
        harness.pass(Duration::from_millis(10)).await;
        if group < 8 {
            assert_eq!(long.stopped().await, Some(5));
        }
    }
    assert_eq!(publisher.session.closed().await, Closed::Code(4005));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_sends_more_than_it_published_is_stopped() {
    let harness = harness(100);
    harness.open(1).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 1)).await;
    // 100 kbit/s were stated: a burst of 2 MiB is all there is.
    let payload = vec![0; 512 * 1024];
    let mut group = publisher.group(5, 0, 1).await;
    let mut sent = 0;
    let code = loop {
        match group.frame(0, &payload).await {
            Ok(()) => sent += 1,
            Err(TransportError::Reset(code)) => break code,
            Err(other) => panic!("{other:?}"),
        }
        harness.pass(Duration::from_millis(1)).await;
    };
    assert_eq!(code, Some(5));
    assert!((4..=5).contains(&sent), "{sent}");
    assert_eq!(harness.handler.cached_bytes(), 0, "what was cached is gone");
}

#[tokio::test(start_paused = true)]
async fn a_cache_has_a_bound_and_a_key_frame_follows_it() {
    let harness = harness(100);
    let (mut publisher, viewer, _) = two(&harness).await;
    publisher.keyframe_needed().await;
    harness.pass(Duration::from_secs(2)).await;
    let payload = vec![7; 200 * 1024];
    let mut group = publisher.group(5, 2, 1).await;
    // Four seconds of 1.2 Mbit/s are 600 KB.
    for _ in 0..4 {
        group.frame(0, &payload).await.unwrap();
        harness.pass(Duration::from_millis(10)).await;
    }
    assert_eq!(publisher.keyframe_needed().await, 2);
    assert!(harness.handler.cached_bytes() <= 600 * 1024);
    let mut got = viewer.next_group().await;
    for _ in 0..4 {
        assert_eq!(got.frame().await.unwrap().payload.len(), payload.len(), "who keeps up loses nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_handler_refuses_subscriptions() {
    let harness = harness(4);
    harness.open(4).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(1, 1)).await;
    let mut viewers = Vec::new();
    for n in 2..=4 {
        let mut viewer = harness.join(n).await;
        viewer.subscribe(watch(id(1))).await;
        harness.pass(Duration::from_millis(200)).await;
        viewers.push(viewer);
    }
    assert_eq!(harness.handler.stream_count(), 4);
    let other = Subscribe { stream_id: "other".to_owned(), ..watch(id(1)) };
    let refused = viewers[0].error(Request::Subscribe(other)).await;
    assert_eq!(refused, ErrorCode::CapacityExceeded);
    drop(viewers);
    harness.pass(Duration::from_millis(200)).await;
    assert_eq!(harness.handler.stream_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_groups_is_cut() {
    let harness = harness(100);
    let (publisher, viewer, _) = two(&harness).await;
    let mut stopped = 0;
    for number in 1..=40 {
        let mut group = publisher.group(5, 2, number).await;
        group.frame(0, b"key").await.unwrap();
        harness.pass(Duration::from_millis(1)).await;
        match group.frame(0, b"delta").await {
            Ok(()) => group.stream.finish(),
            Err(error) => {
                assert_eq!(error, TransportError::Reset(Some(5)));
                stopped += 1;
            }
        }
    }
    assert_eq!(stopped, 20);
    assert_eq!(viewer.next_group().await.header().await.group, 1);
}
