//! Discovery that remembers.
//!
//! A look at every key of the server is the only way to find what others wrote, and dear. A prefix that is asked for
//! often is therefore looked at once and then followed: the server itself tells a connection of ours which keys under
//! the prefix anybody has touched (`CLIENT TRACKING`, broadcasting), and only those are read again. Where the server
//! does not let us follow, or the connection is lost, every key is looked at as before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use lease::{Key, Prefix, Record, Result, Tick};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, RedisError, Value};

use super::fault::words;
use super::link::field;
use super::plain::{self, READ};
use super::wire::Wire;
use super::{push, reply};

/// Asked for again within this, a prefix is followed.
const OFTEN: Duration = Duration::from_secs(60);
/// Not asked for within this, it is followed no more.
const SELDOM: Duration = Duration::from_secs(120);
/// How long a server that does not let us follow is not asked again.
const LATER: Duration = Duration::from_secs(60);
/// One discovery in so many looks at every key all the same.
const WHOLE: u32 = 60;
/// Most prefixes that are remembered.
const SHELVES: usize = 8;
/// Most changes that are remembered one by one between two discoveries.
const CHANGES: usize = 20_000;

/// What was found under the prefixes that were asked for.
#[derive(Default)]
pub(super) struct Shelves {
    known: Mutex<HashMap<Prefix, Arc<tokio::sync::Mutex<Shelf>>>>,
}

/// One prefix.
#[derive(Default)]
struct Shelf {
    asked: Option<Tick>,
    /// Not followed before this.
    not_before: Tick,
    following: Option<Following>,
}

/// What is under a prefix, and the connection that hears of changes.
struct Following {
    conn: MultiplexedConnection,
    /// The server process that tells.
    run_id: String,
    changes: Arc<Mutex<Changes>>,
    found: BTreeMap<Key, Found>,
    /// Discoveries since the last look at every key.
    looks: u32,
}

struct Found {
    record: Record,
    /// It has a TTL, and a key that time takes away may be told of late: it is read again each time.
    ends: bool,
}

/// What the server told since it was last asked for.
#[derive(Default, Debug)]
struct Changes {
    lost: bool,
    all: bool,
    keys: HashSet<Vec<u8>>,
}

impl Shelves {
    /// Every plain string under a prefix, whoever wrote it, ordered by key: all that was acknowledged to anybody before
    /// this was called.
    pub(super) async fn discover(&self, wire: &Wire, prefix: &Prefix) -> Result<Vec<Record>> {
        let Some(shelf) = self.shelf(prefix) else { return plain::discover(wire, prefix).await };
        let mut shelf = shelf.lock().await;
        let now = wire.clock.now();
        let often = shelf.asked.replace(now).is_some_and(|asked| now.since(asked) < OFTEN);
        // Taken out, so that a discovery that fails or is given up on its way leaves nothing half done behind.
        if let Some(mut following) = shelf.following.take()
            && following.catch_up(wire, prefix).await?
        {
            return Ok(shelf.keep(following));
        }
        if often && now >= shelf.not_before {
            match Following::open(wire, prefix).await {
                Ok(mut following) => {
                    following.look(wire, prefix).await?;
                    return Ok(shelf.keep(following));
                }
                Err(error) => {
                    tracing::debug!(error = %words(&error), prefix = prefix.as_str(), "cannot follow");
                    shelf.not_before = now + LATER;
                }
            }
        }
        plain::discover(wire, prefix).await
    }

    fn shelf(&self, prefix: &Prefix) -> Option<Arc<tokio::sync::Mutex<Shelf>>> {
        let mut known = self.known.lock();
        if prefix.as_str().is_empty() || (known.len() >= SHELVES && !known.contains_key(prefix)) {
            return None;
        }
        Some(Arc::clone(known.entry(prefix.clone()).or_default()))
    }

    /// Forgets what nobody asks for any more.
    pub(super) fn tidy(&self, now: Tick) {
        self.known.lock().retain(|_, shelf| {
            // One that is in use was asked for just now.
            shelf.try_lock().map_or(true, |shelf| shelf.asked.is_some_and(|asked| now.since(asked) < SELDOM))
        });
    }
}

impl Shelf {
    fn keep(&mut self, following: Following) -> Vec<Record> {
        let records = following.found.values().map(|found| found.record.clone()).collect();
        self.following = Some(following);
        records
    }
}

impl Following {
    /// Begins to hear of changes. What is there already is not known yet.
    async fn open(wire: &Wire, prefix: &Prefix) -> Result<Self, RedisError> {
        let changes = Arc::new(Mutex::new(Changes::default()));
        let told = Arc::clone(&changes);
        let mut conn = push::open(wire, move |push| told.lock().note(push)).await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut conn).await?;
        let mut follow = redis::cmd("CLIENT");
        follow.arg("TRACKING").arg("ON").arg("BCAST").arg("PREFIX").arg(prefix.as_str());
        let () = follow.query_async(&mut conn).await?;
        let run_id = field(&info, "run_id").to_owned();
        Ok(Self { conn, run_id, changes, found: BTreeMap::new(), looks: 0 })
    }

    /// Reads what has changed. False when changes may have been missed.
    async fn catch_up(&mut self, wire: &Wire, prefix: &Prefix) -> Result<bool> {
        // What is read must come from the server that tells.
        if !wire.link().await.is_ok_and(|link| link.run_id == self.run_id) {
            return Ok(false);
        }
        // The server tells of a write before it acknowledges it, so what was acknowledged is here before this answer.
        if redis::cmd("PING").query_async::<Value>(&mut self.conn).await.is_err() {
            return Ok(false);
        }
        let changes = std::mem::take(&mut *self.changes.lock());
        self.looks += 1;
        if changes.lost {
            return Ok(false);
        }
        if changes.all || self.looks >= WHOLE {
            self.look(wire, prefix).await?;
            return Ok(true);
        }
        let mut keys: BTreeSet<Key> =
            self.found.values().filter(|found| found.ends).map(|found| found.record.key.clone()).collect();
        keys.extend(changes.keys.iter().filter_map(|key| Key::new(std::str::from_utf8(key).ok()?).ok()));
        keys.retain(|key| key.as_str().starts_with(prefix.as_str()));
        self.read(wire, &keys.into_iter().collect::<Vec<_>>()).await?;
        Ok(true)
    }

    /// Looks at every key.
    async fn look(&mut self, wire: &Wire, prefix: &Prefix) -> Result<()> {
        let keys = plain::keys(wire, prefix).await?;
        self.found.clear();
        self.looks = 0;
        self.read(wire, &keys).await
    }

    async fn read(&mut self, wire: &Wire, keys: &[Key]) -> Result<()> {
        for part in keys.chunks(READ) {
            let mut records = Vec::with_capacity(part.len());
            plain::read(wire, part, &mut records).await?;
            let there: Vec<Key> = records.iter().map(|record| record.key.clone()).collect();
            let ends = match there.is_empty() {
                true => Vec::new(),
                false => plain::ending(wire, &there).await?,
            };
            for key in part {
                self.found.remove(key);
            }
            for (record, ends) in records.into_iter().zip(ends) {
                self.found.insert(record.key.clone(), Found { record, ends });
            }
        }
        plain::few(self.found.len())
    }
}

impl Changes {
    /// Takes in what the server tells.
    fn note(&mut self, push: PushInfo) {
        match push.kind {
            PushKind::Invalidate => push.data.iter().for_each(|told| self.touched(told)),
            PushKind::Disconnection => self.lost = true,
            _ => {}
        }
        if self.keys.len() > CHANGES {
            self.all = true;
        }
        if self.all {
            self.keys = HashSet::new();
        }
    }

    /// Keys, or nothing where everything is gone.
    fn touched(&mut self, told: &Value) {
        let Value::Array(keys) = told else {
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

    fn told(data: Vec<Value>) -> PushInfo {
        PushInfo { kind: PushKind::Invalidate, data }
    }

    fn name(i: usize) -> Value {
        Value::BulkString(format!("k{i}").into_bytes())
    }

    #[test]
    fn changes_are_remembered_by_key_until_there_are_too_many() {
        let mut changes = Changes::default();
        changes.note(told(vec![Value::Array(vec![name(1), name(2), name(1)])]));
        assert_eq!((changes.keys.len(), changes.all, changes.lost), (2, false, false));
        changes.note(told(vec![Value::Array((0..=CHANGES).map(name).collect())]));
        assert_eq!((changes.keys.len(), changes.all), (0, true));
        changes.note(told(vec![Value::Array(vec![name(1)])]));
        assert_eq!(changes.keys.len(), 0, "all of them are looked at anyway");
    }

    #[test]
    fn a_flush_changes_everything_and_a_lost_connection_is_noticed() {
        let mut changes = Changes::default();
        changes.note(told(vec![Value::Nil]));
        assert!(changes.all && !changes.lost);
        changes.note(PushInfo { kind: PushKind::Disconnection, data: Vec::new() });
        assert!(changes.lost);
    }
}
