//! The log events of a lease's life cycle, with instance, endpoint and generation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tenure_testkit::{Proxy, wait};

use super::cluster::{Cluster, ClusterTiming, Node, ids};
use crate::harness::LIMIT;

/// The log file of one node.
struct NodeLog {
    path: PathBuf,
    instance: String,
}

impl NodeLog {
    /// The events so far: name and fields.
    fn events(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        // The last line may be incomplete.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["message"].as_str().unwrap().to_owned(), line)).collect()
    }

    /// Waits for an event with these fields.
    fn wait_for(&self, name: &str, fields: &Value) -> Value {
        let fits =
            |event: &Value| fields.as_object().unwrap().iter().all(|(name, value)| event[name] == *value);
        let find = || self.events().into_iter().find(|(event, line)| event == name && fits(line));
        wait::until(&format!("{} logs {name} {fields}", self.instance), LIMIT, || find().is_some())
            .unwrap_or_else(|error| {
                let mut counts: BTreeMap<String, usize> = BTreeMap::new();
                self.events().into_iter().for_each(|(event, _)| *counts.entry(event).or_default() += 1);
                panic!("{error}: {counts:?}")
            });
        find().unwrap().1
    }

    /// Every lease event has a timestamp, an instance, an endpoint and a generation.
    fn assert_complete(&self) {
        for (name, event) in self.events() {
            assert_eq!(event["target"], "tenure::poll", "{event}");
            assert!(event["timestamp"].is_string(), "{event}");
            if ["store call failed", "invalid target", "cannot publish results"].contains(&name.as_str()) {
                continue;
            }
            assert!(event["endpoint"].as_str().is_some_and(|id| !id.is_empty()), "{event}");
            assert!(event["generation"].is_u64() || event["generation"].is_string(), "{event}");
            if name != "result of an older generation refused" {
                assert_eq!(event["instance"], self.instance.as_str(), "{event}");
            }
        }
    }
}

fn start_logged_node(cluster: &Cluster, url: &str, name: &str) -> (Node, NodeLog) {
    let path = cluster.path(name);
    let node = cluster.start_node_with_log(url, &path);
    let instance = node.instance.clone();
    (node, NodeLog { path, instance })
}

#[test]
fn every_lease_event_is_logged_with_instance_endpoint_and_generation() {
    // A target does not move for a quarter of the interval after it was acquired: time to read its owner.
    let cluster = Cluster::new(ClusterTiming { ttl: 6_000, renew: 1_000, discovery: 6_000 });
    let ids = ids(4);
    cluster.put_targets(&ids);
    let (a, log_a) = start_logged_node(&cluster, &cluster.redis.url(), "a.log");
    cluster.wait_for_loads("one node owns every target", &[&a], &[4]);
    assert!(log_a.wait_for("acquired", &json!({ "endpoint": "target-0" }))["generation"].as_u64() > Some(0));
    log_a.wait_for("renewed", &json!({ "endpoint": "target-0" }));

    let proxy = Proxy::start(cluster.redis.addr()).unwrap();
    let (b, log_b) = start_logged_node(&cluster, &proxy.url_for_redis(), "b.log");
    cluster.wait_for_loads("two nodes share the targets", &[&a, &b], &[2, 2]);
    log_a.wait_for("released", &json!({ "reason": "rebalance", "successor": b.instance }));
    log_b.wait_for("acquired", &json!({}));

    // Disconnected from Redis: first uncertain, then expired.
    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    log_b.wait_for("renew_failed", &json!({}));
    log_b.wait_for("uncertain", &json!({}));
    log_b.wait_for("expired", &json!({}));
    cluster.wait_for_loads("the other node owns every target", &[&a], &[4]);
    proxy.accept().unwrap();
    cluster.wait_for_loads("both share the targets again", &[&a, &b], &[2, 2]);

    // A grant may not have reached the node yet; a poll shows that it has.
    cluster.wait_for_polls(&ids, 2);
    // Paused past the TTL of its leases: another node owns them when it resumes.
    b.process.pause().unwrap();
    cluster.wait_for_loads("the other node owns every target", &[&a], &[4]);
    b.process.resume().unwrap();
    log_b.wait_for("taken_over", &json!({ "by": a.instance }));

    // A node of another program owns the lease of a new target.
    let foreign = ["SET", "poll:lease:theirs", "seed-node", "PX", "600000"];
    assert!(!cluster.redis.command(&foreign).unwrap().is_error());
    cluster.put_targets(&["theirs".to_owned()]);
    let refused = json!({ "endpoint": "theirs", "why": "foreign" });
    wait::until("a claim fails", LIMIT, || {
        [&log_a, &log_b].iter().any(|log| {
            let fits = |(name, event): &(String, Value)| {
                name == "acquire_failed"
                    && event["endpoint"] == refused["endpoint"]
                    && event["why"] == refused["why"]
            };
            log.events().iter().any(fits)
        })
    })
    .unwrap();

    cluster.wait_for_loads("both share the targets again", &[&a, &b], &[2, 2]);
    cluster.redis.command(&["DEL", "session:target-0"]).unwrap();
    let paused = json!({ "address": cluster.endpoint.url("target-1"), "isPaused": true });
    cluster.put_target("target-1", &paused);
    wait::until("both targets are released", LIMIT, || {
        let released = |reason: &str, id: &str| {
            [&log_a, &log_b].iter().any(|log| {
                log.events().iter().any(|(name, event)| {
                    name == "released" && event["reason"] == reason && event["endpoint"] == id
                })
            })
        };
        released("deleted", "target-0") && released("paused", "target-1")
    })
    .unwrap();
    let metrics = a.metrics() + &b.metrics();
    for event in [
        "acquired",
        "acquire_failed",
        "renewed",
        "renew_failed",
        "uncertain",
        "released",
        "expired",
        "taken_over",
    ] {
        let name = format!("tenure_poll_lease_events_total{{event=\"{event}\"}} ");
        assert!(metrics.lines().any(|line| line.starts_with(&name)), "{name} missing in {metrics}");
    }
    // One node may own both remaining targets.
    a.stop();
    b.stop();
    wait::until("the remaining targets are released", LIMIT, || {
        let shutdown = |(name, event): &(String, Value)| name == "released" && event["reason"] == "shutdown";
        [&log_a, &log_b].iter().any(|log| log.events().iter().any(shutdown))
    })
    .unwrap();
    log_a.assert_complete();
    log_b.assert_complete();
    cluster.endpoint.assert_one_owner_at_a_time();
}
