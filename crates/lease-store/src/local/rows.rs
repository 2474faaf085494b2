//! Rows on disk and row operations in the journal.

use serde::{Deserialize, Serialize};
use tenure_lease::rules::{Entry, State};
use tenure_lease::{
    Digest, End, Error, Generation, HighWaterMark, Holder, Key, Meta, Origin, Result, Tick, Ttl, Wall,
};

use super::slots::{PastReign, Slot};
use super::spent_tokens::ShortDigest;

/// Stored data that cannot be read.
pub(crate) fn corrupt(why: impl Into<String>) -> Error {
    Error::unavailable("embedded", why)
}

/// Which kind of row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Table {
    /// One key's entry.
    Slot = b's' as isize,
    /// One finished reign: the key, a zero byte, its index in the ring.
    Reign = b'h' as isize,
    /// One record.
    Record = b'r' as isize,
    /// One log entry: the log's key, a zero byte, its number.
    LogEntry = b'l' as isize,
    /// One high-water mark.
    HighWaterMark = b'm' as isize,
    /// One token that was released without holding anything: the key, a zero byte, the token.
    Tombstone = b't' as isize,
    /// One spent token whose reign is no longer in the history: the key, a zero byte, the token.
    SpentToken = b'p' as isize,
    /// One of the store's counters.
    Own = b'o' as isize,
}

impl Table {
    /// The byte that row keys of this kind begin with.
    pub(crate) const fn byte(self) -> u8 {
        self as u8
    }
}

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// One row operation, as read back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RowOp<'a> {
    Put { key: &'a [u8], value: &'a [u8] },
    Delete { key: &'a [u8] },
}

pub(crate) fn put<V: Serialize>(buf: &mut Vec<u8>, table: Table, key: &[&[u8]], value: &V) {
    begin(buf, PUT, table, key);
    let at = buf.len();
    buf.extend_from_slice(&[0; 4]);
    struct Tail<'a>(&'a mut Vec<u8>);
    impl Extend<u8> for Tail<'_> {
        fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
            self.0.extend(bytes);
        }
    }
    // Encoding our own types into memory cannot fail; a truncated row would be refused on reading.
    let _ = postcard::to_extend(value, Tail(buf));
    let len = (buf.len() - at - 4) as u32;
    buf[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

pub(crate) fn delete(buf: &mut Vec<u8>, table: Table, key: &[&[u8]]) {
    begin(buf, DELETE, table, key);
}

fn begin(buf: &mut Vec<u8>, op: u8, table: Table, key: &[&[u8]]) {
    let len: usize = key.iter().map(|part| part.len()).sum();
    buf.push(op);
    buf.extend_from_slice(&(len as u16 + 1).to_le_bytes());
    buf.push(table.byte());
    key.iter().for_each(|part| buf.extend_from_slice(part));
}

/// Reads row operations up to the first invalid one.
pub(crate) fn read(mut bytes: &[u8]) -> impl Iterator<Item = Result<RowOp<'_>>> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| read_one(&mut bytes).inspect_err(|_| bytes = &[])))
}

fn read_one<'a>(bytes: &mut &'a [u8]) -> Result<RowOp<'a>> {
    let op = take(bytes, 1)?[0];
    let len = u16::from_le_bytes([take(bytes, 1)?[0], take(bytes, 1)?[0]]);
    let key = take(bytes, len as usize)?;
    match op {
        PUT => {
            let mut len = [0; 4];
            len.copy_from_slice(take(bytes, 4)?);
            Ok(RowOp::Put { key, value: take(bytes, u32::from_le_bytes(len) as usize)? })
        }
        DELETE => Ok(RowOp::Delete { key }),
        other => Err(corrupt(format!("unknown row operation {other}"))),
    }
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(n).ok_or_else(|| corrupt("truncated row"))?;
    *bytes = tail;
    Ok(head)
}

/// A key's entry.
#[derive(Serialize, Deserialize)]
pub(crate) struct SlotRow<'a> {
    last: u64,
    ended: u64,
    #[serde(borrow)]
    state: StateRow<'a>,
}

#[derive(Serialize, Deserialize)]
enum StateRow<'a> {
    Free,
    Held {
        holder: &'a str,
        digest: [u8; 32],
        generation: u64,
        ttl_ms: u64,
        since: u64,
        meta: &'a str,
        remote: bool,
    },
    Delayed {
        ms: u64,
    },
}

/// The state of a loaded slot.
pub(crate) enum Loaded {
    Free,
    Held {
        holder: Holder,
        digest: Digest,
        generation: Generation,
        ttl: Ttl,
        since: Wall,
        meta: Meta,
        origin: Origin,
    },
    Delayed {
        ms: u64,
    },
}

impl<'a> SlotRow<'a> {
    /// The row of a slot. A reservation is not stored: after a restart the key is free.
    pub(crate) fn of(slot: &Slot, entry: &'a Entry, now: Tick) -> Self {
        let state = match &entry.state {
            State::Free | State::Reserved { .. } => StateRow::Free,
            State::Held(t) => StateRow::Held {
                holder: t.holder.as_str(),
                digest: *t.digest.as_bytes(),
                generation: t.generation.get(),
                ttl_ms: t.ttl.as_millis(),
                since: t.since.as_micros(),
                meta: t.meta.as_str(),
                remote: t.origin == Origin::Remote,
            },
            State::Delayed { until } => StateRow::Delayed { ms: until.since(now).as_millis() as u64 },
        };
        let ended = slot.details().map_or(0, |details| details.ended);
        Self { last: entry.last.map_or(0, Generation::get), ended, state }
    }

    pub(crate) fn load(&self) -> Result<(Option<Generation>, u64, Loaded)> {
        let loaded = match &self.state {
            StateRow::Free => Loaded::Free,
            StateRow::Delayed { ms } => Loaded::Delayed { ms: *ms },
            StateRow::Held { holder, digest, generation, ttl_ms, since, meta, remote } => Loaded::Held {
                holder: Holder::new(holder)?,
                digest: Digest::from_bytes(*digest),
                generation: Generation::new(*generation)?,
                ttl: Ttl::from_millis(*ttl_ms)?,
                since: Wall::from_micros(*since),
                meta: Meta::new(meta)?,
                origin: if *remote { Origin::Remote } else { Origin::Local },
            },
        };
        let last = (self.last != 0).then(|| Generation::new(self.last)).transpose()?;
        Ok((last, checked_counter(self.ended, "the number of reigns")?, loaded))
    }
}

/// A finished reign.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReignRow<'a> {
    holder: &'a str,
    generation: u64,
    from: u64,
    until: u64,
    end: &'a str,
    token: [u8; 16],
}

impl<'a> ReignRow<'a> {
    pub(crate) fn of(past: &'a PastReign) -> Self {
        Self {
            holder: past.holder.as_str(),
            generation: past.generation.get(),
            from: past.from.as_micros(),
            until: past.until.as_micros(),
            end: past.end.as_str(),
            token: past.token,
        }
    }

    /// The reign, which counts as ended `now`: when it ended on this machine's clock is not stored.
    pub(crate) fn load(&self, now: Tick) -> Result<PastReign> {
        Ok(PastReign {
            holder: Holder::new(self.holder)?,
            generation: Generation::new(self.generation)?,
            from: Wall::from_micros(self.from),
            until: Wall::from_micros(self.until),
            end: End::parse(self.end).ok_or_else(|| corrupt(format!("unknown end {:?}", self.end)))?,
            token: self.token,
            ended: now,
        })
    }
}

/// A record. Its expiry is stored in wall time, which advances while the store is closed.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordRow<'a> {
    #[serde(borrow)]
    pub(crate) value: &'a [u8],
    pub(crate) revision: u64,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) expires: Option<u64>,
}

/// A high-water mark.
#[derive(Serialize, Deserialize)]
pub(crate) struct MarkRow {
    generation: u64,
    writer: [u8; 16],
}

impl MarkRow {
    pub(crate) fn of(mark: &HighWaterMark) -> Self {
        Self { generation: mark.generation().get(), writer: *mark.writer() }
    }

    pub(crate) fn load(&self) -> Result<HighWaterMark> {
        Ok(HighWaterMark::from_parts(Generation::new(self.generation)?, self.writer))
    }
}

/// No counter comes near this bound; beyond it, adding one could overflow.
const MOST: u64 = 1 << 62;

/// Validates a stored counter.
pub(crate) fn checked_counter(number: u64, what: &str) -> Result<u64> {
    match number < MOST {
        true => Ok(number),
        false => Err(corrupt(format!("{what} has the impossible value {number}"))),
    }
}

/// Decodes a row of a known kind.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| corrupt("cannot decode a row").because(e))
}

/// Splits a row key that carries a number after a zero byte.
pub(crate) fn numbered(key: &[u8]) -> Result<(Key, u64)> {
    let (key, number) = split(key)?;
    Ok((key, checked_counter(u64::from_be_bytes(number), "the number of a row")?))
}

/// Splits a row key that carries a token after a zero byte.
pub(crate) fn with_token(key: &[u8]) -> Result<(Key, ShortDigest)> {
    split(key)
}

fn split<const N: usize>(key: &[u8]) -> Result<(Key, [u8; N])> {
    let at = key.iter().position(|b| *b == 0).ok_or_else(|| corrupt("a row key has only one part"))?;
    let tail = key[at + 1..].try_into();
    let tail = tail.map_err(|_| corrupt(format!("the second part of a row key does not have {N} bytes")))?;
    Ok((plain(&key[..at])?, tail))
}

/// Reads a row key that is a lease key.
pub(crate) fn plain(key: &[u8]) -> Result<Key> {
    let text = std::str::from_utf8(key).map_err(|e| corrupt("a row key is not UTF-8").because(e))?;
    Key::new(text).map_err(|e| corrupt(format!("a row key is not a valid key: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_operations_are_read_as_written() {
        let mut buf = Vec::new();
        put(&mut buf, Table::Own, &[b"floor"], &7u64);
        delete(&mut buf, Table::LogEntry, &[b"log", &[0], &1u64.to_be_bytes()]);
        let ops: Vec<_> = read(&buf).collect::<Result<_>>().unwrap();
        let RowOp::Put { key, value } = &ops[0] else { panic!("{ops:?}") };
        assert_eq!((*key, decode::<u64>(value).unwrap()), (&b"ofloor"[..], 7));
        let RowOp::Delete { key } = &ops[1] else { panic!("{ops:?}") };
        assert_eq!(numbered(&key[1..]).unwrap(), (Key::new("log").unwrap(), 1));
    }

    #[test]
    fn a_truncated_or_unknown_row_is_refused() {
        let mut buf = Vec::new();
        put(&mut buf, Table::Own, &[b"floor"], &7u64);
        for cut in 1..buf.len() {
            assert!(read(&buf[..cut]).last().unwrap().is_err(), "{cut}");
        }
        buf[0] = 9;
        assert!(read(&buf).last().unwrap().is_err());
    }

    #[test]
    fn an_impossible_counter_is_refused() {
        let numbered_with = |number: u64| numbered(&[b"log\0".as_slice(), &number.to_be_bytes()].concat());
        assert!(numbered_with(1 << 61).is_ok());
        assert!(numbered_with(u64::MAX).is_err());
        assert!(numbered(b"log\x00123456789").is_err());
        let slot = |last, ended| SlotRow { last, ended, state: StateRow::Free }.load();
        assert!(slot(0, 0).is_ok() && slot(5, 1).is_ok());
        assert!(slot(1 << 53, 1).is_err() && slot(5, u64::MAX).is_err());
    }
}
