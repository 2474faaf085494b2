//! Publications and subscriptions.

use std::time::Duration;

use tenure_meet_client::media::{NotSent, OutgoingFrame, TrackName, VideoRequest};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::StreamType;

use super::stage::{Camera, Microphone, Stage, frame_where};

#[tokio::test(start_paused = true)]
async fn a_participant_sees_and_hears_another_one() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let mut picture = bob.media.watch(&VideoRequest::camera(&ada.id(), "2")).await.unwrap();
    let mut sound = bob.media.listen().await.unwrap();
    let _camera = Camera::start(&ada.media, stage.clock.clone(), 1).await;
    let _microphone = Microphone::start(&ada.media, stage.clock.clone()).await;
    ada.client.publish(2, StreamType::Video, "").await.unwrap();
    let first = picture.next().await.unwrap();
    assert!(first.key && !first.repeat);
    let mut last = first.timestamp_us;
    for _ in 0..100 {
        let frame = picture.next().await.unwrap();
        assert_eq!(frame.timestamp_us, last + 50_000);
        last = frame.timestamp_us;
    }
    let track = TrackName { participant_id: ada.id(), stream_id: "1".to_owned() };
    let first = sound.next().await.unwrap();
    assert_eq!((first.track, first.level), (track, 30));
    for sequence in 1..100 {
        assert_eq!(sound.next().await.unwrap().sequence, first.sequence + sequence);
    }
    assert_eq!((sound.stats().lost, picture.stats().dropped), (0, 0));
    let mut state = bob.media.state();
    let speaks = state.wait_for(|state| state.speakers.iter().any(|it| it.participant_id == ada.id())).await;
    assert!(speaks.is_ok() && bob.media.state().borrow().report.is_some());
}

#[tokio::test(start_paused = true)]
async fn only_the_renditions_that_are_watched_are_demanded() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let publication = ada.media.publish_video(super::stage::camera(3)).await.unwrap();
    let mut demand = publication.demand();
    let low = VideoRequest { max_rendition: Some(0), ..VideoRequest::camera(&ada.id(), "2") };
    let picture = bob.media.watch(&low).await.unwrap();
    demand.wait_for(|demand| demand.renditions.iter().eq(&[0])).await.unwrap();
    picture.change(None, None, 200);
    demand.wait_for(|demand| demand.renditions.contains(&2)).await.unwrap();
    drop(picture);
    demand.wait_for(|demand| demand.renditions.is_empty()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_of_rendition_begins_with_a_key_frame() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let _camera = Camera::start(&ada.media, stage.clock.clone(), 3).await;
    let low = VideoRequest { max_rendition: Some(0), ..VideoRequest::camera(&ada.id(), "2") };
    let mut picture = bob.media.watch(&low).await.unwrap();
    assert_eq!(picture.next().await.unwrap().rendition, 0);
    picture.change(Some(2), None, 100);
    assert!(frame_where(&mut picture, |frame| frame.rendition == 2).await.key);
    picture.change(Some(1), None, 100);
    assert!(frame_where(&mut picture, |frame| frame.rendition == 1).await.key);
}

#[tokio::test(start_paused = true)]
async fn a_requested_key_frame_reaches_the_publisher() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let publication = ada.media.publish_video(super::stage::camera(1)).await.unwrap();
    let (mut sender, mut demand) = (publication.sender(0), publication.demand());
    let mut picture = bob.media.watch(&VideoRequest::camera(&ada.id(), "2")).await.unwrap();
    demand.wait_for(|demand| demand.renditions.contains(&0)).await.unwrap();
    let frame = |timestamp_us, key| {
        let payload = bytes::Bytes::from_static(b"frame");
        OutgoingFrame { timestamp_us, key, discardable: false, temporal: 0, payload }
    };
    assert_eq!(sender.send(frame(0, false)).await, Err(NotSent::KeyframeNeeded));
    sender.send(frame(0, true)).await.unwrap();
    assert!(picture.next().await.unwrap().key);
    let asked = demand.borrow_and_update().keyframes[0];
    picture.request_keyframe(0);
    demand.wait_for(|demand| demand.keyframes[0] > asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_host_mute_reaches_the_sender_and_ends_what_is_received() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let _camera = Camera::start(&bob.media, stage.clock.clone(), 1).await;
    let _microphone = Microphone::start(&bob.media, stage.clock.clone()).await;
    let mut picture = ada.media.watch(&VideoRequest::camera(&bob.id(), "2")).await.unwrap();
    let mut sound = ada.media.listen().await.unwrap();
    assert!(picture.next().await.is_some() && sound.next().await.is_some());
    ada.client.host_mute(&bob.id(), true, true, "").await.unwrap();
    let mut state = bob.media.state();
    state.wait_for(|state| state.mute.audio && state.mute.video).await.unwrap();
    stage.pass(Duration::from_millis(100)).await;
    let before = (picture.stats().frames, sound.stats().packets);
    stage.pass(Duration::from_secs(2)).await;
    assert_eq!((picture.stats().frames, sound.stats().packets), before, "the sender ignores the mute");
    ada.client.host_mute(&bob.id(), false, false, "").await.unwrap();
    frame_where(&mut picture, |frame| frame.timestamp_us > 2_000_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_and_begins_again_is_received_again() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let mut picture = bob.media.watch(&VideoRequest::camera(&ada.id(), "2")).await.unwrap();
    let camera = Camera::start(&ada.media, stage.clock.clone(), 1).await;
    assert!(picture.next().await.is_some());
    drop(camera);
    let mut track = picture.track();
    track.wait_for(|track| track.ended.is_some()).await.unwrap();
    let _camera = Camera::start(&ada.media, stage.clock.clone(), 1).await;
    let frames = picture.stats().frames;
    track.wait_for(|track| track.ended.is_none()).await.unwrap();
    while picture.stats().frames < frames + 10 {
        assert!(picture.next().await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_leaves_ends_its_media() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let mut picture = bob.media.watch(&VideoRequest::camera(&ada.id(), "2")).await.unwrap();
    let camera = Camera::start(&ada.media, stage.clock.clone(), 1).await;
    assert!(picture.next().await.is_some());
    ada.client.leave().await;
    let mut track = picture.track();
    track.wait_for(|track| track.ended.as_deref() == Some("left")).await.unwrap();
    drop(camera);
    bob.media.close().await;
    while picture.next().await.is_some() {}
}
