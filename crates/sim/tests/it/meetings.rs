//! Simulated meetings: they repeat, they pass, and their judge finds known breaks.

use tenure_sim::meet::{Plan, run};
use tenure_sim::seed_range::{Range, meetings, run_seeds};

#[test]
fn a_seed_of_meetings_gives_the_same_run_again() {
    for seed in 200..212 {
        let fingerprints = [0, 1].map(|_| run(&Plan::of(seed)).fingerprint);
        assert_eq!(fingerprints[0], fingerprints[1], "seed {seed}");
    }
}

#[test]
fn the_first_seeds_of_meetings_pass() {
    let done = run_seeds(meetings, Range { from: 1, count: 60, budget: None }, |_| ());
    assert!(done.failed.is_none(), "{:?}", done.failed);
    // A run in which nothing happens proves nothing.
    assert!(done.events > 60 * 50, "{}", done.events);
}

#[cfg(feature = "breaks")]
#[test]
fn breaks_of_meetings_are_found() {
    use tenure_sim::meet::{BREAKS, hunt};
    use tenure_sim::mutants::MAX_SEEDS;

    assert!(BREAKS.len() >= 10);
    for what in BREAKS {
        let found = hunt(*what, 1, MAX_SEEDS);
        assert!(found.is_some(), "survived {MAX_SEEDS} seeds: {}", what.describe());
    }
}
