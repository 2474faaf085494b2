//! Lost connections, paused processes and store outages: a node without a valid lease sends no requests.

use std::time::Duration;

use tenure_testkit::{Proxy, wait};

use super::cluster::{Cluster, ClusterTiming, SHORT, ids, let_time_pass};
use crate::harness::LIMIT;

/// Waits until the node sends no more requests.
fn wait_until_requests_stop(cluster: &Cluster, instance: &str) {
    let count = || cluster.endpoint.hits().iter().filter(|hit| hit.instance == instance).count();
    let mut before = count();
    wait::until("the node has stopped polling", LIMIT, || {
        // Targets are polled ten times a second: a second without a request is enough.
        let_time_pass(Duration::from_secs(1));
        let now = count();
        std::mem::replace(&mut before, now) == now
    })
    .unwrap();
}

#[test]
fn an_owner_paused_past_its_ttl_sends_no_stale_request_after_it_resumes() {
    let cluster = Cluster::new(SHORT);
    let ids = ids(4);
    cluster.put_targets(&ids);
    let (a, b) = (cluster.start_node(), cluster.start_node());
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    a.process.pause().unwrap();
    cluster.wait_for_loads("the other node owns every target", &[&b], &[4]);
    cluster.wait_for_polls(&ids, 2);
    a.process.resume().unwrap();
    // It gets its share again, under new generations.
    cluster.wait_for_loads("both share the targets again", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 3);
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn an_outage_shorter_than_the_ttl_pauses_polls_which_resume_under_the_same_lease() {
    let cluster = Cluster::new(ClusterTiming { ttl: 60_000, renew: 500, discovery: 1_000 });
    let ids = ids(4);
    cluster.put_targets(&ids);
    let (a, b) = (cluster.start_node(), cluster.start_node());
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    let before = cluster.endpoint.last();
    cluster.redis.pause().unwrap();
    wait_until_requests_stop(&cluster, &a.instance);
    wait_until_requests_stop(&cluster, &b.instance);
    cluster.redis.resume().unwrap();
    cluster.wait_for_polls(&ids, 3);
    let after = cluster.endpoint.last();
    for id in &ids {
        assert_eq!(before[id].generation, after[id].generation, "{id} was lost before its TTL");
    }
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn an_outage_longer_than_the_ttl_loses_the_leases_and_polls_resume_automatically() {
    let cluster = Cluster::new(SHORT);
    let ids = ids(4);
    cluster.put_targets(&ids);
    let (a, b) = (cluster.start_node(), cluster.start_node());
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    let before = cluster.endpoint.last();
    cluster.redis.pause().unwrap();
    let_time_pass(Duration::from_millis(SHORT.ttl * 2));
    cluster.redis.resume().unwrap();
    cluster.wait_for_loads("both share the targets again", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 3);
    let after = cluster.endpoint.last();
    assert!(ids.iter().all(|id| after[id].generation > before[id].generation), "{before:?} {after:?}");
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_node_partitioned_from_redis_stops_polling_and_the_others_take_over() {
    let cluster = Cluster::new(SHORT);
    let ids = ids(4);
    cluster.put_targets(&ids);
    let proxy = Proxy::start(cluster.redis.addr()).unwrap();
    let (a, b) = (cluster.start_node(), cluster.start_node_at(&proxy.url_for_redis()));
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    // The endpoint is still reachable; only Redis is not.
    cluster.wait_for_loads("the other node owns every target", &[&a], &[4]);
    cluster.wait_for_polls(&ids, 2);
    wait_until_requests_stop(&cluster, &b.instance);
    proxy.accept().unwrap();
    cluster.wait_for_loads("both share the targets again", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    cluster.endpoint.assert_one_owner_at_a_time();
}
