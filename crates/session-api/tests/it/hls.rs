//! HLS files are served from the session's directory only.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use tenure_service::Clock;
use tenure_session::SessionEvent;

use crate::api::{READ, TestApi, TestApiBuilder, within_limit};

const PLAYLIST: &str = "#EXTM3U\n#EXT-X-VERSION:7\n";

/// A playable session and its directory.
async fn ready(api: &TestApi) -> (String, PathBuf) {
    let id = api.start_channel().await;
    api.log.apply_events(&id, &[SessionEvent::Pick, SessionEvent::Prime, SessionEvent::Publish]);
    let folder = api.dir().join("hls").join(&id);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("index.m3u8"), PLAYLIST).unwrap();
    fs::write(folder.join("init.mp4"), "init").unwrap();
    let segment: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    fs::write(folder.join("seg-00001.m4s"), segment).unwrap();
    (id, folder)
}

fn fetch(api: &TestApi, id: &str, file: &str) -> reqwest::RequestBuilder {
    api.request(READ, Method::GET, &format!("/sessions/{id}/hls/{file}"))
}

async fn status(request: reqwest::RequestBuilder) -> u16 {
    within_limit(request.send()).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn playlist_and_segments_have_their_media_types() {
    let api = TestApi::new().await;
    let (id, folder) = ready(&api).await;
    for (file, kind, cache) in [
        ("index.m3u8", "application/vnd.apple.mpegurl", "no-store"),
        ("init.mp4", "video/mp4", "private, max-age=3600, immutable"),
        ("seg-00001.m4s", "video/iso.segment", "private, max-age=3600, immutable"),
    ] {
        let response = within_limit(fetch(&api, &id, file).send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{file}");
        assert_eq!(
            (&response.headers()["content-type"], &response.headers()["cache-control"]),
            (&kind.parse().unwrap(), &cache.parse().unwrap())
        );
        assert_eq!(response.bytes().await.unwrap(), fs::read(folder.join(file)).unwrap(), "{file}");
    }
    api.log.apply_events(&id, &[SessionEvent::Drain]);
    assert_eq!(status(fetch(&api, &id, "index.m3u8")).await, 200, "a draining session is playable");
    let head = api.request(READ, Method::HEAD, &format!("/sessions/{id}/hls/seg-00001.m4s"));
    let head = within_limit(head.send()).await.unwrap();
    assert_eq!(
        (head.status(), &head.headers()["content-length"]),
        (StatusCode::OK, &"300000".parse().unwrap())
    );
}

#[tokio::test]
async fn a_byte_range_of_a_segment_is_served() {
    let api = TestApi::new().await;
    let (id, folder) = ready(&api).await;
    let segment = fs::read(folder.join("seg-00001.m4s")).unwrap();
    let request = fetch(&api, &id, "seg-00001.m4s").header("range", "bytes=100000-200000");
    let response = within_limit(request.send()).await.unwrap();
    assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(response.headers()["content-range"], "bytes 100000-200000/300000");
    assert_eq!(response.bytes().await.unwrap(), segment[100_000..=200_000]);
    let beyond = within_limit(fetch(&api, &id, "seg-00001.m4s").header("range", "bytes=300000-").send())
        .await
        .unwrap();
    assert_eq!((beyond.status(), beyond.bytes().await.unwrap().len()), (StatusCode::OK, 300_000));
}

#[tokio::test]
async fn only_hls_files_of_the_session_are_served() {
    let api = TestApi::new().await;
    let (id, folder) = ready(&api).await;
    fs::write(folder.join("ffmpeg.log"), "secret").unwrap();
    fs::write(api.dir().join("secret.m4s"), "secret").unwrap();
    symlink(api.dir().join("secret.m4s"), folder.join("seg-9.m4s")).unwrap();
    for file in [
        "ffmpeg.log",
        "seg-9.m4s",
        "seg-2.m4s",
        "index.m3u8.tmp",
        "..%2Findex.m3u8",
        "seg-%2e%2e%2f1.m4s",
        "%2e%2e",
        "seg-1.m4s%00",
        "index%2Em3u8x",
    ] {
        let missing = crate::api::send(fetch(&api, &id, file)).await;
        assert_eq!(missing.code(), (404, "NOT_FOUND"), "{file}");
    }
    let id = api.start(serde_json::json!({"recordingId": "rec-1"})).await;
    api.log.apply_events(&id, &[SessionEvent::Pick, SessionEvent::Prime, SessionEvent::Publish]);
    symlink(&folder, api.dir().join("hls").join(&id)).unwrap();
    assert_eq!(status(fetch(&api, &id, "index.m3u8")).await, 404, "a directory that is a link");
}

#[tokio::test]
async fn hls_files_are_served_only_while_the_session_is_playable() {
    let api = TestApi::new().await;
    let (id, _) = ready(&api).await;
    let ready = api.log.session(&id);
    for state in tenure_session::SessionState::ALL {
        api.log.put(tenure_session::Session { state: *state, ..ready.clone() });
        let expected = match state {
            tenure_session::SessionState::Ready | tenure_session::SessionState::Draining => 200,
            state if state.is_terminal() => 410,
            _ => 404,
        };
        for file in ["index.m3u8", "seg-00001.m4s"] {
            assert_eq!(status(fetch(&api, &id, file)).await, expected, "{state} {file}");
        }
    }
    assert_eq!(status(fetch(&api, "no-such-session", "index.m3u8")).await, 404);
}

#[tokio::test]
async fn fetching_the_playlist_is_recorded_as_access_every_few_seconds() {
    let (clock, hand) = Clock::manual();
    let api = TestApiBuilder::new().with(|options| options.clock = clock).build().await;
    let (id, _) = ready(&api).await;
    let touches = || api.log.touches.load(Ordering::SeqCst);
    assert_eq!(status(fetch(&api, &id, "seg-00001.m4s")).await, 200);
    assert_eq!(touches(), 0, "only playlists count as access");
    for _ in 0..3 {
        assert_eq!(status(fetch(&api, &id, "index.m3u8")).await, 200);
    }
    assert_eq!((touches(), api.log.last_seen_at(&id)), (1, Some(tenure_session::UnixMs(1_900_000_000_000))));
    hand.advance(Duration::from_secs(5));
    assert_eq!(status(fetch(&api, &id, "index.m3u8")).await, 200);
    assert_eq!((touches(), api.log.last_seen_at(&id)), (2, Some(tenure_session::UnixMs(1_900_000_005_000))));
}
