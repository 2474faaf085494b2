//! Who should poll what, and what a node does about it. Pure functions: everything they need is handed in.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lease::{Placement, Tick};

/// One living node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its instance id: the name under which it owns.
    pub id: String,
    /// Its name for placement; the instance id unless it has another.
    pub name: String,
    /// Whether another program than ours beats for it.
    pub foreign: bool,
    /// Since when it is known.
    pub since: Tick,
}

/// Who else has a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// The holder.
    pub holder: String,
    /// Whether it is none of ours: then no event will tell when it lets go.
    pub foreign: bool,
    /// When to ask again; none where an event will tell.
    pub until: Option<Tick>,
}

/// The preferred owner of each target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    placement: Placement,
    nodes: Vec<Peer>,
    /// Where each target is in the lists below.
    places: HashMap<String, usize>,
    ids: Vec<String>,
    /// Where the hash puts each, as indices into the nodes.
    wished: Vec<usize>,
    /// Where each should be, given where they are.
    placed: Vec<usize>,
}

/// The times and bounds that a plan keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long a free target is left to its preferred owner.
    pub fallback: Duration,
    /// How long a node must be known, and a target held, before the target moves to it.
    pub settle: Duration,
    /// How many targets may move away now.
    pub moves: usize,
    /// Whether this node takes anything yet.
    pub may_take: bool,
}

/// What a node knows.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Its own instance id.
    pub me: &'a str,
    /// Now.
    pub now: Tick,
    /// Every target, and whether it is to be polled.
    pub targets: &'a BTreeMap<String, bool>,
    /// What this node holds, and since when.
    pub mine: &'a HashMap<String, Tick>,
    /// What others hold.
    pub others: &'a HashMap<String, Other>,
    /// Since when targets that nobody is known to hold are known to be free.
    pub free: &'a HashMap<String, Tick>,
    /// Targets that this node leaves alone until then: it just gave them up, or could not have them.
    pub resting: &'a HashMap<String, Tick>,
}

/// Why a target is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Another node should have it.
    Rebalance,
    /// It is paused.
    Paused,
    /// It is gone.
    Deleted,
    /// The node stops.
    Shutdown,
}

impl Why {
    /// The word for events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rebalance => "rebalance",
            Self::Paused => "paused",
            Self::Deleted => "deleted",
            Self::Shutdown => "shutdown",
        }
    }
}

/// One target to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub id: String,
    /// For whom it is kept; never a foreign node.
    pub heir: Option<String>,
    /// Why.
    pub why: Why,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Targets to take.
    pub acquire: Vec<String>,
    /// Targets to give up.
    pub release: Vec<Move>,
    /// When time alone would change the plan.
    pub wake: Option<Tick>,
}

impl Preference {
    /// Places the targets that are to be polled on the living nodes, by the hash alone.
    ///
    /// Balanced, foreign nodes and what they hold are left out: they are never asked to move, and place by other
    /// rules. By the seed's rule all nodes count, under their instance ids.
    pub fn new(
        placement: Placement,
        nodes: &[Peer],
        targets: &BTreeMap<String, bool>,
        others: &HashMap<String, Other>,
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
                // Two nodes of one name would be one node to the hash.
                _ => &node.id,
            })
            .map(String::as_str)
            .collect();
        let keys: Vec<&str> = ids.iter().map(String::as_str).collect();
        let wished = placement.assign(&keys, &names);
        let places = ids.iter().enumerate().map(|(i, id)| (id.clone(), i)).collect();
        Self { placement, placed: wished.clone(), wished, places, ids, nodes }
    }

    /// Balanced, leaves what somebody has where it is as long as that node has no more than its share, so that only
    /// what must move moves; `owner` says who has a target now.
    pub fn settle<'a>(&mut self, owner: impl Fn(&str) -> Option<&'a str>) {
        if self.placement == Placement::Seed || self.nodes.is_empty() {
            return;
        }
        let at: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(i, node)| (node.id.as_str(), i)).collect();
        let now: Vec<Option<usize>> =
            self.ids.iter().map(|id| owner(id).and_then(|holder| at.get(holder).copied())).collect();
        self.placed = settled(&self.wished, &now, self.nodes.len());
    }

    /// The preferred owner of a target.
    pub fn of(&self, id: &str) -> Option<&Peer> {
        self.nodes.get(*self.placed.get(*self.places.get(id)?)?)
    }
}

/// The placement nearest to who has what: `wished` is where the hash would put each target, `now` where it is. Every
/// node ends between the floor and the ceiling of the mean.
fn settled(wished: &[usize], now: &[Option<usize>], nodes: usize) -> Vec<usize> {
    let mut load = vec![0; nodes];
    now.iter().flatten().for_each(|node| load[*node] += 1);
    let (floor, extra) = (wished.len() / nodes, wished.len() % nodes);
    let mut order: Vec<usize> = (0..nodes).collect();
    // One above the floor stays where it is already.
    order.sort_by_key(|node| (load[*node] <= floor, *node));
    let mut room = vec![floor; nodes];
    order.iter().take(extra).for_each(|node| room[*node] += 1);
    let mut placed = vec![usize::MAX; wished.len()];
    let mut pass = |choose: &dyn Fn(usize, &[usize]) -> Option<usize>| {
        for (i, place) in placed.iter_mut().enumerate().filter(|(_, place)| **place == usize::MAX) {
            if let Some(node) = choose(i, &room).filter(|node| room[*node] > 0) {
                room[node] -= 1;
                *place = node;
            }
        }
    };
    pass(&|i, _| now[i].filter(|node| *node == wished[i]));
    pass(&|i, _| now[i]);
    pass(&|i, _| Some(wished[i]));
    pass(&|_, room| room.iter().position(|room| *room > 0));
    placed
}

/// What to take, what to hand on, and what to keep.
pub fn plan(sight: &Sight<'_>, preference: &Preference, rules: Rules) -> Plan {
    let mut plan = Plan::default();
    for (id, since) in sight.mine {
        if let Some(step) = leave(sight, preference, rules, id, *since, &mut plan.wake) {
            plan.release.push(step);
        }
    }
    // Whatever must go goes; of what should move, as much as may.
    plan.release.sort_by(|a, b| (a.why == Why::Rebalance, &a.id).cmp(&(b.why == Why::Rebalance, &b.id)));
    let must = plan.release.iter().filter(|step| step.why != Why::Rebalance).count();
    plan.release.truncate(must + rules.moves);
    if rules.may_take {
        for (id, active) in sight.targets {
            if *active && !sight.mine.contains_key(id) && take(sight, preference, rules, id, &mut plan.wake) {
                plan.acquire.push(id.clone());
            }
        }
    }
    plan
}

fn leave(
    sight: &Sight<'_>,
    preference: &Preference,
    rules: Rules,
    id: &str,
    since: Tick,
    wake: &mut Option<Tick>,
) -> Option<Move> {
    let why = match sight.targets.get(id) {
        None => Why::Deleted,
        Some(false) => Why::Paused,
        Some(true) => Why::Rebalance,
    };
    if why != Why::Rebalance {
        return Some(Move { id: id.to_owned(), heir: None, why });
    }
    let heir = preference.of(id).filter(|heir| heir.id != sight.me)?;
    let ripe = heir.since.max(since) + rules.settle;
    if ripe > sight.now {
        sooner(wake, ripe);
        return None;
    }
    Some(Move { id: id.to_owned(), heir: (!heir.foreign).then(|| heir.id.clone()), why })
}

fn take(sight: &Sight<'_>, preference: &Preference, rules: Rules, id: &str, wake: &mut Option<Tick>) -> bool {
    if let Some(other) = sight.others.get(id) {
        match other.until {
            None => return false,
            Some(until) if until > sight.now => {
                sooner(wake, until);
                return false;
            }
            Some(_) => {}
        }
    }
    let mut from = sight.resting.get(id).copied().unwrap_or_default();
    if preference.of(id).is_none_or(|owner| owner.id != sight.me) {
        from = from.max(sight.free.get(id).copied().unwrap_or(sight.now) + rules.fallback);
    }
    if from > sight.now {
        sooner(wake, from);
        return false;
    }
    true
}

fn sooner(wake: &mut Option<Tick>, at: Tick) {
    *wake = Some(wake.map_or(at, |wake| wake.min(at)));
}

#[cfg(test)]
mod tests;
