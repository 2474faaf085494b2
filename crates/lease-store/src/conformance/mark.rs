//! Monotonic fences: no greater generation may have written before.

use lease::{Committed, Fence, Generation, Mode};

use super::ask::{put, put_if_absent, written};
use super::{Held, World, said};

async fn write(world: &World, fence: &Fence, value: &str) -> Committed {
    said(world.store().write_fenced(fence, &[put(&world.key("r"), value)]).await)
}

/// Two reigns over one key, the first over, the second live.
async fn reigns(world: &World) -> (Held, Held) {
    let first = world.hold(&world.key("k"), "ann").await;
    world.give_back(&first).await;
    let second = world.hold(first.key(), "bob").await;
    (first, second)
}

pub async fn an_older_generation_may_write_until_a_newer_one_did(world: &World) {
    let (first, second) = reigns(world).await;
    written(write(world, &first.fence(Mode::Monotonic), "1").await);
    written(write(world, &second.fence(Mode::Monotonic), "2").await);
    let late = write(world, &first.fence(Mode::Monotonic), "late").await;
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
    world.assert_record(&world.key("r"), Some("2")).await;
}

pub async fn the_same_writer_may_write_again(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    for value in ["1", "2", "3"] {
        written(write(world, &held.fence(Mode::Monotonic), value).await);
    }
    world.assert_record(&world.key("r"), Some("3")).await;
}

pub async fn another_writer_with_the_same_generation_is_refused(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    written(write(world, &held.fence(Mode::Monotonic), "1").await);
    let twin = Fence { token: world.token(), ..held.fence(Mode::Monotonic) };
    let answer = write(world, &twin, "2").await;
    assert_eq!(answer, Committed::FencedOut { current: Some(held.generation()) });
    world.assert_record(&world.key("r"), Some("1")).await;
}

pub async fn the_lease_may_be_over(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    written(write(world, &held.fence(Mode::Monotonic), "1").await);
    world.assert_record(&world.key("r"), Some("1")).await;
}

pub async fn a_strict_write_keeps_an_older_one_out(world: &World) {
    let (first, second) = reigns(world).await;
    written(write(world, &first.fence(Mode::Monotonic), "1").await);
    written(write(world, &second.fence(Mode::Strict), "2").await);
    let late = write(world, &first.fence(Mode::Monotonic), "late").await;
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
    world.assert_record(&world.key("r"), Some("2")).await;
}

pub async fn the_mark_outlives_the_reign(world: &World) {
    let (first, second) = reigns(world).await;
    written(write(world, &second.fence(Mode::Monotonic), "2").await);
    world.give_back(&second).await;
    let late = write(world, &first.fence(Mode::Monotonic), "late").await;
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
}

pub async fn a_conflict_leaves_no_mark(world: &World) {
    let (first, second) = reigns(world).await;
    world.put(&world.key("r"), "0").await;
    let ops = [put_if_absent(&world.key("r"), "2")];
    let answer = said(world.store().write_fenced(&second.fence(Mode::Monotonic), &ops).await);
    assert!(matches!(answer, Committed::Conflict { index: 0, .. }), "{answer:?}");
    written(write(world, &first.fence(Mode::Monotonic), "1").await);
}

pub async fn a_refused_write_leaves_no_mark(world: &World) {
    let (first, second) = reigns(world).await;
    written(write(world, &first.fence(Mode::Monotonic), "1").await);
    let twin = Fence { token: world.token(), ..first.fence(Mode::Monotonic) };
    assert!(matches!(write(world, &twin, "2").await, Committed::FencedOut { .. }));
    written(write(world, &first.fence(Mode::Monotonic), "3").await);
    written(write(world, &second.fence(Mode::Monotonic), "4").await);
}

pub async fn a_fenced_write_never_moves_the_generations_of_leases(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let greatest = said(Generation::new((1 << 53) - 1));
    let invented = Fence { generation: greatest, ..held.fence(Mode::Monotonic) };
    written(write(world, &invented, "1").await);
    world.assert_live(&held).await;
    world.give_back(&held).await;
    let next = world.hold(held.key(), "bob").await;
    assert!(held.generation() < next.generation() && next.generation() < greatest);
}

pub async fn another_handle_sees_the_mark(world: &World) {
    let (first, second) = reigns(world).await;
    written(write(world, &second.fence(Mode::Monotonic), "2").await);
    let (late, ops) = (first.fence(Mode::Monotonic), [put(&world.key("r"), "late")]);
    let answer = said(world.second().write_fenced(&late, &ops).await);
    assert_eq!(answer, Committed::FencedOut { current: Some(second.generation()) });
}
