//! Reads sessions, stop requests, access times and leases from the store, page by page.

use std::collections::BTreeMap;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Key, Page, Phase, Query, Record, Status};
use tenure_session::{SessionId, UnixMs};

use crate::record::{SessionError, SessionRecord};
use crate::rows::RecordedStop;
use crate::state::WorkerState;
use crate::{keys, rows, telemetry};

/// Reads all active sessions.
pub(crate) async fn read_active_sessions(worker: &WorkerState) -> Result<Vec<SessionRecord>, SessionError> {
    if broken(Break::ForgetsIntents) {
        return Ok(Vec::new());
    }
    // A record without a readable summary is decoded completely, so that the error is logged.
    let active = |record: &Record| {
        rows::decode_summary(&record.value).map_or(true, |summary| !summary.state.is_terminal())
    };
    read_sessions(worker, active).await
}

/// Reads the sessions whose record matches. The others are dropped page by page: there may be very many.
pub(crate) async fn read_sessions(
    worker: &WorkerState,
    wanted: impl Fn(&Record) -> bool + Send,
) -> Result<Vec<SessionRecord>, SessionError> {
    let mut all = Vec::new();
    let mut query = query(keys::SESSION)?;
    loop {
        let page = worker.call_store(worker.store.scan(&query)).await?;
        all.extend(page.items.iter().filter(|record| wanted(record)).filter_map(decode_record));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(all),
        }
        // Lets other tasks run between pages.
        tokio::task::yield_now().await;
    }
}

/// Reads the session with this id.
pub(crate) async fn read_session(
    worker: &WorkerState,
    id: &SessionId,
) -> Result<Option<SessionRecord>, SessionError> {
    let key = keys::session(id).map_err(|error| SessionError::Store(error.to_string()))?;
    let record = worker.call_store(worker.store.get(&key)).await?;
    Ok(record.as_ref().and_then(decode_record))
}

/// Decodes a record. A corrupt one is logged and skipped.
pub(crate) fn decode_record(record: &Record) -> Option<SessionRecord> {
    match rows::decode_session(&record.value) {
        Ok(session) => Some(SessionRecord { session, revision: record.revision }),
        Err(error) => {
            tracing::warn!(target: telemetry::TARGET, key = %record.key, %error, "failed to decode a session record");
            None
        }
    }
}

/// Reads the stop requests.
pub(crate) async fn read_stops(
    worker: &WorkerState,
) -> Result<BTreeMap<SessionId, RecordedStop>, SessionError> {
    let read = |record: &Record| {
        Some((keys::id_in(&record.key, keys::STOP)?, rows::decode_stop(&record.value).ok()?))
    };
    Ok(read_records(worker, keys::STOP).await?.iter().filter_map(read).collect())
}

/// Reads the access times.
pub(crate) async fn read_last_seen(
    worker: &WorkerState,
) -> Result<BTreeMap<SessionId, UnixMs>, SessionError> {
    let read = |record: &Record| {
        Some((keys::id_in(&record.key, keys::SEEN)?, rows::decode_seen(&record.value).ok()?))
    };
    Ok(read_records(worker, keys::SEEN).await?.iter().filter_map(read).collect())
}

/// Lists the held leases under a prefix.
pub(crate) async fn list_held_leases(
    worker: &WorkerState,
    prefix: &str,
) -> Result<Vec<Status>, SessionError> {
    let mut all = Vec::new();
    let mut query = query(prefix)?;
    loop {
        let page = worker.call_store(worker.store.list(&query)).await?;
        let next = append_page(page, &mut all);
        match next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    all.retain(|status| status.phase == Phase::Held);
    Ok(all)
}

async fn read_records(worker: &WorkerState, prefix: &str) -> Result<Vec<Record>, SessionError> {
    let mut all = Vec::new();
    let mut query = query(prefix)?;
    loop {
        let page = worker.call_store(worker.store.scan(&query)).await?;
        match append_page(page, &mut all) {
            Some(next) => query.after = Some(next),
            None => return Ok(all),
        }
    }
}

fn query(prefix: &str) -> Result<Query, SessionError> {
    Ok(Query::new(keys::prefix(prefix).map_err(|error| SessionError::Store(error.to_string()))?))
}

fn append_page<T>(page: Page<T>, all: &mut Vec<T>) -> Option<Key> {
    all.extend(page.items);
    page.next
}
