//! Which nodes are there, and how loaded they are.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lease::{Error, Key, Op, Phase, Query, Result, Tick, Ttl};
use meet_rpc::{Card, Kind};
use meet_wire::internal::HealthStatus;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::gc::Site;
use crate::trouble::Trouble;
use crate::{limits, metric};

/// What a node last said of its load. Kept beside its lease for half a minute.
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

/// A node that is there.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) card: Card,
    pub(crate) load: Load,
    /// Meetings that it got since it last reported.
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
    /// The share of a controller's capacity that is taken, with these meetings on top of what it reports.
    pub(crate) fn fill(&self, more: u32) -> f64 {
        let share = |used: u32, most: u32| if most == 0 { 0.0 } else { f64::from(used) / f64::from(most) };
        let most_meetings = first(self.load.max_meetings, self.card.max_meetings);
        let most_participants = first(self.load.max_participants, self.card.max_participants);
        let meetings = share(self.load.meetings.saturating_add(more), most_meetings);
        meetings.max(share(self.load.participants, most_participants))
    }

    /// The share of a handler's streams that is taken, with these meetings on top of what it reports.
    pub(crate) fn flow(&self, more: u32) -> f64 {
        let most = first(self.load.max_streams, self.card.max_streams);
        let streams = self.load.streams.saturating_add(more.saturating_mul(limits::STREAMS));
        if most == 0 { 0.0 } else { f64::from(streams) / f64::from(most) }
    }
}

/// What it reported, or else what its card says.
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

    /// The node reported: what it got is in there.
    pub(crate) fn settle(&self, kind: Kind, id: &str) {
        self.0.lock().remove(&(kind, id.to_owned()));
    }
}

impl Site {
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
                let Some(card) = Card::read(&status.meta) else { continue };
                let load = loads.remove(&id).unwrap_or_default();
                let reserved = self.reservations.count(kind, &id, now);
                nodes.push(Node { id, card, load, reserved });
            }
            match page.next {
                Some(next) if nodes.len() < limits::NODES => query.after = Some(next),
                _ => break,
            }
        }
        metric::registered(kind, nodes.len());
        Ok(nodes)
    }

    /// Counts the nodes, for ever.
    pub(crate) async fn keep_counting(&self) {
        loop {
            for kind in [Kind::Controller, Kind::Handler] {
                // A store that does not answer says so where it matters.
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

    /// The card of a node that holds its lease.
    pub(crate) async fn card(&self, kind: Kind, id: &str) -> Result<Option<Card>> {
        // A holder with another kind of name is no node.
        let Ok(key) = kind.lease(id) else { return Ok(None) };
        let status = self.bounded(self.options.store.inspect(&key)).await?;
        let held = status.phase == Phase::Held && status.holder.is_some_and(|holder| holder.as_str() == id);
        Ok(if held { Card::read(&status.meta) } else { None })
    }

    /// A node is there. It must hold its lease.
    pub(crate) async fn register(&self, kind: Kind, id: &str, load: Load) -> Result<(), Trouble> {
        let key = load_key(kind, id)?;
        if self.card(kind, id).await?.is_none() {
            return Err(Trouble::NotFound("the node does not hold its lease, or says nothing in it"));
        }
        self.put_load(key, load).await
    }

    /// A node says how loaded it is. One that never registered, or was not heard of for long, is to register again.
    pub(crate) async fn report(
        &self,
        kind: Kind,
        id: &str,
        change: impl FnOnce(Load) -> Load,
    ) -> Result<(), Trouble> {
        const UNKNOWN: Trouble = Trouble::NotFound("the node is not registered");
        let key = load_key(kind, id)?;
        let record = self.bounded(self.options.store.get(&key)).await?.ok_or(UNKNOWN)?;
        if self.card(kind, id).await?.is_none() {
            return Err(UNKNOWN);
        }
        let last = serde_json::from_slice(&record.value).unwrap_or_default();
        self.put_load(key, change(last)).await?;
        self.reservations.settle(kind, id);
        Ok(())
    }

    async fn put_load(&self, key: Key, load: Load) -> Result<(), Trouble> {
        let ttl = Some(Ttl::from_millis(limits::LOAD.as_millis() as u64)?);
        let put = Op::Put { key, value: load.bytes()?, ttl };
        self.bounded(self.options.store.commit(&[put])).await?;
        Ok(())
    }
}

fn load_key(kind: Kind, id: &str) -> Result<Key, Trouble> {
    kind.load(id).map_err(|error| Trouble::BadRequest(error.to_string()))
}
