//! Records and logs stored beside the leases.

use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Key, Prefix, Refusal, Result, Revision, Ttl, limits};

/// A stored value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its key.
    pub key: Key,
    /// Its value.
    pub value: Arc<[u8]>,
    /// The revision of its last write; zero when another program wrote it.
    pub revision: Revision,
    /// The remaining TTL; `None` when it has none.
    pub remaining: Option<Duration>,
}

/// One entry of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// Its number in the log; rising by one, the first is 1.
    pub seq: u64,
    /// Its value.
    pub value: Arc<[u8]>,
}

/// One operation of a commit. All of a commit's operations take effect, or none.
#[derive(Clone, Debug)]
pub enum Op {
    /// Write unconditionally.
    Put {
        /// The key.
        key: Key,
        /// The value.
        value: Arc<[u8]>,
        /// Its TTL, if any.
        ttl: Option<Ttl>,
    },
    /// Write if there is no record.
    PutIfAbsent {
        /// The key.
        key: Key,
        /// The value.
        value: Arc<[u8]>,
        /// Its TTL, if any.
        ttl: Option<Ttl>,
    },
    /// Write if the record has this revision.
    PutIfRevision {
        /// The key.
        key: Key,
        /// The value.
        value: Arc<[u8]>,
        /// Its TTL, if any.
        ttl: Option<Ttl>,
        /// The expected revision.
        revision: Revision,
    },
    /// Delete the record if it exists.
    Delete {
        /// The key.
        key: Key,
    },
    /// Append to a log and drop its oldest entries beyond `max_len`.
    Append {
        /// The log's key.
        log: Key,
        /// The entry.
        value: Arc<[u8]>,
        /// The number of entries to keep.
        max_len: usize,
    },
}

impl Op {
    /// The key of the record or log.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. }
            | Self::PutIfAbsent { key, .. }
            | Self::PutIfRevision { key, .. }
            | Self::Delete { key }
            | Self::Append { log: key, .. } => key,
        }
    }

    fn value(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Put { value, .. }
            | Self::PutIfAbsent { value, .. }
            | Self::PutIfRevision { value, .. }
            | Self::Append { value, .. } => Some(value),
            Self::Delete { .. } => None,
        }
    }

    /// Refuses a commit that is empty, too long, too large, or touches a key twice.
    pub fn check(ops: &[Self]) -> Result<()> {
        if ops.is_empty() {
            return Err(Error::invalid("ops", "a commit needs at least one operation"));
        }
        if ops.len() > limits::OPS {
            return Err(Refusal::TooMany { what: "operations in a commit", limit: limits::OPS }.into());
        }
        let bytes: usize = ops.iter().filter_map(Self::value).map(|value| value.len()).sum();
        if bytes > limits::COMMIT {
            return Err(Error::invalid(
                "ops",
                format!("at most {} bytes are allowed in a commit", limits::COMMIT),
            ));
        }
        for (i, op) in ops.iter().enumerate() {
            if op.value().is_some_and(|v| v.len() > limits::VALUE) {
                return Err(Error::invalid("value", format!("at most {} bytes are allowed", limits::VALUE)));
            }
            if matches!(op, Self::Append { max_len, .. } if *max_len == 0 || *max_len > limits::LOG) {
                return Err(Error::invalid("max_len", format!("must be between 1 and {}", limits::LOG)));
            }
            let log = |op: &Self| matches!(op, Self::Append { .. });
            if !log(op) && ops[..i].iter().any(|o| !log(o) && o.key() == op.key()) {
                return Err(Error::invalid("ops", format!("{} is written twice in one commit", op.key())));
            }
        }
        Ok(())
    }
}

/// One page of a listing.
#[derive(Clone, Debug)]
pub struct Query {
    /// Only keys with this prefix.
    pub prefix: Prefix,
    /// Only keys after this one.
    pub after: Option<Key>,
    /// The page size; 1 to 1,000.
    pub limit: usize,
}

impl Query {
    /// The first page under a prefix.
    pub fn new(prefix: Prefix) -> Self {
        Self { prefix, after: None, limit: limits::BATCH }
    }

    /// Refuses a page that is empty or too large.
    pub fn check(&self) -> Result<()> {
        match self.limit {
            1..=limits::BATCH => Ok(()),
            n => Err(Error::invalid("limit", format!("{n} is not between 1 and {}", limits::BATCH))),
        }
    }
}

/// One page of a list, ordered by key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The `after` of the next page; `None` when this is the last.
    pub next: Option<Key>,
    /// The revision of the page; watch from here to miss nothing.
    pub revision: Revision,
}
