//! Enforced mutes, tested with a client that ignores them.

use std::time::Duration;

use tenure_meet_wire::internal::MediaSeat;
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::transport::memory::{Conditions, Session};

use crate::client::{GroupEnd, MediaClient, listen, microphone, video, watch};
use crate::harness::{Harness, harness, id, seat};

/// A publisher of audio and video, and a participant that gets both.
async fn two(harness: &Harness) -> (MediaClient<Session>, MediaClient<Session>) {
    harness.open(2).await;
    let (mut publisher, mut viewer) = (harness.join(1).await, harness.join(2).await);
    publisher.publish(video(5, 1)).await;
    publisher.publish(microphone(6)).await;
    viewer.subscribe(watch(id(1))).await;
    viewer.subscribe(listen(None, 1)).await;
    (publisher, viewer)
}

async fn hears_nothing(harness: &Harness, listener: &MediaClient<Session>) {
    tokio::select! {
        biased;
        packet = listener.hear() => panic!("{packet:?}"),
        () = harness.pass(Duration::from_millis(500)) => {}
    }
}

async fn sees_nothing(harness: &Harness, viewer: &MediaClient<Session>) {
    tokio::select! {
        biased;
        _ = viewer.next_group() => panic!("a group came"),
        () = harness.pass(Duration::from_millis(500)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_forwarded_after_a_mute_was_acknowledged() {
    let harness = harness(100);
    let (mut publisher, viewer) = two(&harness).await;
    let mut group = publisher.group(5, 0, 1).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("key".into()));
    publisher.speak(6, 1, 30);
    viewer.hear().await;
    publisher.speak(6, 2, 30);
    harness.pass(Duration::from_millis(1)).await;
    // The second packet waits to be sent with others.
    assert!(harness.mute(1, 2, true, true).await.enforced);
    assert_eq!(harness.handler.cached_bytes(), 0, "erased from the cache");
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(2))));
    assert_eq!(group.stopped().await, Some(2));
    publisher.speak(6, 3, 30);
    assert_eq!(publisher.group(5, 0, 2).await.stopped().await, Some(2));
    hears_nothing(&harness, &viewer).await;
    sees_nothing(&harness, &viewer).await;
    let mute = publisher.event(|event| match event {
        Event::Mute(mute) => Some((mute.audio_muted, mute.video_muted, mute.mute_epoch)),
        _ => None,
    });
    assert_eq!(mute.await, (true, true, 2));
}

#[tokio::test(start_paused = true)]
async fn audio_and_video_are_muted_apart_and_a_key_frame_follows_the_unmute() {
    let harness = harness(100);
    let (mut publisher, viewer) = two(&harness).await;
    publisher.keyframe_needed().await;
    assert!(harness.mute(1, 2, false, true).await.enforced);
    publisher.speak(6, 1, 30);
    viewer.hear().await;
    assert_eq!(publisher.group(5, 0, 1).await.stopped().await, Some(2));
    harness.pass(Duration::from_secs(2)).await;
    assert!(harness.mute(1, 3, true, false).await.enforced);
    assert_eq!(publisher.keyframe_needed().await, 0);
    let mut group = publisher.group(5, 0, 2).await;
    group.frame(0, b"back").await.unwrap();
    assert_eq!(viewer.next_group().await.next().await, Ok("back".into()));
    publisher.speak(6, 2, 30);
    hears_nothing(&harness, &viewer).await;
}

#[tokio::test(start_paused = true)]
async fn a_mute_waits_for_no_slow_subscriber() {
    let harness = harness(100);
    let (publisher, viewer) = two(&harness).await;
    let mut group = publisher.group(5, 0, 1).await;
    // The viewer reads nothing: its stream is full, and the pump is in the middle of a write.
    for _ in 0..80 {
        group.frame(0, &[0; 1_000]).await.unwrap();
        harness.pass(Duration::from_millis(1)).await;
    }
    let began = harness.now();
    assert!(harness.mute(1, 2, false, true).await.enforced);
    assert!(harness.now().since(began) < Duration::from_millis(5));
    assert_eq!(viewer.next_group().await.rest().await.1, GroupEnd::Reset(Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_mute_takes_back_finished_groups_that_were_not_delivered() {
    let harness = harness(100);
    let (publisher, viewer) = two(&harness).await;
    for number in 1..=3 {
        let mut group = publisher.group(5, 0, number).await;
        group.frame(0, b"key").await.unwrap();
        group.stream.finish();
        harness.pass(Duration::from_millis(10)).await;
    }
    assert!(harness.mute(1, 2, false, true).await.enforced);
    for _ in 1..=3 {
        assert_eq!(viewer.next_group().await.rest().await, (0, GroupEnd::Reset(Some(2))));
    }
    assert_eq!(harness.handler.cached_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_hear_from_its_owner_forwards_nothing() {
    let harness = harness(100);
    let (mut publisher, viewer) = two(&harness).await;
    publisher.keyframe_needed().await;
    let mut group = publisher.group(5, 0, 1).await;
    group.frame(0, b"key").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("key".into()));
    harness.pass(Duration::from_secs(31)).await;
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(2))));
    assert_eq!(group.stopped().await, Some(2));
    publisher.speak(6, 1, 30);
    hears_nothing(&harness, &viewer).await;
    harness.open(2).await;
    publisher.speak(6, 2, 30);
    assert_eq!(viewer.hear().await.sequence, 2);
    assert_eq!(publisher.keyframe_needed().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_registration_enforces_the_masks_that_it_brings() {
    let harness = harness(100);
    let (mut publisher, viewer) = two(&harness).await;
    let muted = MediaSeat { audio_muted: true, mute_epoch: 2, ..seat(1) };
    assert!(harness.register_seats(2, vec![muted, seat(2)]).await.accepted);
    publisher.speak(6, 1, 30);
    hears_nothing(&harness, &viewer).await;
    let epoch = publisher.event(|event| match event {
        Event::Mute(mute) => Some(mute.mute_epoch),
        _ => None,
    });
    assert_eq!(epoch.await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_muted_participant_that_joins_again_stays_muted() {
    let harness = harness(100);
    let (publisher, viewer) = two(&harness).await;
    harness.mute(1, 2, true, true).await;
    drop(publisher);
    harness.pass(Duration::from_millis(10)).await;
    let mut again = harness.join(1).await;
    again.publish(microphone(1)).await;
    again.publish(video(2, 1)).await;
    again.speak(1, 1, 30);
    assert_eq!(again.group(2, 0, 1).await.stopped().await, Some(2));
    hears_nothing(&harness, &viewer).await;
}

#[tokio::test(start_paused = true)]
async fn an_older_owner_cannot_unmute() {
    let harness = harness(100);
    let (publisher, viewer) = two(&harness).await;
    assert!(harness.mute_as(2, 1, 1, true, false).await.enforced);
    assert!(!harness.mute_as(1, 1, 9, false, false).await.enforced);
    publisher.speak(6, 1, 30);
    hears_nothing(&harness, &viewer).await;
}

#[tokio::test(start_paused = true)]
async fn a_mute_holds_on_a_network_that_delays_and_loses() {
    let harness = harness(100);
    let (publisher, viewer) = two(&harness).await;
    let conditions = Conditions {
        clock: harness.clock.clone(),
        delay: Duration::from_millis(40),
        loss_permille: 100,
        reorder_permille: 100,
        bytes_per_second: None,
        seed: 5,
    };
    publisher.session.wire().set(&conditions);
    for sequence in 0..50 {
        publisher.speak(6, sequence, 30);
    }
    harness.pass(Duration::from_millis(30)).await;
    assert!(harness.mute(1, 2, true, false).await.enforced);
    hears_nothing(&harness, &viewer).await;
}
