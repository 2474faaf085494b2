//! Discovery with a cache.
//!
//! Finding what other programs wrote takes a scan over every key of the server. A prefix that is discovered often is
//! therefore scanned once and then tracked: the server reports which keys under the prefix were changed
//! (`CLIENT TRACKING`, broadcasting) on a connection of its own, and only those are read again. Where the server does
//! not allow that, or the connection is lost, every key is scanned as before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, RedisError, Value};
use tenure_lease::{Key, Prefix, Record, Result, Tick};

use super::client::Client;
use super::connection::info_field;
use super::discovery::{self, DiscoveredRecord};
use super::fault::describe_error;
use super::protocol::reply;
use super::push_connection;

/// A prefix that is discovered again within this time is tracked.
const TRACK_WITHIN: Duration = Duration::from_secs(60);
/// A prefix that is not discovered for this time is no longer tracked.
const DROP_AFTER: Duration = Duration::from_secs(120);
/// How long after a refusal the server is not asked again to track a prefix.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// One discovery in so many scans every key in any case.
const FULL_SCAN_EVERY: u32 = 60;
/// Most prefixes in the cache.
const PREFIXES: usize = 8;
/// Most changed keys that are remembered between two discoveries; more cause a scan.
const CHANGED_KEYS: usize = 20_000;

/// What was found under the prefixes that were discovered lately.
#[derive(Default)]
pub(super) struct PrefixCache {
    prefixes: Mutex<HashMap<Prefix, Arc<tokio::sync::Mutex<CachedPrefix>>>>,
}

/// One prefix.
#[derive(Default)]
struct CachedPrefix {
    last_used: Option<Tick>,
    /// Not tracked before this.
    not_before: Tick,
    tracked: Option<TrackedPrefix>,
}

/// What is under a prefix, and the connection that receives its changes.
struct TrackedPrefix {
    conn: MultiplexedConnection,
    /// The server process that reports changes.
    run_id: String,
    changes: Arc<Mutex<Changes>>,
    /// The records. One with a TTL is read each time, because the server reports an expiry late.
    found: BTreeMap<Key, DiscoveredRecord>,
    /// Discoveries since the last full scan.
    discoveries: u32,
}

/// What the server reported since the last discovery.
#[derive(Default, Debug)]
struct Changes {
    /// The connection was lost.
    lost: bool,
    /// Any key may have changed.
    all: bool,
    keys: HashSet<Vec<u8>>,
}

impl PrefixCache {
    /// Every plain string under a prefix, ordered by key. It includes every write that was acknowledged to any program
    /// before this was called.
    pub(super) async fn discover(&self, client: &Client, prefix: &Prefix) -> Result<Vec<Record>> {
        let Some(cached) = self.entry(prefix) else { return discovery::discover(client, prefix).await };
        let mut cached = cached.lock().await;
        let now = client.clock.now();
        let often = cached.last_used.replace(now).is_some_and(|last| now.since(last) < TRACK_WITHIN);
        // Taken out, so that a discovery that fails or is dropped leaves no incomplete state behind.
        if let Some(mut tracked) = cached.tracked.take()
            && tracked.refresh(client, prefix).await?
        {
            return Ok(cached.store(tracked));
        }
        if often && now >= cached.not_before {
            match TrackedPrefix::open(client, prefix).await {
                Ok(mut tracked) => {
                    tracked.scan(client, prefix).await?;
                    return Ok(cached.store(tracked));
                }
                Err(error) => {
                    tracing::debug!(error = %describe_error(&error), prefix = prefix.as_str(), "cannot track a prefix");
                    cached.not_before = now + RETRY_AFTER;
                }
            }
        }
        discovery::discover(client, prefix).await
    }

    fn entry(&self, prefix: &Prefix) -> Option<Arc<tokio::sync::Mutex<CachedPrefix>>> {
        let mut prefixes = self.prefixes.lock();
        if prefix.as_str().is_empty() || (prefixes.len() >= PREFIXES && !prefixes.contains_key(prefix)) {
            return None;
        }
        Some(Arc::clone(prefixes.entry(prefix.clone()).or_default()))
    }

    /// Drops the prefixes that are no longer discovered.
    pub(super) fn drop_unused(&self, now: Tick) {
        self.prefixes.lock().retain(|_, cached| {
            // A locked one is in use.
            cached.try_lock().map_or(true, |it| it.last_used.is_some_and(|last| now.since(last) < DROP_AFTER))
        });
    }
}

impl CachedPrefix {
    fn store(&mut self, tracked: TrackedPrefix) -> Vec<Record> {
        let records = tracked.found.values().map(|found| found.record.clone()).collect();
        self.tracked = Some(tracked);
        records
    }
}

impl TrackedPrefix {
    /// Starts to receive changes. Nothing is read yet.
    async fn open(client: &Client, prefix: &Prefix) -> Result<Self, RedisError> {
        let changes = Arc::new(Mutex::new(Changes::default()));
        let reported = Arc::clone(&changes);
        let mut conn = push_connection::open(client, move |push| reported.lock().add(push)).await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut conn).await?;
        let mut track = redis::cmd("CLIENT");
        track.arg("TRACKING").arg("ON").arg("BCAST").arg("PREFIX").arg(prefix.as_str());
        let () = track.query_async(&mut conn).await?;
        let run_id = info_field(&info, "run_id").to_owned();
        Ok(Self { conn, run_id, changes, found: BTreeMap::new(), discoveries: 0 })
    }

    /// Reads what has changed. Returns false if changes may have been missed.
    async fn refresh(&mut self, client: &Client, prefix: &Prefix) -> Result<bool> {
        // Records must be read from the server process that reports their changes.
        if !client.connection().await.is_ok_and(|connection| connection.run_id() == self.run_id) {
            return Ok(false);
        }
        // The server reports a write before it acknowledges it, so this reply comes after every report that counts.
        if redis::cmd("PING").query_async::<Value>(&mut self.conn).await.is_err() {
            return Ok(false);
        }
        let changes = std::mem::take(&mut *self.changes.lock());
        self.discoveries += 1;
        if changes.lost {
            return Ok(false);
        }
        if changes.all || self.discoveries >= FULL_SCAN_EVERY {
            self.scan(client, prefix).await?;
            return Ok(true);
        }
        let mut keys: BTreeSet<Key> =
            self.found.values().filter(|found| found.expires).map(|found| found.record.key.clone()).collect();
        keys.extend(changes.keys.iter().filter_map(|key| Key::new(std::str::from_utf8(key).ok()?).ok()));
        keys.retain(|key| key.as_str().starts_with(prefix.as_str()));
        self.read(client, &keys.into_iter().collect::<Vec<_>>()).await?;
        Ok(true)
    }

    /// Scans every key.
    async fn scan(&mut self, client: &Client, prefix: &Prefix) -> Result<()> {
        let keys = discovery::scan_keys(client, prefix).await?;
        self.found.clear();
        self.discoveries = 0;
        self.read(client, &keys).await
    }

    async fn read(&mut self, client: &Client, keys: &[Key]) -> Result<()> {
        let records = discovery::read_strings(client, keys).await?;
        for key in keys {
            self.found.remove(key);
        }
        self.found.extend(records.into_iter().map(|found| (found.record.key.clone(), found)));
        discovery::check_count(self.found.len())
    }
}

impl Changes {
    /// Adds what the server reports.
    fn add(&mut self, push: PushInfo) {
        match push.kind {
            PushKind::Invalidate => push.data.iter().for_each(|keys| self.add_keys(keys)),
            PushKind::Disconnection => self.lost = true,
            _ => {}
        }
        if self.keys.len() > CHANGED_KEYS {
            self.all = true;
        }
        if self.all {
            self.keys = HashSet::new();
        }
    }

    /// Adds an array of keys; anything else stands for a flush.
    fn add_keys(&mut self, keys: &Value) {
        let Value::Array(keys) = keys else {
            self.all = true;
            return;
        };
        for key in keys {
            match reply::bytes(key) {
                Ok(key) if !self.all => drop(self.keys.insert(key.to_vec())),
                Ok(_) => {}
                Err(_) => self.all = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(data: Vec<Value>) -> PushInfo {
        PushInfo { kind: PushKind::Invalidate, data }
    }

    fn name(i: usize) -> Value {
        Value::BulkString(format!("k{i}").into_bytes())
    }

    #[test]
    fn changes_are_kept_by_key_until_there_are_too_many() {
        let mut changes = Changes::default();
        changes.add(report(vec![Value::Array(vec![name(1), name(2), name(1)])]));
        assert_eq!((changes.keys.len(), changes.all, changes.lost), (2, false, false));
        changes.add(report(vec![Value::Array((0..=CHANGED_KEYS).map(name).collect())]));
        assert_eq!((changes.keys.len(), changes.all), (0, true));
        changes.add(report(vec![Value::Array(vec![name(1)])]));
        assert_eq!(changes.keys.len(), 0, "all of them are scanned in any case");
    }

    #[test]
    fn a_flush_changes_everything_and_a_lost_connection_is_noticed() {
        let mut changes = Changes::default();
        changes.add(report(vec![Value::Nil]));
        assert!(changes.all && !changes.lost);
        changes.add(PushInfo { kind: PushKind::Disconnection, data: Vec::new() });
        assert!(changes.lost);
    }
}
