//! Workers that die, freeze, are too many or lose what they hold, with the door beside them.

use serde_json::json;
use testkit::wait;

use super::house::{Door, Engine, House, channel};
use crate::rig::{LIMIT, code};

pub(crate) const GUARD: &str = "system:orchestrator:guard_lock";

/// The processes that work for a session; their watchdog, which ends after them, is none of them.
pub(crate) fn workers_for(session: &str) -> Vec<String> {
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

pub(crate) async fn until_free(door: &Door, key: &str) {
    wait::until_async(&format!("{key} is free"), LIMIT, async || door.holder(key).await.is_none())
        .await
        .unwrap();
}

#[tokio::test]
async fn the_door_stays_open_when_the_worker_dies_and_its_tuner_is_free_after_its_time() {
    let house = House::redis().living(9_000, 1_000);
    let door = house.start("api", &["session-api"]);
    let (waiting, _) = door.watch(1, "high").await;
    assert_eq!(door.session(&waiting).await["state"], "NEW", "there is no worker yet");
    let worker = house.start("worker", &["session-worker"]);
    worker.until_ready().await;
    door.until(&waiting, "READY").await;
    worker.process.kill9().unwrap();
    assert_eq!(door.holder("lease:tuner:0").await.as_ref(), Some(&waiting), "held until its time is over");
    let (second, replay) = door.watch(2, "high").await;
    assert!(!replay);
    assert_eq!(door.watch(2, "high").await, (second.clone(), true));
    until_free(&door, "lease:tuner:0").await;
    until_free(&door, &format!("lease:service:{}", channel(1))).await;
    assert_eq!(door.session(&second).await["state"], "NEW", "a wish is kept until somebody takes it up");
    let worker = house.start("worker", &["session-worker"]);
    worker.until_ready().await;
    let ready = door.until(&second, "READY").await;
    assert_eq!(ready["tunerSlot"], 0);
    let over = door.session(&waiting).await;
    assert_eq!((&over["state"], &over["reason"]), (&json!("FAILED"), &json!("R_PROCESS_ENDED")), "{over}");
}

#[tokio::test]
async fn a_worker_that_proves_its_predecessor_dead_takes_over_at_once() {
    // Longer than anything here is waited for.
    let house = House::redis().living(600_000, 1_000).with_long_leases();
    let door = house.start("api", &["session-api"]);
    let worker = house.start("worker", &["session-worker"]);
    worker.until_ready().await;
    let (first, _) = door.watch(1, "high").await;
    door.until(&first, "READY").await;
    worker.process.kill9().unwrap();
    let worker = house.start("worker", &["session-worker"]);
    worker.until_ready().await;
    assert_eq!(door.session(&first).await["state"], "FAILED");
    let (again, replay) = door.watch(1, "high").await;
    assert!(again != first && !replay);
    door.until(&again, "READY").await;
    assert_eq!(door.holder("lease:tuner:0").await.as_ref(), Some(&again));
    assert_eq!(worker.metric("xg2g_tuners_in_use", "").await, 1.0);
}

#[tokio::test]
async fn a_second_tenure_up_on_one_store_is_not_ready_and_ends_naming_the_holder() {
    let house = House::redis().living(9_000, 1_000);
    let first = house.up();
    first.until_ready().await;
    let holder = first.holder(GUARD).await.unwrap();
    let second = house.start("second", &["up", "--only", "lease,sessions"]);
    let ready = second.get("/health/ready").await;
    assert!(ready.is_problem(503, "UNAVAILABLE"), "{ready:?}");
    assert_eq!(code(&second.process), 70, "{}", second.said());
    let said = second.said();
    assert!(said.contains(&holder) && said.contains("--only"), "{said}");
    first.until_ready().await;
    let (session, _) = first.watch(1, "high").await;
    first.until(&session, "READY").await;
}

#[tokio::test]
async fn who_loses_the_guard_ends_and_who_loses_a_tuner_ends_that_session_only() {
    let house = House::redis();
    let door = house.up();
    door.until_ready().await;
    let (first, _) = door.watch(1, "high").await;
    let (second, _) = door.watch(2, "high").await;
    for session in [&first, &second] {
        door.until(session, "READY").await;
    }
    door.revoke("lease:tuner:0").await;
    let over = door.until(&first, "FAILED").await;
    assert_eq!(
        (&over["reason"], &over["reason_detail"]),
        (&json!("R_LEASE_EXPIRED"), &json!("TUNER_LEASE_LOST")),
        "{over}"
    );
    assert_eq!(door.session(&second).await["state"], "READY");
    assert_eq!(door.metric("xg2g_tuners_in_use", "").await, 1.0);
    assert_eq!(door.metric("v3_worker_lease_lost_total", "").await, 1.0);
    let watcher = house.start("watcher", &["session-api"]);
    door.revoke(GUARD).await;
    assert_eq!(code(&door.process), 70, "{}", door.said());
    assert!(door.said().contains(GUARD), "{}", door.said());
    assert_eq!(watcher.session(&second).await["state"], "READY", "nobody writes without the guard");
}

#[tokio::test]
async fn a_store_in_quarantine_is_waited_for() {
    let house = House::redis().in_quarantine().living(9_000, 1_000);
    // Longer than a holder would be waited for.
    let door = house.up();
    door.until_ready().await;
}

#[tokio::test]
async fn the_two_halves_share_the_store_of_a_running_server() {
    let mut house = House::embedded();
    let server = house.start("server", &["up", "--only", "lease"]);
    house.engine = Engine::Server(format!("tenure://{}", server.address));
    let door = house.start("api", &["session-api"]);
    let worker = house.start("worker", &["session-worker"]);
    worker.until_ready().await;
    let (session, _) = door.watch(1, "high").await;
    door.until(&session, "READY").await;
    assert_eq!(server.holder("lease:tuner:0").await.as_ref(), Some(&session));
    door.stop(&session).await;
    door.until(&session, "STOPPED").await;
    worker.process.terminate().unwrap();
    assert_eq!(code(&worker.process), 0, "{}", worker.said());
    assert_eq!(server.holder(GUARD).await, None, "given back at the end");
}

#[tokio::test]
async fn the_embedded_store_is_not_shared_and_says_so() {
    let house = House::embedded();
    for command in ["session-api", "session-worker"] {
        let said =
            crate::rig::said(crate::rig::tenure(house.dir.path(), &[command, "--listen", "127.0.0.1:0"]));
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("one process") && said.err.contains("tenure://"), "{}", said.err);
    }
}
