//! What a server stores: values of five types, some with an expiry.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::sorted_set::SortedSet;
use super::stream::Stream;
use super::{Refused, wrong_type};

/// A value of one of Redis' types.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string of bytes.
    String(Vec<u8>),
    /// Fields in the order in which they were added.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// A list.
    List(VecDeque<Vec<u8>>),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A stream.
    Stream(Stream),
}

impl Value {
    /// The type's name in Redis.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
            Self::Stream(_) => "stream",
        }
    }
}

/// A key's value and its expiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// The last millisecond of the server's clock at which it exists.
    pub expires_ms: Option<u64>,
}

/// All keys. Clones share what neither of them changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    entries: BTreeMap<Arc<[u8]>, Arc<Entry>>,
}

/// Gives access to the content of one type, for the macro below.
macro_rules! typed {
    ($read:ident, $write:ident, $variant:ident, $content:ty) => {
        impl Dataset {
            pub(super) fn $read(&mut self, key: &[u8], now_ms: u64) -> Result<Option<&$content>, Refused> {
                match self.get(key, now_ms) {
                    None => Ok(None),
                    Some(Value::$variant(content)) => Ok(Some(content)),
                    Some(_) => Err(wrong_type()),
                }
            }

            /// The content to change, made empty if there is none. See [`Dataset::drop_if_empty`].
            pub(super) fn $write(&mut self, key: &[u8], now_ms: u64) -> Result<&mut $content, Refused> {
                self.remove_expired(key, now_ms);
                let entry = self.entries.entry(key.into()).or_insert_with(|| {
                    Entry { value: Value::$variant(Default::default()), expires_ms: None }.into()
                });
                match &mut Arc::make_mut(entry).value {
                    Value::$variant(content) => Ok(content),
                    _ => Err(wrong_type()),
                }
            }
        }
    };
}

typed!(hash, hash_mut, Hash, Vec<(Vec<u8>, Vec<u8>)>);
typed!(list, list_mut, List, VecDeque<Vec<u8>>);
typed!(sorted_set, sorted_set_mut, SortedSet, SortedSet);
typed!(stream, stream_mut, Stream, Stream);

impl Dataset {
    /// Every key that exists at a moment, in order.
    pub fn keys(&self, now_ms: u64) -> Vec<Vec<u8>> {
        let live = |entry: &Entry| entry.expires_ms.is_none_or(|at| now_ms <= at);
        self.entries.iter().filter(|(_, entry)| live(entry)).map(|(key, _)| key.to_vec()).collect()
    }

    pub(super) fn string(&mut self, key: &[u8], now_ms: u64) -> Result<Option<&[u8]>, Refused> {
        match self.get(key, now_ms) {
            None => Ok(None),
            Some(Value::String(bytes)) => Ok(Some(bytes)),
            Some(_) => Err(wrong_type()),
        }
    }

    pub(super) fn get(&mut self, key: &[u8], now_ms: u64) -> Option<&Value> {
        self.remove_expired(key, now_ms);
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(super) fn exists(&mut self, key: &[u8], now_ms: u64) -> bool {
        self.get(key, now_ms).is_some()
    }

    /// Replaces whatever the key holds.
    pub(super) fn insert(&mut self, key: &[u8], value: Value, expires_ms: Option<u64>) {
        self.entries.insert(key.into(), Arc::new(Entry { value, expires_ms }));
    }

    pub(super) fn remove(&mut self, key: &[u8], now_ms: u64) -> bool {
        self.remove_expired(key, now_ms);
        self.entries.remove(key).is_some()
    }

    /// The expiry of a key that exists.
    pub(super) fn expiry(&mut self, key: &[u8], now_ms: u64) -> Option<Option<u64>> {
        self.remove_expired(key, now_ms);
        self.entries.get(key).map(|entry| entry.expires_ms)
    }

    pub(super) fn set_expiry(&mut self, key: &[u8], expires_ms: Option<u64>) {
        if let Some(entry) = self.entries.get_mut(key) {
            Arc::make_mut(entry).expires_ms = expires_ms;
        }
    }

    /// Removes a collection that has no element left. A stream may be empty.
    pub(super) fn drop_if_empty(&mut self, key: &[u8]) {
        let empty = self.entries.get(key).is_some_and(|entry| match &entry.value {
            Value::Hash(fields) => fields.is_empty(),
            Value::List(elements) => elements.is_empty(),
            Value::SortedSet(set) => set.is_empty(),
            Value::String(_) | Value::Stream(_) => false,
        });
        if empty {
            self.entries.remove(key);
        }
    }

    /// Deletes one of the keys that have a TTL, as a server does under an eviction policy. `pick` chooses which.
    pub fn evict(&mut self, pick: u64) {
        let volatile: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.expires_ms.is_some())
            .map(|(key, _)| key.clone())
            .collect();
        if let Some(key) = volatile.get(pick as usize % volatile.len().max(1)) {
            self.entries.remove(key);
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    fn remove_expired(&mut self, key: &[u8], now_ms: u64) {
        if self.entries.get(key).is_some_and(|entry| entry.expires_ms.is_some_and(|at| at < now_ms)) {
            self.entries.remove(key);
        }
    }
}
