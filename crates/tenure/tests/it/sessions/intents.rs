//! Wishes: what two phases of the migration answer, and what is left behind.

use futures_util::future::join_all;
use serde_json::json;

use super::house::{ADMIN, House, READER, STRANGER, WRITER, channel};

/// Fifty people press the same button, others want other things, and two tuners have to do.
async fn one_session_for_one_channel(house: House) {
    let door = house.up();
    door.until_ready().await;
    let answers = join_all((0..50).map(|_| door.watch(1, "high"))).await;
    let (first, _) = answers[0].clone();
    assert!(answers.iter().all(|(session, _)| *session == first), "{answers:?}");
    assert_eq!(answers.iter().filter(|(_, replay)| !replay).count(), 1, "one of them was the first");
    door.until(&first, "READY").await;
    assert_eq!(door.metric("xg2g_v3_bus_publish_total", "session.start").await, 1.0);
    assert_eq!(door.holder("lease:tuner:0").await.as_ref(), Some(&first));
    assert_eq!(door.holder("lease:tuner:1").await, None);
    assert_eq!(door.metric("xg2g_tuners_in_use", "").await, 1.0);
    assert_eq!(door.metric("xg2g_v3_idempotent_replay_total", "").await, 49.0);

    // The same channel in another quality: another wish, and the channel is taken.
    let (second, replay) = door.watch(1, "low").await;
    assert!(second != first && !replay);
    let over = door.until(&second, "FAILED").await;
    assert_eq!((&over["reason"], &over["reason_detail"]), (&json!("R_LEASE_BUSY"), &json!("REJECTED_BUSY")));
    assert_eq!(door.session(&first).await["state"], "READY", "the first goes on");
    assert_eq!(door.holder(&format!("lease:service:{}", channel(1))).await.as_ref(), Some(&first));

    // Another channel takes the other tuner, and a third finds none.
    let (other, _) = door.watch(2, "high").await;
    door.until(&other, "READY").await;
    assert_eq!(door.holder("lease:tuner:1").await.as_ref(), Some(&other));
    let (third, _) = door.watch(3, "high").await;
    let over = door.until(&third, "FAILED").await;
    assert_eq!(
        (&over["reason"], &over["reason_detail"]),
        (&json!("R_LEASE_BUSY"), &json!("REJECTED_NO_TUNER"))
    );
    assert_eq!(door.holder(&format!("lease:service:{}", channel(3))).await, None, "nothing is kept");
    assert_eq!(door.metric("xg2g_v3_tuner_busy_total", "").await, 1.0);
    let gone = door.get(&format!("/api/v3/sessions/{third}")).await;
    assert!(gone.is_problem(410, "session_gone"), "{gone:?}");

    // What is over is not replayed, and what was stopped is free at once.
    assert_eq!(door.stop(&first).await.status, 202);
    let over = door.until(&first, "STOPPED").await;
    assert_eq!(over["reason"], "R_CLIENT_STOP");
    assert_eq!(door.stop(&first).await.status, 202, "again is the same as once");
    assert_eq!(door.holder("lease:tuner:0").await, None);
    let (again, replay) = door.watch(3, "high").await;
    assert!(again != third && !replay, "a dead session is never replayed");
    door.until(&again, "READY").await;
    assert_eq!(door.metric("xg2g_tuners_in_use", "").await, 2.0);
    for session in [&again, &other] {
        door.stop(session).await;
        door.until(session, "STOPPED").await;
    }
    assert_eq!(door.metric("xg2g_tuners_in_use", "").await, 0.0);
    assert_eq!(door.metric("xg2g_invariant_violation_total", "").await, 0.0);
    assert_eq!(door.metric("xg2g_v3_sessions_active", "").await, 0.0);
}

#[tokio::test]
async fn fifty_starts_are_one_session_on_one_tuner_on_the_embedded_store() {
    one_session_for_one_channel(House::embedded()).await;
}

#[tokio::test]
async fn fifty_starts_are_one_session_on_one_tuner_on_redis() {
    one_session_for_one_channel(House::redis()).await;
}

/// The flag of the migration is on: the door takes the channel itself.
async fn the_second_is_told_to_wait(house: House) {
    let mut house = house;
    house.settings.push(("XG2G_V3_API_LEASES".into(), "true".into()));
    let door = house.up();
    door.until_ready().await;
    let wish = json!({ "serviceRef": channel(1), "profileID": "high" });
    let answers = join_all((0..2).map(|_| door.intent(&wish))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409], "{answers:?}");
    let busy = answers.iter().find(|answer| answer.status == 409).unwrap();
    assert!(busy.is_problem(409, "LEASE_BUSY"), "{busy:?}");
    assert_eq!(busy.headers["retry-after"], "1");
    let session = answers.iter().find_map(|answer| answer.body["sessionId"].as_str()).unwrap();
    door.until(session, "READY").await;
    assert_eq!(door.holder("lease:tuner:0").await.as_deref(), Some(session), "the worker went on with it");
    let repeat = door.intent(&wish).await;
    assert!(repeat.is_problem(409, "LEASE_BUSY"), "also one after the other: {repeat:?}");
    assert_eq!(door.metric("xg2g_v3_bus_publish_total", "session.start").await, 1.0);
    door.stop(session).await;
    door.until(session, "STOPPED").await;
    assert_eq!(door.intent(&wish).await.status, 202, "free again");
}

#[tokio::test]
async fn in_phase_one_the_second_start_is_refused_on_the_embedded_store() {
    the_second_is_told_to_wait(House::embedded()).await;
}

#[tokio::test]
async fn in_phase_one_the_second_start_is_refused_on_redis() {
    the_second_is_told_to_wait(House::redis()).await;
}

async fn what_is_refused_leaves_nothing_behind(house: House) {
    let door = house.up();
    door.until_ready().await;
    let before = door.traces().await;
    let good = json!({ "serviceRef": channel(1), "profileID": "high" }).to_string();
    let start = async |token, body: String| door.ask(token, "POST", "/api/v3/intents", Some(&body)).await;
    let unknown = start("", good.clone()).await;
    assert!(unknown.is_problem(401, "UNAUTHORIZED"), "{unknown:?}");
    assert_eq!(start("nobody-knows-this", good.clone()).await.status, 401);
    for token in [READER, STRANGER] {
        let refused = start(token, good.clone()).await;
        assert!(refused.is_problem(403, "FORBIDDEN"), "{refused:?}");
    }
    let bad = [
        json!({ "serviceRef": channel(1), "profileID": "high", "colour": "blue" }),
        json!({ "serviceRef": "1:0:1|2", "profileID": "high" }),
        json!({ "serviceRef": channel(1), "recordingId": "rec-1" }),
        json!({ "serviceRef": channel(1), "profileID": "enormous" }),
        json!({ "profileID": "high" }),
        json!({ "type": "stream.pause", "serviceRef": channel(1) }),
        json!({ "type": "stream.stop" }),
        json!({ "recordingId": "../etc/passwd", "startMs": 0 }),
        json!({ "recordingId": "rec-1", "startMs": -5 }),
        json!([1, 2]),
    ];
    let large = json!({ "serviceRef": "x".repeat((1 << 20) + 1) }).to_string();
    for body in bad.iter().map(ToString::to_string).chain(["{".into(), large]) {
        let refused = start(WRITER, body.clone()).await;
        let shown: String = body.chars().take(80).collect();
        assert!(refused.is_problem(400, "INVALID_INPUT"), "{shown}: {refused:?}");
    }
    for path in ["/api/v3/sessions/none/hls/index.m3u8", "/api/v3/sessions/none", "/api/v3/channels"] {
        assert_eq!(door.ask("", "GET", path, None).await.status, 401, "{path}");
    }
    assert_eq!(door.ask(WRITER, "GET", "/api/v3/sessions", None).await.status, 403, "the list is for admins");
    assert_eq!(door.ask(ADMIN, "GET", "/api/v3/sessions/none", None).await.status, 404);
    assert_eq!(door.traces().await, before);
    assert_eq!(door.metric("xg2g_v3_bus_publish_total", "session.start").await, 0.0);
}

#[tokio::test]
async fn who_may_not_and_what_is_wrong_leaves_nothing_behind_on_the_embedded_store() {
    what_is_refused_leaves_nothing_behind(House::embedded()).await;
}

#[tokio::test]
async fn who_may_not_and_what_is_wrong_leaves_nothing_behind_on_redis() {
    what_is_refused_leaves_nothing_behind(House::redis()).await;
}

#[tokio::test]
async fn no_more_sessions_are_kept_than_the_settings_allow() {
    let house = House::embedded().with("MAX_RECORDS", 2).with("RETENTION_MS", 1_000);
    let door = house.up();
    door.until_ready().await;
    let (first, _) = door.watch(1, "high").await;
    let (second, _) = door.watch(2, "high").await;
    let wish = json!({ "serviceRef": channel(3) });
    let refused = door.intent(&wish).await;
    assert!(refused.is_problem(429, "ADMISSION_SESSIONS_FULL"), "{refused:?}");
    assert_eq!(refused.headers["retry-after"], "1");
    let kept = door.traces().await;
    assert_eq!(kept.iter().filter(|key| key.starts_with("v3:session:")).count(), 2, "{kept:?}");
    assert_eq!(door.watch(1, "high").await, (first.clone(), true), "what stands is still found");
    for session in [&first, &second] {
        assert_eq!(door.stop(session).await.status, 202, "and can be stopped");
    }
    let again = async || door.intent(&wish).await.status == 202;
    testkit::wait::until_async("what is over is forgotten and makes room", crate::rig::LIMIT, again)
        .await
        .unwrap();
}

#[tokio::test]
async fn without_tuners_live_channels_are_refused_and_a_changed_secret_still_finds_the_session() {
    let none = House::embedded();
    std::fs::write(none.dir.path().join("tenure.toml"), "[sessions]\ntuner_slots = ''").unwrap();
    let door = none.up();
    door.until_ready().await;
    let refused = door.intent(&json!({ "serviceRef": channel(1) })).await;
    assert!(refused.is_problem(503, "ADMISSION_NO_TUNERS"), "{refused:?}");
    drop(door);

    // The secret changes while a session waits for a worker; the one before still leads to it.
    let mut house = House::redis();
    let door = house.start("old", &["session-api"]);
    let (first, _) = door.watch(1, "high").await;
    house.settings.retain(|(name, _)| !name.ends_with("IDEM_SECRET"));
    house.settings.push(("XG2G_IDEM_SECRET".into(), "another one".into()));
    let fresh = house.start("fresh", &["session-api"]);
    let (stranger, replay) = fresh.watch(1, "high").await;
    assert!(stranger != first && !replay, "with a new secret alone the wish is another");
    house.settings.push(("XG2G_IDEM_SECRET_PREVIOUS".into(), "of this test".into()));
    house.settings.retain(|(_, value)| value != "another one");
    house.settings.push(("XG2G_IDEM_SECRET".into(), "a third one".into()));
    let rotated = house.start("rotated", &["session-api"]);
    assert_eq!(rotated.watch(1, "high").await, (first, true));
}
