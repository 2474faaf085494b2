//! Strict fences: the lease must be live with this token and generation.

use tenure_lease::{Committed, Error, Fence, Generation, Mode, Op, Refusal};

use super::verbs::{append, put, put_if_absent, written};
use super::{Harness, expect_ok, expect_refusal};

async fn write(harness: &Harness, fence: &Fence, ops: &[Op]) -> Committed {
    expect_ok(harness.store().write_fenced(fence, ops).await)
}

async fn assert_fenced_out(harness: &Harness, fence: &Fence, current: Option<Generation>) {
    let (record, log) = (harness.key("late"), harness.key("late-log"));
    let answer = write(harness, fence, &[put(&record, "1"), append(&log, "1", 10)]).await;
    assert_eq!(answer, Committed::FencedOut { current });
    harness.assert_record(&record, None).await;
    assert_eq!(harness.log(&log).await, []);
}

pub async fn the_holder_may_write(harness: &Harness) {
    let (held, record) = (harness.hold(&harness.key("k"), "ann").await, harness.key("r"));
    let fence = held.fence(Mode::Strict);
    let first = written(write(harness, &fence, &[put(&record, "1")]).await);
    let second = written(write(harness, &fence, &[put(&record, "2")]).await);
    assert!(second > first);
    harness.assert_record(&record, Some("2")).await;
    assert_eq!(harness.get(&record).await.map(|record| record.revision), Some(second));
}

pub async fn a_fenced_write_does_not_refresh_the_lease(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(std::time::Duration::from_millis(200)).await;
    written(write(harness, &held.fence(Mode::Strict), &[put(&harness.key("r"), "1")]).await);
    harness.ends(held.key()).await.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn nothing_is_written_after_a_release(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_fenced_out(harness, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_an_expiry(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    assert_fenced_out(harness, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_a_stall_past_the_expiry(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.stall(held.lease.ttl.as_duration() + super::time::ROUNDING).await;
    assert_fenced_out(harness, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_a_replacement(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let next = harness.replace(&held, "bob").await;
    assert_fenced_out(harness, &held.fence(Mode::Strict), Some(next.generation())).await;
    written(write(harness, &next.fence(Mode::Strict), &[put(&harness.key("r"), "1")]).await);
}

pub async fn nothing_is_written_after_a_revocation(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, None).await;
    assert_fenced_out(harness, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_a_transfer(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    let lease = harness.transfer_held(&held, "bob").await;
    assert_fenced_out(harness, &held.fence(Mode::Strict), Some(lease.generation)).await;
    bob.granted(harness).await;
}

pub async fn a_wrong_token_writes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let wrong = Fence { token: harness.token(), ..held.fence(Mode::Strict) };
    assert_fenced_out(harness, &wrong, Some(held.generation())).await;
}

pub async fn a_wrong_generation_writes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let wrong = Fence { generation: held.other_generation(), ..held.fence(Mode::Strict) };
    assert_fenced_out(harness, &wrong, Some(held.generation())).await;
}

pub async fn a_key_that_was_never_held_writes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let wrong = Fence { key: harness.key("other"), ..held.fence(Mode::Strict) };
    assert_fenced_out(harness, &wrong, None).await;
}

pub async fn a_conflict_under_a_fence_writes_nothing(harness: &Harness) {
    let (held, record) = (harness.hold(&harness.key("k"), "ann").await, harness.key("r"));
    let there = harness.put(&record, "there").await;
    let ops = [put(&harness.key("other"), "1"), put_if_absent(&record, "2")];
    let answer = write(harness, &held.fence(Mode::Strict), &ops).await;
    assert_eq!(answer, Committed::Conflict { index: 1, found: Some(there) });
    harness.assert_record(&harness.key("other"), None).await;
    harness.assert_record(&record, Some("there")).await;
}

pub async fn a_leased_key_is_not_written_under_a_fence(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let fence = held.fence(Mode::Strict);
    let error = expect_refusal(harness.store().write_fenced(&fence, &[put(held.key(), "1")]).await);
    assert!(matches!(error, Error::Refused(Refusal::KeyIsLeased { .. })), "{error}");
    harness.assert_live(&held).await;
}

pub async fn another_handle_checks_the_same_fence(harness: &Harness) {
    let (held, record) = (harness.hold(&harness.key("k"), "ann").await, harness.key("r"));
    let fence = held.fence(Mode::Strict);
    written(expect_ok(harness.second().write_fenced(&fence, &[put(&record, "1")]).await));
    harness.release_held(&held).await;
    let answer = expect_ok(harness.second().write_fenced(&fence, &[put(&record, "2")]).await);
    assert_eq!(answer, Committed::FencedOut { current: Some(held.generation()) });
    harness.assert_record(&record, Some("1")).await;
}
