//! Real pictures: ffmpeg, a receiver over HTTP, recordings in a folder.

use std::time::Duration;

use session::{Detail, Reason, Session, SessionId, State, Target};
use session_worker::{Fatal, Source};
use testkit::wait::until;
use testkit::{Receiver, make_film};

use crate::house::{House, LIMIT, session};

async fn house(receiver: &Receiver) -> House {
    House::memory().await.receiver(receiver.url())
}

fn segments(house: &House, id: &SessionId) -> usize {
    let entries = std::fs::read_dir(house.folder(id)).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "m4s")).count()
}

#[tokio::test]
async fn a_channel_is_made_into_segments_until_it_is_stopped() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let house = house(&receiver).await;
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "copy").await;
    house.until(&id, State::Ready).await;
    let playlist = std::fs::read_to_string(house.folder(&id).join("index.m3u8")).unwrap();
    assert!(playlist.contains("init.mp4") && playlist.contains(".m4s"), "{playlist}");
    assert!(house.folder(&id).join("init.mp4").exists() && segments(&house, &id) >= 1);
    house.ask_stop(&id).await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.reason), (State::Stopped, Reason::ClientStop));
    assert!(!house.folder(&id).exists());
    until("the receiver is hung up on", LIMIT, || receiver.watchers() == 0).unwrap();
    worker.close().await;
}

#[tokio::test]
async fn a_picture_is_made_anew_in_the_profile_that_was_asked_for() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let house = house(&receiver).await;
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "low").await;
    house.until(&id, State::Ready).await;
    let odd = house.wish("1:0:2:", "ultra").await;
    let refused = house.until_over(&odd).await;
    assert_eq!((refused.state, refused.reason), (State::Failed, Reason::BadRequest));
    worker.close().await;
}

#[tokio::test]
async fn a_channel_that_the_receiver_does_not_know_fails_with_its_words() {
    let receiver = Receiver::start().unwrap();
    let house = house(&receiver).await;
    let worker = house.worker().await;
    let id = house.wish("none", "copy").await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.reason), (State::Failed, Reason::NotFound));
    assert!(over.words.unwrap().contains("404"));
    assert_eq!(house.holder("lease:tuner:0").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_receiver_that_falls_silent_ends_the_session() {
    let receiver = Receiver::with_pace(4.0).unwrap();
    let mut house = house(&receiver).await;
    house.options.stall_timeout = Duration::from_secs(5);
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "copy").await;
    house.until(&id, State::Ready).await;
    receiver.stall(true);
    let over = house.until_over(&id).await;
    assert_eq!(
        (over.state, over.reason, over.detail),
        (State::Failed, Reason::UpstreamCorrupt, Some(Detail::UpstreamStalled))
    );
    until("ffmpeg is gone", LIMIT, || !house.folder(&id).exists()).unwrap();
    worker.close().await;
}

#[tokio::test]
async fn an_output_that_grows_beyond_its_bound_ends_the_session() {
    let receiver = Receiver::with_pace(4.0).unwrap();
    let mut house = house(&receiver).await;
    house.options.max_output_bytes = 20_000;
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "copy").await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.detail), (State::Failed, Some(Detail::DiskLimit)));
    worker.close().await;
}

#[tokio::test]
async fn a_lost_tuner_and_a_lost_guard_end_ffmpeg() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let house = house(&receiver).await;
    let worker = house.worker().await;
    let (first, second) = (house.wish("1:0:1:", "copy").await, house.wish("1:0:2:", "copy").await);
    house.until(&first, State::Ready).await;
    house.until(&second, State::Ready).await;
    assert_eq!(receiver.watchers(), 2);
    let slot = house.get(&first).await.slot.unwrap();
    house.revoke(&format!("lease:tuner:{slot}")).await;
    let over = house.until_over(&first).await;
    assert_eq!((over.state, over.reason), (State::Failed, Reason::LeaseExpired));
    until("one is left", LIMIT, || receiver.watchers() == 1).unwrap();

    house.revoke(crate::house::GUARD).await;
    assert!(matches!(worker.failed().await, Fatal::Lost { .. }));
    assert!(!house.folder(&second).exists());
    until("none is left", LIMIT, || receiver.watchers() == 0).unwrap();
    worker.close().await;
}

fn recording(house: &House, name: &str, start_ms: u64, secs: u32) -> Session {
    let Source::Ffmpeg(source) = &house.options.source else { panic!("no ffmpeg") };
    make_film(&source.recordings_dir.as_ref().unwrap().join(format!("{name}.ts")), secs).unwrap();
    session(Target::new(None, Some(name), Some(start_ms)).unwrap(), "copy")
}

#[tokio::test]
async fn a_recording_is_played_from_its_start_without_a_tuner_and_drains_at_its_end() {
    let receiver = Receiver::start().unwrap();
    let mut house = house(&receiver).await;
    house.options.drain_timeout = LIMIT * 10;
    let wish = recording(&house, "rec-1", 3_000, 6);
    let worker = house.worker().await;
    let id = house.record(wish).await;
    let ready = house.until_that(&id, "it can be watched", |session| session.published.is_some()).await;
    assert_eq!(ready.slot, None);
    assert_eq!(house.holder("lease:recording:rec-1:3").await.as_deref(), Some(id.as_str()));
    house.until(&id, State::Draining).await;
    let playlist = std::fs::read_to_string(house.folder(&id).join("index.m3u8")).unwrap();
    assert!(playlist.contains("#EXT-X-ENDLIST"), "{playlist}");
    let lengths = playlist.lines().filter_map(|line| line.strip_prefix("#EXTINF:")?.strip_suffix(','));
    let played: f64 = lengths.map(|length| length.parse::<f64>().unwrap()).sum();
    assert!((2.0..5.0).contains(&played), "three of six seconds: {played}");
    house.ask_stop(&id).await;
    assert_eq!(house.until_over(&id).await.state, State::Stopped);
    assert_eq!(house.holder("lease:recording:rec-1:3").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_recording_that_was_played_ends_by_itself() {
    let mut house = House::memory().await.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    house.options.drain_timeout = Duration::from_millis(1);
    let wish = recording(&house, "rec-1", 0, 2);
    let worker = house.worker().await;
    let id = house.record(wish).await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.detail), (State::Stopped, Some(Detail::EndOfRecording)));
    assert!(over.published.is_some() && !house.folder(&id).exists());
    worker.close().await;
}

#[tokio::test]
async fn a_recording_that_is_not_there_is_not_found() {
    let receiver = Receiver::start().unwrap();
    let house = house(&receiver).await;
    let worker = house.worker().await;
    let id = house.record(session(Target::new(None, Some("rec-2"), None).unwrap(), "copy")).await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.reason), (State::Failed, Reason::NotFound));
    worker.close().await;
}

#[tokio::test]
async fn a_missing_ffmpeg_is_said_at_the_start() {
    let mut house = House::memory().await.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    let Source::Ffmpeg(source) = &mut house.options.source else { panic!("no ffmpeg") };
    source.program = "/nowhere/ffmpeg".into();
    let fatal = house.try_worker().await.err().unwrap();
    assert!(fatal.to_string().contains("install ffmpeg"), "{fatal}");
    assert_eq!(house.holder(crate::house::GUARD).await, None, "nothing happened");
}
