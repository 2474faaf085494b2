//! Seeds that must pass.

use sim::many::{Range, kernel, many};

#[test]
fn the_first_seeds_pass() {
    let done = many(kernel, Range { from: 1, count: 400, budget: None }, |_| ());
    assert!(done.failed.is_none(), "{:?}", done.failed);
    assert_eq!(done.seeds, 400);
    // A world in which nothing happens proves nothing.
    assert!(done.events > 400 * 100, "{}", done.events);
}
