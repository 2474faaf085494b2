//! Every known break is found, by the sentence that speaks of it or one that it follows from.
#![cfg(feature = "breaks")]

use std::process::Command;

use tenure_breaks::{Break, VARIABLE};
use tenure_sim::mutants::{MAX_SEEDS, hunt};

fn found(breaks: &[Break]) {
    for what in breaks {
        let caught = hunt(*what, 1, MAX_SEEDS);
        assert!(caught.seeds.is_some(), "survived {MAX_SEEDS} seeds: {}", what.describe());
    }
}

#[test]
fn breaks_of_the_holder_are_found() {
    found(&Break::SIMULATED[..12]);
}

#[test]
fn breaks_of_the_store_are_found() {
    found(&Break::SIMULATED[12..20]);
}

#[test]
fn breaks_of_the_queue_and_the_fence_are_found() {
    found(&Break::SIMULATED[20..]);
}

#[test]
fn there_are_enough_of_them() {
    assert!(Break::SIMULATED.len() >= 15);
}

/// What `cargo xtask mutants` relies on: a break that the environment names is on in the process under test.
#[test]
fn a_break_in_the_environment_turns_a_test_red() {
    let test = std::env::current_exe().unwrap();
    let run = |what: &str| {
        let mut command = Command::new(&test);
        command.args(["--exact", "seeds::the_first_seeds_pass"]).env(VARIABLE, what);
        command.output().unwrap()
    };
    let broken = run(Break::RenewCreates.name());
    let printed = String::from_utf8_lossy(&broken.stdout);
    assert!(!broken.status.success() && printed.contains("0 passed; 1 failed"), "{printed}");
    let misspelt = run("RenewCreate");
    let printed = String::from_utf8_lossy(&misspelt.stdout);
    assert!(printed.contains("there is no break \"RenewCreate\""), "{printed}");
}
