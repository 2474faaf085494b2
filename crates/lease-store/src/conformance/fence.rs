//! Strict fences: the lease must be live with this token and generation.

use lease::{Committed, Error, Fence, Generation, Mode, Op, Refusal};

use super::ask::{append, put, put_if_absent, written};
use super::{World, refused, said};

async fn write(world: &World, fence: &Fence, ops: &[Op]) -> Committed {
    said(world.store().write_fenced(fence, ops).await)
}

async fn assert_fenced_out(world: &World, fence: &Fence, current: Option<Generation>) {
    let (record, log) = (world.key("late"), world.key("late-log"));
    let answer = write(world, fence, &[put(&record, "1"), append(&log, "1", 10)]).await;
    assert_eq!(answer, Committed::FencedOut { current });
    world.assert_record(&record, None).await;
    assert_eq!(world.log(&log).await, []);
}

pub async fn the_holder_may_write(world: &World) {
    let (held, record) = (world.hold(&world.key("k"), "ann").await, world.key("r"));
    let fence = held.fence(Mode::Strict);
    let first = written(write(world, &fence, &[put(&record, "1")]).await);
    let second = written(write(world, &fence, &[put(&record, "2")]).await);
    assert!(second > first);
    world.assert_record(&record, Some("2")).await;
    assert_eq!(world.get(&record).await.map(|record| record.revision), Some(second));
}

pub async fn a_fenced_write_does_not_refresh_the_lease(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(std::time::Duration::from_millis(200)).await;
    written(write(world, &held.fence(Mode::Strict), &[put(&world.key("r"), "1")]).await);
    world.ends(held.key()).await.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn nothing_is_written_after_a_release(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_fenced_out(world, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_an_expiry(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    assert_fenced_out(world, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_a_stall_past_the_expiry(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.stall(held.lease.ttl.as_duration() + super::time::ROUNDING).await;
    assert_fenced_out(world, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_a_replacement(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let next = world.replace(&held, "bob").await;
    assert_fenced_out(world, &held.fence(Mode::Strict), Some(next.generation())).await;
    written(write(world, &next.fence(Mode::Strict), &[put(&world.key("r"), "1")]).await);
}

pub async fn nothing_is_written_after_a_revocation(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, None).await;
    assert_fenced_out(world, &held.fence(Mode::Strict), Some(held.generation())).await;
}

pub async fn nothing_is_written_after_a_transfer(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    let lease = world.hand_over(&held, "bob").await;
    assert_fenced_out(world, &held.fence(Mode::Strict), Some(lease.generation)).await;
    bob.granted(world).await;
}

pub async fn a_wrong_token_writes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let wrong = Fence { token: world.token(), ..held.fence(Mode::Strict) };
    assert_fenced_out(world, &wrong, Some(held.generation())).await;
}

pub async fn a_wrong_generation_writes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let wrong = Fence { generation: held.other_generation(), ..held.fence(Mode::Strict) };
    assert_fenced_out(world, &wrong, Some(held.generation())).await;
}

pub async fn a_key_that_was_never_held_writes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let wrong = Fence { key: world.key("other"), ..held.fence(Mode::Strict) };
    assert_fenced_out(world, &wrong, None).await;
}

pub async fn a_conflict_under_a_fence_writes_nothing(world: &World) {
    let (held, record) = (world.hold(&world.key("k"), "ann").await, world.key("r"));
    let there = world.put(&record, "there").await;
    let ops = [put(&world.key("other"), "1"), put_if_absent(&record, "2")];
    let answer = write(world, &held.fence(Mode::Strict), &ops).await;
    assert_eq!(answer, Committed::Conflict { index: 1, found: Some(there) });
    world.assert_record(&world.key("other"), None).await;
    world.assert_record(&record, Some("there")).await;
}

pub async fn a_leased_key_is_not_written_under_a_fence(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let fence = held.fence(Mode::Strict);
    let error = refused(world.store().write_fenced(&fence, &[put(held.key(), "1")]).await);
    assert!(matches!(error, Error::Refused(Refusal::KeyIsLeased { .. })), "{error}");
    world.assert_live(&held).await;
}

pub async fn another_handle_checks_the_same_fence(world: &World) {
    let (held, record) = (world.hold(&world.key("k"), "ann").await, world.key("r"));
    let fence = held.fence(Mode::Strict);
    written(said(world.second().write_fenced(&fence, &[put(&record, "1")]).await));
    world.give_back(&held).await;
    let answer = said(world.second().write_fenced(&fence, &[put(&record, "2")]).await);
    assert_eq!(answer, Committed::FencedOut { current: Some(held.generation()) });
    world.assert_record(&record, Some("1")).await;
}
