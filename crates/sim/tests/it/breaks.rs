//! Every known break is found, by the describe that speaks of it or one that it follows from.
#![cfg(feature = "breaks")]

use tenure_lease::breaks::Break;
use tenure_sim::mutants::{MAX_SEEDS, describe, hunt};

fn found(breaks: &[Break]) {
    for what in breaks {
        let caught = hunt(*what, 1, MAX_SEEDS);
        assert!(caught.seeds.is_some(), "survived {MAX_SEEDS} seeds: {}", describe(*what));
    }
}

#[test]
fn breaks_of_the_holder_are_found() {
    found(&Break::ALL[..12]);
}

#[test]
fn breaks_of_the_store_are_found() {
    found(&Break::ALL[12..20]);
}

#[test]
fn breaks_of_the_queue_and_the_fence_are_found() {
    found(&Break::ALL[20..]);
}

#[test]
fn there_are_enough_of_them() {
    assert!(Break::ALL.len() >= 15);
}
