//! Intents in both phases of the migration.

use futures_util::future::join_all;
use serde_json::json;

use super::cluster::{ADMIN, OTHER, READER, TestCluster, WRITER, channel};

/// Fifty identical starts, other channels and profiles, and two tuners.
async fn one_session_for_one_channel(cluster: TestCluster) {
    let server = cluster.up();
    server.until_ready().await;
    let answers = join_all((0..50).map(|_| server.watch(1, "high"))).await;
    let (first, _) = answers[0].clone();
    assert!(answers.iter().all(|(session, _)| *session == first), "{answers:?}");
    assert_eq!(answers.iter().filter(|(_, replay)| !replay).count(), 1, "exactly one was accepted");
    server.until(&first, "READY").await;
    assert_eq!(server.metric("xg2g_v3_bus_publish_total", "session.start").await, 1.0);
    assert_eq!(server.holder("lease:tuner:0").await.as_ref(), Some(&first));
    assert_eq!(server.holder("lease:tuner:1").await, None);
    assert_eq!(server.metric("xg2g_tuners_in_use", "").await, 1.0);
    assert_eq!(server.metric("xg2g_v3_idempotent_replay_total", "").await, 49.0);

    // The same channel with another profile is another intent, and the channel is leased.
    let (second, replay) = server.watch(1, "low").await;
    assert!(second != first && !replay);
    let over = server.until(&second, "FAILED").await;
    assert_eq!((&over["reason"], &over["reason_detail"]), (&json!("R_LEASE_BUSY"), &json!("REJECTED_BUSY")));
    assert_eq!(server.session(&first).await["state"], "READY", "the first is unaffected");
    assert_eq!(server.holder(&format!("lease:service:{}", channel(1))).await.as_ref(), Some(&first));

    // Another channel gets the other tuner; a third channel gets none.
    let (other, _) = server.watch(2, "high").await;
    server.until(&other, "READY").await;
    assert_eq!(server.holder("lease:tuner:1").await.as_ref(), Some(&other));
    let (third, _) = server.watch(3, "high").await;
    let over = server.until(&third, "FAILED").await;
    assert_eq!(
        (&over["reason"], &over["reason_detail"]),
        (&json!("R_LEASE_BUSY"), &json!("REJECTED_NO_TUNER"))
    );
    assert_eq!(server.holder(&format!("lease:service:{}", channel(3))).await, None, "no lease is left");
    assert_eq!(server.metric("xg2g_v3_tuner_busy_total", "").await, 1.0);
    let gone = server.get(&format!("/api/v3/sessions/{third}")).await;
    assert!(gone.is_problem(410, "session_gone"), "{gone:?}");

    // An ended session is not replayed, and its tuner is free at once.
    assert_eq!(server.stop(&first).await.status, 202);
    let over = server.until(&first, "STOPPED").await;
    assert_eq!(over["reason"], "R_CLIENT_STOP");
    assert_eq!(server.stop(&first).await.status, 202, "a repeated stop is accepted");
    assert_eq!(server.holder("lease:tuner:0").await, None);
    let (again, replay) = server.watch(3, "high").await;
    assert!(again != third && !replay, "an ended session is never replayed");
    server.until(&again, "READY").await;
    assert_eq!(server.metric("xg2g_tuners_in_use", "").await, 2.0);
    for session in [&again, &other] {
        server.stop(session).await;
        server.until(session, "STOPPED").await;
    }
    assert_eq!(server.metric("xg2g_tuners_in_use", "").await, 0.0);
    assert_eq!(server.metric("xg2g_invariant_violation_total", "").await, 0.0);
    assert_eq!(server.metric("xg2g_v3_sessions_active", "").await, 0.0);
}

#[tokio::test]
async fn fifty_starts_are_one_session_on_one_tuner_on_the_embedded_store() {
    one_session_for_one_channel(TestCluster::embedded()).await;
}

#[tokio::test]
async fn fifty_starts_are_one_session_on_one_tuner_on_redis() {
    one_session_for_one_channel(TestCluster::redis()).await;
}

/// Phase 1: the API acquires the lease of the channel.
async fn the_second_start_conflicts(cluster: TestCluster) {
    let mut cluster = cluster;
    cluster.settings.push(("XG2G_V3_API_LEASES".into(), "true".into()));
    let server = cluster.up();
    server.until_ready().await;
    let intent = json!({ "serviceRef": channel(1), "profileID": "high" });
    let answers = join_all((0..2).map(|_| server.intent(&intent))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409], "{answers:?}");
    let busy = answers.iter().find(|answer| answer.status == 409).unwrap();
    assert!(busy.is_problem(409, "LEASE_BUSY"), "{busy:?}");
    assert_eq!(busy.headers["retry-after"], "1");
    let session = answers.iter().find_map(|answer| answer.body["sessionId"].as_str()).unwrap();
    server.until(session, "READY").await;
    assert_eq!(
        server.holder("lease:tuner:0").await.as_deref(),
        Some(session),
        "the worker continued the lease"
    );
    let repeat = server.intent(&intent).await;
    assert!(repeat.is_problem(409, "LEASE_BUSY"), "also sequentially: {repeat:?}");
    assert_eq!(server.metric("xg2g_v3_bus_publish_total", "session.start").await, 1.0);
    server.stop(session).await;
    server.until(session, "STOPPED").await;
    assert_eq!(server.intent(&intent).await.status, 202, "free again");
}

#[tokio::test]
async fn in_phase_1_the_second_start_conflicts_on_the_embedded_store() {
    the_second_start_conflicts(TestCluster::embedded()).await;
}

#[tokio::test]
async fn in_phase_1_the_second_start_conflicts_on_redis() {
    the_second_start_conflicts(TestCluster::redis()).await;
}

async fn rejected_requests_have_no_side_effects(cluster: TestCluster) {
    let server = cluster.up();
    server.until_ready().await;
    let before = server.stored_keys().await;
    let good = json!({ "serviceRef": channel(1), "profileID": "high" }).to_string();
    let start =
        async |token, body: String| server.request(token, "POST", "/api/v3/intents", Some(&body)).await;
    let unknown = start("", good.clone()).await;
    assert!(unknown.is_problem(401, "UNAUTHORIZED"), "{unknown:?}");
    assert_eq!(start("unknown-token", good.clone()).await.status, 401);
    for token in [READER, OTHER] {
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
        assert_eq!(server.request("", "GET", path, None).await.status, 401, "{path}");
    }
    assert_eq!(
        server.request(WRITER, "GET", "/api/v3/sessions", None).await.status,
        403,
        "listing requires admin"
    );
    assert_eq!(server.request(ADMIN, "GET", "/api/v3/sessions/none", None).await.status, 404);
    assert_eq!(server.stored_keys().await, before);
    assert_eq!(server.metric("xg2g_v3_bus_publish_total", "session.start").await, 0.0);
}

#[tokio::test]
async fn rejected_requests_have_no_side_effects_on_the_embedded_store() {
    rejected_requests_have_no_side_effects(TestCluster::embedded()).await;
}

#[tokio::test]
async fn rejected_requests_have_no_side_effects_on_redis() {
    rejected_requests_have_no_side_effects(TestCluster::redis()).await;
}

#[tokio::test]
async fn the_number_of_stored_sessions_is_limited() {
    let cluster = TestCluster::embedded().with("MAX_RECORDS", 2).with("RETENTION_MS", 1_000);
    let server = cluster.up();
    server.until_ready().await;
    let (first, _) = server.watch(1, "high").await;
    let (second, _) = server.watch(2, "high").await;
    let intent = json!({ "serviceRef": channel(3) });
    let refused = server.intent(&intent).await;
    assert!(refused.is_problem(429, "ADMISSION_SESSIONS_FULL"), "{refused:?}");
    assert_eq!(refused.headers["retry-after"], "1");
    let kept = server.stored_keys().await;
    assert_eq!(kept.iter().filter(|key| key.starts_with("v3:session:")).count(), 2, "{kept:?}");
    assert_eq!(server.watch(1, "high").await, (first.clone(), true), "an existing session is still found");
    for session in [&first, &second] {
        assert_eq!(server.stop(session).await.status, 202, "existing sessions can be stopped");
    }
    let again = async || server.intent(&intent).await.status == 202;
    tenure_testkit::wait::until_async("a deleted record frees capacity", crate::harness::LIMIT, again)
        .await
        .unwrap();
}

#[tokio::test]
async fn without_tuners_live_channels_are_rejected_and_a_rotated_secret_finds_the_session() {
    let none = TestCluster::embedded();
    std::fs::write(none.dir.path().join("tenure.toml"), "[sessions]\ntuner_slots = ''").unwrap();
    let server = none.up();
    server.until_ready().await;
    let refused = server.intent(&json!({ "serviceRef": channel(1) })).await;
    assert!(refused.is_problem(503, "ADMISSION_NO_TUNERS"), "{refused:?}");
    drop(server);

    // The secret is rotated while a session waits for a worker; the previous secret still finds it.
    let mut cluster = TestCluster::redis();
    let server = cluster.start("old", &["session-api"]);
    let (first, _) = server.watch(1, "high").await;
    cluster.settings.retain(|(name, _)| !name.ends_with("IDEM_SECRET"));
    cluster.settings.push(("XG2G_IDEM_SECRET".into(), "another one".into()));
    let fresh = cluster.start("fresh", &["session-api"]);
    let (other, replay) = fresh.watch(1, "high").await;
    assert!(other != first && !replay, "without the previous secret the session is not found");
    cluster.settings.push(("XG2G_IDEM_SECRET_PREVIOUS".into(), "of this test".into()));
    cluster.settings.retain(|(_, value)| value != "another one");
    cluster.settings.push(("XG2G_IDEM_SECRET".into(), "a third one".into()));
    let rotated = cluster.start("rotated", &["session-api"]);
    assert_eq!(rotated.watch(1, "high").await, (first, true));
}
