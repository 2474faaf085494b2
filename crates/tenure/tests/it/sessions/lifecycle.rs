//! The lifecycle of a session, and restarts.

use serde_json::{Value, json};
use tenure_testkit::wait;

use super::cluster::{ADMIN, READER, TestCluster, TestServer, channel};
use crate::harness::LIMIT;

/// The states in an event stream.
fn states(text: &str) -> Vec<String> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let sessions = data.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
    sessions.filter_map(|session| session["state"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_session_plays_from_its_intent_to_its_end() {
    let cluster = TestCluster::embedded();
    let server = cluster.up();
    server.until_ready().await;
    let channels = server.request(READER, "GET", "/api/v3/channels", None).await.body;
    assert_eq!((&channels["tuners"], &channels["profiles"][0]), (&json!(2), &json!("high")), "{channels}");
    assert!(channels["channels"].as_array().is_some_and(|channels| channels.len() > 2), "{channels}");
    let (session, _) = server.watch(1, "high").await;
    let events = format!("/api/v3/sessions/{session}/events");
    let (stream, ()) = tokio::join!(server.request(READER, "GET", &events, None), async {
        let ready = server.until(&session, "READY").await;
        assert_eq!(
            (&ready["serviceRef"], &ready["mode"], &ready["tunerSlot"]),
            (&json!(channel(1)), &json!("LIVE"), &json!(0)),
            "{ready}"
        );
        play(&server, ready["playbackUrl"].as_str().unwrap()).await;
        let beat =
            server.request(READER, "POST", &format!("/api/v3/sessions/{session}/heartbeat"), None).await;
        assert_eq!((beat.status, &beat.body["acknowledged"]), (200, &json!(true)), "{beat:?}");
        server.stop(&session).await;
    });
    let seen = states(&stream.text);
    assert_eq!(seen.last().map(String::as_str), Some("STOPPED"), "{seen:?}");
    assert!(seen.contains(&"READY".to_owned()), "{seen:?}");
    for (method, path) in [("GET", ""), ("POST", "/heartbeat"), ("GET", "/hls/index.m3u8")] {
        let gone = server.request(READER, method, &format!("/api/v3/sessions/{session}{path}"), None).await;
        assert!(gone.is_problem(410, "session_gone"), "{gone:?}");
        assert_eq!(
            (&gone.body["session"], &gone.body["state"], &gone.body["reason"]),
            (&json!(session), &json!("STOPPED"), &json!("R_CLIENT_STOP")),
        );
    }
    wait::until("its directory is removed", LIMIT, || {
        !cluster.dir.path().join("hls").join(&session).exists()
    })
    .unwrap();

    // The list includes ended sessions, newest first.
    let (second, _) = server.watch(2, "low").await;
    let list = server.request(ADMIN, "GET", "/api/v3/sessions?limit=1", None).await.body;
    assert_eq!(
        (&list["sessions"][0]["sessionId"], &list["pagination"]["total"]),
        (&json!(second), &json!(2))
    );
    let list = server.request(ADMIN, "GET", "/api/v3/sessions?offset=1", None).await.body;
    assert_eq!(
        (&list["sessions"][0]["sessionId"], &list["pagination"]["count"]),
        (&json!(session), &json!(1))
    );
    assert!(!server.read_log().contains("of this test"), "the log does not contain the secret");
}

/// Fetches the playlist and its files, like a player.
pub(crate) async fn play(server: &TestServer, url: &str) {
    let playlist = server.request(READER, "GET", url, None).await;
    assert_eq!(playlist.status, 200, "{playlist:?}");
    assert!(
        playlist.text.starts_with("#EXTM3U") && playlist.text.contains("#EXT-X-MAP"),
        "{}",
        playlist.text
    );
    let segments: Vec<_> = playlist.text.lines().filter(|line| line.ends_with(".m4s")).collect();
    assert!(!segments.is_empty(), "{}", playlist.text);
    let folder = url.strip_suffix("index.m3u8").unwrap();
    for name in [segments[segments.len() - 1], "init.mp4"] {
        let part = server.request(READER, "GET", &format!("{folder}{name}"), None).await;
        assert!(part.status == 200 && part.text.len() > 500, "{name}: {}", part.status);
        assert_eq!(server.request("", "GET", &format!("{folder}{name}"), None).await.status, 401);
    }
    assert_eq!(server.request(READER, "GET", &format!("{folder}../../token"), None).await.status, 404);
}

#[tokio::test]
async fn a_session_without_viewers_is_stopped() {
    let cluster =
        TestCluster::embedded().with("IDLE_TIMEOUT_MS", "1500").with("SESSION_LEASE_TTL_MS", "1500");
    let server = cluster.up();
    server.until_ready().await;
    let (session, _) = server.watch(1, "high").await;
    let over = server.until(&session, "STOPPED").await;
    assert_eq!(over["reason"], "R_IDLE_TIMEOUT", "{over}");
    assert_eq!(server.holder("lease:tuner:0").await, None);
    assert_eq!(server.metric("xg2g_tuners_in_use", "").await, 0.0);
}

#[tokio::test]
async fn after_kill_9_and_a_restart_sessions_are_failed_and_new_ones_start_at_once() {
    // Nothing expires while the test runs.
    let cluster = TestCluster::embedded().with_lease_times(600_000, 1_000);
    let server = cluster.up();
    server.until_ready().await;
    let (first, _) = server.watch(1, "high").await;
    let (second, _) = server.watch(2, "high").await;
    for session in [&first, &second] {
        server.until(session, "READY").await;
    }
    server.process.kill9().unwrap();
    let server = cluster.up();
    server.until_ready().await;
    for session in [&first, &second] {
        let over = server.session(session).await;
        assert_eq!(
            (&over["state"], &over["reason"]),
            (&json!("FAILED"), &json!("R_PROCESS_ENDED")),
            "{over}"
        );
    }
    let list = server.get("/api/v3/sessions").await.body;
    assert_eq!(list["pagination"]["total"], 2, "{list}");
    assert_eq!(server.metric("xg2g_tuners_in_use", "").await, 0.0);
    let (again, replay) = server.watch(1, "high").await;
    assert!(again != first && !replay);
    server.until(&again, "READY").await;
    assert_eq!(server.holder("lease:tuner:0").await.as_ref(), Some(&again));

    // A graceful shutdown releases everything including the guard.
    server.process.terminate().unwrap();
    assert_eq!(crate::harness::code(&server.process), 0, "{}", server.read_log());
    let server = cluster.up();
    server.until_ready().await;
    let over = server.session(&again).await;
    assert_eq!((&over["state"], &over["reason"]), (&json!("STOPPED"), &json!("R_CANCELLED")), "{over}");
}
