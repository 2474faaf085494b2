//! Seeds that must pass.

use tenure_sim::seed_range::{Range, kernel, run_seeds};

#[test]
fn the_first_seeds_pass() {
    let done = run_seeds(kernel, Range { from: 1, count: 400, budget: None }, |_| ());
    assert!(done.failed.is_none(), "{:?}", done.failed);
    assert_eq!(done.seeds, 400);
    // A world in which nothing happens proves nothing.
    assert!(done.events > 400 * 100, "{}", done.events);
}

#[test]
fn seeds_that_once_left_a_copy_of_a_claim_held_pass() {
    for from in [60_247_129, 60_762_449] {
        let done = run_seeds(kernel, Range { from, count: 1, budget: None }, |_| ());
        assert!(done.failed.is_none(), "{:?}", done.failed);
    }
}

#[test]
fn a_seed_that_once_had_no_order_has_one() {
    // A storm of doubled requests: copies that came when their first was given back.
    let done = run_seeds(kernel, Range { from: 60_002_641, count: 1, budget: None }, |_| ());
    assert!(done.failed.is_none() && done.order.keys > 0, "{done:?}");
}
