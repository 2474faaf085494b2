//! The truth about tuners, as it is counted.

use lease::{Key, Op};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use session::{Session, SessionId, State, Target};
use testkit::wait::until_async;

use crate::house::{House, LIMIT, session};

/// Each test is a process of its own, so the recorder of the process is the test's.
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

/// A record that no worker wrote and that claims a tuner.
async fn claim(house: &House, channel: &str, slot: u32) -> SessionId {
    let wish = session(Target::new(Some(channel), None, None).unwrap(), "high");
    // Created as READY, so that no worker takes it up.
    let ready = Session { state: State::Ready, slot: Some(slot), ..wish };
    house.record(ready).await
}

async fn forget(house: &House, id: &SessionId) {
    let key = Key::new(format!("v3:session:{id}")).unwrap();
    house.store.commit(&[Op::Delete { key }]).await.unwrap();
}

#[tokio::test]
async fn the_gauge_follows_and_each_violation_counts_once() {
    let metrics = recorder();
    let mut house = House::memory().await;
    // Only on demand, so that nothing happens in between.
    house.options.reconcile = LIMIT * 10;
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    worker.reconcile_now().await;
    assert_eq!(value(&metrics, "xg2g_tuners_in_use"), 1.0);
    assert_eq!(value(&metrics, "xg2g_v3_sessions_active"), 1.0);
    assert_eq!(violations(&metrics), [0.0, 0.0]);

    let double = claim(&house, "1:0:2:", 0).await;
    let without = claim(&house, "1:0:3:", 1).await;
    for _ in 0..3 {
        worker.reconcile_now().await;
        assert_eq!(violations(&metrics), [1.0, 1.0], "once per episode");
        assert_eq!(value(&metrics, "xg2g_tuners_in_use"), 1.0);
    }
    forget(&house, &double).await;
    forget(&house, &without).await;
    worker.reconcile_now().await;
    claim(&house, "1:0:4:", 0).await;
    worker.reconcile_now().await;
    assert_eq!(violations(&metrics), [2.0, 1.0]);

    house.ask_stop(&id).await;
    house.until_over(&id).await;
    worker.reconcile_now().await;
    assert_eq!(value(&metrics, "xg2g_tuners_in_use"), 0.0);
    assert_eq!(
        value(&metrics, "v3_fsm_transitions_total{state_from=\"STOPPING\",state_to=\"STOPPED\"}"),
        1.0
    );

    let robbed = house.wish("1:0:5:", "high").await;
    house.until(&robbed, State::Ready).await;
    house.revoke("lease:service:1:0:5:").await;
    house.until_over(&robbed).await;
    assert_eq!(value(&metrics, "v3_worker_lease_lost_total"), 1.0);
    worker.close().await;
}

#[tokio::test]
async fn a_stolen_tuner_is_counted_and_a_refused_session_too() {
    let metrics = recorder();
    let mut house = House::memory().await;
    house.options.slots = [0].into();
    // The keeper asks so seldom that the comparison comes first.
    (house.options.lease_ttl, house.options.heartbeat) = (LIMIT * 10, LIMIT * 3);
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    let refused = house.wish("1:0:2:", "high").await;
    house.until_over(&refused).await;
    assert_eq!(value(&metrics, "xg2g_v3_tuner_busy_total"), 1.0);

    house.revoke("lease:tuner:0").await;
    until_async("the theft is counted and the tuner is not", LIMIT, async || {
        violations(&metrics)[1] == 1.0 && value(&metrics, "xg2g_tuners_in_use") == 0.0
    })
    .await
    .unwrap();
    assert_eq!(violations(&metrics), [0.0, 1.0]);
    worker.close().await;
}

#[tokio::test]
async fn every_number_of_a_session_has_its_name_and_its_labels() {
    let metrics = recorder();
    let mut house = House::memory().await;
    house.options.slots = [0].into();
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    let refused = house.wish("1:0:2:", "low").await;
    house.until_over(&refused).await;
    house.ask_stop(&id).await;
    house.until_over(&id).await;
    worker.close().await;
    house.options.idle_timeout = std::time::Duration::from_millis(1);
    let worker = house.worker().await;
    let unwatched = house.wish("1:0:3:", "high").await;
    house.until_over(&unwatched).await;
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
async fn what_claims_to_run_and_is_run_by_nobody_fails() {
    let house = House::memory().await;
    let worker = house.worker().await;
    let id = claim(&house, "1:0:1:", 0).await;
    assert_eq!(house.until_over(&id).await.state, State::Failed);
    worker.close().await;
}

#[tokio::test]
async fn leases_of_a_session_that_is_over_are_ended() {
    let house = House::memory().await;
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "high").await;
    house.ask_stop(&id).await;
    house.until_over(&id).await;
    let (key, holder) = (Key::new("lease:tuner:1").unwrap(), lease::Holder::new(id.as_str()).unwrap());
    let token = lease::Token::parse("a-token-of-nobody-any-more").unwrap();
    let claim = lease::Claim::new(key, holder, token, lease::Ttl::from_secs(600).unwrap());
    house.store.acquire(claim).await.unwrap();
    until_async("the lease is ended", LIMIT, async || house.holder("lease:tuner:1").await.is_none())
        .await
        .unwrap();
    worker.close().await;
}
