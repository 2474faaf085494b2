//! The ffmpeg pipeline with a receiver over HTTP and a directory of recordings.

use std::time::Duration;

use tenure_session::{Detail, Reason, Session, SessionId, SessionState, Target};
use tenure_session_worker::{Source, WorkerError};
use tenure_testkit::wait::until;
use tenure_testkit::{Receiver, make_film};

use crate::fixture::{Fixture, LIMIT, session};

async fn fixture(receiver: &Receiver) -> Fixture {
    Fixture::memory().await.receiver(receiver.url())
}

fn segments(fixture: &Fixture, id: &SessionId) -> usize {
    let entries = std::fs::read_dir(fixture.folder(id)).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "m4s")).count()
}

#[tokio::test]
async fn a_channel_is_packaged_into_segments_until_it_is_stopped() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let fixture = fixture(&receiver).await;
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "copy").await;
    fixture.until(&id, SessionState::Ready).await;
    let playlist = std::fs::read_to_string(fixture.folder(&id).join("index.m3u8")).unwrap();
    assert!(playlist.contains("init.mp4") && playlist.contains(".m4s"), "{playlist}");
    assert!(fixture.folder(&id).join("init.mp4").exists() && segments(&fixture, &id) >= 1);
    fixture.request_stop(&id).await;
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Stopped, Reason::ClientStop));
    assert!(!fixture.folder(&id).exists());
    until("the receiver is disconnected", LIMIT, || receiver.watchers() == 0).unwrap();
    worker.close().await;
}

#[tokio::test]
async fn a_stream_is_transcoded_with_the_requested_profile() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let fixture = fixture(&receiver).await;
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "low").await;
    fixture.until(&id, SessionState::Ready).await;
    let odd = fixture.start("1:0:2:", "ultra").await;
    let refused = fixture.until_ended(&odd).await;
    assert_eq!((refused.state, refused.reason), (SessionState::Failed, Reason::BadRequest));
    worker.close().await;
}

#[tokio::test]
async fn a_channel_unknown_to_the_receiver_fails_with_its_error() {
    let receiver = Receiver::start().unwrap();
    let fixture = fixture(&receiver).await;
    let worker = fixture.worker().await;
    let id = fixture.start("none", "copy").await;
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Failed, Reason::NotFound));
    assert!(over.message.unwrap().contains("404"));
    assert_eq!(fixture.holder("lease:tuner:0").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_stalled_receiver_fails_the_session() {
    let receiver = Receiver::with_pace(4.0).unwrap();
    let mut fixture = fixture(&receiver).await;
    fixture.options.stall_timeout = Duration::from_secs(5);
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "copy").await;
    fixture.until(&id, SessionState::Ready).await;
    receiver.stall(true);
    let over = fixture.until_ended(&id).await;
    assert_eq!(
        (over.state, over.reason, over.detail),
        (SessionState::Failed, Reason::UpstreamCorrupt, Some(Detail::UpstreamStalled))
    );
    until("ffmpeg has exited", LIMIT, || !fixture.folder(&id).exists()).unwrap();
    worker.close().await;
}

#[tokio::test]
async fn output_over_the_size_limit_fails_the_session() {
    let receiver = Receiver::with_pace(4.0).unwrap();
    let mut fixture = fixture(&receiver).await;
    fixture.options.max_output_bytes = 20_000;
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "copy").await;
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.detail), (SessionState::Failed, Some(Detail::DiskLimit)));
    worker.close().await;
}

#[tokio::test]
async fn a_lost_tuner_and_a_lost_guard_end_ffmpeg() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let fixture = fixture(&receiver).await;
    let worker = fixture.worker().await;
    let (first, second) = (fixture.start("1:0:1:", "copy").await, fixture.start("1:0:2:", "copy").await);
    fixture.until(&first, SessionState::Ready).await;
    fixture.until(&second, SessionState::Ready).await;
    assert_eq!(receiver.watchers(), 2);
    let slot = fixture.get(&first).await.slot.unwrap();
    fixture.revoke(&format!("lease:tuner:{slot}")).await;
    let over = fixture.until_ended(&first).await;
    assert_eq!((over.state, over.reason), (SessionState::Failed, Reason::LeaseExpired));
    until("one is left", LIMIT, || receiver.watchers() == 1).unwrap();

    fixture.revoke(crate::fixture::GUARD).await;
    assert!(matches!(worker.failed().await, WorkerError::GuardLost { .. }));
    assert!(!fixture.folder(&second).exists());
    until("none is left", LIMIT, || receiver.watchers() == 0).unwrap();
    worker.close().await;
}

fn recording(fixture: &Fixture, name: &str, start_ms: u64, secs: u32) -> Session {
    let Source::Ffmpeg(source) = &fixture.options.source else { panic!("no ffmpeg") };
    make_film(&source.recordings_dir.as_ref().unwrap().join(format!("{name}.ts")), secs).unwrap();
    session(Target::new(None, Some(name), Some(start_ms)).unwrap(), "copy")
}

#[tokio::test]
async fn a_recording_is_played_from_its_start_without_a_tuner_and_drains_at_its_end() {
    let receiver = Receiver::start().unwrap();
    let mut fixture = fixture(&receiver).await;
    fixture.options.drain_timeout = LIMIT * 10;
    let intent = recording(&fixture, "rec-1", 3_000, 6);
    let worker = fixture.worker().await;
    let id = fixture.record(intent).await;
    let ready = fixture.until_that(&id, "it is playable", |session| session.published.is_some()).await;
    assert_eq!(ready.slot, None);
    assert_eq!(fixture.holder("lease:recording:rec-1:3").await.as_deref(), Some(id.as_str()));
    fixture.until(&id, SessionState::Draining).await;
    let playlist = std::fs::read_to_string(fixture.folder(&id).join("index.m3u8")).unwrap();
    assert!(playlist.contains("#EXT-X-ENDLIST"), "{playlist}");
    let lengths = playlist.lines().filter_map(|line| line.strip_prefix("#EXTINF:")?.strip_suffix(','));
    let played: f64 = lengths.map(|length| length.parse::<f64>().unwrap()).sum();
    assert!((2.0..5.0).contains(&played), "three of six seconds: {played}");
    fixture.request_stop(&id).await;
    assert_eq!(fixture.until_ended(&id).await.state, SessionState::Stopped);
    assert_eq!(fixture.holder("lease:recording:rec-1:3").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_finished_recording_stops_by_itself() {
    let mut fixture = Fixture::memory().await.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    fixture.options.drain_timeout = Duration::from_millis(1);
    let intent = recording(&fixture, "rec-1", 0, 2);
    let worker = fixture.worker().await;
    let id = fixture.record(intent).await;
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.detail), (SessionState::Stopped, Some(Detail::EndOfRecording)));
    assert!(over.published.is_some() && !fixture.folder(&id).exists());
    worker.close().await;
}

#[tokio::test]
async fn a_missing_recording_is_not_found() {
    let receiver = Receiver::start().unwrap();
    let fixture = fixture(&receiver).await;
    let worker = fixture.worker().await;
    let id = fixture.record(session(Target::new(None, Some("rec-2"), None).unwrap(), "copy")).await;
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Failed, Reason::NotFound));
    worker.close().await;
}

#[tokio::test]
async fn a_missing_ffmpeg_is_reported_at_startup() {
    let mut fixture = Fixture::memory().await.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    let Source::Ffmpeg(source) = &mut fixture.options.source else { panic!("no ffmpeg") };
    source.program = "/nowhere/ffmpeg".into();
    let fatal = fixture.try_worker().await.err().unwrap();
    assert!(fatal.to_string().contains("install ffmpeg"), "{fatal}");
    assert_eq!(fixture.holder(crate::fixture::GUARD).await, None, "the guard was not acquired");
}
