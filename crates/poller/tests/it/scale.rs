//! Ten thousand targets on ten nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Key, Op, Store};
use lease_store::{BootClock, Local};
use poller::{Node, Picture, Settings};
use testkit::wait;

const TARGETS: usize = 10_000;
const NODES: usize = 10;
/// Below what ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_targets_lie_evenly_on_ten_nodes_and_each_has_one_owner() {
    let store: Arc<dyn Store> = Arc::new(Local::memory());
    for part in 0..TARGETS / 50 {
        let ops: Vec<Op> = (0..50)
            .map(|i| Op::Put {
                key: Key::new(format!("session:target-{}", part * 50 + i)).unwrap(),
                // Due once a day, from a port that nobody listens on: what is tested is who owns.
                value: b"{\"address\":\"http://127.0.0.1:9/\",\"intervalMs\":86400000}"[..].into(),
                ttl: None,
            })
            .collect();
        store.commit(&ops).await.unwrap();
    }
    let nodes: Vec<Node> =
        (0..NODES).map(|_| Node::start(store.clone(), Settings::default()).unwrap()).collect();
    wait::until_async("each has its thousand", PATIENCE, async || {
        // A picture of ten thousand is not for nothing.
        BootClock.sleep_until(BootClock.now() + Duration::from_secs(1)).await;
        let picture = nodes[0].picture();
        picture.nodes.len() == NODES && picture.nodes.iter().all(|node| node.targets.len() == TARGETS / NODES)
    })
    .await
    .unwrap_or_else(|error| {
        let views: Vec<String> = nodes.iter().map(|node| shape(&node.picture())).collect();
        panic!("{error}:\n{}", views.join("\n"));
    });
    let mut owners: HashMap<String, String> = HashMap::new();
    for node in &nodes {
        let picture = node.picture();
        let own = picture.nodes.into_iter().find(|view| view.is_this_instance).unwrap();
        for target in own.targets {
            let before = owners.insert(target.id, node.instance().to_owned());
            assert_eq!(before, None, "two nodes believe to own one target");
        }
    }
    assert_eq!(owners.len(), TARGETS);
}

/// What a node sees, in a line.
fn shape(picture: &Picture) -> String {
    let count = |state: &str| picture.unowned.iter().filter(|target| target.state == state).count();
    let loads: Vec<_> = picture
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
