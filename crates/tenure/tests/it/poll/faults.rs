//! What is lost, and that nobody polls who may not.

use std::time::Duration;

use testkit::{Proxy, wait};

use super::cluster::{Cluster, SHORT, Times, ids, let_pass};
use crate::rig::LIMIT;

/// Waits until no request has come for a while.
fn wait_for_silence(cluster: &Cluster, instance: &str) {
    let count = || cluster.endpoint.hits().iter().filter(|hit| hit.instance == instance).count();
    let mut before = count();
    wait::until("the node polls no more", LIMIT, || {
        // Targets are polled every tenth of a second: a second without any is silence.
        let_pass(Duration::from_secs(1));
        let now = count();
        std::mem::replace(&mut before, now) == now
    })
    .unwrap();
}

#[test]
fn an_owner_that_was_stopped_past_its_ttl_asks_nothing_when_it_wakes_before_it_knows() {
    let cluster = Cluster::new(SHORT);
    let ids = ids(4);
    cluster.targets(&ids);
    let (a, b) = (cluster.node(), cluster.node());
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    a.process.pause().unwrap();
    cluster.wait_for_loads("the other has all", &[&b], &[4]);
    cluster.wait_for_polls(&ids, 2);
    a.process.resume().unwrap();
    // It comes back, learns, and gets its share again: under generations of its own.
    cluster.wait_for_loads("they share again", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 3);
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_redis_that_is_gone_for_less_than_the_ttl_pauses_polls_and_they_resume_under_the_same_lease() {
    let cluster = Cluster::new(Times { ttl: 60_000, renew: 500, discovery: 1_000 });
    let ids = ids(4);
    cluster.targets(&ids);
    let (a, b) = (cluster.node(), cluster.node());
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    let before = cluster.endpoint.last();
    cluster.redis.pause().unwrap();
    wait_for_silence(&cluster, &a.instance);
    wait_for_silence(&cluster, &b.instance);
    cluster.redis.resume().unwrap();
    cluster.wait_for_polls(&ids, 3);
    let after = cluster.endpoint.last();
    for id in &ids {
        assert_eq!(before[id].generation, after[id].generation, "{id} was lost though its TTL was not over");
    }
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_redis_that_is_gone_for_longer_than_the_ttl_costs_the_leases_and_polls_resume_by_themselves() {
    let cluster = Cluster::new(SHORT);
    let ids = ids(4);
    cluster.targets(&ids);
    let (a, b) = (cluster.node(), cluster.node());
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    let before = cluster.endpoint.last();
    cluster.redis.pause().unwrap();
    let_pass(Duration::from_millis(SHORT.ttl * 2));
    cluster.redis.resume().unwrap();
    cluster.wait_for_loads("they share again", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 3);
    let after = cluster.endpoint.last();
    assert!(ids.iter().all(|id| after[id].generation > before[id].generation), "{before:?} {after:?}");
    cluster.endpoint.assert_one_owner_at_a_time();
}

#[test]
fn a_node_that_is_cut_from_redis_alone_polls_nothing_and_the_others_take_over() {
    let cluster = Cluster::new(SHORT);
    let ids = ids(4);
    cluster.targets(&ids);
    let proxy = Proxy::start(cluster.redis.addr()).unwrap();
    let (a, b) = (cluster.node(), cluster.node_at(&proxy.url_for_redis()));
    cluster.wait_for_loads("two nodes share four", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    // The endpoint still answers it; only the lease does not.
    cluster.wait_for_loads("the other has all", &[&a], &[4]);
    cluster.wait_for_polls(&ids, 2);
    wait_for_silence(&cluster, &b.instance);
    proxy.accept().unwrap();
    cluster.wait_for_loads("they share again", &[&a, &b], &[2, 2]);
    cluster.wait_for_polls(&ids, 2);
    cluster.endpoint.assert_one_owner_at_a_time();
}
