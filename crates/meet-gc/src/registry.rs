//! The registry: which nodes are alive, and their load.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_lease::{Error, Key, Op, Phase, Query, Result, Tick, Ttl};
use tenure_meet_rpc::{Kind, NodeInfo};
use tenure_meet_wire::internal::HealthStatus;

use crate::error::ApiError;
use crate::gc::GcState;
use crate::{limits, metric};

/// The last reported load of a node. Stored next to its lease for half a minute.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Load {
    /// A [`HealthStatus`].
    pub(crate) health: i32,
    pub(crate) meetings: u32,
    pub(crate) max_meetings: u32,
    pub(crate) participants: u32,
    pub(crate) max_participants: u32,
    pub(crate) streams: u32,
    pub(crate) max_streams: u32,
    pub(crate) cpu_percent: f32,
    pub(crate) memory_percent: f32,
}

/// A live node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) node_info: NodeInfo,
    pub(crate) load: Load,
    /// Meetings assigned since its last report.
    pub(crate) reserved: u32,
}

/// Assignments that nodes have not reported yet.
#[derive(Default)]
pub(crate) struct Reservations(Mutex<HashMap<(Kind, String), VecDeque<Tick>>>);

impl Load {
    pub(crate) fn health(&self) -> HealthStatus {
        HealthStatus::try_from(self.health).unwrap_or(HealthStatus::Unhealthy)
    }

    fn bytes(&self) -> Result<Arc<[u8]>> {
        let json = serde_json::to_vec(self).map_err(|error| Error::invalid("load", error.to_string()))?;
        Ok(Arc::from(json))
    }
}

impl Node {
    /// The used share of a controller's capacity, with `more` meetings added to its report.
    pub(crate) fn fill(&self, more: u32) -> f64 {
        let share = |used: u32, most: u32| if most == 0 { 0.0 } else { f64::from(used) / f64::from(most) };
        let most_meetings = first(self.load.max_meetings, self.node_info.max_meetings);
        let most_participants = first(self.load.max_participants, self.node_info.max_participants);
        let meetings = share(self.load.meetings.saturating_add(more), most_meetings);
        meetings.max(share(self.load.participants, most_participants))
    }

    /// The used share of a handler's streams, with `more` meetings added to its report.
    pub(crate) fn flow(&self, more: u32) -> f64 {
        let most = first(self.load.max_streams, self.node_info.max_streams);
        let streams = self.load.streams.saturating_add(more.saturating_mul(limits::STREAMS));
        if most == 0 { 0.0 } else { f64::from(streams) / f64::from(most) }
    }
}

/// The reported value, or else the one in the node info.
fn first(reported: u32, said: u32) -> u32 {
    if reported == 0 { said } else { reported }
}

impl Reservations {
    pub(crate) fn add(&self, kind: Kind, id: &str, now: Tick) {
        let mut all = self.0.lock();
        all.retain(|_, made| {
            made.retain(|at| now.since(*at) < limits::RESERVATION);
            !made.is_empty()
        });
        all.entry((kind, id.to_owned())).or_default().push_back(now);
    }

    fn count(&self, kind: Kind, id: &str, now: Tick) -> u32 {
        let all = self.0.lock();
        let made = all.get(&(kind, id.to_owned()));
        made.map_or(0, |made| made.iter().filter(|at| now.since(**at) < limits::RESERVATION).count() as u32)
    }

    /// Clears the reservations of a node: its report includes them.
    pub(crate) fn settle(&self, kind: Kind, id: &str) {
        self.0.lock().remove(&(kind, id.to_owned()));
    }
}

impl GcState {
    /// All nodes of a kind that hold their lease.
    pub(crate) async fn nodes(&self, kind: Kind) -> Result<Vec<Node>> {
        let mut loads = self.loads(kind).await?;
        let now = self.clock.now();
        let mut query = Query::new(kind.prefix()?);
        let mut nodes = Vec::new();
        loop {
            let page = self.bounded(self.options.store.list(&query)).await?;
            for status in page.items.iter().filter(|status| status.phase == Phase::Held) {
                let id = status.key.as_str().split_once(':').map_or("", |(_, id)| id).to_owned();
                let Some(node_info) = NodeInfo::read(&status.meta) else { continue };
                let load = loads.remove(&id).unwrap_or_default();
                let reserved = self.reservations.count(kind, &id, now);
                nodes.push(Node { id, node_info, load, reserved });
            }
            match page.next {
                Some(next) if nodes.len() < limits::NODES => query.after = Some(next),
                _ => break,
            }
        }
        metric::registered(kind, nodes.len());
        if kind == Kind::Controller {
            self.reachability.registered(&nodes, now);
        }
        Ok(nodes)
    }

    /// Counts the nodes periodically.
    pub(crate) async fn keep_counting(&self) {
        loop {
            for kind in [Kind::Controller, Kind::Handler] {
                // Other callers report store errors.
                let _uncounted = self.nodes(kind).await;
            }
            self.pause(limits::COUNT).await;
        }
    }

    async fn loads(&self, kind: Kind) -> Result<HashMap<String, Load>> {
        let mut query = Query::new(kind.prefix()?);
        let mut loads = HashMap::new();
        loop {
            let page = self.bounded(self.options.store.scan(&query)).await?;
            for record in &page.items {
                let id = record.key.as_str().split_once(':').and_then(|(_, id)| id.strip_suffix(":load"));
                if let (Some(id), Ok(load)) = (id, serde_json::from_slice(&record.value)) {
                    loads.insert(id.to_owned(), load);
                }
            }
            match page.next {
                Some(next) if loads.len() < limits::NODES => query.after = Some(next),
                _ => return Ok(loads),
            }
        }
    }

    /// The info of a node that holds its lease.
    pub(crate) async fn node_info(&self, kind: Kind, id: &str) -> Result<Option<NodeInfo>> {
        // A lease under another holder name is not a node.
        let Ok(key) = kind.lease(id) else { return Ok(None) };
        let status = self.bounded(self.options.store.inspect(&key)).await?;
        let held = status.phase == Phase::Held && status.holder.is_some_and(|holder| holder.as_str() == id);
        Ok(if held { NodeInfo::read(&status.meta) } else { None })
    }

    /// Registers a node. It must hold its lease.
    pub(crate) async fn register(&self, kind: Kind, id: &str, load: Load) -> Result<(), ApiError> {
        let key = load_key(kind, id)?;
        if self.node_info(kind, id).await?.is_none() {
            return Err(ApiError::NotFound("the node does not hold its lease, or its meta has no node info"));
        }
        self.put_load(key, load).await
    }

    /// Records the load of a node. Fails if the node never registered or its last report expired.
    pub(crate) async fn report(
        &self,
        kind: Kind,
        id: &str,
        change: impl FnOnce(Load) -> Load,
    ) -> Result<(), ApiError> {
        const UNKNOWN: ApiError = ApiError::NotFound("the node is not registered");
        let key = load_key(kind, id)?;
        let record = self.bounded(self.options.store.get(&key)).await?.ok_or(UNKNOWN)?;
        if self.node_info(kind, id).await?.is_none() {
            return Err(UNKNOWN);
        }
        let last = serde_json::from_slice(&record.value).unwrap_or_default();
        self.put_load(key, change(last)).await?;
        self.reservations.settle(kind, id);
        Ok(())
    }

    async fn put_load(&self, key: Key, load: Load) -> Result<(), ApiError> {
        let ttl = Some(Ttl::from_millis(limits::LOAD.as_millis() as u64)?);
        let put = Op::Put { key, value: load.bytes()?, ttl };
        self.bounded(self.options.store.commit(&[put])).await?;
        Ok(())
    }
}

fn load_key(kind: Kind, id: &str) -> Result<Key, ApiError> {
    kind.load(id).map_err(|error| ApiError::BadRequest(error.to_string()))
}
