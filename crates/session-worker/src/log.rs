//! The session log over a lease store.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use lease::{
    Committed, Happened, Key, Op, Prefix, Query, Record, Revision, Store, Ttl, Verb, Watch, Watched,
};
use session::{
    Among, Bus, Changes, Created, Error, Found, IdempotencyKey, Listed, Notice, Result, Session, SessionId,
    SessionLog, State, StopRequest, UnixMs, Version,
};

use crate::{keys, limits, rows};

/// Sessions in a lease store: records under `v3:session:`, what a wish is mapped to under `v3:idem:`, and what the door
/// has to say beside a record under `v3:stop:` and `v3:seen:`. Clones share the store.
#[derive(Clone)]
pub struct Log {
    store: Arc<dyn Store>,
}

/// Tries at a write that somebody else may come before.
const TRIES: usize = 4;

impl Log {
    /// A log in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn record(&self, key: &Key) -> Result<Option<Record>> {
        self.store.get(key).await.map_err(error)
    }

    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.store.commit(ops).await.map_err(error)
    }

    /// Writes a small record under a key, over what is there, if `next` wants to.
    async fn update(
        &self,
        key: &Key,
        next: impl Fn(Option<&[u8]>) -> Result<Option<Arc<[u8]>>> + Send + Sync,
    ) -> Result<bool> {
        let ttl = Some(Ttl::from_millis(limits::BESIDE.as_millis() as u64).map_err(error)?);
        for _ in 0..TRIES {
            let there = self.record(key).await?;
            let Some(value) = next(there.as_ref().map(|record| &*record.value))? else { return Ok(false) };
            let key = key.clone();
            let op = match &there {
                None => Op::PutIfAbsent { key, value, ttl },
                Some(record) => Op::PutIfRevision { key, value, ttl, revision: record.revision },
            };
            if let Committed::Written { .. } = self.commit(&[op]).await? {
                return Ok(there.is_none());
            }
        }
        Err(Error::Unavailable("others write the same record all the time".to_owned()))
    }

    /// Every record of a session, page by page.
    async fn each(&self, mut act: impl FnMut(Record) + Send) -> Result<()> {
        let mut query = Query::new(keys::prefix(keys::SESSION).map_err(error)?);
        loop {
            let page = self.store.scan(&query).await.map_err(error)?;
            page.items.into_iter().for_each(&mut act);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(()),
            }
            // A page is not much; many of them are, and others want to get on.
            tokio::task::yield_now().await;
        }
    }

    /// Whether a creation whose answer got lost happened.
    async fn is_there(&self, key: &Key, value: &[u8]) -> Option<Revision> {
        let record = self.store.get(key).await.ok()??;
        (*record.value == *value).then_some(record.revision)
    }
}

#[async_trait]
impl SessionLog for Log {
    async fn find(&self, keys: &[IdempotencyKey]) -> Result<Option<Found>> {
        let mut first = None;
        for key in keys {
            let Some(record) = self.record(&keys::idem(key).map_err(error)?).await? else { continue };
            let session = self.get(&rows::read_mapping(&record.value)?).await?;
            let live = session.as_ref().is_some_and(|session| !session.state.is_terminal());
            let found = Found { key: key.clone(), version: Version(record.revision.get()), session };
            if live {
                return Ok(Some(found));
            }
            first.get_or_insert(found);
        }
        Ok(first)
    }

    async fn create(&self, session: &Session, instead_of: Option<Version>) -> Result<Created> {
        let (key, record) = (keys::idem(&session.idempotency), keys::session(&session.id));
        let (key, record) = (key.map_err(error)?, record.map_err(error)?);
        let (mapping, value) = (rows::mapping(&session.id)?, rows::session(session)?);
        let mapping = match instead_of {
            None => Op::PutIfAbsent { key, value: mapping, ttl: None },
            Some(Version(revision)) => {
                Op::PutIfRevision { key, value: mapping, ttl: None, revision: Revision::new(revision) }
            }
        };
        let ops = [mapping, Op::PutIfAbsent { key: record.clone(), value: value.clone(), ttl: None }];
        match self.store.commit(&ops).await {
            Ok(Committed::Written { revision }) => Ok(Created::Created(Version(revision.get()))),
            Ok(Committed::Conflict { index: 0, .. }) => Ok(Created::Taken),
            Ok(_) => Err(Error::Unavailable("the id of the session is taken".to_owned())),
            Err(unheard) if unheard.happened() == Happened::Maybe => {
                match self.is_there(&record, &value).await {
                    Some(revision) => Ok(Created::Created(Version(revision.get()))),
                    None => Err(error(unheard)),
                }
            }
            Err(refused) => Err(error(refused)),
        }
    }

    async fn withdraw(&self, session: &Session, version: Version) -> Result<bool> {
        let ended = Session { state: State::Cancelled, ticket: None, ..session.clone() };
        let record = Op::PutIfRevision {
            key: keys::session(&session.id).map_err(error)?,
            value: rows::session(&ended)?,
            ttl: Some(Ttl::from_millis(limits::WITHDRAWN.as_millis() as u64).map_err(error)?),
            revision: Revision::new(version.0),
        };
        // While the record is as it was created, the mapping is as well: only what ended is mapped anew.
        let mapping = Op::Delete { key: keys::idem(&session.idempotency).map_err(error)? };
        Ok(matches!(self.commit(&[mapping, record]).await?, Committed::Written { .. }))
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>> {
        let record = self.record(&keys::session(id).map_err(error)?).await?;
        record.map(|record| rows::read_session(&record.value)).transpose()
    }

    async fn list(&self, among: Among, offset: usize, limit: usize) -> Result<Listed> {
        // Only what is shown is read whole: there may be a day's worth of the others.
        let mut all = Vec::new();
        self.each(|record| {
            // One that cannot be read must not hide the others.
            let Ok(glance) = rows::glance(&record.value) else { return };
            if among == Among::All || !glance.state.is_terminal() {
                all.push((Reverse((glance.created, record.key)), record.value));
            }
        })
        .await?;
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let (total, limit) = (all.len(), limit.min(session::limits::PAGE));
        let shown = all.iter().skip(offset).take(limit);
        Ok(Listed {
            sessions: shown.filter_map(|(_, value)| rows::read_session(value).ok()).collect(),
            total,
        })
    }

    async fn count(&self) -> Result<usize> {
        let mut count = 0;
        self.each(|_| count += 1).await?;
        Ok(count)
    }

    async fn ask_stop(&self, stop: &StopRequest) -> Result<bool> {
        let next = |there: Option<&[u8]>| match there.map(rows::read_stop).transpose()? {
            None => rows::stop(stop, 1).map(Some),
            Some(asked) if asked.times < 2 => rows::stop(stop, 2).map(Some),
            Some(_) => Ok(None),
        };
        self.update(&keys::stop(&stop.session).map_err(error)?, next).await
    }

    async fn seen(&self, id: &SessionId) -> Result<Option<UnixMs>> {
        let record = self.record(&keys::seen(id).map_err(error)?).await?;
        record.map(|record| rows::read_seen(&record.value)).transpose()
    }

    async fn touch(&self, id: &SessionId, at: UnixMs) -> Result<()> {
        let next = |there: Option<&[u8]>| match there.map(rows::read_seen).transpose()? {
            Some(before) if before >= at => Ok(None),
            _ => rows::seen(at).map(Some),
        };
        self.update(&keys::seen(id).map_err(error)?, next).await.map(drop)
    }

    async fn changes(&self, id: &SessionId) -> Result<Box<dyn Changes>> {
        let key = keys::session(id).map_err(error)?;
        let watch =
            self.store.watch(&Prefix::new(key.as_str()).map_err(error)?, None).await.map_err(error)?;
        Ok(Box::new(Stream { log: self.clone(), key, watch, look: false }))
    }
}

/// The record in NEW is the start event and the record of a stop is the stop event: the store tells those who watch it,
/// in the same step, so there is nothing left to publish.
#[async_trait]
impl Bus for Log {
    async fn publish(&self, _notice: &Notice) -> Result<()> {
        Ok(())
    }
}

/// The changes of one record.
struct Stream {
    log: Log,
    key: Key,
    watch: Box<dyn Watch>,
    /// A change was heard of and not looked at.
    look: bool,
}

#[async_trait]
impl Changes for Stream {
    async fn next(&mut self) -> Result<Option<Session>> {
        while !self.look {
            match self.watch.next().await.map_err(error)? {
                Watched::Event(event) => {
                    self.look = event.key == self.key && matches!(event.verb, Verb::Written | Verb::Deleted);
                }
                Watched::Lagged => self.look = true,
            }
        }
        let record = self.log.record(&self.key).await?;
        self.look = false;
        record.map(|record| rows::read_session(&record.value)).transpose()
    }
}

/// What a store says, in the words of sessions.
pub(crate) fn error(error: lease::Error) -> Error {
    match error {
        lease::Error::Invalid { what, why } => Error::Invalid { field: what, why },
        lease::Error::Unknown { .. } => Error::Unknown(error.to_string()),
        lease::Error::Refused(_) | lease::Error::Unavailable { .. } => Error::Unavailable(error.to_string()),
    }
}
