//! Nodes that use Redis through a lease server.

use tenure_testkit::wait;

use super::cluster::{Cluster, LONG, ids};
use crate::harness::LIMIT;

#[test]
fn a_node_on_a_lease_server_polls_targets_that_another_program_wrote_to_redis() {
    let cluster = Cluster::new(LONG);
    let ids = ids(3);
    cluster.put_targets(&ids);
    let (server, url, token) = cluster.start_lease_server();
    let node = cluster.start_node_on_server(&url, &token);
    cluster.wait_for_polls(&ids, 2);
    let owners = cluster.owners();
    assert!(owners.len() == 3 && owners.values().all(|owner| *owner == node.instance), "{owners:?}");
    for id in &ids {
        // Announcements are sent after the polls.
        wait::until("the result is announced", LIMIT, || {
            let latest = cluster.redis.command(&["GET", &format!("poll:latest:{id}")]).unwrap();
            latest.text().is_some_and(|text| text.contains(&node.instance))
        })
        .unwrap();
    }
    cluster.endpoint.assert_one_owner_at_a_time();
    node.stop();
    server.terminate().unwrap();
}
