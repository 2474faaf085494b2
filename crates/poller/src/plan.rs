//! Decides which node should poll which target, and what a node does about it. Pure functions of their arguments.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tenure_lease::{Placement, Tick};

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its instance id, which is also its holder name.
    pub id: String,
    /// Its name for placement; defaults to the instance id.
    pub name: String,
    /// Whether it is a node of another program.
    pub foreign: bool,
    /// When this node first saw it.
    pub since: Tick,
}

/// Another owner of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherOwner {
    /// The holder of the lease.
    pub holder: String,
    /// Whether it belongs to another program: its release causes no event.
    pub foreign: bool,
    /// When to try to acquire again; `None` if an event will follow.
    pub until: Option<Tick>,
}

/// The preferred owner of each target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreferredOwners {
    placement: Placement,
    nodes: Vec<Peer>,
    /// The index of each target in the lists below.
    positions: HashMap<String, usize>,
    ids: Vec<String>,
    /// The node that the hash assigns to each target, as an index into `nodes`.
    hashed: Vec<usize>,
    /// The preferred node of each target, given the current owners.
    placed: Vec<usize>,
}

/// Timing and limits of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long a free target is reserved for its preferred owner.
    pub fallback: Duration,
    /// How long a node must be known, and a target owned, before the target moves to that node.
    pub settle: Duration,
    /// How many targets may move away now.
    pub moves: usize,
    /// Whether this node may acquire targets yet.
    pub may_acquire: bool,
}

/// What a node knows when it plans.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The node's own instance id.
    pub me: &'a str,
    /// The current time.
    pub now: Tick,
    /// Every target, and whether it is active (not paused).
    pub targets: &'a BTreeMap<String, bool>,
    /// The targets that this node owns, and since when.
    pub mine: &'a HashMap<String, Tick>,
    /// The targets that other nodes own.
    pub others: &'a HashMap<String, OtherOwner>,
    /// Targets without a known owner, and since when.
    pub free: &'a HashMap<String, Tick>,
    /// Targets that this node does not acquire before the given time, because it just released them or failed to
    /// acquire them.
    pub deferred: &'a HashMap<String, Tick>,
}

/// Why a target is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Another node is its preferred owner.
    Rebalance,
    /// The target is paused.
    Paused,
    /// The target was deleted.
    Deleted,
    /// The node is shutting down.
    Shutdown,
}

impl ReleaseReason {
    /// The name used in log events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rebalance => "rebalance",
            Self::Paused => "paused",
            Self::Deleted => "deleted",
            Self::Shutdown => "shutdown",
        }
    }
}

/// A target to release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The id of the target.
    pub id: String,
    /// The node for which the lease is reserved; never a node of another program.
    pub successor: Option<String>,
    /// Why it is released.
    pub reason: ReleaseReason,
}

/// The actions that follow from what a node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Targets to acquire.
    pub acquire: Vec<String>,
    /// Targets to release.
    pub release: Vec<Release>,
    /// When to plan again even if nothing changes.
    pub wake: Option<Tick>,
}

impl PreferredOwners {
    /// Places the active targets on the live nodes, by the hash alone.
    ///
    /// Balanced placement ignores foreign nodes and their targets: those never move, and foreign nodes follow other
    /// rules. Seed placement includes every node, by instance id.
    pub fn new(
        placement: Placement,
        nodes: &[Peer],
        targets: &BTreeMap<String, bool>,
        others: &HashMap<String, OtherOwner>,
    ) -> Self {
        let mut nodes: Vec<Peer> =
            nodes.iter().filter(|node| placement == Placement::Seed || !node.foreign).cloned().collect();
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        let foreign = |id: &str| others.get(id).is_some_and(|other| other.foreign);
        let counts =
            |(id, active): &(&String, &bool)| **active && (placement == Placement::Seed || !foreign(id));
        let ids: Vec<String> = targets.iter().filter(counts).map(|(id, _)| id.clone()).collect();
        let names: Vec<&str> = nodes
            .iter()
            .map(|node| match placement {
                Placement::Balanced if nodes.iter().filter(|n| n.name == node.name).count() == 1 => {
                    &node.name
                }
                // To the hash, two nodes with the same name would be one node.
                _ => &node.id,
            })
            .map(String::as_str)
            .collect();
        let keys: Vec<&str> = ids.iter().map(String::as_str).collect();
        let hashed = placement.assign(&keys, &names);
        let positions = ids.iter().enumerate().map(|(i, id)| (id.clone(), i)).collect();
        Self { placement, placed: hashed.clone(), hashed, positions, ids, nodes }
    }

    /// In balanced placement, a target stays with its current owner while that node has no more than its share, so
    /// that as few targets as possible move. `owner` returns the current owner of a target.
    pub fn keep_with_owners<'a>(&mut self, owner: impl Fn(&str) -> Option<&'a str>) {
        if self.placement == Placement::Seed || self.nodes.is_empty() {
            return;
        }
        let at: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(i, node)| (node.id.as_str(), i)).collect();
        let now: Vec<Option<usize>> =
            self.ids.iter().map(|id| owner(id).and_then(|holder| at.get(holder).copied())).collect();
        self.placed = place_near_owners(&self.hashed, &now, self.nodes.len());
    }

    /// The preferred owner of a target.
    pub fn of(&self, id: &str) -> Option<&Peer> {
        self.nodes.get(*self.placed.get(*self.positions.get(id)?)?)
    }
}

/// The balanced placement that moves the fewest targets. `hashed` is the node that the hash assigns to each target,
/// `now` its current owner. Every node ends up between the floor and the ceiling of the mean.
fn place_near_owners(hashed: &[usize], now: &[Option<usize>], nodes: usize) -> Vec<usize> {
    let mut load = vec![0; nodes];
    now.iter().flatten().for_each(|node| load[*node] += 1);
    let (floor, extra) = (hashed.len() / nodes, hashed.len() % nodes);
    let mut order: Vec<usize> = (0..nodes).collect();
    // Nodes that already have more than the floor get the extra targets.
    order.sort_by_key(|node| (load[*node] <= floor, *node));
    let mut room = vec![floor; nodes];
    order.iter().take(extra).for_each(|node| room[*node] += 1);
    let mut placed = vec![usize::MAX; hashed.len()];
    let mut pass = |choose: &dyn Fn(usize, &[usize]) -> Option<usize>| {
        for (i, slot) in placed.iter_mut().enumerate().filter(|(_, slot)| **slot == usize::MAX) {
            if let Some(node) = choose(i, &room).filter(|node| room[*node] > 0) {
                room[node] -= 1;
                *slot = node;
            }
        }
    };
    pass(&|i, _| now[i].filter(|node| *node == hashed[i]));
    pass(&|i, _| now[i]);
    pass(&|i, _| Some(hashed[i]));
    pass(&|_, room| room.iter().position(|room| *room > 0));
    placed
}

/// Decides which targets to acquire and which to release.
pub fn plan(input: &PlanInput<'_>, preferred: &PreferredOwners, rules: Rules) -> Plan {
    let mut plan = Plan::default();
    for (id, since) in input.mine {
        if let Some(release) = plan_release(input, preferred, rules, id, *since, &mut plan.wake) {
            plan.release.push(release);
        }
    }
    // Releases of paused and deleted targets are not limited; rebalancing is.
    plan.release.sort_by(|a, b| {
        (a.reason == ReleaseReason::Rebalance, &a.id).cmp(&(b.reason == ReleaseReason::Rebalance, &b.id))
    });
    let must = plan.release.iter().filter(|release| release.reason != ReleaseReason::Rebalance).count();
    plan.release.truncate(must + rules.moves);
    if rules.may_acquire {
        for (id, active) in input.targets {
            if *active
                && !input.mine.contains_key(id)
                && should_acquire(input, preferred, rules, id, &mut plan.wake)
            {
                plan.acquire.push(id.clone());
            }
        }
    }
    plan
}

fn plan_release(
    input: &PlanInput<'_>,
    preferred: &PreferredOwners,
    rules: Rules,
    id: &str,
    since: Tick,
    wake: &mut Option<Tick>,
) -> Option<Release> {
    let reason = match input.targets.get(id) {
        None => ReleaseReason::Deleted,
        Some(false) => ReleaseReason::Paused,
        Some(true) => ReleaseReason::Rebalance,
    };
    if reason != ReleaseReason::Rebalance {
        return Some(Release { id: id.to_owned(), successor: None, reason });
    }
    let successor = preferred.of(id).filter(|successor| successor.id != input.me)?;
    let movable_at = successor.since.max(since) + rules.settle;
    if movable_at > input.now {
        wake_by(wake, movable_at);
        return None;
    }
    Some(Release { id: id.to_owned(), successor: (!successor.foreign).then(|| successor.id.clone()), reason })
}

fn should_acquire(
    input: &PlanInput<'_>,
    preferred: &PreferredOwners,
    rules: Rules,
    id: &str,
    wake: &mut Option<Tick>,
) -> bool {
    if let Some(other) = input.others.get(id) {
        match other.until {
            None => return false,
            Some(until) if until > input.now => {
                wake_by(wake, until);
                return false;
            }
            Some(_) => {}
        }
    }
    let mut earliest = input.deferred.get(id).copied().unwrap_or_default();
    if preferred.of(id).is_none_or(|owner| owner.id != input.me) {
        earliest = earliest.max(input.free.get(id).copied().unwrap_or(input.now) + rules.fallback);
    }
    if earliest > input.now {
        wake_by(wake, earliest);
        return false;
    }
    true
}

fn wake_by(wake: &mut Option<Tick>, at: Tick) {
    *wake = Some(wake.map_or(at, |wake| wake.min(at)));
}

#[cfg(test)]
mod tests;
