//! What anyone may see: capabilities, states, pages, histories, events.

use lease::{
    Capabilities, Error, Event, Generation, Holder, Key, Loss, Meta, Page, Phase, Prefix, Query, Reign,
    Result, Revision, Status, Ttl, Verb, Wall, Watched,
};

use super::{answer, micros, nonsense, readable, span, word};
use crate::wire;

impl From<Capabilities> for wire::CapabilitiesResponse {
    fn from(capabilities: Capabilities) -> Self {
        let loss = match capabilities.loss {
            Loss::Process => wire::Loss::Process,
            Loss::Nothing => wire::Loss::Nothing,
            Loss::ServerPersistence => wire::Loss::ServerPersistence,
        };
        Self {
            engine: capabilities.engine.into(),
            min_ttl_ms: capabilities.min_ttl.as_millis() as u32,
            max_ttl_ms: capabilities.max_ttl.as_millis() as u32,
            expiry_lag_us: micros(capabilities.expiry_lag),
            failover_us: micros(capabilities.failover),
            loss: loss.into(),
        }
    }
}

impl TryFrom<wire::CapabilitiesResponse> for Capabilities {
    type Error = Error;

    fn try_from(answer: wire::CapabilitiesResponse) -> Result<Self> {
        let ttl = |ms: u32| readable(Some(Ttl::from_millis(ms.into())), "ttl");
        let loss = match answer.loss() {
            wire::Loss::Process => Loss::Process,
            wire::Loss::Nothing => Loss::Nothing,
            wire::Loss::ServerPersistence => Loss::ServerPersistence,
            wire::Loss::Unspecified => return Err(nonsense("loss")),
        };
        Ok(Self {
            engine: word::keep(&answer.engine, super::ENGINE),
            min_ttl: ttl(answer.min_ttl_ms)?,
            max_ttl: ttl(answer.max_ttl_ms)?,
            expiry_lag: span(answer.expiry_lag_us),
            failover: span(answer.failover_us),
            loss,
        })
    }
}

impl From<Status> for wire::Status {
    fn from(status: Status) -> Self {
        let phase = match status.phase {
            Phase::Free => wire::Phase::Free,
            Phase::Held => wire::Phase::Held,
            Phase::Delayed => wire::Phase::Delayed,
            Phase::Reserved => wire::Phase::Reserved,
        };
        Self {
            key: status.key.as_str().into(),
            phase: phase.into(),
            holder: status.holder.map(|holder| holder.as_str().into()),
            generation: status.generation.map(Generation::get),
            remaining_us: status.remaining.map(micros),
            meta: status.meta.as_str().into(),
            since_us: status.since.map(Wall::as_micros),
            waiters: status.waiters,
        }
    }
}

impl TryFrom<wire::Status> for Status {
    type Error = Error;

    fn try_from(status: wire::Status) -> Result<Self> {
        let phase = match status.phase() {
            wire::Phase::Free => Phase::Free,
            wire::Phase::Held => Phase::Held,
            wire::Phase::Delayed => Phase::Delayed,
            wire::Phase::Reserved => Phase::Reserved,
            wire::Phase::Unspecified => return Err(nonsense("phase")),
        };
        Ok(Self {
            key: readable(Some(Key::new(status.key)), "key")?,
            phase,
            holder: status.holder.and_then(|name| Holder::new(name).ok()),
            generation: status.generation.and_then(|number| Generation::new(number).ok()),
            remaining: status.remaining_us.map(span),
            meta: Meta::new(status.meta).unwrap_or_default(),
            since: status.since_us.map(Wall::from_micros),
            waiters: status.waiters,
        })
    }
}

impl From<&Query> for wire::Query {
    fn from(query: &Query) -> Self {
        Self {
            prefix: query.prefix.as_str().into(),
            after: query.after.as_ref().map_or_else(String::new, |key| key.as_str().into()),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
        }
    }
}

impl TryFrom<wire::Query> for Query {
    type Error = Error;

    fn try_from(asked: wire::Query) -> Result<Self> {
        Ok(Self {
            prefix: Prefix::new(asked.prefix)?,
            after: (!asked.after.is_empty()).then(|| Key::new(asked.after)).transpose()?,
            limit: asked.limit as usize,
        })
    }
}

/// Where the next page begins, as it travels.
pub(super) fn next(key: Option<Key>) -> String {
    key.map_or_else(String::new, |key| key.as_str().into())
}

/// A page from its parts as they travelled.
pub(super) fn page<W, T: TryFrom<W, Error = Error>>(
    items: Vec<W>,
    next: String,
    revision: u64,
) -> Result<Page<T>> {
    let next = (!next.is_empty()).then(|| readable(Some(Key::new(next)), "next")).transpose()?;
    let items = items.into_iter().map(T::try_from).collect::<Result<_>>()?;
    Ok(Page { items, next, revision: Revision::new(revision) })
}

impl From<Page<Status>> for wire::ListResponse {
    fn from(page: Page<Status>) -> Self {
        let items = page.items.into_iter().map(Into::into).collect();
        Self { items, next: next(page.next), revision: page.revision.get() }
    }
}

impl TryFrom<wire::ListResponse> for Page<Status> {
    type Error = Error;

    fn try_from(answer: wire::ListResponse) -> Result<Self> {
        page(answer.items, answer.next, answer.revision)
    }
}

impl From<Reign> for wire::Reign {
    fn from(reign: Reign) -> Self {
        Self {
            holder: reign.holder.as_str().into(),
            generation: reign.generation.get(),
            from_us: reign.from.as_micros(),
            until_us: reign.until.map(Wall::as_micros),
            end: reign.end.map_or(wire::End::Unspecified, Into::into).into(),
        }
    }
}

impl TryFrom<wire::Reign> for Reign {
    type Error = Error;

    fn try_from(reign: wire::Reign) -> Result<Self> {
        Ok(Self {
            holder: readable(Some(Holder::new(reign.holder)), "holder")?,
            generation: readable(Some(Generation::new(reign.generation)), "generation")?,
            from: Wall::from_micros(reign.from_us),
            until: reign.until_us.map(Wall::from_micros),
            end: answer::end(reign.end),
        })
    }
}

impl From<Watched> for wire::watch_response::What {
    fn from(watched: Watched) -> Self {
        match watched {
            Watched::Lagged => Self::Lagged(wire::Lagged {}),
            Watched::Event(event) => Self::Event(wire::Event {
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

impl TryFrom<wire::Event> for Event {
    type Error = Error;

    fn try_from(event: wire::Event) -> Result<Self> {
        Ok(Self {
            revision: Revision::new(event.revision),
            at: Wall::from_micros(event.at_us),
            key: readable(Some(Key::new(event.key)), "key")?,
            verb: Verb::parse(&event.verb).ok_or_else(|| nonsense("verb"))?,
            holder: event.holder.and_then(|name| Holder::new(name).ok()),
            generation: event.generation.and_then(|number| Generation::new(number).ok()),
        })
    }
}
