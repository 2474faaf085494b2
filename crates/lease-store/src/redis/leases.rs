//! Leases: renew, transfer, revoke, verify, wipe, inspect, list, history.

use std::time::Duration;

use futures_util::future::join_all;
use tenure_lease::{
    End, Key, Page, Phase, Query, Reign, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status, Token,
    Transfer, Transferred, Verified, Wipe, Wiped, limits,
};

use super::client::{Client, Request, Retry};
use super::connection::Connection;
use super::fault::Fault;
use super::protocol::{lease, reply, server, status};

/// Most renewals in one call: about what the server reads at once, 16 KiB. A longer call delays all other clients.
const RENEW_BATCH: usize = 100;
/// Most keys in one inspection.
const INSPECT_BATCH: usize = 250;
/// The sorted set of lease keys.
const LEASE_KEYS: &str = "tenure:keys";

/// Renews leases, in calls that are sent together.
pub(super) async fn renew(client: &Client, items: &[Renewal]) -> Vec<Result<Renewed>> {
    let parts = join_all(items.chunks(RENEW_BATCH).map(|part| renew_batch(client, part))).await;
    parts.into_iter().flatten().collect()
}

/// Renews leases in one call. Its failure is the failure of its items only.
async fn renew_batch(client: &Client, items: &[Renewal]) -> Vec<Result<Renewed>> {
    let ttls = match send_renewals(client, items).await {
        Ok(ttls) => ttls,
        Err(fault) => return items.iter().map(|_| Err(fault.clone().into())).collect(),
    };
    let lost: Vec<&Renewal> =
        ttls.iter().zip(items).filter(|(ttl, _)| ttl.is_none()).map(|(_, item)| item).collect();
    let ends = if lost.is_empty() { Ok(Vec::new()) } else { read_ends(client, &lost).await };
    let mut ends = ends.map(Vec::into_iter);
    let renewed = |ttl| match (ttl, &mut ends) {
        (Some(remaining), _) => Ok(Renewed::Renewed { remaining }),
        // A reign that lives under another token was never the caller's.
        (None, Ok(ends)) => Ok(Renewed::Lost(ends.next().flatten().unwrap_or(End::Gone))),
        (None, Err(fault)) => Err(fault.clone().into()),
    };
    ttls.into_iter().map(renewed).collect()
}

async fn send_renewals(client: &Client, items: &[Renewal]) -> Result<Vec<Option<Duration>>, Fault> {
    let build =
        |connection: &Connection, _| Request::Script(lease::encode_renew(&connection.identity(), items));
    let (value, _) = client.send(client.deadline(), Retry::Idempotent, build).await?;
    lease::decode_renew(&value, items.len()).map_err(|error| Fault::sent(error.to_string()))
}

/// Reads how the reigns ended that could not be renewed.
async fn read_ends(client: &Client, lost: &[&Renewal]) -> Result<Vec<Option<End>>, Fault> {
    let reigns = || lost.iter().map(|item| (&item.key, item.generation));
    let build =
        |connection: &Connection, _| Request::Script(lease::encode_settle(&connection.identity(), reigns()));
    let (value, _) = client.send(client.deadline(), Retry::Idempotent, build).await?;
    lease::decode_settle(&value, lost.len()).map_err(|error| Fault::sent(error.to_string()))
}

/// Hands a key to a waiting successor.
pub(super) async fn transfer(client: &Client, transfer: &Transfer) -> Result<Transferred> {
    let value = client.call(Retry::Never, |server| lease::encode_transfer(server, transfer)).await?;
    lease::decode_transfer(transfer, &value)
}

/// Ends a reign by force.
pub(super) async fn revoke(client: &Client, revoke: &Revoke) -> Result<Revoked> {
    let delay = revoke.delay.map(|delay| (delay.as_millis() as u64).min(limits::DELAY_MS));
    let encode = |server: &_| lease::encode_revoke(server, &revoke.key, revoke.generation, delay);
    lease::decode_revoke(&client.call(Retry::Never, encode).await?)
}

/// Reads whether a token holds a key.
pub(super) async fn verify(client: &Client, key: &Key, token: &Token) -> Result<Verified> {
    let value = client.call(Retry::Idempotent, |_| lease::encode_verify(key, token.digest())).await?;
    lease::decode_verify(&value)
}

/// Ends every reign under a prefix.
pub(super) async fn wipe(client: &Client, wipe: &Wipe) -> Result<Wiped> {
    let value =
        client.call(Retry::Never, |server| lease::encode_wipe(server, &wipe.gate, &wipe.prefix)).await?;
    lease::decode_wipe(&value)
}

/// Describes keys, in their order.
pub(super) async fn inspect(client: &Client, keys: &[Key]) -> Result<Vec<Status>> {
    let value = client.call(Retry::Idempotent, |_| status::encode_inspect(keys)).await?;
    let statuses = reply::exactly(&value, keys.len())?.iter().zip(keys);
    statuses.map(|(value, key)| status::decode_inspect(key, value)).collect()
}

/// Lists the keys that are not free. The page is read in pieces: each status is of its own moment, and none is older
/// than the page's revision.
pub(super) async fn list(client: &Client, query: &Query) -> Result<Page<Status>> {
    query.check()?;
    let revision = read_revision(client).await?;
    let mut items: Vec<Status> = Vec::new();
    let mut after = query.after.clone();
    loop {
        // One more than the limit shows whether there is a next page.
        let want = (query.limit + 1 - items.len()).min(INSPECT_BATCH);
        let keys = read_keys(client, LEASE_KEYS, query, after.as_ref(), want).await?;
        let Some(end) = keys.last() else { break };
        after = Some(end.clone());
        let more = keys.len() == want;
        items.extend(inspect(client, &keys).await?.into_iter().filter(|status| status.phase != Phase::Free));
        if !more || items.len() > query.limit {
            break;
        }
    }
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    let next = items.last().filter(|_| more).map(|status| status.key.clone());
    Ok(Page { items, next, revision })
}

/// The last reigns of a key, oldest first, and the running one.
pub(super) async fn history(client: &Client, key: &Key) -> Result<Vec<Reign>> {
    let value = client.call(Retry::Idempotent, |server| status::encode_history(server, key)).await?;
    status::decode_history(&value)
}

/// Reads the last revision.
pub(super) async fn read_revision(client: &Client) -> Result<Revision> {
    let value = client.call(Retry::Idempotent, server::encode_revision).await?;
    server::decode_revision(&value)
}

/// Opens the store.
pub(super) async fn open(client: &Client) -> Result<()> {
    let value = client.call(Retry::Idempotent, server::encode_open).await?;
    server::decode_open(&value).map(drop)
}

/// A page of a sorted set of keys.
pub(super) async fn read_keys(
    client: &Client,
    set: &str,
    query: &Query,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Key>> {
    let (first, last) = lease::key_range(&query.prefix, after);
    let value = client
        .read(|| {
            let mut cmd = redis::cmd("ZRANGEBYLEX");
            cmd.arg(set).arg(&first).arg(&last).arg("LIMIT").arg(0).arg(limit);
            cmd
        })
        .await?;
    reply::elements(&value)?.iter().map(|key| Key::new(reply::text(key)?)).collect()
}
