//! The session log over a lease store.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use tenure_lease::{
    Committed, Key, Op, Outcome, Prefix, Query, Record, Revision, Store, Ttl, Verb, Watch, Watched,
};
use tenure_session::{
    CreateOutcome, Error, IdempotencyKey, Mapping, Result, Session, SessionChanges, SessionFilter, SessionId,
    SessionLog, SessionPage, StopRequest, UnixMs, Version,
};

use crate::{keys, limits, rows};

/// Sessions in a lease store: records under `v3:session:`, idempotency mappings under `v3:idem:`, stop requests under
/// `v3:stop:` and access times under `v3:seen:`. Clones share the store.
#[derive(Clone)]
pub struct StoreSessionLog {
    store: Arc<dyn Store>,
}

/// Attempts of a write that may conflict with concurrent ones.
const TRIES: usize = 4;

impl StoreSessionLog {
    /// Creates a log in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn record(&self, key: &Key) -> Result<Option<Record>> {
        self.store.get(key).await.map_err(store_error)
    }

    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.store.commit(ops).await.map_err(store_error)
    }

    /// Reads, modifies and writes a record. `next` returns the new value, or `None` to leave it. Returns whether the record
    /// was created.
    async fn update(
        &self,
        key: &Key,
        next: impl Fn(Option<&[u8]>) -> Result<Option<Arc<[u8]>>> + Send + Sync,
    ) -> Result<bool> {
        let ttl = Some(Ttl::from_millis(limits::SIDE_RECORDS.as_millis() as u64).map_err(store_error)?);
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
        Err(Error::Unavailable("too many concurrent writes of the same record".to_owned()))
    }

    /// Calls `act` for each session record, page by page.
    async fn for_each_record(&self, mut act: impl FnMut(Record) + Send) -> Result<()> {
        let mut query = Query::new(keys::prefix(keys::SESSION).map_err(store_error)?);
        loop {
            let page = self.store.scan(&query).await.map_err(store_error)?;
            page.items.into_iter().for_each(&mut act);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(()),
            }
            // Lets other tasks run between pages.
            tokio::task::yield_now().await;
        }
    }

    /// Whether a creation without a response took effect.
    async fn was_created(&self, key: &Key, value: &[u8]) -> Option<Revision> {
        let record = self.store.get(key).await.ok()??;
        (*record.value == *value).then_some(record.revision)
    }
}

#[async_trait]
impl SessionLog for StoreSessionLog {
    async fn find_mapping(&self, keys: &[IdempotencyKey]) -> Result<Option<Mapping>> {
        let mut first = None;
        for key in keys {
            let Some(record) = self.record(&keys::idem(key).map_err(store_error)?).await? else { continue };
            let session = self.get(&rows::decode_mapping(&record.value)?).await?;
            let live = session.as_ref().is_some_and(|session| !session.state.is_terminal());
            let found = Mapping { key: key.clone(), version: Version(record.revision.get()), session };
            if live {
                return Ok(Some(found));
            }
            first.get_or_insert(found);
        }
        Ok(first)
    }

    async fn create(&self, session: &Session, instead_of: Option<Version>) -> Result<CreateOutcome> {
        let (key, record) = (keys::idem(&session.idempotency), keys::session(&session.id));
        let (key, record) = (key.map_err(store_error)?, record.map_err(store_error)?);
        let (mapping, value) = (rows::encode_mapping(&session.id)?, rows::encode_session(session)?);
        let mapping = match instead_of {
            None => Op::PutIfAbsent { key, value: mapping, ttl: None },
            Some(Version(revision)) => {
                Op::PutIfRevision { key, value: mapping, ttl: None, revision: Revision::new(revision) }
            }
        };
        let ops = [mapping, Op::PutIfAbsent { key: record.clone(), value: value.clone(), ttl: None }];
        match self.store.commit(&ops).await {
            Ok(Committed::Written { revision }) => Ok(CreateOutcome::Created(Version(revision.get()))),
            Ok(Committed::Conflict { index: 0, .. }) => Ok(CreateOutcome::AlreadyMapped),
            Ok(_) => Err(Error::Unavailable("the session id is already in use".to_owned())),
            Err(indeterminate) if indeterminate.outcome() == Outcome::Indeterminate => {
                match self.was_created(&record, &value).await {
                    Some(revision) => Ok(CreateOutcome::Created(Version(revision.get()))),
                    None => Err(store_error(indeterminate)),
                }
            }
            Err(refused) => Err(store_error(refused)),
        }
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>> {
        let record = self.record(&keys::session(id).map_err(store_error)?).await?;
        record.map(|record| rows::decode_session(&record.value)).transpose()
    }

    async fn list(&self, among: SessionFilter, offset: usize, limit: usize) -> Result<SessionPage> {
        // Only the sessions of the page are decoded completely: there may be very many others.
        let mut all = Vec::new();
        self.for_each_record(|record| {
            // A corrupt record must not hide the others.
            let Ok(summary) = rows::decode_summary(&record.value) else { return };
            if among == SessionFilter::All || !summary.state.is_terminal() {
                all.push((Reverse((summary.created, record.key)), record.value));
            }
        })
        .await?;
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let (total, limit) = (all.len(), limit.min(tenure_session::limits::PAGE));
        let page = all.iter().skip(offset).take(limit);
        Ok(SessionPage {
            sessions: page.filter_map(|(_, value)| rows::decode_session(value).ok()).collect(),
            total,
        })
    }

    async fn count(&self) -> Result<usize> {
        let mut count = 0;
        self.for_each_record(|_| count += 1).await?;
        Ok(count)
    }

    async fn request_stop(&self, stop: &StopRequest) -> Result<bool> {
        let next = |there: Option<&[u8]>| match there.map(rows::decode_stop).transpose()? {
            None => rows::encode_stop(stop, 1).map(Some),
            Some(recorded) if recorded.times < 2 => rows::encode_stop(stop, 2).map(Some),
            Some(_) => Ok(None),
        };
        self.update(&keys::stop(&stop.session).map_err(store_error)?, next).await
    }

    async fn last_seen(&self, id: &SessionId) -> Result<Option<UnixMs>> {
        let record = self.record(&keys::seen(id).map_err(store_error)?).await?;
        record.map(|record| rows::decode_seen(&record.value)).transpose()
    }

    async fn touch(&self, id: &SessionId, at: UnixMs) -> Result<()> {
        let next = |there: Option<&[u8]>| match there.map(rows::decode_seen).transpose()? {
            Some(before) if before >= at => Ok(None),
            _ => rows::encode_seen(at).map(Some),
        };
        self.update(&keys::seen(id).map_err(store_error)?, next).await.map(drop)
    }

    async fn changes(&self, id: &SessionId) -> Result<Box<dyn SessionChanges>> {
        let key = keys::session(id).map_err(store_error)?;
        let watch = self
            .store
            .watch(&Prefix::new(key.as_str()).map_err(store_error)?, None)
            .await
            .map_err(store_error)?;
        Ok(Box::new(RecordChanges { log: self.clone(), key, watch, changed: false }))
    }
}

/// A subscription to one record.
struct RecordChanges {
    log: StoreSessionLog,
    key: Key,
    watch: Box<dyn Watch>,
    /// The record changed and has not been read since.
    changed: bool,
}

#[async_trait]
impl SessionChanges for RecordChanges {
    async fn next(&mut self) -> Result<Option<Session>> {
        while !self.changed {
            match self.watch.next().await.map_err(store_error)? {
                Watched::Event(event) => {
                    self.changed =
                        event.key == self.key && matches!(event.verb, Verb::Written | Verb::Deleted);
                }
                Watched::Lagged => self.changed = true,
            }
        }
        let record = self.log.record(&self.key).await?;
        self.changed = false;
        record.map(|record| rows::decode_session(&record.value)).transpose()
    }
}

/// Converts an error of the store.
pub(crate) fn store_error(error: tenure_lease::Error) -> Error {
    match error {
        tenure_lease::Error::Invalid { what, why } => Error::Invalid { field: what, why },
        tenure_lease::Error::Unknown { .. } => Error::Unknown(error.to_string()),
        tenure_lease::Error::Refused(_) | tenure_lease::Error::Unavailable { .. } => {
            Error::Unavailable(error.to_string())
        }
    }
}
