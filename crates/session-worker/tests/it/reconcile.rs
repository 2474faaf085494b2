//! Reconciliation of tuner claims and session metrics.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tenure_lease::{Key, Op};
use tenure_session::{Session, SessionId, SessionState, Target};
use tenure_testkit::wait::until_async;

use crate::fixture::{Fixture, LIMIT, session};

/// Installs a metrics recorder. Each test runs in its own process.
fn recorder() -> PrometheusHandle {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).unwrap();
    handle
}

fn value(handle: &PrometheusHandle, name: &str) -> f64 {
    let text = handle.render();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
}

fn violations(handle: &PrometheusHandle) -> [f64; 2] {
    ["duplicate_slot_claim", "lease_mismatch"]
        .map(|rule| value(handle, &format!("xg2g_invariant_violation_total{{rule=\"{rule}\"}}")))
}

/// Creates a record that claims a tuner, without a worker.
async fn claim(fixture: &Fixture, channel: &str, slot: u32) -> SessionId {
    let intent = session(Target::new(Some(channel), None, None).unwrap(), "high");
    // Created in READY, so that no worker starts it.
    let ready = Session { state: SessionState::Ready, slot: Some(slot), ..intent };
    fixture.record(ready).await
}

async fn delete_record(fixture: &Fixture, id: &SessionId) {
    let key = Key::new(format!("v3:session:{id}")).unwrap();
    fixture.store.commit(&[Op::Delete { key }]).await.unwrap();
}

#[tokio::test]
async fn the_tuner_gauge_is_current_and_each_violation_counts_once() {
    let metrics = recorder();
    let mut fixture = Fixture::memory().await;
    // Reconciliation only on demand.
    fixture.options.reconcile = LIMIT * 10;
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    worker.reconcile_now().await;
    assert_eq!(value(&metrics, "xg2g_tuners_in_use"), 1.0);
    assert_eq!(value(&metrics, "xg2g_v3_sessions_active"), 1.0);
    assert_eq!(violations(&metrics), [0.0, 0.0]);

    let double = claim(&fixture, "1:0:2:", 0).await;
    let without = claim(&fixture, "1:0:3:", 1).await;
    for _ in 0..3 {
        worker.reconcile_now().await;
        assert_eq!(violations(&metrics), [1.0, 1.0], "once per episode");
        assert_eq!(value(&metrics, "xg2g_tuners_in_use"), 1.0);
    }
    delete_record(&fixture, &double).await;
    delete_record(&fixture, &without).await;
    worker.reconcile_now().await;
    claim(&fixture, "1:0:4:", 0).await;
    worker.reconcile_now().await;
    assert_eq!(violations(&metrics), [2.0, 1.0]);

    fixture.request_stop(&id).await;
    fixture.until_ended(&id).await;
    worker.reconcile_now().await;
    assert_eq!(value(&metrics, "xg2g_tuners_in_use"), 0.0);
    assert_eq!(
        value(&metrics, "v3_fsm_transitions_total{state_from=\"STOPPING\",state_to=\"STOPPED\"}"),
        1.0
    );

    let revoked = fixture.start("1:0:5:", "high").await;
    fixture.until(&revoked, SessionState::Ready).await;
    fixture.revoke("lease:service:1:0:5:").await;
    fixture.until_ended(&revoked).await;
    assert_eq!(value(&metrics, "v3_worker_lease_lost_total"), 1.0);
    worker.close().await;
}

#[tokio::test]
async fn revoked_tuners_and_rejected_sessions_are_counted() {
    let metrics = recorder();
    let mut fixture = Fixture::memory().await;
    fixture.options.slots = [0].into();
    // The keeper renews so rarely that reconciliation notices the loss first.
    (fixture.options.lease_ttl, fixture.options.heartbeat) = (LIMIT * 10, LIMIT * 3);
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    let refused = fixture.start("1:0:2:", "high").await;
    fixture.until_ended(&refused).await;
    assert_eq!(value(&metrics, "xg2g_v3_tuner_busy_total"), 1.0);

    fixture.revoke("lease:tuner:0").await;
    until_async("the violation is counted and the tuner is not", LIMIT, async || {
        violations(&metrics)[1] == 1.0 && value(&metrics, "xg2g_tuners_in_use") == 0.0
    })
    .await
    .unwrap();
    assert_eq!(violations(&metrics), [0.0, 1.0]);
    worker.close().await;
}

#[tokio::test]
async fn session_metrics_have_their_names_and_labels() {
    let metrics = recorder();
    let mut fixture = Fixture::memory().await;
    fixture.options.slots = [0].into();
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    let refused = fixture.start("1:0:2:", "low").await;
    fixture.until_ended(&refused).await;
    fixture.request_stop(&id).await;
    fixture.until_ended(&id).await;
    worker.close().await;
    fixture.options.idle_timeout = std::time::Duration::from_millis(1);
    let worker = fixture.worker().await;
    let unwatched = fixture.start("1:0:3:", "high").await;
    fixture.until_ended(&unwatched).await;
    worker.close().await;
    for (line, wanted) in [
        ("xg2g_v3_session_starts_total{result=\"ready\",reason_class=\"none\",profile=\"high\"}", 2.0),
        ("xg2g_v3_session_starts_total{result=\"failed\",reason_class=\"busy\",profile=\"low\"}", 1.0),
        ("xg2g_v3_capacity_rejections_total{reason=\"REJECTED_NO_TUNER\",profile=\"low\"}", 1.0),
        ("xg2g_v3_session_end_total{reason=\"R_CLIENT_STOP\",profile=\"high\"}", 1.0),
        ("xg2g_v3_session_end_total{reason=\"R_IDLE_TIMEOUT\",profile=\"high\"}", 1.0),
        ("xg2g_v3_time_to_first_playlist_seconds_count{profile=\"high\"}", 2.0),
        ("xg2g_sessions_lease_expired_total{previous_state=\"READY\"}", 1.0),
    ] {
        assert_eq!(value(&metrics, line), wanted, "{line} in\n{}", metrics.render());
    }
}

#[tokio::test]
async fn a_session_in_a_running_state_without_a_task_fails() {
    let fixture = Fixture::memory().await;
    let worker = fixture.worker().await;
    let id = claim(&fixture, "1:0:1:", 0).await;
    assert_eq!(fixture.until_ended(&id).await.state, SessionState::Failed);
    worker.close().await;
}

#[tokio::test]
async fn leases_of_an_ended_session_are_revoked() {
    let fixture = Fixture::memory().await;
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.request_stop(&id).await;
    fixture.until_ended(&id).await;
    let (key, holder) = (Key::new("lease:tuner:1").unwrap(), tenure_lease::Holder::new(id.as_str()).unwrap());
    let token = tenure_lease::Token::parse("token-of-an-ended-session").unwrap();
    let claim = tenure_lease::Claim::new(key, holder, token, tenure_lease::Ttl::from_secs(600).unwrap());
    fixture.store.acquire(claim).await.unwrap();
    until_async("the lease is ended", LIMIT, async || fixture.holder("lease:tuner:1").await.is_none())
        .await
        .unwrap();
    worker.close().await;
}
