//! Tests of placement and planning.

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const RULES: Rules = Rules {
    fallback: Duration::from_secs(10),
    settle: Duration::from_secs(2),
    moves: 1_000,
    may_acquire: true,
};

fn at(secs: u64) -> Tick {
    Tick::from_nanos(secs * 1_000_000_000)
}

fn peer(id: &str, since: u64) -> Peer {
    Peer { id: id.into(), name: id.into(), foreign: false, since: at(since) }
}

fn foreign(id: &str, since: u64) -> Peer {
    Peer { foreign: true, ..peer(id, since) }
}

/// What a node knows. Each test changes the part that it is about.
struct Scenario {
    placement: Placement,
    nodes: Vec<Peer>,
    targets: BTreeMap<String, bool>,
    mine: HashMap<String, Tick>,
    others: HashMap<String, OtherOwner>,
    free: HashMap<String, Tick>,
    deferred: HashMap<String, Tick>,
    now: Tick,
    rules: Rules,
}

impl Scenario {
    fn new(nodes: &[&str], targets: usize) -> Self {
        Self {
            placement: Placement::Balanced,
            nodes: nodes.iter().map(|id| peer(id, 0)).collect(),
            targets: (0..targets).map(|i| (format!("t{i}"), true)).collect(),
            mine: HashMap::new(),
            others: HashMap::new(),
            free: HashMap::new(),
            deferred: HashMap::new(),
            now: at(100),
            rules: RULES,
        }
    }

    /// What is `mine` in these tests is held by `a`.
    fn preferred(&self) -> PreferredOwners {
        let owner = |id: &str| match self.mine.contains_key(id) {
            true => Some("a"),
            false => self.others.get(id).map(|other| other.holder.as_str()),
        };
        let mut preferred = PreferredOwners::new(self.placement, &self.nodes, &self.targets, &self.others);
        preferred.keep_with_owners(owner);
        preferred
    }

    /// Gives every target to its preferred owner.
    fn settle(&mut self) {
        let preferred = self.preferred();
        let held = |id: &String| {
            let holder = preferred.of(id)?.id.clone();
            Some((id.clone(), OtherOwner { holder, foreign: false, until: None }))
        };
        self.others = self.targets.keys().filter_map(held).collect();
    }

    fn plan(&self, me: &str) -> Plan {
        let Self { targets, mine, others, free, deferred, now, .. } = self;
        let input = PlanInput { me, now: *now, targets, mine, others, free, deferred };
        plan(&input, &self.preferred(), self.rules)
    }

    fn preferred_by(&self, me: &str) -> Vec<String> {
        let preferred = self.preferred();
        self.targets.keys().filter(|id| preferred.of(id).is_some_and(|p| p.id == me)).cloned().collect()
    }

    fn hold_all(&mut self, since: u64) {
        self.mine = self.targets.keys().map(|id| (id.clone(), at(since))).collect();
    }
}

#[test]
fn a_single_node_acquires_every_target() {
    let scenario = Scenario::new(&["a"], 5);
    assert_eq!(scenario.plan("a").acquire.len(), 5);
    assert_eq!(scenario.plan("a").release, []);
}

#[test]
fn each_of_three_nodes_acquires_three_of_nine_targets() {
    let scenario = Scenario::new(&["a", "b", "c"], 9);
    let mut all: Vec<String> = Vec::new();
    for me in ["a", "b", "c"] {
        let plan = scenario.plan(me);
        assert_eq!(plan.acquire, scenario.preferred_by(me));
        assert_eq!(plan.acquire.len(), 3);
        all.extend(plan.acquire);
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 9);
}

#[test]
fn the_order_of_nodes_does_not_matter() {
    let mut scenario = Scenario::new(&["a", "b", "c"], 30);
    let before = scenario.preferred();
    scenario.nodes.reverse();
    assert_eq!(scenario.preferred(), before);
}

#[test]
fn a_node_that_may_not_acquire_yet_acquires_nothing() {
    let mut scenario = Scenario::new(&["a"], 5);
    scenario.rules.may_acquire = false;
    assert_eq!(scenario.plan("a").acquire, Vec::<String>::new());
}

#[test]
fn targets_move_to_a_preferred_owner_once_it_has_settled() {
    let mut scenario = Scenario::new(&["a", "b"], 10);
    scenario.hold_all(0);
    scenario.nodes[1].since = at(99);
    let plan = scenario.plan("a");
    assert_eq!((plan.release.len(), plan.wake), (0, Some(at(101))));
    scenario.now = at(101);
    let plan = scenario.plan("a");
    assert_eq!(plan.release.len(), 5);
    assert!(
        plan.release
            .iter()
            .all(|m| m.successor.as_deref() == Some("b") && m.reason == ReleaseReason::Rebalance)
    );
    let moved: Vec<_> = plan.release.iter().map(|m| m.id.clone()).collect();
    assert_eq!(moved, scenario.preferred_by("b"));
}

#[test]
fn a_target_that_was_just_acquired_does_not_move_yet() {
    let mut scenario = Scenario::new(&["a", "b"], 10);
    scenario.hold_all(99);
    assert_eq!(scenario.plan("a").release, []);
    scenario.now = at(102);
    assert_eq!(scenario.plan("a").release.len(), 5);
}

#[test]
fn rebalancing_is_limited_but_paused_and_deleted_targets_are_always_released() {
    let mut scenario = Scenario::new(&["a", "b"], 10);
    scenario.hold_all(0);
    scenario.rules.moves = 2;
    let staying = scenario.preferred_by("a");
    scenario.targets.insert(staying[0].clone(), false);
    scenario.targets.remove(&staying[1]);
    let plan = scenario.plan("a");
    let count = |why| plan.release.iter().filter(|m| m.reason == why).count();
    assert_eq!(
        (count(ReleaseReason::Paused), count(ReleaseReason::Deleted), count(ReleaseReason::Rebalance)),
        (1, 1, 2)
    );
    assert!(
        plan.release.iter().filter(|m| m.reason != ReleaseReason::Rebalance).all(|m| m.successor.is_none())
    );
}

#[test]
fn a_free_target_is_left_to_its_preferred_owner_until_the_fallback() {
    let mut scenario = Scenario::new(&["a", "b"], 10);
    let theirs = scenario.preferred_by("b");
    scenario.free = theirs.iter().map(|id| (id.clone(), at(95))).collect();
    let plan = scenario.plan("a");
    assert_eq!(plan.acquire, scenario.preferred_by("a"));
    assert_eq!(plan.wake, Some(at(105)));
    scenario.now = at(105);
    assert_eq!(scenario.plan("a").acquire.len(), 10);
}

#[test]
fn a_target_of_another_owner_is_not_claimed_before_its_retry_time() {
    let mut scenario = Scenario::new(&["a"], 3);
    let other = |until| OtherOwner { holder: "x".into(), foreign: true, until };
    scenario.others.insert("t0".into(), other(None));
    scenario.others.insert("t1".into(), other(Some(at(101))));
    scenario.placement = Placement::Seed;
    let plan = scenario.plan("a");
    assert_eq!((plan.acquire, plan.wake), (vec!["t2".to_owned()], Some(at(101))));
    scenario.now = at(101);
    assert_eq!(scenario.plan("a").acquire, ["t1", "t2"]);
}

#[test]
fn a_target_that_this_node_just_released_is_deferred() {
    let mut scenario = Scenario::new(&["a"], 2);
    scenario.deferred.insert("t0".into(), scenario.now + SECOND);
    let plan = scenario.plan("a");
    assert_eq!((plan.acquire, plan.wake), (vec!["t1".to_owned()], Some(at(101))));
}

#[test]
fn balanced_placement_ignores_foreign_nodes_and_their_targets() {
    let mut scenario = Scenario::new(&["a", "b"], 10);
    scenario.nodes.push(foreign("seed", 0));
    for id in ["t0", "t1"] {
        scenario
            .others
            .insert(id.into(), OtherOwner { holder: "seed".into(), foreign: true, until: Some(at(200)) });
    }
    let preferred = scenario.preferred();
    assert!(scenario.targets.keys().all(|id| preferred.of(id).is_none_or(|p| !p.foreign)));
    assert_eq!((scenario.preferred_by("a").len(), scenario.preferred_by("b").len()), (4, 4));
    scenario.hold_all(0);
    assert!(scenario.plan("a").release.iter().all(|m| m.successor.as_deref() == Some("b")));
}

#[test]
fn seed_placement_releases_to_a_foreign_node_without_a_successor() {
    let mut scenario = Scenario::new(&["a"], 40);
    scenario.placement = Placement::Seed;
    // Long and varied ids: the seed's hash puts nearly all short ids on one node.
    scenario.targets =
        (0..40_u64).map(|i| (format!("{:032x}", u128::from(i).wrapping_mul(u128::MAX / 7)), true)).collect();
    scenario.nodes = vec![peer("host-a-1-aaaaaaaa", 0), foreign("host-b-2-bbbbbbbb", 0)];
    scenario.hold_all(0);
    let plan = scenario.plan("host-a-1-aaaaaaaa");
    let theirs = scenario.preferred_by("host-b-2-bbbbbbbb");
    assert!(!theirs.is_empty() && theirs.len() < 40, "{}", theirs.len());
    assert_eq!(plan.release.len(), theirs.len());
    assert!(plan.release.iter().all(|m| m.successor.is_none()));
}

#[test]
fn nodes_with_the_same_name_are_distinguished_by_id() {
    let mut scenario = Scenario::new(&["a-1", "a-2"], 10);
    scenario.nodes.iter_mut().for_each(|node| node.name = "a".into());
    assert_eq!((scenario.preferred_by("a-1").len(), scenario.preferred_by("a-2").len()), (5, 5));
}

#[test]
fn a_named_node_gets_the_same_targets_after_a_restart() {
    let mut scenario = Scenario::new(&["a-1", "b-1", "c-1"], 30);
    scenario.nodes.iter_mut().for_each(|node| node.name = node.id[..1].into());
    let before = scenario.preferred_by("b-1");
    scenario.nodes[1].id = "b-2".into();
    assert_eq!(scenario.preferred_by("b-2"), before);
}

/// The number of targets placed on each node.
fn shares(scenario: &Scenario) -> BTreeMap<String, usize> {
    let preferred = scenario.preferred();
    let mut shares: BTreeMap<String, usize> =
        scenario.nodes.iter().map(|node| (node.id.clone(), 0)).collect();
    for peer in scenario.targets.keys().filter_map(|id| preferred.of(id)) {
        *shares.entry(peer.id.clone()).or_default() += 1;
    }
    shares
}

#[test]
fn a_join_moves_only_the_new_node_s_share() {
    for (nodes, targets) in [(1, 10), (2, 10), (3, 9), (3, 100), (9, 1_000), (10, 10_000), (50, 2_000)] {
        for trial in 0..if targets > 1_000 { 1 } else { 20 } {
            let names: Vec<String> =
                (0..=nodes).map(|i| format!("host-{trial}{i}-17{trial}{i}-0bad{i}")).collect();
            let ids: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut scenario = Scenario::new(&ids[..nodes], targets);
            scenario.settle();
            scenario.nodes = ids.iter().map(|id| peer(id, 0)).collect();
            let after = scenario.preferred();
            let moved: Vec<_> = scenario
                .others
                .iter()
                .filter(|(id, other)| after.of(id).unwrap().id != other.holder)
                .collect();
            assert!(moved.iter().all(|(id, _)| after.of(id).unwrap().id == ids[nodes]), "{nodes} nodes");
            let share = targets / (nodes + 1);
            assert!(
                (share..=share + 1).contains(&moved.len()),
                "{nodes} nodes: {} moved, {share}",
                moved.len()
            );
            assert!(
                shares(&scenario).values().all(|n| (share..=share + 1).contains(n)),
                "{:?}",
                shares(&scenario)
            );
        }
    }
}

#[test]
fn a_departure_moves_only_the_departed_node_s_targets() {
    let mut scenario = Scenario::new(&["a", "b", "c", "d"], 100);
    scenario.settle();
    scenario.nodes.remove(2);
    let after = scenario.preferred();
    for (id, other) in &scenario.others {
        assert!(other.holder == "c" || after.of(id).unwrap().id == other.holder, "{id} moved");
    }
    assert!(shares(&scenario).values().all(|n| (33..=34).contains(n)), "{:?}", shares(&scenario));
}

#[test]
fn nodes_agree_on_the_placement_while_targets_move() {
    let mut scenario = Scenario::new(&["a", "b"], 10);
    scenario.settle();
    scenario.nodes.push(peer("c", 0));
    let wanted = scenario.preferred();
    let moves: Vec<String> =
        scenario.targets.keys().filter(|id| wanted.of(id).unwrap().id == "c").cloned().collect();
    for id in moves {
        scenario.others.get_mut(&id).unwrap().holder = "c".into();
        assert_eq!(scenario.preferred(), wanted, "after {id}");
    }
}

proptest! {
    /// Nodes with the same knowledge acquire every target exactly once.
    #[test]
    fn nodes_with_the_same_view_agree_on_one_owner(nodes in 1_usize..8, targets in 0_usize..60, seed: bool) {
        let names: Vec<String> = (0..nodes).map(|i| format!("n{i}")).collect();
        let ids: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut scenario = Scenario::new(&ids, targets);
        scenario.placement = if seed { Placement::Seed } else { Placement::Balanced };
        let mut wanted: Vec<String> = ids.iter().flat_map(|me| scenario.plan(me).acquire).collect();
        wanted.sort();
        let all: Vec<String> = scenario.targets.keys().cloned().collect();
        prop_assert_eq!(wanted, all);
    }
}
