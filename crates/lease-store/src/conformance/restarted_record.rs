//! Time and order over a restart of the store: TTLs of records, and the floor of generations.

use super::Harness;
use super::record::put_for;

pub async fn a_record_with_a_ttl_comes_back_with_no_more_than_its_time(harness: &Harness) {
    let key = harness.key("r");
    harness.write(&[put_for(&key, "1", harness.long_ttl())]).await;
    let answered = harness.now();
    harness.restart().await;
    let asked = harness.now();
    let Some(left) = harness.get(&key).await.and_then(|record| record.remaining) else {
        panic!("the record or its ttl is lost")
    };
    // Engines round to their step, and the wall clock may be slewed meanwhile.
    let slack = harness.capabilities().ttl_step + std::time::Duration::from_millis(50);
    let most = harness.long_ttl().as_duration().saturating_sub(asked.since(answered)) + slack;
    assert!(left <= most, "{left:?} are left of at most {most:?}");
}

pub async fn a_record_ends_with_its_ttl_although_the_store_was_restarted(harness: &Harness) {
    let key = harness.key("r");
    harness.write(&[put_for(&key, "1", harness.ttl())]).await;
    harness.restart().await;
    harness.outlive(harness.ttl()).await;
    harness.assert_record(&key, None).await;
}

pub async fn a_new_key_begins_above_every_generation_of_before(harness: &Harness) {
    let busy = harness.key("busy");
    let mut last = None;
    for _ in 0..5 {
        let held = harness.hold(&busy, "ann").await;
        last = Some(held.generation());
        harness.release_held(&held).await;
    }
    harness.restart().await;
    let held = harness.hold(&harness.key("new"), "ann").await;
    assert!(Some(held.generation()) > last, "{:?} after {last:?}", held.generation());
}
