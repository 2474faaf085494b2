//! One session from its wish to its end, and what a restart makes of it.

use serde_json::{Value, json};
use testkit::wait;

use super::house::{ADMIN, Door, House, READER, channel};
use crate::rig::LIMIT;

/// The states in a stream of events.
fn states(text: &str) -> Vec<String> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let sessions = data.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
    sessions.filter_map(|session| session["state"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_session_is_watched_from_its_wish_to_its_end() {
    let house = House::embedded();
    let door = house.up();
    door.until_ready().await;
    let channels = door.ask(READER, "GET", "/api/v3/channels", None).await.body;
    assert_eq!((&channels["tuners"], &channels["profiles"][0]), (&json!(2), &json!("high")), "{channels}");
    assert!(channels["channels"].as_array().is_some_and(|channels| channels.len() > 2), "{channels}");
    let (session, _) = door.watch(1, "high").await;
    let events = format!("/api/v3/sessions/{session}/events");
    let (heard, ()) = tokio::join!(door.ask(READER, "GET", &events, None), async {
        let ready = door.until(&session, "READY").await;
        assert_eq!(
            (&ready["serviceRef"], &ready["mode"], &ready["tunerSlot"]),
            (&json!(channel(1)), &json!("LIVE"), &json!(0)),
            "{ready}"
        );
        play(&door, ready["playbackUrl"].as_str().unwrap()).await;
        let beat = door.ask(READER, "POST", &format!("/api/v3/sessions/{session}/heartbeat"), None).await;
        assert_eq!((beat.status, &beat.body["acknowledged"]), (200, &json!(true)), "{beat:?}");
        door.stop(&session).await;
    });
    let seen = states(&heard.text);
    assert_eq!(seen.last().map(String::as_str), Some("STOPPED"), "{seen:?}");
    assert!(seen.contains(&"READY".to_owned()), "{seen:?}");
    for (method, path) in [("GET", ""), ("POST", "/heartbeat"), ("GET", "/hls/index.m3u8")] {
        let gone = door.ask(READER, method, &format!("/api/v3/sessions/{session}{path}"), None).await;
        assert!(gone.is_problem(410, "session_gone"), "{gone:?}");
        assert_eq!(
            (&gone.body["session"], &gone.body["state"], &gone.body["reason"]),
            (&json!(session), &json!("STOPPED"), &json!("R_CLIENT_STOP")),
        );
    }
    wait::until("its folder is gone", LIMIT, || !house.dir.path().join("hls").join(&session).exists())
        .unwrap();

    // The list keeps what is over, newest first, page by page.
    let (second, _) = door.watch(2, "low").await;
    let list = door.ask(ADMIN, "GET", "/api/v3/sessions?limit=1", None).await.body;
    assert_eq!(
        (&list["sessions"][0]["sessionId"], &list["pagination"]["total"]),
        (&json!(second), &json!(2))
    );
    let list = door.ask(ADMIN, "GET", "/api/v3/sessions?offset=1", None).await.body;
    assert_eq!(
        (&list["sessions"][0]["sessionId"], &list["pagination"]["count"]),
        (&json!(session), &json!(1))
    );
    assert!(!door.said().contains("of this test"), "the secret is nowhere in the log");
}

/// What a player does: the playlist, and everything that it names.
pub(crate) async fn play(door: &Door, url: &str) {
    let playlist = door.ask(READER, "GET", url, None).await;
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
        let part = door.ask(READER, "GET", &format!("{folder}{name}"), None).await;
        assert!(part.status == 200 && part.text.len() > 500, "{name}: {}", part.status);
        assert_eq!(door.ask("", "GET", &format!("{folder}{name}"), None).await.status, 401);
    }
    assert_eq!(door.ask(READER, "GET", &format!("{folder}../../token"), None).await.status, 404);
}

#[tokio::test]
async fn a_session_that_nobody_watches_ends() {
    let house = House::embedded().with("IDLE_TIMEOUT_MS", "1500").with("SESSION_LEASE_TTL_MS", "1500");
    let door = house.up();
    door.until_ready().await;
    let (session, _) = door.watch(1, "high").await;
    let over = door.until(&session, "STOPPED").await;
    assert_eq!(over["reason"], "R_IDLE_TIMEOUT", "{over}");
    assert_eq!(door.holder("lease:tuner:0").await, None);
    assert_eq!(door.metric("xg2g_tuners_in_use", "").await, 0.0);
}

#[tokio::test]
async fn kill_9_and_a_restart_end_what_ran_and_serve_at_once() {
    // Nothing of this would be free by itself while the test runs.
    let house = House::embedded().living(600_000, 1_000);
    let door = house.up();
    door.until_ready().await;
    let (first, _) = door.watch(1, "high").await;
    let (second, _) = door.watch(2, "high").await;
    for session in [&first, &second] {
        door.until(session, "READY").await;
    }
    door.process.kill9().unwrap();
    let door = house.up();
    door.until_ready().await;
    for session in [&first, &second] {
        let over = door.session(session).await;
        assert_eq!(
            (&over["state"], &over["reason"]),
            (&json!("FAILED"), &json!("R_PROCESS_ENDED")),
            "{over}"
        );
    }
    let list = door.get("/api/v3/sessions").await.body;
    assert_eq!(list["pagination"]["total"], 2, "{list}");
    assert_eq!(door.metric("xg2g_tuners_in_use", "").await, 0.0);
    let (again, replay) = door.watch(1, "high").await;
    assert!(again != first && !replay);
    door.until(&again, "READY").await;
    assert_eq!(door.holder("lease:tuner:0").await.as_ref(), Some(&again));

    // An orderly end gives everything back, also the guard: the next one need not prove anything.
    door.process.terminate().unwrap();
    assert_eq!(crate::rig::code(&door.process), 0, "{}", door.said());
    let door = house.up();
    door.until_ready().await;
    let over = door.session(&again).await;
    assert_eq!((&over["state"], &over["reason"]), (&json!("STOPPED"), &json!("R_CANCELLED")), "{over}");
}
