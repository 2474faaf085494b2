//! What a node shows of polling: who lives, who has what, who should.

use std::collections::BTreeMap;
use std::sync::Arc;

use lease::Placement;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::book::Book;
use crate::node::Desk;
use crate::result::PollResult;
use crate::target::bare;

/// All nodes and their targets, as one node knows them.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Picture {
    /// Who says so.
    pub instance: String,
    /// `balanced` or `seed`.
    pub placement: &'static str,
    /// The nodes, by instance id.
    pub nodes: Vec<NodeView>,
    /// Targets that nobody has: free, paused, or not polled for what is wrong with them.
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
    /// Whether it is the one that says so.
    pub is_this_instance: bool,
    /// Whether another program than ours beats for it.
    pub foreign: bool,
    /// `online`, `init` (looking around) or `silent` (its lease ran out, or it beats no more).
    pub status: &'static str,
    /// What it polls.
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
    /// What is polled, without a password.
    pub address: String,
    /// `owned`, `uncertain`, `reserved`, `free`, `paused` or `invalid`.
    pub state: &'static str,
    /// Who polls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
    /// Since when its owner is in doubt, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertain_since: Option<u64>,
    /// Polls by this node since it has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polls: Option<u64>,
    /// What its last poll by this node said: `ok`, `failing` or `down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<&'static str>,
    /// What is wrong with its record.
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

/// One target as its node sees it.
pub(crate) fn target(book: &Book, id: &str) -> Option<TargetView> {
    if let Some(error) = book.invalid.get(id) {
        return Some(TargetView { state: "invalid", error: Some(error.to_string()), ..blank(id) });
    }
    let known = book.targets.get(id)?;
    let mut view = TargetView { name: known.name.clone(), address: bare(&known.address), ..blank(id) };
    view.preferred = book.preferred(id).map(str::to_owned);
    if let (Some(_), Some(status)) = (book.mine.get(id), book.statuses.get(id)) {
        view.owner = Some(book.me.clone());
        view.uncertain_since = status.uncertain_since();
        view.state = if view.uncertain_since.is_some() { "uncertain" } else { "owned" };
        view.polls = Some(status.polls());
        view.health = status.last().as_deref().map(health);
    } else if let Some(other) = book.others.get(id) {
        view.owner = Some(other.holder.clone());
        view.uncertain_since =
            book.abouts.get(&other.holder).and_then(|about| about.uncertain.get(id)).copied();
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

fn blank(id: &str) -> TargetView {
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

impl Picture {
    pub(crate) fn of(desk: &Desk) -> Self {
        let clock = desk.store.clock();
        let (now, book) = (clock.now(), desk.book.lock());
        let settle = desk.settings.settle();
        let mut nodes: BTreeMap<String, NodeView> = book
            .peers
            .values()
            .map(|peer| {
                let status = match () {
                    () if book.silent.contains(&peer.id) => "silent",
                    () if now.since(peer.since) < settle => "init",
                    () => "online",
                };
                (peer.id.clone(), node(&book, &peer.id, &peer.name, peer.foreign, status))
            })
            .collect();
        let mut unowned = Vec::new();
        for id in book.targets.keys().chain(book.invalid.keys()) {
            let Some(view) = target(&book, id) else { continue };
            match &view.owner {
                Some(owner) => {
                    let foreign = book.others.get(id).is_some_and(|other| other.foreign);
                    let owner = nodes
                        .entry(owner.clone())
                        .or_insert_with(|| node(&book, owner, owner, foreign, "silent"));
                    owner.targets.push(view);
                }
                None => unowned.push(view),
            }
        }
        Self {
            instance: desk.instance.clone(),
            placement: match book.placement {
                Placement::Balanced => "balanced",
                Placement::Seed => "seed",
            },
            nodes: nodes.into_values().collect(),
            unowned,
            timestamp: clock.wall().as_millis(),
        }
    }
}

fn node(book: &Book, id: &str, name: &str, foreign: bool, status: &'static str) -> NodeView {
    NodeView {
        instance: id.to_owned(),
        name: name.to_owned(),
        is_this_instance: id == book.me,
        foreign,
        status,
        targets: Vec::new(),
    }
}

/// A target's last result, where this node has it.
pub(crate) fn last(book: &Book, id: &str) -> Option<Arc<PollResult>> {
    book.statuses.get(id).and_then(|status| status.last())
}

/// A view together with the record it is of.
pub(crate) fn with_record(view: &TargetView, record: serde_json::Map<String, Value>) -> Value {
    let mut whole = record;
    if let Ok(Value::Object(view)) = serde_json::to_value(view) {
        for (name, value) in view.into_iter().filter(|(name, _)| !matches!(name.as_str(), "address" | "name"))
        {
            whole.insert(name, value);
        }
    }
    Value::Object(whole)
}
