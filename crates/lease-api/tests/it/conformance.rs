//! The client against the whole contract; see `tenure_store::conformance`.

use tenure_store::Store;
use tenure_store::conformance::{Harness, suite};

use crate::server::Server;

suite!(client, harness, flavor = "multi_thread", worker_threads = 2);

/// Two clients of one server on a memory store.
async fn harness() -> Harness {
    let server = Server::start().await;
    let (first, second) = (Store::new(server.client().await), Store::new(server.client().await));
    Harness::new(first).with_second(second).over_network().keeping(server)
}
