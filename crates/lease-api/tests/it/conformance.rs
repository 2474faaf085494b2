//! The client against the whole contract; see `tenure_store::conformance`.

use tenure_lease::Capabilities;
use tenure_store::Store;
use tenure_store::conformance::{Harness, stall_runtime, suite};

use crate::server::Server;

suite!(client, harness, flavor = "multi_thread", worker_threads = 2);

/// The threads of the runtime of a test.
const WORKERS: usize = 2;

/// Two clients of one server on a memory store.
async fn harness() -> Harness {
    let server = Server::start().await;
    let (first, second) = (Store::new(server.client().await), Store::new(server.client().await));
    // What the server's engine promises, but for the process that its holders die with.
    let contract = Capabilities { dies_with_process: false, ..Capabilities::in_process("memory") };
    Harness::new(first)
        .with_second(second)
        .with_contract(contract)
        .with_stall(|time| Box::pin(stall_runtime(WORKERS, time)))
        .over_network()
        .keeping(server)
}
