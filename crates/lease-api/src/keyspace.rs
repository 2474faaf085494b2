//! Where the records of a caller are stored.
//!
//! A store on a shared server has keys of other programs. A caller without the scope `lease:admin` may neither read nor
//! change them, nor take a name that such a program will look for. So its records are stored under a prefix of their own,
//! which the service adds and removes.

use tenure_lease::{Announcement, Capabilities, Error, Key, Op, Page, Prefix, Query, Record, Result, limits};

/// The prefix of these records in the store.
const PREFIX: &str = "tenure:r:";

/// Which keys of the store a caller names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keyspace {
    /// All, as they are.
    Whole,
    /// Those under [`PREFIX`], without it.
    Own,
}

impl Keyspace {
    /// The keyspace of a caller of this store.
    pub(crate) const fn new(capabilities: &Capabilities, admin: bool) -> Self {
        if capabilities.shared_keys && !admin { Self::Own } else { Self::Whole }
    }

    /// The stored key of a record or log.
    pub(crate) fn stored(self, key: &Key) -> Result<Key> {
        match self {
            Self::Whole => Ok(key.clone()),
            Self::Own => Key::new(format!("{PREFIX}{key}")).map_err(|_| {
                let most = limits::KEY - PREFIX.len();
                Error::invalid("key", format!("the key of a record has at most {most} bytes on this store"))
            }),
        }
    }

    /// The key as the caller names it; `None` if the caller cannot name it.
    pub(crate) fn named(self, stored: &Key) -> Option<Key> {
        match self {
            Self::Whole => Some(stored.clone()),
            Self::Own => Key::new(stored.as_str().strip_prefix(PREFIX)?).ok(),
        }
    }

    /// The stored prefix.
    pub(crate) fn stored_prefix(self, prefix: &Prefix) -> Result<Prefix> {
        match self {
            Self::Whole => Ok(prefix.clone()),
            Self::Own => Prefix::new(format!("{PREFIX}{}", prefix.as_str())),
        }
    }

    /// The same operation on the stored key.
    pub(crate) fn operation(self, mut op: Op) -> Result<Op> {
        let (Op::Put { key, .. }
        | Op::PutIfAbsent { key, .. }
        | Op::PutIfRevision { key, .. }
        | Op::Delete { key }
        | Op::Append { log: key, .. }) = &mut op;
        *key = self.stored(key)?;
        Ok(op)
    }

    /// The same announcement on stored keys and on a channel of this keyspace. Its fence is a lease.
    pub(crate) fn announcement(self, item: Announcement) -> Result<Announcement> {
        Ok(Announcement {
            channel: self.stored(&item.channel)?,
            latest: self.stored(&item.latest)?,
            log: self.stored(&item.log)?,
            ..item
        })
    }

    /// The same query on stored keys.
    pub(crate) fn query(self, query: Query) -> Result<Query> {
        Ok(Query {
            prefix: self.stored_prefix(&query.prefix)?,
            after: query.after.map(|key| self.stored(&key)).transpose()?,
            ..query
        })
    }

    /// A page of records as the caller names them.
    pub(crate) fn page(self, page: Page<Record>) -> Page<Record> {
        let next = page.next.and_then(|key| self.named(&key));
        let items = page.items.into_iter().filter_map(|record| self.record(record)).collect();
        Page { items, next, ..page }
    }

    /// A record as the caller names it.
    pub(crate) fn record(self, record: Record) -> Option<Record> {
        Some(Record { key: self.named(&record.key)?, ..record })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    #[test]
    fn only_callers_of_a_shared_store_without_the_admin_scope_have_keys_of_their_own() {
        let alone = Capabilities::in_process("test");
        let shared = Capabilities { shared_keys: true, ..alone };
        for (capabilities, admin, expected) in [
            (alone, false, Keyspace::Whole),
            (alone, true, Keyspace::Whole),
            (shared, false, Keyspace::Own),
            (shared, true, Keyspace::Whole),
        ] {
            assert_eq!(Keyspace::new(&capabilities, admin), expected);
        }
    }

    #[test]
    fn what_is_stored_is_named_as_before_and_foreign_keys_have_no_name() {
        let stored = Keyspace::Own.stored(&key("a/1")).unwrap();
        assert_eq!(stored, key("tenure:r:a/1"));
        assert_eq!(Keyspace::Own.named(&stored), Some(key("a/1")));
        for foreign in ["a/1", "tenure:l:a/1", "tenure:r:"] {
            assert_eq!(Keyspace::Own.named(&key(foreign)), None, "{foreign}");
        }
        assert_eq!(Keyspace::Whole.stored(&key("a/1")).unwrap(), key("a/1"));
        assert_eq!(Keyspace::Whole.named(&key("a/1")), Some(key("a/1")));
    }

    #[test]
    fn a_key_that_is_too_long_with_the_prefix_is_refused() {
        let longest = limits::KEY - PREFIX.len();
        Keyspace::Own.stored(&key(&"k".repeat(longest))).unwrap();
        let refused = Keyspace::Own.stored(&key(&"k".repeat(longest + 1))).unwrap_err().to_string();
        assert!(refused.contains("at most 247 bytes"), "{refused}");
    }

    #[test]
    fn every_operation_moves_to_its_stored_key() {
        let value: std::sync::Arc<[u8]> = b"1".as_slice().into();
        let revision = tenure_lease::Revision::new(1);
        for op in [
            Op::Put { key: key("k"), value: value.clone(), ttl: None },
            Op::PutIfAbsent { key: key("k"), value: value.clone(), ttl: None },
            Op::PutIfRevision { key: key("k"), value: value.clone(), ttl: None, revision },
            Op::Delete { key: key("k") },
            Op::Append { log: key("k"), value, max_len: 1 },
        ] {
            assert_eq!(*Keyspace::Own.operation(op).unwrap().key(), key("tenure:r:k"));
        }
    }
}
