//! The way from a program of `fuzz_targets` to its body in `crates/fuzzing`.

/// Runs the body with this name.
pub fn run(name: &str, data: &[u8]) {
    let target = tenure_fuzzing::TARGETS.iter().find(|target| target.name == name);
    (target.expect("a program without a body").run)(data);
}
