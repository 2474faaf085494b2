//! Records and logs.

use tenure_lease::{
    Announcement, Committed, Error, Fence, Key, LogEntry, Op, Page, Query, Record, Result, limits,
};

use super::client::{Client, Request, Retry};
use super::connection::Connection;
use super::fault::too_many;
use super::leases::{read_keys, read_revision};
use super::protocol::{record, reply};

/// Most records in one call: values may be large.
const READ_BATCH: usize = 64;
/// Most announcements in one call.
const ANNOUNCE_BATCH: usize = 128;
/// The sorted set of record keys.
const RECORD_KEYS: &str = "tenure:records";

/// Performs all operations or none, under a fence if there is one, and waits for the configured replicas.
pub(super) async fn commit(client: &Client, fence: Option<&Fence>, ops: &[Op]) -> Result<Committed> {
    Op::check(ops)?;
    let deadline = client.deadline();
    let build = |connection: &Connection, _| {
        Request::Script(record::encode_commit(&connection.identity(), fence, ops))
    };
    let (value, connection) = client.send(deadline, Retry::Never, build).await?;
    let committed = record::decode_commit(ops, &value)?;
    if client.options.replicas > 0 && matches!(committed, Committed::Written { .. }) {
        client.wait_for_replicas(&connection, deadline).await?;
    }
    Ok(committed)
}

/// Reads records, in the order of the keys.
pub(super) async fn read(client: &Client, keys: &[Key]) -> Result<Vec<Option<Record>>> {
    let value = client.call(Retry::Idempotent, |_| record::encode_read(keys)).await?;
    let records = reply::exactly(&value, keys.len())?.iter().zip(keys);
    records.map(|(value, key)| record::decode_read(key, value)).collect()
}

/// Lists records.
pub(super) async fn scan(client: &Client, query: &Query) -> Result<Page<Record>> {
    query.check()?;
    let revision = read_revision(client).await?;
    let mut items: Vec<Record> = Vec::new();
    let mut after = query.after.clone();
    loop {
        let want = (query.limit + 1 - items.len()).min(READ_BATCH);
        let keys = read_keys(client, RECORD_KEYS, query, after.as_ref(), want).await?;
        let Some(end) = keys.last() else { break };
        after = Some(end.clone());
        let more = keys.len() == want;
        items.extend(read(client, &keys).await?.into_iter().flatten());
        if !more || items.len() > query.limit {
            break;
        }
    }
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    let next = items.last().filter(|_| more).map(|record| record.key.clone());
    Ok(Page { items, next, revision })
}

/// Reads a log.
pub(super) async fn read_log(client: &Client, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
    if limit == 0 || limit > limits::BATCH {
        return Err(Error::invalid("limit", format!("{limit} is not within 1 and {}", limits::BATCH)));
    }
    let value = client.call(Retry::Idempotent, |_| record::encode_read_log(log, after, limit)).await?;
    record::decode_read_log(&value)
}

/// Publishes and stores messages, each only while its lease is live.
pub(super) async fn announce(client: &Client, items: &[Announcement]) -> Result<Vec<bool>> {
    if items.len() > limits::BATCH {
        return Err(too_many("announcements in one call", limits::BATCH));
    }
    if items.iter().any(|item| item.message.len() > limits::VALUE) {
        return Err(Error::invalid("message", format!("at most {} bytes are allowed", limits::VALUE)));
    }
    let mut announced = Vec::with_capacity(items.len());
    for part in items.chunks(ANNOUNCE_BATCH) {
        let value = client.call(Retry::Never, |_| record::encode_announce(part)).await?;
        announced.extend(record::decode_announce(part, &value)?);
    }
    Ok(announced)
}
