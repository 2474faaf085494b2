//! Developer commands: test, tidy, bench.
fn main() {}
