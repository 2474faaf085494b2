//! Load generators and peers, measured side by side.
fn main() {}
