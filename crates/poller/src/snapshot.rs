//! A snapshot of the cluster for the HTTP API: live nodes, owners and preferred owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tenure_lease::Placement;
use utoipa::ToSchema;

use crate::cluster_view::ClusterView;
use crate::node::NodeState;
use crate::result::PollResult;
use crate::target::redact_url;

/// All nodes and their targets, as known by one node.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshot {
    /// The instance that took the snapshot.
    pub instance: String,
    /// `balanced` or `seed`.
    pub placement: &'static str,
    /// The nodes, by instance id.
    pub nodes: Vec<NodeView>,
    /// Targets without an owner: free, paused or invalid.
    pub unowned: Vec<TargetView>,
    /// Milliseconds since the epoch.
    pub timestamp: u64,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Its instance id.
    pub instance: String,
    /// Its name for placement.
    pub name: String,
    /// Whether this is the node that took the snapshot.
    pub is_this_instance: bool,
    /// Whether it is a node of another program.
    pub foreign: bool,
    /// `online`, `init` (just started) or `silent` (its lease expired or its heartbeat stopped).
    pub status: &'static str,
    /// The targets that it owns.
    pub targets: Vec<TargetView>,
}

/// One target.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The polled address without credentials.
    pub address: String,
    /// `owned`, `uncertain`, `reserved`, `free`, `paused` or `invalid`.
    pub state: &'static str,
    /// The instance that polls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The instance that should poll it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
    /// Since when ownership is uncertain, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertain_since: Option<u64>,
    /// Polls by this node since it acquired the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polls: Option<u64>,
    /// Health according to this node's last poll: `ok`, `failing` or `down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<&'static str>,
    /// Why its record is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn health(result: &PollResult) -> &'static str {
    match (result.ok, result.down) {
        (true, _) => "ok",
        (false, false) => "failing",
        (false, true) => "down",
    }
}

/// One target as known by this node.
pub(crate) fn target_view(cluster: &ClusterView, id: &str) -> Option<TargetView> {
    if let Some(error) = cluster.invalid.get(id) {
        return Some(TargetView { state: "invalid", error: Some(error.to_string()), ..new_target_view(id) });
    }
    let known = cluster.targets.get(id)?;
    let mut view =
        TargetView { name: known.name.clone(), address: redact_url(&known.address), ..new_target_view(id) };
    view.preferred = cluster.preferred(id).map(str::to_owned);
    if let (Some(_), Some(status)) = (cluster.mine.get(id), cluster.statuses.get(id)) {
        view.owner = Some(cluster.me.clone());
        view.uncertain_since = status.uncertain_since();
        view.state = if view.uncertain_since.is_some() { "uncertain" } else { "owned" };
        view.polls = Some(status.polls());
        view.health = status.last().as_deref().map(health);
    } else if let Some(other) = cluster.others.get(id) {
        view.owner = Some(other.holder.clone());
        view.uncertain_since =
            cluster.node_infos.get(&other.holder).and_then(|about| about.uncertain.get(id)).copied();
        view.state = match view.uncertain_since {
            Some(_) => "uncertain",
            None if !other.foreign && other.until.is_some() => "reserved",
            None => "owned",
        };
    } else if known.paused {
        view.state = "paused";
    }
    Some(view)
}

fn new_target_view(id: &str) -> TargetView {
    TargetView {
        id: id.to_owned(),
        name: id.to_owned(),
        address: String::new(),
        state: "free",
        owner: None,
        preferred: None,
        uncertain_since: None,
        polls: None,
        health: None,
        error: None,
    }
}

impl ClusterSnapshot {
    pub(crate) fn capture(state: &NodeState) -> Self {
        let clock = state.store.clock();
        let (now, cluster) = (clock.now(), state.cluster.lock());
        let settle = state.settings.settle_time();
        let mut nodes: BTreeMap<String, NodeView> = cluster
            .peers
            .values()
            .map(|peer| {
                let status = match () {
                    () if cluster.silent.contains(&peer.id) => "silent",
                    () if now.since(peer.since) < settle => "init",
                    () => "online",
                };
                (peer.id.clone(), node_view(&cluster, &peer.id, &peer.name, peer.foreign, status))
            })
            .collect();
        let mut unowned = Vec::new();
        for id in cluster.targets.keys().chain(cluster.invalid.keys()) {
            let Some(view) = target_view(&cluster, id) else { continue };
            match &view.owner {
                Some(owner) => {
                    let foreign = cluster.others.get(id).is_some_and(|other| other.foreign);
                    let owner = nodes
                        .entry(owner.clone())
                        .or_insert_with(|| node_view(&cluster, owner, owner, foreign, "silent"));
                    owner.targets.push(view);
                }
                None => unowned.push(view),
            }
        }
        Self {
            instance: state.instance.clone(),
            placement: match cluster.placement {
                Placement::Balanced => "balanced",
                Placement::Seed => "seed",
            },
            nodes: nodes.into_values().collect(),
            unowned,
            timestamp: clock.wall().as_millis(),
        }
    }
}

fn node_view(cluster: &ClusterView, id: &str, name: &str, foreign: bool, status: &'static str) -> NodeView {
    NodeView {
        instance: id.to_owned(),
        name: name.to_owned(),
        is_this_instance: id == cluster.me,
        foreign,
        status,
        targets: Vec::new(),
    }
}

/// The last result of a target that this node owns.
pub(crate) fn last_result(cluster: &ClusterView, id: &str) -> Option<Arc<PollResult>> {
    cluster.statuses.get(id).and_then(|status| status.last())
}

/// Merges a view into its record.
pub(crate) fn merge_record(view: &TargetView, record: serde_json::Map<String, Value>) -> Value {
    let mut merged = record;
    if let Ok(Value::Object(view)) = serde_json::to_value(view) {
        for (name, value) in view.into_iter().filter(|(name, _)| !matches!(name.as_str(), "address" | "name"))
        {
            merged.insert(name, value);
        }
    }
    Value::Object(merged)
}
