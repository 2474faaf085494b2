//! What operators read about polling: every event of a lease's life, by name, with who and what it is about.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::{Proxy, wait};

use super::cluster::{Cluster, Node, Times, ids};
use crate::rig::LIMIT;

/// The log of one node.
struct Log {
    path: PathBuf,
    instance: String,
}

impl Log {
    /// The events so far: name and fields.
    fn events(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        // The last line may be on its way.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["message"].as_str().unwrap().to_owned(), line)).collect()
    }

    /// Waits for an event with these fields.
    fn wait_for(&self, name: &str, fields: &Value) -> Value {
        let fits =
            |event: &Value| fields.as_object().unwrap().iter().all(|(name, value)| event[name] == *value);
        let find = || self.events().into_iter().find(|(event, line)| event == name && fits(line));
        wait::until(&format!("{} tells {name} {fields}", self.instance), LIMIT, || find().is_some())
            .unwrap_or_else(|error| {
                let mut counts: BTreeMap<String, usize> = BTreeMap::new();
                self.events().into_iter().for_each(|(event, _)| *counts.entry(event).or_default() += 1);
                panic!("{error}: {counts:?}")
            });
        find().unwrap().1
    }

    /// Every event of a lease says when, who, what and under which generation.
    fn assert_whole(&self) {
        for (name, event) in self.events() {
            assert_eq!(event["target"], "tenure::poll", "{event}");
            assert!(event["timestamp"].is_string(), "{event}");
            if ["cannot look", "invalid target", "results were not told"].contains(&name.as_str()) {
                continue;
            }
            assert!(event["endpoint"].as_str().is_some_and(|id| !id.is_empty()), "{event}");
            assert!(event["generation"].is_u64() || event["generation"].is_string(), "{event}");
            if name != "a result of an older owner was refused" {
                assert_eq!(event["instance"], self.instance.as_str(), "{event}");
            }
        }
    }
}

fn logged(cluster: &Cluster, url: &str, name: &str) -> (Node, Log) {
    let path = cluster.path(name);
    let node = cluster.node_with_log(url, &path);
    let instance = node.instance.clone();
    (node, Log { path, instance })
}

#[test]
fn every_event_of_a_lease_is_told_with_instance_endpoint_and_generation() {
    // A quarter of the interval is how long a target stays where it was just taken to: time to find out who has it.
    let cluster = Cluster::new(Times { ttl: 6_000, renew: 1_000, discovery: 6_000 });
    let ids = ids(4);
    cluster.targets(&ids);
    let (a, log_a) = logged(&cluster, &cluster.redis.url(), "a.log");
    cluster.wait_for_loads("one has all", &[&a], &[4]);
    assert!(log_a.wait_for("acquired", &json!({ "endpoint": "target-0" }))["generation"].as_u64() > Some(0));
    log_a.wait_for("renewed", &json!({ "endpoint": "target-0" }));

    let proxy = Proxy::start(cluster.redis.addr()).unwrap();
    let (b, log_b) = logged(&cluster, &proxy.url_for_redis(), "b.log");
    cluster.wait_for_loads("two share", &[&a, &b], &[2, 2]);
    log_a.wait_for("released", &json!({ "reason": "rebalance", "heir": b.instance }));
    log_b.wait_for("acquired", &json!({}));

    // Cut from Redis: in doubt first, and then it is over.
    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    log_b.wait_for("renew_failed", &json!({}));
    log_b.wait_for("uncertain", &json!({}));
    log_b.wait_for("expired", &json!({}));
    cluster.wait_for_loads("the other has all", &[&a], &[4]);
    proxy.accept().unwrap();
    cluster.wait_for_loads("they share again", &[&a, &b], &[2, 2]);

    // Granted is not known yet: it polls what it knows to have.
    cluster.wait_for_polls(&ids, 2);
    // Stopped for longer than its leases last: when it wakes, somebody else has them.
    b.process.pause().unwrap();
    cluster.wait_for_loads("the other has all", &[&a], &[4]);
    b.process.resume().unwrap();
    log_b.wait_for("taken_over", &json!({ "by": a.instance }));

    // A node of another program has the lease of a new target.
    let foreign = ["SET", "poll:lease:theirs", "seed-node", "PX", "600000"];
    assert!(!cluster.redis.command(&foreign).unwrap().is_error());
    cluster.targets(&["theirs".to_owned()]);
    let refused = json!({ "endpoint": "theirs", "why": "foreign" });
    wait::until("somebody is refused", LIMIT, || {
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

    cluster.wait_for_loads("they share again", &[&a, &b], &[2, 2]);
    cluster.redis.command(&["DEL", "session:target-0"]).unwrap();
    let paused = json!({ "address": cluster.endpoint.url("target-1"), "isPaused": true });
    cluster.target("target-1", &paused);
    wait::until("both are let go", LIMIT, || {
        let told = |reason: &str, id: &str| {
            [&log_a, &log_b].iter().any(|log| {
                log.events().iter().any(|(name, event)| {
                    name == "released" && event["reason"] == reason && event["endpoint"] == id
                })
            })
        };
        told("deleted", "target-0") && told("paused", "target-1")
    })
    .unwrap();
    let counted = a.metrics() + &b.metrics();
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
        let name = format!("poll_lease_events_total{{event=\"{event}\"}} ");
        assert!(counted.lines().any(|line| line.starts_with(&name)), "{name} is not counted: {counted}");
    }
    // The two targets that are left may both be with one of them.
    a.stop();
    b.stop();
    wait::until("what is left is let go", LIMIT, || {
        let let_go = |(name, event): &(String, Value)| name == "released" && event["reason"] == "shutdown";
        [&log_a, &log_b].iter().any(|log| log.events().iter().any(let_go))
    })
    .unwrap();
    log_a.assert_whole();
    log_b.assert_whole();
    cluster.endpoint.assert_one_owner_at_a_time();
}
