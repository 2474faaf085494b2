//! What a node knows of the cluster: targets, live nodes and owners. Every change is a method here, and the methods
//! have no other effects.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Busy, BusyReason, End, Placement, Tick, limits::RESERVATION_MS};

use crate::discovery::{DiscoveredNode, DiscoveredTargets, LeaseOwner, NodeInfo};
use crate::owned::TargetStatus;
use crate::plan::{OtherOwner, Peer, Plan, PlanInput, PreferredOwners, Rules, plan};
use crate::{Target, TargetError, events};

/// Minimum delay before a busy target is claimed again.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);

/// What a node's heartbeat means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heartbeat {
    /// The node is not known yet.
    New,
    /// The node was silent.
    Resumed,
    /// The node is known to be live.
    Known,
}

/// What a node knows of the cluster.
pub(crate) struct ClusterView {
    pub(crate) me: String,
    pub(crate) placement: Placement,
    pub(crate) targets: BTreeMap<String, Arc<Target>>,
    pub(crate) invalid: BTreeMap<String, TargetError>,
    pub(crate) digest: String,
    pub(crate) peers: BTreeMap<String, Peer>,
    pub(crate) node_infos: BTreeMap<String, NodeInfo>,
    /// Nodes with an expired lease. They count as dead until their next heartbeat.
    pub(crate) silent: HashSet<String>,
    pub(crate) mine: HashMap<String, Tick>,
    pub(crate) statuses: HashMap<String, Arc<TargetStatus>>,
    /// Targets that are being acquired or released.
    pub(crate) in_transition: HashSet<String>,
    /// Of those, targets whose lease ended or was read again meanwhile: the response in flight may be older.
    overtaken: HashSet<String>,
    pub(crate) others: HashMap<String, OtherOwner>,
    free: HashMap<String, Tick>,
    deferred: HashMap<String, Tick>,
    /// Whether each target is active (not paused).
    active: BTreeMap<String, bool>,
    preferred_owners: PreferredOwners,
    /// The nodes or targets changed since `preferred` was computed.
    placement_stale: bool,
    /// The owners changed since `preferred` was settled.
    owners_changed: bool,
    /// An owner may no longer be live.
    liveness_unchecked: bool,
    /// Set when the last plan was empty and nothing changed since: when to plan again, if time alone requires it.
    idle_until: Option<Option<Tick>>,
}

impl ClusterView {
    pub(crate) fn new(me: &str, name: Option<&str>, placement: Placement, now: Tick) -> Self {
        let own = Peer { id: me.to_owned(), name: name.unwrap_or(me).to_owned(), foreign: false, since: now };
        Self {
            me: me.to_owned(),
            placement,
            targets: BTreeMap::new(),
            invalid: BTreeMap::new(),
            digest: String::new(),
            peers: BTreeMap::from([(me.to_owned(), own)]),
            node_infos: BTreeMap::new(),
            silent: HashSet::new(),
            mine: HashMap::new(),
            statuses: HashMap::new(),
            in_transition: HashSet::new(),
            overtaken: HashSet::new(),
            others: HashMap::new(),
            free: HashMap::new(),
            deferred: HashMap::new(),
            active: BTreeMap::new(),
            preferred_owners: PreferredOwners::default(),
            placement_stale: true,
            owners_changed: true,
            liveness_unchecked: true,
            idle_until: None,
        }
    }

    /// Replaces all targets.
    pub(crate) fn set_targets(&mut self, found: DiscoveredTargets, now: Tick) {
        self.idle_until = None;
        let active: BTreeMap<String, bool> =
            found.valid.iter().map(|(id, target)| (id.clone(), !target.paused)).collect();
        self.placement_stale |= active != self.active;
        (self.targets, self.invalid, self.digest) = (found.valid, found.invalid, found.digest);
        self.active = active;
        self.prune(now);
    }

    /// Replaces one target, or removes it if `found` is `None`.
    pub(crate) fn set_target(
        &mut self,
        id: &str,
        found: Option<Result<Arc<Target>, TargetError>>,
        now: Tick,
    ) {
        self.idle_until = None;
        self.invalid.remove(id);
        let before = self.active.get(id).copied();
        match found {
            Some(Ok(target)) => {
                self.active.insert(id.to_owned(), !target.paused);
                self.targets.insert(id.to_owned(), target);
            }
            gone => {
                self.active.remove(id);
                self.targets.remove(id);
                if let Some(Err(error)) = gone {
                    self.invalid.insert(id.to_owned(), error);
                }
            }
        }
        self.placement_stale |= before != self.active.get(id).copied();
        // The digest no longer matches; the next read of all targets computes it.
        self.digest.clear();
        self.prune(now);
    }

    /// Drops outdated entries, and marks targets without a known owner as free.
    fn prune(&mut self, now: Tick) {
        let active = &self.active;
        let known = |id: &String| active.contains_key(id);
        self.free.retain(|id, _| known(id));
        self.deferred.retain(|id, until| known(id) && *until > now);
        // Owners of unknown targets are kept: such a target may be about to appear.
        for id in self.active.keys() {
            if !self.mine.contains_key(id) && !self.others.contains_key(id) {
                self.free.entry(id.clone()).or_insert(now);
            }
        }
    }

    /// Replaces the live nodes. This node is always one of them.
    pub(crate) fn set_nodes(&mut self, nodes: Vec<DiscoveredNode>, now: Tick) {
        let mut peers = BTreeMap::new();
        let mut node_infos = BTreeMap::new();
        if let Some(own) = self.peers.get(&self.me) {
            peers.insert(self.me.clone(), own.clone());
        }
        for DiscoveredNode { id, foreign, about } in nodes {
            if id == self.me {
                continue;
            }
            let since = self.peers.get(&id).map_or(now, |peer| peer.since);
            let name = about.name.clone().unwrap_or_else(|| id.clone());
            peers.insert(id.clone(), Peer { id: id.clone(), name, foreign, since });
            node_infos.insert(id, about);
        }
        if peers != self.peers {
            (self.placement_stale, self.liveness_unchecked, self.idle_until) = (true, true, None);
        }
        (self.peers, self.node_infos) = (peers, node_infos);
        self.silent.retain(|id| self.peers.contains_key(id));
        self.recheck_dead_owners(now);
    }

    /// Marks leases of nodes that are not live as possibly free, even without an event.
    fn recheck_dead_owners(&mut self, now: Tick) {
        if !std::mem::take(&mut self.liveness_unchecked) {
            return;
        }
        for (id, other) in &mut self.others {
            if !other.foreign && other.until.is_none() && !self.peers.contains_key(&other.holder) {
                self.idle_until = None;
                other.until = Some(now);
                self.free.entry(id.clone()).or_insert(now);
            }
        }
    }

    /// Handles a heartbeat. Most heartbeats change nothing.
    pub(crate) fn on_heartbeat(&mut self, node: &str) -> Heartbeat {
        if self.silent.remove(node) {
            (self.placement_stale, self.idle_until) = (true, None);
            return Heartbeat::Resumed;
        }
        if self.peers.contains_key(node) { Heartbeat::Known } else { Heartbeat::New }
    }

    /// Handles the removal of a node's heartbeat.
    pub(crate) fn on_node_left(&mut self, node: &str, now: Tick) {
        if node != self.me && self.peers.remove(node).is_some() {
            (self.placement_stale, self.liveness_unchecked, self.idle_until) = (true, true, None);
            self.node_infos.remove(node);
            self.silent.remove(node);
            self.recheck_dead_owners(now);
        }
    }

    /// Replaces the owners of all targets.
    pub(crate) fn set_owners(&mut self, owners: Vec<LeaseOwner>, now: Tick) {
        self.idle_until = None;
        self.others.clear();
        self.overtaken.extend(self.in_transition.iter().cloned());
        self.placement_stale = true;
        for owner in owners {
            if owner.holder != self.me {
                self.set_owner(owner, now);
            }
        }
        self.recheck_dead_owners(now);
        self.prune(now);
    }

    pub(crate) fn set_owner(&mut self, owner: LeaseOwner, now: Tick) {
        self.idle_until = None;
        let until = (owner.foreign || owner.reserved)
            .then(|| now + owner.remaining.unwrap_or_default().max(RETRY_DELAY_MIN));
        self.free.remove(&owner.id);
        self.owners_changed = true;
        self.placement_stale |= owner.foreign;
        self.liveness_unchecked = true;
        self.others.insert(owner.id, OtherOwner { holder: owner.holder, foreign: owner.foreign, until });
    }

    /// Handles the grant of a target's lease.
    pub(crate) fn on_granted(&mut self, id: &str, holder: &str) {
        self.idle_until = None;
        self.placement_stale |= self.silent.remove(holder);
        if holder == self.me {
            return;
        }
        self.free.remove(id);
        let other = OtherOwner { holder: holder.to_owned(), foreign: false, until: None };
        self.liveness_unchecked = true;
        self.placement_stale |= self.others.insert(id.to_owned(), other).is_some_and(|before| before.foreign);
        self.owners_changed = true;
    }

    /// Handles the end of a target's lease. Returns true if this node should acquire the target now.
    pub(crate) fn on_ended(&mut self, id: &str, holder: &str, end: End, now: Tick) -> bool {
        self.idle_until = None;
        if self.others.get(id).is_some_and(|other| other.holder == holder) {
            self.others.remove(id);
        }
        self.owners_changed = true;
        if self.in_transition.contains(id) {
            self.overtaken.insert(id.to_owned());
        }
        if !self.mine.contains_key(id) && !self.others.contains_key(id) {
            self.free.insert(id.to_owned(), now);
        }
        if end == End::Expired && holder != self.me && self.peers.contains_key(holder) {
            // The heartbeat of a dead node may outlive its lease; placement must not wait for it.
            self.placement_stale |= self.silent.insert(holder.to_owned());
        }
        // The placement from before the end: the previous owner chose its successor by the same placement.
        let wanted = self.active.get(id) == Some(&true);
        let owner = self.preferred_owners.of(id).is_some_and(|peer| peer.id == self.me);
        wanted
            && owner
            && holder != self.me
            && !self.mine.contains_key(id)
            && !self.in_transition.contains(id)
    }

    /// Handles the acquisition of a target by this node.
    pub(crate) fn on_acquired(&mut self, id: &str, status: Arc<TargetStatus>, now: Tick) {
        self.idle_until = None;
        self.finish_transition(id);
        self.placement_stale |= self.others.remove(id).is_some_and(|other| other.foreign);
        self.owners_changed = true;
        self.free.remove(id);
        self.deferred.remove(id);
        self.mine.insert(id.to_owned(), now);
        self.statuses.insert(id.to_owned(), status);
    }

    /// Ends a target's transition. Returns true if an event received meanwhile may be newer than the response.
    pub(crate) fn finish_transition(&mut self, id: &str) -> bool {
        self.in_transition.remove(id);
        self.overtaken.remove(id)
    }

    /// Handles a claim that failed because the lease is busy.
    pub(crate) fn on_busy(&mut self, id: &str, busy: &Busy, now: Tick, sync: Duration) {
        self.idle_until = None;
        let overtaken = self.finish_transition(id);
        let left = busy.remaining.unwrap_or(sync) + RETRY_DELAY_MIN;
        let holder = busy.holder.as_ref().map(|holder| holder.as_str().to_owned());
        let ours = holder
            .as_ref()
            .is_some_and(|holder| self.peers.contains_key(holder) && !self.silent.contains(holder));
        let (foreign, until) = match busy.reason {
            // An event will follow, unless it arrived before this response.
            BusyReason::Held if ours => (false, overtaken.then(|| now + sync)),
            BusyReason::Held | BusyReason::Reserved => (false, Some(now + left)),
            // Its release causes no event: retry at intervals, and when the lease expires.
            BusyReason::Foreign => (true, Some(now + left.min(sync))),
            _ => (false, Some(now + left.min(sync))),
        };
        let Some(holder) = holder.filter(|holder| *holder != self.me) else {
            self.defer(id, now + left.min(sync));
            return;
        };
        self.free.remove(id);
        let before = self.others.insert(id.to_owned(), OtherOwner { holder, foreign, until });
        self.liveness_unchecked = true;
        self.placement_stale |= before.is_some_and(|before| before.foreign) != foreign;
        self.owners_changed = true;
    }

    /// Does not claim a target before `until`.
    pub(crate) fn defer(&mut self, id: &str, until: Tick) {
        self.idle_until = None;
        self.finish_transition(id);
        self.deferred.insert(id.to_owned(), until);
    }

    /// Handles the release or loss of a target by this node.
    pub(crate) fn on_released(&mut self, id: &str, successor: Option<&str>, now: Tick, delay: Duration) {
        self.idle_until = None;
        self.finish_transition(id);
        self.mine.remove(id);
        self.statuses.remove(id);
        self.owners_changed = true;
        if !self.active.contains_key(id) {
            return;
        }
        self.deferred.insert(id.to_owned(), now + delay);
        if self.others.contains_key(id) {
            return;
        }
        match successor {
            Some(successor) => {
                let until = Some(now + Duration::from_millis(RESERVATION_MS) + RETRY_DELAY_MIN);
                self.others.insert(
                    id.to_owned(),
                    OtherOwner { holder: successor.to_owned(), foreign: false, until },
                );
            }
            None => drop(self.free.entry(id.to_owned()).or_insert(now)),
        }
    }

    fn live_peers(&self) -> Vec<Peer> {
        self.peers.values().filter(|peer| !self.silent.contains(&peer.id)).cloned().collect()
    }

    fn update_placement(&mut self) {
        let stale = std::mem::take(&mut self.placement_stale);
        if stale {
            self.preferred_owners =
                PreferredOwners::new(self.placement, &self.live_peers(), &self.active, &self.others);
        }
        if std::mem::take(&mut self.owners_changed) || stale {
            let Self { me, mine, others, preferred_owners, .. } = self;
            preferred_owners.keep_with_owners(|id| match mine.contains_key(id) {
                true => Some(me.as_str()),
                false => others.get(id).map(|other| other.holder.as_str()),
            });
        }
    }

    /// The preferred owner of a target.
    pub(crate) fn preferred(&self, id: &str) -> Option<&str> {
        self.preferred_owners.of(id).map(|peer| peer.id.as_str())
    }

    /// Plans what to do now.
    pub(crate) fn plan(&mut self, now: Tick, rules: Rules) -> Plan {
        if let Some(wake) = self.idle_until.filter(|wake| wake.is_none_or(|wake| wake > now)) {
            return Plan { wake, ..Plan::default() };
        }
        self.update_placement();
        // A lease whose retry time has come may be free, so the fallback delay counts from then.
        for (id, other) in &self.others {
            if let Some(until) = other.until.filter(|until| *until <= now) {
                self.free.entry(id.clone()).or_insert(until);
            }
        }
        let input = PlanInput {
            me: &self.me,
            now,
            targets: &self.active,
            mine: &self.mine,
            others: &self.others,
            free: &self.free,
            deferred: &self.deferred,
        };
        let mut plan = plan(&input, &self.preferred_owners, rules);
        // Less strict rules might have led to actions.
        let nothing =
            plan.acquire.is_empty() && plan.release.is_empty() && rules.may_acquire && rules.moves > 0;
        self.idle_until = nothing.then_some(plan.wake);
        plan.acquire.retain(|id| !self.in_transition.contains(id));
        plan.release.retain(|release| !self.in_transition.contains(&release.id));
        plan
    }

    /// The node that should own each of this node's targets after a shutdown.
    pub(crate) fn plan_successors(&mut self) -> HashMap<String, Option<String>> {
        let rest: Vec<Peer> = self.live_peers().into_iter().filter(|peer| peer.id != self.me).collect();
        let mut preferred_owners = PreferredOwners::new(self.placement, &rest, &self.active, &self.others);
        preferred_owners.keep_with_owners(|id| self.others.get(id).map(|other| other.holder.as_str()));
        let successor = |id: &str| {
            preferred_owners
                .of(id)
                .filter(|successor| !successor.foreign)
                .map(|successor| successor.id.clone())
        };
        self.mine.keys().map(|id| (id.clone(), successor(id))).collect()
    }

    /// Updates the gauges.
    pub(crate) fn record_counts(&self) {
        let paused = self.active.values().filter(|active| !**active).count();
        events::record_counts(self.targets.len(), paused, self.invalid.len(), self.peers.len());
    }

    pub(crate) fn is_active(&self, id: &str) -> bool {
        self.active.get(id) == Some(&true)
    }
}

#[cfg(test)]
mod tests;
