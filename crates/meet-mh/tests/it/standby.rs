//! Standby sessions: everything is announced beforehand and flows from Activate on.

use std::time::Duration;

use tenure_meet_wire::media::message::Activate;
use tenure_meet_wire::media::message::media_request::Payload as Request;

use crate::client::{listen, microphone, video, watch};
use crate::harness::{harness, id};

#[tokio::test(start_paused = true)]
async fn a_standby_subscriber_gets_media_when_it_is_activated() {
    let harness = harness(100);
    harness.open(2).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 1)).await;
    publisher.publish(microphone(6)).await;
    let mut viewer = harness.join_standby(2).await;
    viewer.subscribe(watch(id(1))).await;
    viewer.subscribe(listen(None, 1)).await;
    assert_eq!(publisher.renditions_needed().await, [0_u32; 0]);
    assert_eq!(publisher.renditions_needed().await, [0], "standby subscribers count");
    let mut group = publisher.group(5, 0, 1).await;
    group.frame(0, b"key").await.unwrap();
    publisher.speak(6, 1, 30);
    tokio::select! {
        biased;
        _ = viewer.next_group() => panic!("video on standby"),
        _ = viewer.hear() => panic!("audio on standby"),
        () = harness.pass(Duration::from_millis(500)) => {}
    }
    viewer.accept(Request::Activate(Activate {})).await;
    assert_eq!(viewer.next_group().await.next().await, Ok("key".into()));
    publisher.speak(6, 2, 30);
    assert_eq!(viewer.hear().await.sequence, 2);
}

#[tokio::test(start_paused = true)]
async fn a_standby_publisher_is_heard_and_its_video_waits_for_the_activation() {
    let harness = harness(100);
    harness.open(2).await;
    let mut publisher = harness.join_standby(1).await;
    publisher.publish(video(5, 1)).await;
    publisher.publish(microphone(6)).await;
    let mut viewer = harness.join(2).await;
    viewer.subscribe(watch(id(1))).await;
    viewer.subscribe(listen(None, 1)).await;
    publisher.speak(6, 1, 30);
    assert_eq!(viewer.hear().await.sequence, 1, "microphones go to both handlers");
    let mut group = publisher.group(5, 0, 1).await;
    group.frame(0, b"key").await.unwrap();
    harness.pass(Duration::from_millis(500)).await;
    publisher.accept(Request::Activate(Activate {})).await;
    assert_eq!(viewer.next_group().await.next().await, Ok("key".into()));
}
