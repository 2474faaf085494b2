//! The Tenure binary.
fn main() {}
