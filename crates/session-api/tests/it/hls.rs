//! Pictures, from the session's folder and from nowhere else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use service::Clock;
use session::Event;

use crate::house::{House, Plan, READ, soon};

const PLAYLIST: &str = "#EXTM3U\n#EXT-X-VERSION:7\n";

/// A session that can be watched, and its folder.
async fn ready(house: &House) -> (String, PathBuf) {
    let id = house.start_channel().await;
    house.log.live_through(&id, &[Event::Pick, Event::Prime, Event::Publish]);
    let folder = house.folder().join("hls").join(&id);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("index.m3u8"), PLAYLIST).unwrap();
    fs::write(folder.join("init.mp4"), "init").unwrap();
    let segment: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    fs::write(folder.join("seg-00001.m4s"), segment).unwrap();
    (id, folder)
}

fn fetch(house: &House, id: &str, file: &str) -> reqwest::RequestBuilder {
    house.request(READ, Method::GET, &format!("/sessions/{id}/hls/{file}"))
}

async fn status(request: reqwest::RequestBuilder) -> u16 {
    soon(request.send()).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn playlist_and_segments_come_with_their_types() {
    let house = House::new().await;
    let (id, folder) = ready(&house).await;
    for (file, kind, cache) in [
        ("index.m3u8", "application/vnd.apple.mpegurl", "no-store"),
        ("init.mp4", "video/mp4", "private, max-age=3600, immutable"),
        ("seg-00001.m4s", "video/iso.segment", "private, max-age=3600, immutable"),
    ] {
        let response = soon(fetch(&house, &id, file).send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{file}");
        assert_eq!(
            (&response.headers()["content-type"], &response.headers()["cache-control"]),
            (&kind.parse().unwrap(), &cache.parse().unwrap())
        );
        assert_eq!(response.bytes().await.unwrap(), fs::read(folder.join(file)).unwrap(), "{file}");
    }
    house.log.live_through(&id, &[Event::Drain]);
    assert_eq!(status(fetch(&house, &id, "index.m3u8")).await, 200, "what is draining can still be watched");
    let head = house.request(READ, Method::HEAD, &format!("/sessions/{id}/hls/seg-00001.m4s"));
    let head = soon(head.send()).await.unwrap();
    assert_eq!(
        (head.status(), &head.headers()["content-length"]),
        (StatusCode::OK, &"300000".parse().unwrap())
    );
}

#[tokio::test]
async fn a_part_of_a_segment_is_given() {
    let house = House::new().await;
    let (id, folder) = ready(&house).await;
    let segment = fs::read(folder.join("seg-00001.m4s")).unwrap();
    let request = fetch(&house, &id, "seg-00001.m4s").header("range", "bytes=100000-200000");
    let response = soon(request.send()).await.unwrap();
    assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(response.headers()["content-range"], "bytes 100000-200000/300000");
    assert_eq!(response.bytes().await.unwrap(), segment[100_000..=200_000]);
    let beyond =
        soon(fetch(&house, &id, "seg-00001.m4s").header("range", "bytes=300000-").send()).await.unwrap();
    assert_eq!((beyond.status(), beyond.bytes().await.unwrap().len()), (StatusCode::OK, 300_000));
}

#[tokio::test]
async fn nothing_but_pictures_of_this_session_is_shown() {
    let house = House::new().await;
    let (id, folder) = ready(&house).await;
    fs::write(folder.join("ffmpeg.log"), "secret").unwrap();
    fs::write(house.folder().join("secret.m4s"), "secret").unwrap();
    symlink(house.folder().join("secret.m4s"), folder.join("seg-9.m4s")).unwrap();
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
        let missing = crate::house::answer(fetch(&house, &id, file)).await;
        assert_eq!(missing.code(), (404, "NOT_FOUND"), "{file}");
    }
    let id = house.start(serde_json::json!({"recordingId": "rec-1"})).await;
    house.log.live_through(&id, &[Event::Pick, Event::Prime, Event::Publish]);
    symlink(&folder, house.folder().join("hls").join(&id)).unwrap();
    assert_eq!(status(fetch(&house, &id, "index.m3u8")).await, 404, "a folder that is a link");
}

#[tokio::test]
async fn there_is_no_picture_before_it_is_ready_or_after_it_is_over() {
    let house = House::new().await;
    let (id, _) = ready(&house).await;
    let ready = house.log.session(&id);
    for state in session::State::ALL {
        house.log.put(session::Session { state: *state, ..ready.clone() });
        let expected = match state {
            session::State::Ready | session::State::Draining => 200,
            state if state.is_terminal() => 410,
            _ => 404,
        };
        for file in ["index.m3u8", "seg-00001.m4s"] {
            assert_eq!(status(fetch(&house, &id, file)).await, expected, "{state} {file}");
        }
    }
    assert_eq!(status(fetch(&house, "no-such-session", "index.m3u8")).await, 404);
}

#[tokio::test]
async fn fetching_the_playlist_is_watching_and_is_noted_every_few_seconds() {
    let (clock, hand) = Clock::manual();
    let house = Plan::new().with(|options| options.clock = clock).build().await;
    let (id, _) = ready(&house).await;
    let touches = || house.log.touches.load(Ordering::SeqCst);
    assert_eq!(status(fetch(&house, &id, "seg-00001.m4s")).await, 200);
    assert_eq!(touches(), 0, "a segment is what a playlist led to");
    for _ in 0..3 {
        assert_eq!(status(fetch(&house, &id, "index.m3u8")).await, 200);
    }
    assert_eq!((touches(), house.log.seen_at(&id)), (1, Some(session::UnixMs(1_900_000_000_000))));
    hand.advance(Duration::from_secs(5));
    assert_eq!(status(fetch(&house, &id, "index.m3u8")).await, 200);
    assert_eq!((touches(), house.log.seen_at(&id)), (2, Some(session::UnixMs(1_900_000_005_000))));
}
