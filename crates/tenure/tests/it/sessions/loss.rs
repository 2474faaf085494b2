//! Workers that die, freeze, compete or lose their leases.

use serde_json::json;
use tenure_testkit::wait;

use super::cluster::{Engine, TestCluster, TestServer, channel};
use crate::harness::{LIMIT, code};

pub(crate) const GUARD: &str = "system:orchestrator:guard_lock";

/// The processes of a session, without their watchdog, which exits after them.
pub(crate) fn processes_for(session: &str) -> Vec<String> {
    let wanted = format!("TENURE_SESSION={session}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let working = processes.filter(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let dead = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let watches = words.split(|byte| *byte == 0).nth(1) == Some(b"__watchdog");
        let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
        !dead && !watches && environ.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
    });
    working.map(|process| process.file_name().to_string_lossy().into_owned()).collect()
}

pub(crate) async fn until_free(server: &TestServer, key: &str) {
    wait::until_async(&format!("{key} is free"), LIMIT, async || server.holder(key).await.is_none())
        .await
        .unwrap();
}

#[tokio::test]
async fn the_api_accepts_intents_without_a_worker_and_a_dead_workers_tuner_expires() {
    let cluster = TestCluster::redis().with_lease_times(9_000, 1_000);
    let server = cluster.start("api", &["session-api"]);
    let (waiting, _) = server.watch(1, "high").await;
    assert_eq!(server.session(&waiting).await["state"], "NEW", "no worker has started");
    let worker = cluster.start("worker", &["session-worker"]);
    worker.until_ready().await;
    server.until(&waiting, "READY").await;
    worker.process.kill9().unwrap();
    assert_eq!(server.holder("lease:tuner:0").await.as_ref(), Some(&waiting), "held until it expires");
    let (second, replay) = server.watch(2, "high").await;
    assert!(!replay);
    assert_eq!(server.watch(2, "high").await, (second.clone(), true));
    until_free(&server, "lease:tuner:0").await;
    until_free(&server, &format!("lease:service:{}", channel(1))).await;
    assert_eq!(server.session(&second).await["state"], "NEW", "an intent waits for a worker");
    let worker = cluster.start("worker", &["session-worker"]);
    worker.until_ready().await;
    let ready = server.until(&second, "READY").await;
    assert_eq!(ready["tunerSlot"], 0);
    let over = server.session(&waiting).await;
    assert_eq!((&over["state"], &over["reason"]), (&json!("FAILED"), &json!("R_PROCESS_ENDED")), "{over}");
}

#[tokio::test]
async fn a_worker_that_proves_its_predecessor_dead_takes_over_at_once() {
    // Longer than any wait in this test.
    let cluster = TestCluster::redis().with_lease_times(600_000, 1_000).with_long_leases();
    let server = cluster.start("api", &["session-api"]);
    let worker = cluster.start("worker", &["session-worker"]);
    worker.until_ready().await;
    let (first, _) = server.watch(1, "high").await;
    server.until(&first, "READY").await;
    worker.process.kill9().unwrap();
    let worker = cluster.start("worker", &["session-worker"]);
    worker.until_ready().await;
    assert_eq!(server.session(&first).await["state"], "FAILED");
    let (again, replay) = server.watch(1, "high").await;
    assert!(again != first && !replay);
    server.until(&again, "READY").await;
    assert_eq!(server.holder("lease:tuner:0").await.as_ref(), Some(&again));
    assert_eq!(worker.metric("xg2g_tuners_in_use", "").await, 1.0);
}

#[tokio::test]
async fn a_second_tenure_up_on_one_store_is_not_ready_and_ends_naming_the_holder() {
    let cluster = TestCluster::redis().with_lease_times(9_000, 1_000);
    let first = cluster.up();
    first.until_ready().await;
    let holder = first.holder(GUARD).await.unwrap();
    let second = cluster.start("second", &["up", "--only", "lease,sessions"]);
    let ready = second.get("/health/ready").await;
    assert!(ready.is_problem(503, "UNAVAILABLE"), "{ready:?}");
    assert_eq!(code(&second.process), 70, "{}", second.read_log());
    let said = second.read_log();
    assert!(said.contains(&holder) && said.contains("--only"), "{said}");
    first.until_ready().await;
    let (session, _) = first.watch(1, "high").await;
    first.until(&session, "READY").await;
}

#[tokio::test]
async fn a_lost_guard_ends_the_process_and_a_lost_tuner_only_its_session() {
    let cluster = TestCluster::redis();
    let server = cluster.up();
    server.until_ready().await;
    let (first, _) = server.watch(1, "high").await;
    let (second, _) = server.watch(2, "high").await;
    for session in [&first, &second] {
        server.until(session, "READY").await;
    }
    server.revoke("lease:tuner:0").await;
    let over = server.until(&first, "FAILED").await;
    assert_eq!(
        (&over["reason"], &over["reason_detail"]),
        (&json!("R_LEASE_EXPIRED"), &json!("TUNER_LEASE_LOST")),
        "{over}"
    );
    assert_eq!(server.session(&second).await["state"], "READY");
    assert_eq!(server.metric("xg2g_tuners_in_use", "").await, 1.0);
    assert_eq!(server.metric("v3_worker_lease_lost_total", "").await, 1.0);
    let watcher = cluster.start("watcher", &["session-api"]);
    server.revoke(GUARD).await;
    assert_eq!(code(&server.process), 70, "{}", server.read_log());
    assert!(server.read_log().contains(GUARD), "{}", server.read_log());
    assert_eq!(watcher.session(&second).await["state"], "READY", "nothing is written without the guard");
}

#[tokio::test]
async fn a_store_in_quarantine_is_waited_for() {
    let cluster = TestCluster::redis().in_quarantine().with_lease_times(9_000, 1_000);
    // The quarantine is longer than the wait for a holder.
    let server = cluster.up();
    server.until_ready().await;
}

#[tokio::test]
async fn the_two_halves_share_the_store_of_a_running_server() {
    let mut cluster = TestCluster::embedded();
    let lease_server = cluster.start("server", &["up", "--only", "lease"]);
    cluster.engine = Engine::Server(format!("tenure://{}", lease_server.address));
    let server = cluster.start("api", &["session-api"]);
    let worker = cluster.start("worker", &["session-worker"]);
    worker.until_ready().await;
    let (session, _) = server.watch(1, "high").await;
    server.until(&session, "READY").await;
    assert_eq!(lease_server.holder("lease:tuner:0").await.as_ref(), Some(&session));
    server.stop(&session).await;
    server.until(&session, "STOPPED").await;
    worker.process.terminate().unwrap();
    assert_eq!(code(&worker.process), 0, "{}", worker.read_log());
    assert_eq!(lease_server.holder(GUARD).await, None, "released at the end");
}

#[tokio::test]
async fn the_embedded_store_is_rejected_for_separate_processes() {
    let cluster = TestCluster::embedded();
    for command in ["session-api", "session-worker"] {
        let said = crate::harness::run_command(crate::harness::tenure(
            cluster.dir.path(),
            &[command, "--listen", "127.0.0.1:0"],
        ));
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("one process") && said.err.contains("tenure://"), "{}", said.err);
    }
}
