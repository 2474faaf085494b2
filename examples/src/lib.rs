//! One concept per file. Run one with `cargo run -p examples --example hello_lease`, on another store with
//! `cargo run -p examples --example hello_lease -- redis://127.0.0.1:6379`.

use tenure_store::Store;

/// The store named on the command line, or one in memory.
pub async fn store() -> tenure_lease::Result<Store> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    Store::open(&url).await
}
