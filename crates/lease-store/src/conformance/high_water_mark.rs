//! Monotonic fences: no greater generation may have written before.

use tenure_lease::{Committed, Fence, Generation, Mode};

use super::verbs::{put, put_if_absent, written};
use super::{Harness, HeldLease, expect_ok};

async fn write(harness: &Harness, fence: &Fence, value: &str) -> Committed {
    expect_ok(harness.store().write_fenced(fence, &[put(&harness.key("r"), value)]).await)
}

/// Two reigns over one key, the first over, the second live.
async fn reigns(harness: &Harness) -> (HeldLease, HeldLease) {
    let first = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&first).await;
    let second = harness.hold(first.key(), "bob").await;
    (first, second)
}

pub async fn an_older_generation_may_write_until_a_newer_one_did(harness: &Harness) {
    let (first, second) = reigns(harness).await;
    written(write(harness, &first.fence(Mode::Monotonic), "1").await);
    written(write(harness, &second.fence(Mode::Monotonic), "2").await);
    let late = write(harness, &first.fence(Mode::Monotonic), "late").await;
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
    harness.assert_record(&harness.key("r"), Some("2")).await;
}

pub async fn the_same_writer_may_write_again(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    for value in ["1", "2", "3"] {
        written(write(harness, &held.fence(Mode::Monotonic), value).await);
    }
    harness.assert_record(&harness.key("r"), Some("3")).await;
}

pub async fn another_writer_with_the_same_generation_is_refused(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    written(write(harness, &held.fence(Mode::Monotonic), "1").await);
    let duplicate = Fence { token: harness.token(), ..held.fence(Mode::Monotonic) };
    let answer = write(harness, &duplicate, "2").await;
    assert_eq!(answer, Committed::FencedOut { current: Some(held.generation()) });
    harness.assert_record(&harness.key("r"), Some("1")).await;
}

pub async fn the_lease_may_have_ended(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    written(write(harness, &held.fence(Mode::Monotonic), "1").await);
    harness.assert_record(&harness.key("r"), Some("1")).await;
}

pub async fn a_strict_write_raises_the_mark(harness: &Harness) {
    let (first, second) = reigns(harness).await;
    written(write(harness, &first.fence(Mode::Monotonic), "1").await);
    written(write(harness, &second.fence(Mode::Strict), "2").await);
    let late = write(harness, &first.fence(Mode::Monotonic), "late").await;
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
    harness.assert_record(&harness.key("r"), Some("2")).await;
}

pub async fn the_mark_outlives_the_reign(harness: &Harness) {
    let (first, second) = reigns(harness).await;
    written(write(harness, &second.fence(Mode::Monotonic), "2").await);
    harness.release_held(&second).await;
    let late = write(harness, &first.fence(Mode::Monotonic), "late").await;
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
}

pub async fn a_conflict_leaves_no_mark(harness: &Harness) {
    let (first, second) = reigns(harness).await;
    harness.put(&harness.key("r"), "0").await;
    let ops = [put_if_absent(&harness.key("r"), "2")];
    let answer = expect_ok(harness.store().write_fenced(&second.fence(Mode::Monotonic), &ops).await);
    assert!(matches!(answer, Committed::Conflict { index: 0, .. }), "{answer:?}");
    written(write(harness, &first.fence(Mode::Monotonic), "1").await);
}

pub async fn a_refused_write_leaves_no_mark(harness: &Harness) {
    let (first, second) = reigns(harness).await;
    written(write(harness, &first.fence(Mode::Monotonic), "1").await);
    let duplicate = Fence { token: harness.token(), ..first.fence(Mode::Monotonic) };
    assert!(matches!(write(harness, &duplicate, "2").await, Committed::FencedOut { .. }));
    written(write(harness, &first.fence(Mode::Monotonic), "3").await);
    written(write(harness, &second.fence(Mode::Monotonic), "4").await);
}

/// Fences like this one that nothing proves: of a later generation, of another token, of a key that was never held.
fn invented(harness: &Harness, held: &HeldLease) -> [Fence; 4] {
    let later = |generation| Fence {
        generation: expect_ok(Generation::new(generation)),
        ..held.fence(Mode::Monotonic)
    };
    [
        later(held.generation().get() + 1),
        later((1 << 53) - 1),
        Fence { token: harness.token(), ..held.fence(Mode::Monotonic) },
        Fence { key: harness.key("never-held"), ..held.fence(Mode::Monotonic) },
    ]
}

pub async fn a_fence_that_nothing_proves_is_refused_and_leaves_no_mark(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let refused = async || {
        for fence in invented(harness, &held) {
            let current = (fence.key == *held.key()).then(|| held.generation());
            assert_eq!(write(harness, &fence, "1").await, Committed::FencedOut { current }, "{fence:?}");
        }
        harness.assert_record(&harness.key("r"), None).await;
    };
    refused().await;
    harness.release_held(&held).await;
    refused().await;
    written(write(harness, &held.fence(Mode::Monotonic), "1").await);
}

pub async fn a_fenced_write_never_moves_the_generations_of_leases(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let greatest = expect_ok(Generation::new((1 << 53) - 1));
    let invented = Fence { generation: greatest, ..held.fence(Mode::Monotonic) };
    let refused = write(harness, &invented, "1").await;
    assert_eq!(refused, Committed::FencedOut { current: Some(held.generation()) });
    harness.assert_live(&held).await;
    harness.release_held(&held).await;
    let next = harness.hold(held.key(), "bob").await;
    assert!(held.generation() < next.generation() && next.generation() < greatest);
}

pub async fn another_handle_sees_the_mark(harness: &Harness) {
    let (first, second) = reigns(harness).await;
    written(write(harness, &second.fence(Mode::Monotonic), "2").await);
    let (late, ops) = (first.fence(Mode::Monotonic), [put(&harness.key("r"), "late")]);
    let answer = expect_ok(harness.second().write_fenced(&late, &ops).await);
    assert_eq!(answer, Committed::FencedOut { current: Some(second.generation()) });
}
