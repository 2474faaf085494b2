//! The polling node of this process.

use std::sync::Arc;

use lease::Store;
use poller::Node;
use service::{Settings, Shutdown};

use crate::cli::{Failure, Result};
use crate::up::runs;

/// The settings of polling, if this process polls.
pub(crate) fn settings(settings: &Settings) -> Result<Option<poller::Settings>> {
    let read = poller::Settings::read(settings.sections.get("poll"))
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(runs(settings, "poll").then_some(read))
}

pub(crate) fn start(store: Arc<dyn Store>, settings: poller::Settings) -> Result<Node> {
    Ok(Node::start(store, settings)?)
}

/// Runs `serving` and, from the shutdown on, stops the node beside it: targets are handed on while requests drain.
pub(crate) async fn beside<T>(
    node: Option<Node>,
    shutdown: &Shutdown,
    serving: impl Future<Output = T>,
) -> T {
    let stopping = async {
        shutdown.wait().await;
        if let Some(node) = node {
            node.stop().await;
        }
    };
    let (served, ()) = tokio::join!(
        async {
            let served = serving.await;
            // A server that ends by itself takes the node along.
            shutdown.trigger();
            served
        },
        stopping
    );
    served
}

#[expect(clippy::print_stdout, reason = "the words that a person waits for")]
pub(crate) fn greet(node: &Node) {
    println!("  polls as  {}", node.instance());
}
