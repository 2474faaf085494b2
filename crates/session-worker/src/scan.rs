//! Everything that a store knows of sessions, read in pages.

use std::collections::BTreeMap;

use lease::{Key, Page, Phase, Query, Record, Status};
use session::{SessionId, UnixMs};

use crate::desk::{Broken, Entry};
use crate::rows::Asked;
use crate::world::World;
use crate::{keys, metric, rows};

/// Every session that is not over.
pub(crate) async fn live(world: &World) -> Result<Vec<Entry>, Broken> {
    // What cannot be read at a glance is read, so that it is said.
    let live =
        |record: &Record| rows::glance(&record.value).map_or(true, |glance| !glance.state.is_terminal());
    sessions(world, live).await
}

/// Every session whose record is wanted. The others are not kept from page to page: there may be a day's worth of them.
pub(crate) async fn sessions(
    world: &World,
    wanted: impl Fn(&Record) -> bool + Send,
) -> Result<Vec<Entry>, Broken> {
    let mut all = Vec::new();
    let mut query = query(keys::SESSION)?;
    loop {
        let page = world.ask(world.store.scan(&query)).await?;
        all.extend(page.items.iter().filter(|record| wanted(record)).filter_map(entry));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(all),
        }
        // A page is not much; many of them are, and others want to get on.
        tokio::task::yield_now().await;
    }
}

/// The session with this id, if there is a record of it.
pub(crate) async fn one(world: &World, id: &SessionId) -> Result<Option<Entry>, Broken> {
    let key = keys::session(id).map_err(|error| Broken::Store(error.to_string()))?;
    let record = world.ask(world.store.get(&key)).await?;
    Ok(record.as_ref().and_then(entry))
}

/// A session out of its record; one that cannot be read is said once per look and left alone.
pub(crate) fn entry(record: &Record) -> Option<Entry> {
    match rows::read_session(&record.value) {
        Ok(session) => Some(Entry { session, revision: record.revision }),
        Err(error) => {
            tracing::warn!(target: metric::TARGET, key = %record.key, %error, "a session cannot be read");
            None
        }
    }
}

/// Which sessions are wanted to stop.
pub(crate) async fn stops(world: &World) -> Result<BTreeMap<SessionId, Asked>, Broken> {
    let read =
        |record: &Record| Some((keys::id_in(&record.key, keys::STOP)?, rows::read_stop(&record.value).ok()?));
    Ok(records(world, keys::STOP).await?.iter().filter_map(read).collect())
}

/// When sessions were last seen to be watched.
pub(crate) async fn seen(world: &World) -> Result<BTreeMap<SessionId, UnixMs>, Broken> {
    let read =
        |record: &Record| Some((keys::id_in(&record.key, keys::SEEN)?, rows::read_seen(&record.value).ok()?));
    Ok(records(world, keys::SEEN).await?.iter().filter_map(read).collect())
}

/// The leases under a prefix that somebody holds.
pub(crate) async fn held(world: &World, prefix: &str) -> Result<Vec<Status>, Broken> {
    let mut all = Vec::new();
    let mut query = query(prefix)?;
    loop {
        let page = world.ask(world.store.list(&query)).await?;
        let next = take(page, &mut all);
        match next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    all.retain(|status| status.phase == Phase::Held);
    Ok(all)
}

async fn records(world: &World, prefix: &str) -> Result<Vec<Record>, Broken> {
    let mut all = Vec::new();
    let mut query = query(prefix)?;
    loop {
        let page = world.ask(world.store.scan(&query)).await?;
        match take(page, &mut all) {
            Some(next) => query.after = Some(next),
            None => return Ok(all),
        }
    }
}

fn query(prefix: &str) -> Result<Query, Broken> {
    Ok(Query::new(keys::prefix(prefix).map_err(|error| Broken::Store(error.to_string()))?))
}

fn take<T>(page: Page<T>, all: &mut Vec<T>) -> Option<Key> {
    all.extend(page.items);
    page.next
}
