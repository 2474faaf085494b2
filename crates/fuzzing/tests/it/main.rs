//! Every target over its corpus and over mutations of it, from a fixed seed: fast, and the same everywhere.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says what it saw and ends in a panic"
)]

mod mutator;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_fuzzing::{TARGETS, Target};
use tenure_lease::Clock;
use tenure_store::BootClock;

use crate::mutator::Mutator;

/// The same inputs in every build.
const SEED: u64 = 0x7e_20_52;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The corpus of a target, sorted by file name, and the generated seeds.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = fuzz_folder().join("corpus").join(target.name);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut inputs: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    inputs.extend((target.seeds)());
    inputs
}

fn run_target(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let inputs = corpus(target);
    assert!(!inputs.is_empty(), "{name} has no corpus");
    inputs.iter().for_each(|input| try_one(target, input));
    match longer() {
        None => {
            let mut mutator = Mutator::new(SEED, inputs);
            (0..target.tries).for_each(|_| try_one(target, &mutator.next()));
        }
        Some((seed, time)) => {
            let (mut mutator, mut tried) = (Mutator::new(seed, inputs), 0_u64);
            let end = BootClock.now() + time;
            while BootClock.now() < end {
                try_one(target, &mutator.next());
                tried += 1;
            }
            println!("{name}: {tried} inputs from seed {seed}");
        }
    }
}

fn try_one(target: &Target, input: &[u8]) {
    let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let shown = input.escape_ascii();
    assert!(ended.is_ok(), "{} breaks a promise on b\"{shown}\"", target.name);
}

/// With `FUZZ_SECONDS` set, every target runs for that long from a fresh seed instead.
fn longer() -> Option<(u64, Duration)> {
    let seconds = std::env::var("FUZZ_SECONDS").ok()?.parse().expect("FUZZ_SECONDS is a number");
    Some((BootClock.now().as_nanos(), Duration::from_secs(seconds)))
}

macro_rules! targets {
    ($($name:ident: $sentence:ident),* $(,)?) => {
        $(#[test]
        fn $sentence() {
            run_target(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test_and_a_program() {
            let tested = [$(stringify!($name)),*];
            for target in TARGETS {
                assert!(tested.contains(&target.name), "{} is not tested", target.name);
                let program = fuzz_folder().join("fuzz_targets").join(format!("{}.rs", target.name));
                assert!(program.is_file(), "{} is missing", program.display());
            }
            assert_eq!(tested.len(), TARGETS.len());
        }
    };
}

targets! {
    words: any_text_is_a_word_as_it_stands_or_none,
    addresses: any_text_is_an_address_or_refused_with_advice,
    durations: any_text_is_a_duration_or_refused_with_advice,
    watchdog: any_bytes_on_the_watchdogs_pipe_are_lines_or_noise,
    redis: any_answer_of_redis_is_read_or_refused,
    folder: any_journal_is_loaded_or_refused,
    messages: any_message_is_read_as_it_was_meant_or_refused,
    http: any_request_is_answered_or_refused_by_a_problem,
    headers: any_headers_are_nobody_without_the_right_token,
    intents: any_body_is_a_wish_that_forges_no_other_or_refused,
    forwarded: any_chain_of_addresses_lets_no_stranger_in,
    meet_frames: any_stream_is_the_same_frames_however_it_is_cut,
    meet_media: any_media_is_the_same_however_it_is_cut_and_no_grant_is_forged,
    meet_jwts: any_text_is_a_token_of_ours_or_refused,
    meet_jwks: any_bytes_are_a_key_set_that_reads_back_or_refused,
    meet_names: any_text_is_a_name_as_it_stands_and_no_forged_binding,
    settings: any_file_is_settings_that_read_back_or_refused,
    tokens: any_list_of_tokens_is_read_without_showing_one,
}
