//! What is read: capabilities, states, pages, histories, events.

use std::time::Duration;

use tenure_lease::{
    Capabilities, Durability, Error, Event, Generation, Holder, Key, Limits, Meta, Page, Phase, Prefix,
    Query, Reign, Result, Revision, Status, Ttl, Verb, Wakeup, Wall, Watched,
};

use crate::{ENGINE, intern, proto};
use crate::{from_micros, outcome, readable, to_micros, unreadable};

impl From<Capabilities> for proto::CapabilitiesResponse {
    fn from(capabilities: Capabilities) -> Self {
        let loss = match capabilities.durability {
            Durability::Volatile => proto::Loss::Process,
            Durability::Synced => proto::Loss::Nothing,
            Durability::ServerPersistence => proto::Loss::ServerPersistence,
            Durability::Majority => proto::Loss::WithoutMajority,
        };
        let limits = capabilities.limits;
        Self {
            engine: capabilities.engine.into(),
            min_ttl_ms: capabilities.min_ttl.as_millis() as u32,
            max_ttl_ms: capabilities.max_ttl.as_millis() as u32,
            expiry_lag_us: to_micros(capabilities.expiry_lag),
            failover_us: to_micros(capabilities.failover),
            loss: loss.into(),
            ttl_step_ms: capabilities.ttl_step.as_millis() as u32,
            max_commit_operations: limits.commit_operations as u32,
            max_commit_bytes: limits.commit_bytes as u32,
            max_wiped_leases: limits.wiped_leases as u32,
            pushes_wakeups: capabilities.wakes_waiters == Wakeup::Push,
            proof_of_death: capabilities.proof_of_death,
            shared_keys: capabilities.shared_keys,
            warnings: Vec::new(),
        }
    }
}

impl TryFrom<proto::CapabilitiesResponse> for Capabilities {
    type Error = Error;

    fn try_from(response: proto::CapabilitiesResponse) -> Result<Self> {
        let ttl = |ms: u32| readable(Some(Ttl::from_millis(ms.into())), "ttl");
        let durability = match response.loss() {
            proto::Loss::Process => Durability::Volatile,
            proto::Loss::Nothing => Durability::Synced,
            proto::Loss::ServerPersistence => Durability::ServerPersistence,
            proto::Loss::WithoutMajority => Durability::Majority,
            proto::Loss::Unspecified => return Err(unreadable("loss")),
        };
        let limits = Limits::default();
        let bound = |stated: u32, default: usize| if stated == 0 { default } else { stated as usize };
        Ok(Self {
            engine: intern::intern(&response.engine, ENGINE),
            min_ttl: ttl(response.min_ttl_ms)?,
            max_ttl: ttl(response.max_ttl_ms)?,
            expiry_lag: from_micros(response.expiry_lag_us),
            failover: from_micros(response.failover_us),
            // The store lives in another process, whatever its engine is.
            dies_with_process: false,
            ttl_step: Duration::from_millis(response.ttl_step_ms.max(1).into()),
            durability,
            limits: Limits {
                commit_operations: bound(response.max_commit_operations, limits.commit_operations),
                commit_bytes: bound(response.max_commit_bytes, limits.commit_bytes),
                wiped_leases: bound(response.max_wiped_leases, limits.wiped_leases),
            },
            wakes_waiters: if response.pushes_wakeups { Wakeup::Push } else { Wakeup::Poll },
            proof_of_death: response.proof_of_death,
            shared_keys: response.shared_keys,
        })
    }
}

impl From<Status> for proto::Status {
    fn from(status: Status) -> Self {
        let phase = match status.phase {
            Phase::Free => proto::Phase::Free,
            Phase::Held => proto::Phase::Held,
            Phase::Delayed => proto::Phase::Delayed,
            Phase::Reserved => proto::Phase::Reserved,
        };
        Self {
            key: status.key.as_str().into(),
            phase: phase.into(),
            holder: status.holder.map(|holder| holder.as_str().into()),
            generation: status.generation.map(Generation::get),
            remaining_us: status.remaining.map(to_micros),
            meta: status.meta.as_str().into(),
            since_us: status.since.map(Wall::as_micros),
            waiters: status.waiters,
        }
    }
}

impl TryFrom<proto::Status> for Status {
    type Error = Error;

    fn try_from(status: proto::Status) -> Result<Self> {
        let phase = match status.phase() {
            proto::Phase::Free => Phase::Free,
            proto::Phase::Held => Phase::Held,
            proto::Phase::Delayed => Phase::Delayed,
            proto::Phase::Reserved => Phase::Reserved,
            proto::Phase::Unspecified => return Err(unreadable("phase")),
        };
        Ok(Self {
            key: readable(Some(Key::new(status.key)), "key")?,
            phase,
            holder: status.holder.and_then(|name| Holder::new(name).ok()),
            generation: status.generation.and_then(|number| Generation::new(number).ok()),
            remaining: status.remaining_us.map(from_micros),
            meta: Meta::new(status.meta).unwrap_or_default(),
            since: status.since_us.map(Wall::from_micros),
            waiters: status.waiters,
        })
    }
}

impl From<&Query> for proto::Query {
    fn from(query: &Query) -> Self {
        Self {
            prefix: query.prefix.as_str().into(),
            after: query.after.as_ref().map_or_else(String::new, |key| key.as_str().into()),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
        }
    }
}

impl TryFrom<proto::Query> for Query {
    type Error = Error;

    fn try_from(query: proto::Query) -> Result<Self> {
        Ok(Self {
            prefix: Prefix::new(query.prefix)?,
            after: (!query.after.is_empty()).then(|| Key::new(query.after)).transpose()?,
            limit: query.limit as usize,
        })
    }
}

/// Where the next page begins.
pub(crate) fn next(key: Option<Key>) -> String {
    key.map_or_else(String::new, |key| key.as_str().into())
}

/// A page from its fields.
pub(crate) fn page<W, T: TryFrom<W, Error = Error>>(
    items: Vec<W>,
    next: String,
    revision: u64,
) -> Result<Page<T>> {
    let next = (!next.is_empty()).then(|| readable(Some(Key::new(next)), "next")).transpose()?;
    let items = items.into_iter().map(T::try_from).collect::<Result<_>>()?;
    Ok(Page { items, next, revision: Revision::new(revision) })
}

impl From<Page<Status>> for proto::ListResponse {
    fn from(page: Page<Status>) -> Self {
        let items = page.items.into_iter().map(Into::into).collect();
        Self { items, next: next(page.next), revision: page.revision.get() }
    }
}

impl TryFrom<proto::ListResponse> for Page<Status> {
    type Error = Error;

    fn try_from(response: proto::ListResponse) -> Result<Self> {
        page(response.items, response.next, response.revision)
    }
}

impl From<Reign> for proto::Reign {
    fn from(reign: Reign) -> Self {
        Self {
            holder: reign.holder.as_str().into(),
            generation: reign.generation.get(),
            from_us: reign.from.as_micros(),
            until_us: reign.until.map(Wall::as_micros),
            end: reign.end.map_or(proto::End::Unspecified, Into::into).into(),
        }
    }
}

impl TryFrom<proto::Reign> for Reign {
    type Error = Error;

    fn try_from(reign: proto::Reign) -> Result<Self> {
        Ok(Self {
            holder: readable(Some(Holder::new(reign.holder)), "holder")?,
            generation: readable(Some(Generation::new(reign.generation)), "generation")?,
            from: Wall::from_micros(reign.from_us),
            until: reign.until_us.map(Wall::from_micros),
            end: outcome::end(reign.end),
        })
    }
}

impl From<Watched> for proto::watch_response::What {
    fn from(watched: Watched) -> Self {
        match watched {
            Watched::Lagged => Self::Lagged(proto::Lagged {}),
            Watched::Event(event) => Self::Event(proto::Event {
                revision: event.revision.get(),
                at_us: event.at.as_micros(),
                key: event.key.as_str().into(),
                verb: event.verb.as_str().into(),
                holder: event.holder.map(|holder| holder.as_str().into()),
                generation: event.generation.map(Generation::get),
            }),
        }
    }
}

impl TryFrom<proto::Event> for Event {
    type Error = Error;

    fn try_from(event: proto::Event) -> Result<Self> {
        Ok(Self {
            revision: Revision::new(event.revision),
            at: Wall::from_micros(event.at_us),
            key: readable(Some(Key::new(event.key)), "key")?,
            verb: Verb::parse(&event.verb).ok_or_else(|| unreadable("verb"))?,
            holder: event.holder.and_then(|name| Holder::new(name).ok()),
            generation: event.generation.and_then(|number| Generation::new(number).ok()),
        })
    }
}
