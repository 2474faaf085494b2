//! Ten thousand targets on ten nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Key, Op, Store};
use tenure_poller::{ClusterSnapshot, Node, Settings};
use tenure_store::{BootClock, Local};
use tenure_testkit::wait;

const TARGETS: usize = 10_000;
const NODES: usize = 10;
/// Less than the timeout of a hanging test.
const TIMEOUT: Duration = Duration::from_secs(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_targets_are_spread_evenly_over_ten_nodes_with_one_owner_each() {
    let store: Arc<dyn Store> = Arc::new(Local::memory());
    for part in 0..TARGETS / 50 {
        let ops: Vec<Op> = (0..50)
            .map(|i| Op::Put {
                key: Key::new(format!("session:target-{}", part * 50 + i)).unwrap(),
                // Due once a day, at a closed port: this test is about ownership.
                value: b"{\"address\":\"http://127.0.0.1:9/\",\"intervalMs\":86400000}"[..].into(),
                ttl: None,
            })
            .collect();
        store.commit(&ops).await.unwrap();
    }
    let nodes: Vec<Node> =
        (0..NODES).map(|_| Node::start(store.clone(), Settings::default()).unwrap()).collect();
    wait::until_async("each node owns a thousand targets", TIMEOUT, async || {
        // A snapshot of ten thousand targets is expensive.
        BootClock.sleep_until(BootClock.now() + Duration::from_secs(1)).await;
        let snapshot = nodes[0].snapshot();
        snapshot.nodes.len() == NODES
            && snapshot.nodes.iter().all(|node| node.targets.len() == TARGETS / NODES)
    })
    .await
    .unwrap_or_else(|error| {
        let views: Vec<String> = nodes.iter().map(|node| summarize(&node.snapshot())).collect();
        panic!("{error}:\n{}", views.join("\n"));
    });
    let mut owners: HashMap<String, String> = HashMap::new();
    for node in &nodes {
        let snapshot = node.snapshot();
        let own = snapshot.nodes.into_iter().find(|view| view.is_this_instance).unwrap();
        for target in own.targets {
            let before = owners.insert(target.id, node.instance().to_owned());
            assert_eq!(before, None, "two nodes claim to own one target");
        }
    }
    assert_eq!(owners.len(), TARGETS);
}

/// A snapshot in one line.
fn summarize(snapshot: &ClusterSnapshot) -> String {
    let count = |state: &str| snapshot.unowned.iter().filter(|target| target.state == state).count();
    let loads: Vec<_> = snapshot
        .nodes
        .iter()
        .map(|node| {
            format!(
                "{}{}={}",
                &node.instance[node.instance.len() - 4..],
                if node.is_this_instance { "*" } else { "" },
                node.targets.len()
            )
        })
        .collect();
    format!("{} free, {} paused, {}", count("free"), count("paused"), loads.join(" "))
}
