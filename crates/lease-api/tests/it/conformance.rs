//! The client against the whole contract; see `lease_store::conformance`.

use lease_store::Store;
use lease_store::conformance::{World, suite};

use crate::server::Server;

suite!(client, world, flavor = "multi_thread", worker_threads = 2);

/// Two clients of one server on a memory store.
async fn world() -> World {
    let server = Server::start().await;
    let (first, second) = (Store::new(server.client().await), Store::new(server.client().await));
    World::new(first).with_second(second).over_network().keeping(server)
}
