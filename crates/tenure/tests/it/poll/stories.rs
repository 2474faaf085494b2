//! Nodes join, leave and fail; targets change.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tenure_lease::{Clock, Tick};
use tenure_store::BootClock;
use tenure_testkit::{Reply, wait};

use super::cluster::{Cluster, ClusterTiming, LONG, Node, SHORT, ids};
use crate::harness::LIMIT;

#[test]
fn one_node_polls_every_target_with_the_keys_of_the_seed() {
    let cluster = Cluster::new(LONG);
    let ids = ids(5);
    cluster.put_targets(&ids);
    let node = cluster.start_node();
    cluster.wait_for_polls(&ids, 3);
    let owners = cluster.owners();
    assert_eq!(owners, ids.iter().map(|id| (id.clone(), node.instance.clone())).collect::<BTreeMap<_, _>>());
    for id in &ids {
        let left = cluster.redis.command(&["PTTL", &format!("poll:lease:{id}")]).unwrap().int().unwrap();
        assert!((1..=30_000).contains(&left), "{left}");
    }
    let heartbeat = format!("poll:node:{}", node.instance);
    assert_eq!(cluster.redis.command(&["GET", &heartbeat]).unwrap().text(), Some("1"));
    let left = cluster.redis.command(&["PTTL", &heartbeat]).unwrap().int().unwrap();
    assert!((1..=30_000).contains(&left), "{left}");
    let Reply::Array(Some(nodes)) = cluster.redis.command(&["KEYS", "poll:node:*"]).unwrap() else {
        panic!()
    };
    assert_eq!(nodes.len(), 1, "unexpected keys: {nodes:?}");
    let latest = cluster.redis.command(&["GET", "poll:latest:target-0"]).unwrap();
    let latest: serde_json::Value = serde_json::from_str(latest.text().unwrap()).unwrap();
    assert_eq!((&latest["ok"], &latest["instance"]), (&json!(true), &json!(node.instance)));
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_third_node_joins_and_as_few_targets_as_possible_move() {
    // The default interval, so that two intervals are enough on a slow machine.
    let cluster = Cluster::new(ClusterTiming { discovery: 10_000, ..LONG });
    let ids = ids(10);
    cluster.put_targets(&ids);
    let (a, b) = (cluster.start_node(), cluster.start_node());
    cluster.wait_for_loads("two nodes share ten", &[&a, &b], &[5, 5]);
    let before = cluster.owners();
    let c = cluster.start_node();
    let joined = BootClock.now();
    cluster.wait_for_loads("three nodes share ten", &[&a, &b, &c], &[3, 3, 4]);
    let took = BootClock.now().since(joined);
    assert!(took.as_secs() < 20, "{took:?}: two discovery intervals are 20 s");
    let after = cluster.owners();
    let moved = ids.iter().filter(|id| before[*id] != after[*id]).count();
    assert!(moved <= 5, "{moved} of ten moved, 1.3 x 10/3 is 4.3: {before:?} {after:?}");
    let to_others = ids.iter().filter(|id| before[*id] != after[*id] && after[*id] != c.instance).count();
    assert!(to_others <= 1, "{to_others} moved between the old nodes");
    cluster.wait_for_polls(&ids, 2);
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_clean_stop_hands_targets_over_at_once_and_not_after_the_ttl() {
    let cluster = Cluster::new(LONG);
    let ids = ids(6);
    cluster.put_targets(&ids);
    let (a, b) = (cluster.start_node(), cluster.start_node());
    cluster.wait_for_loads("two nodes share six", &[&a, &b], &[3, 3]);
    b.stop();
    let gone = format!("poll:node:{}", b.instance);
    assert_eq!(cluster.redis.command(&["EXISTS", &gone]).unwrap().int(), Some(0));
    assert!(!cluster.owners().values().any(|owner| *owner == b.instance));
    let stopped = BootClock.now();
    cluster.wait_for_loads("the other node owns every target", &[&a], &[6]);
    cluster.wait_for_polls(&ids, 1);
    let took = BootClock.now().since(stopped);
    assert!(took.as_secs() < 25, "{took:?}: the TTL is 30 s");
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_killed_node_is_replaced_when_its_leases_expire() {
    // Long compared to the delays of a busy machine.
    let cluster = Cluster::new(ClusterTiming { ttl: 15_000, ..SHORT });
    let ids = ids(6);
    cluster.put_targets(&ids);
    let (a, b) = (cluster.start_node(), cluster.start_node());
    cluster.wait_for_loads("two nodes share six", &[&a, &b], &[3, 3]);
    cluster.wait_for_polls(&ids, 2);
    b.process.kill9().unwrap();
    let killed = BootClock.now();
    let theirs: Vec<String> =
        cluster.owners().into_iter().filter(|(_, owner)| *owner == b.instance).map(|(id, _)| id).collect();
    let ends: BTreeMap<String, Tick> = theirs
        .into_iter()
        .map(|id| {
            let (sent, key) = (BootClock.now(), format!("poll:lease:{id}"));
            let left = cluster.redis.command(&["PTTL", &key]).unwrap().int().unwrap();
            (id, sent + Duration::from_millis(left.try_into().unwrap()))
        })
        .collect();
    assert_eq!(ends.len(), 3);
    cluster.wait_for_loads("the other node owns every target", &[&a], &[6]);
    let took = BootClock.now().since(killed);
    assert!(took.as_secs() < 25, "{took:?}: the TTL is 15 s");
    cluster.wait_for_polls(&ids, 2);
    for (id, end) in ends {
        let hits = cluster.endpoint.hits();
        let first = hits.iter().find(|hit| hit.id == id && hit.instance == a.instance && hit.start > killed);
        // Redis counts in whole milliseconds.
        let early = end.since(first.unwrap().start);
        assert!(
            early < Duration::from_millis(5),
            "{id} was polled {early:?} before the dead node's lease expired"
        );
    }
    assert!(cluster.endpoint.last().values().all(|hit| hit.instance == a.instance));
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn five_nodes_started_together_give_each_of_fifty_targets_one_owner_from_the_first_poll() {
    let cluster = Cluster::new(LONG);
    let ids = ids(50);
    cluster.put_targets(&ids);
    let url = cluster.redis.url();
    let starting: Vec<_> = (0..5).map(|_| cluster.launch(&url)).collect();
    let nodes: Vec<Node> = starting.into_iter().map(|node| node.wait_until_up()).collect();
    let nodes: Vec<&Node> = nodes.iter().collect();
    cluster.wait_for_loads("five nodes share fifty", &nodes, &[10; 5]);
    cluster.wait_for_polls(&ids, 3);
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn targets_are_added_removed_paused_and_changed_while_nodes_run() {
    let cluster = Cluster::new(LONG);
    cluster.put_targets(&ids(2));
    let (a, b) = (cluster.start_node(), cluster.start_node());
    cluster.wait_for_loads("two nodes share two", &[&a, &b], &[1, 1]);
    // Added by a plain SET, as another program would.
    cluster.put_targets(&ids(4));
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids(4), 1);
    let paused = json!({ "address": cluster.endpoint.url("target-0"), "isPaused": true, "intervalMs": 100 });
    cluster.put_target("target-0", &paused);
    cluster.redis.command(&["DEL", "session:target-1"]).unwrap();
    wait::until("both targets are released", LIMIT, || cluster.owners().keys().eq(["target-2", "target-3"]))
        .unwrap();
    cluster
        .put_target("target-0", &json!({ "address": cluster.endpoint.url("target-0"), "intervalMs": 100 }));
    cluster.wait_for_polls(&["target-0".to_owned()], 2);
    // Invalid records are ignored.
    cluster.put_target("broken", &json!({ "address": "nowhere" }));
    cluster.redis.command(&["SET", "session:junk", "{"]).unwrap();
    cluster.redis.command(&["RPUSH", "session:list", "x"]).unwrap();
    cluster.wait_for_polls(&["target-0".to_owned(), "target-2".to_owned()], 5);
    assert!(cluster.owners().keys().eq(["target-0", "target-2", "target-3"]));
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_poll_longer_than_the_ttl_keeps_its_lease() {
    let cluster = Cluster::new(SHORT);
    let lasts = u128::from(SHORT.ttl * 2);
    let address = cluster.endpoint.slow_url("long", SHORT.ttl * 2);
    cluster.put_target("long", &json!({ "address": address, "intervalMs": 100 }));
    let _nodes = (cluster.start_node(), cluster.start_node());
    // On a busy machine a late renewal may abort a poll; eventually one completes.
    wait::until("a long poll completes", LIMIT, || {
        let hits = cluster.endpoint.hits();
        hits.iter().any(|hit| hit.end.is_some_and(|end| end.since(hit.start).as_millis() >= lasts))
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", cluster.endpoint.hits()));
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_target_moves_only_after_its_poll_in_flight() {
    let cluster = Cluster::new(LONG);
    let ids = ids(2);
    for id in &ids {
        let address = cluster.endpoint.slow_url(id, 1_000);
        cluster.put_target(id, &json!({ "address": address, "intervalMs": 100 }));
    }
    let a = cluster.start_node();
    cluster.wait_for_polls(&ids, 2);
    let b = cluster.start_node();
    cluster.wait_for_loads("two nodes share two", &[&a, &b], &[1, 1]);
    let theirs = |id: &&String| cluster.owners()[*id] == b.instance;
    let moved = ids.iter().find(theirs).unwrap().clone();
    cluster.wait_for_polls(&ids, 1);
    let hits = cluster.endpoint.hits();
    let last = hits.iter().rfind(|hit| hit.id == moved && hit.instance == a.instance).unwrap();
    // A request was in flight nearly all the time, and it was not aborted.
    assert!(last.end.unwrap().since(last.start) >= Duration::from_secs(1), "{last:?}");
    cluster.endpoint.assert_one_owner_at_a_time();
}
