//! Tests of the cluster view.

use serde_json::json;

use super::*;

const SEC: Duration = Duration::from_secs(1);

type Mutation = fn(&mut ClusterView);

fn at(secs: u64) -> Tick {
    Tick::from_nanos(secs * 1_000_000_000)
}

fn rules(moves: usize) -> Rules {
    Rules { fallback: 10 * SEC, settle: 2 * SEC, moves, may_acquire: true }
}

fn cluster(targets: usize, peers: &[&str]) -> ClusterView {
    let mut cluster = ClusterView::new("a", None, Placement::Balanced, at(0));
    let target = |i: usize| {
        let id = format!("t{i}");
        let value = json!({"address": "http://127.0.0.1/"}).to_string();
        (id.clone(), Arc::new(Target::parse(&id, value.as_bytes()).unwrap()))
    };
    let valid = (0..targets).map(target).collect();
    cluster.set_nodes(peers.iter().map(|id| discovered(id)).collect(), at(0));
    cluster.set_targets(DiscoveredTargets { valid, ..DiscoveredTargets::default() }, at(0));
    cluster
}

fn discovered(id: &str) -> DiscoveredNode {
    DiscoveredNode { id: id.to_owned(), foreign: false, about: NodeInfo::default() }
}

fn held_by(node: &str) -> Busy {
    let holder = tenure_lease::Holder::new(node).ok();
    Busy { holder, generation: None, remaining: Some(30 * SEC), position: 1, reason: BusyReason::Held }
}

#[test]
fn a_node_always_counts_itself_as_live() {
    let mut cluster = cluster(4, &[]);
    cluster.set_nodes(Vec::new(), at(1));
    assert_eq!(cluster.plan(at(1), rules(9)).acquire.len(), 4);
}

#[test]
fn a_node_with_an_expired_lease_is_dead_until_its_next_heartbeat() {
    let mut cluster = cluster(4, &["b"]);
    let theirs: Vec<String> = cluster.targets.keys().cloned().collect();
    cluster.plan(at(1), rules(9));
    let theirs: Vec<String> = theirs.into_iter().filter(|id| cluster.preferred(id) == Some("b")).collect();
    assert_eq!(theirs.len(), 2);
    theirs.iter().for_each(|id| cluster.on_granted(id, "b"));
    assert!(!cluster.on_ended(&theirs[0], "b", End::Expired, at(30)), "the next plan decides");
    assert_eq!(cluster.plan(at(30), rules(9)).acquire.len(), 3, "the other one is still held");
    assert_eq!(
        (cluster.on_heartbeat("b"), cluster.on_heartbeat("b"), cluster.on_heartbeat("c")),
        (Heartbeat::Resumed, Heartbeat::Known, Heartbeat::New)
    );
    assert_eq!(cluster.plan(at(30), rules(9)).acquire.len(), 2);
}

#[test]
fn a_released_target_is_claimed_only_by_its_preferred_owner() {
    let mut cluster = cluster(4, &["b"]);
    cluster.plan(at(1), rules(9));
    for id in ["t0", "t1", "t2", "t3"] {
        cluster.on_granted(id, "c");
        let mine = cluster.preferred(id) == Some("a");
        assert_eq!(cluster.on_ended(id, "c", End::Released, at(2)), mine, "{id}");
    }
}

#[test]
fn targets_of_a_dead_node_are_reclaimed_without_an_event() {
    let mut cluster = cluster(2, &["b"]);
    for id in ["t0", "t1"] {
        cluster.on_granted(id, "b");
    }
    assert_eq!(cluster.plan(at(5), rules(9)).acquire.len(), 0);
    cluster.set_nodes(Vec::new(), at(40));
    assert_eq!(cluster.plan(at(40), rules(9)).acquire.len(), 2);
}

#[test]
fn a_target_of_a_foreign_holder_is_claimed_again_at_every_sync() {
    let mut cluster = cluster(1, &[]);
    let busy = Busy {
        holder: tenure_lease::Holder::new("seed-node").ok(),
        generation: None,
        remaining: Some(30 * SEC),
        position: 1,
        reason: BusyReason::Foreign,
    };
    cluster.on_busy("t0", &busy, at(1), 5 * SEC);
    let plan = cluster.plan(at(2), rules(9));
    assert_eq!((plan.acquire.len(), plan.wake), (0, Some(at(6))));
    assert_eq!(cluster.preferred("t0"), None, "targets of a foreign node are not placed");
    assert_eq!(cluster.plan(at(17), rules(9)).acquire, ["t0"]);
}

#[test]
fn a_busy_response_overtaken_by_an_event_is_checked_again() {
    let (mut cluster, busy) = (cluster(1, &["b"]), held_by("b"));
    let events: [Mutation; 2] = [
        |cluster| assert!(!cluster.on_ended("t0", "b", End::Released, at(1))),
        // The read of all owners may include the end.
        |cluster| cluster.set_owners(Vec::new(), at(1)),
    ];
    for overtake in events {
        cluster.in_transition.insert("t0".to_owned());
        overtake(&mut cluster);
        cluster.on_busy("t0", &busy, at(1), 5 * SEC);
        assert_eq!(cluster.plan(at(2), rules(9)).acquire.len(), 0);
        assert_eq!(cluster.plan(at(16), rules(9)).acquire, ["t0"]);
    }
}

#[test]
fn a_busy_response_stands_until_an_event() {
    let mut cluster = cluster(1, &["b"]);
    cluster.on_ended("t0", "b", End::Released, at(1));
    cluster.in_transition.insert("t0".to_owned());
    cluster.on_busy("t0", &held_by("b"), at(1), 5 * SEC);
    let plan = cluster.plan(at(99), rules(9));
    assert_eq!((plan.acquire.len(), plan.wake), (0, None), "no repeated claims");
    cluster.on_ended("t0", "b", End::Released, at(100));
    assert_eq!(cluster.plan(at(111), rules(9)).acquire, ["t0"]);
}

#[test]
fn an_empty_plan_stands_until_a_change_or_its_wake_time() {
    let mut cluster = cluster(2, &["b"]);
    cluster.on_granted("t0", "b");
    cluster.on_granted("t1", "b");
    assert_eq!(cluster.plan(at(1), rules(0)), Plan::default());
    assert_eq!(cluster.idle_until, None, "other rules might lead to actions");
    assert_eq!(cluster.plan(at(1), rules(9)), Plan::default());
    assert_eq!(cluster.idle_until, Some(None));
    cluster.set_nodes(vec![discovered("b")], at(2));
    assert_eq!(
        (cluster.on_heartbeat("b"), cluster.idle_until),
        (Heartbeat::Known, Some(None)),
        "a known node changes nothing"
    );
    cluster.on_ended("t0", "b", End::Released, at(3));
    assert_eq!(cluster.idle_until, None);
    assert_eq!(cluster.plan(at(3), rules(9)).acquire, ["t0"]);
    cluster.on_granted("t0", "b");
    cluster.set_nodes(Vec::new(), at(4));
    assert_eq!(cluster.idle_until, None, "the holder is dead");
    cluster.in_transition.insert("t0".to_owned());
    cluster.defer("t0", at(40));
    cluster.in_transition.insert("t1".to_owned());
    cluster.defer("t1", at(50));
    assert_eq!((cluster.plan(at(5), rules(9)).wake, cluster.idle_until), (Some(at(40)), Some(Some(at(40)))));
    assert_eq!(cluster.plan(at(39), rules(9)), Plan { wake: Some(at(40)), ..Plan::default() });
    assert_eq!(cluster.plan(at(40), rules(9)).acquire, ["t0"], "its delay is over");
}

#[test]
fn every_relevant_change_ends_an_empty_plan() {
    let changes: [(&str, Mutation); 12] = [
        ("targets", |cluster| cluster.set_targets(DiscoveredTargets::default(), at(2))),
        ("a target", |cluster| cluster.set_target("t0", None, at(2))),
        ("nodes", |cluster| cluster.set_nodes(vec![discovered("c")], at(2))),
        ("a node left", |cluster| cluster.on_node_left("b", at(2))),
        ("owners", |cluster| cluster.set_owners(Vec::new(), at(2))),
        ("a grant", |cluster| cluster.on_granted("t0", "b")),
        ("an end", |cluster| assert!(!cluster.on_ended("t0", "b", End::Expired, at(2)))),
        ("a silent node resumes", |cluster| {
            cluster.silent.insert("b".to_owned());
            cluster.on_heartbeat("b");
        }),
        ("acquired", |cluster| cluster.on_acquired("t0", Arc::default(), at(2))),
        ("busy", |cluster| cluster.on_busy("t0", &held_by("b"), at(2), SEC)),
        ("deferred", |cluster| cluster.defer("t0", at(9))),
        ("released", |cluster| cluster.on_released("t0", None, at(2), SEC)),
    ];
    for (what, change) in changes {
        let mut cluster = cluster(1, &["b"]);
        cluster.on_granted("t0", "b");
        cluster.plan(at(1), rules(9));
        assert_eq!(cluster.idle_until, Some(None), "{what}");
        change(&mut cluster);
        assert_eq!(cluster.idle_until, None, "{what}");
    }
}

#[test]
fn a_response_does_not_overwrite_an_earlier_event() {
    let mut cluster = cluster(1, &["b"]);
    cluster.on_acquired("t0", Arc::default(), at(1));
    cluster.on_granted("t0", "b");
    cluster.on_released("t0", Some("b"), at(2), 10 * SEC);
    assert_eq!(cluster.others["t0"].until, None);
}
