//! Records, logs, commits and announcements.

use std::sync::Arc;

use bytes::Bytes;
use tenure_lease::{
    Announcement, Committed, Error, Fence, Generation, Key, LogEntry, Mode, Op, Page, Record, Result,
    Revision, Token, Ttl,
};

use crate::{from_micros, readable, required, to_micros, ttl, unreadable};
use crate::{proto, state};

impl From<&Fence> for proto::Fence {
    fn from(fence: &Fence) -> Self {
        Self {
            key: fence.key.as_str().into(),
            token: fence.token.reveal().into(),
            generation: fence.generation.get(),
            monotonic: fence.mode == Mode::Monotonic,
        }
    }
}

impl TryFrom<proto::Fence> for Fence {
    type Error = Error;

    fn try_from(fence: proto::Fence) -> Result<Self> {
        Ok(Self {
            key: Key::new(fence.key)?,
            token: Token::parse(&fence.token)?,
            generation: Generation::new(fence.generation)?,
            mode: if fence.monotonic { Mode::Monotonic } else { Mode::Strict },
        })
    }
}

fn put(
    key: &Key,
    value: &Arc<[u8]>,
    ttl: Option<Ttl>,
    condition: Option<proto::put::Condition>,
) -> proto::Put {
    proto::Put {
        key: key.as_str().into(),
        value: Bytes::from_owner(value.clone()),
        ttl_ms: ttl.map_or(0, |ttl| ttl.as_millis() as u32),
        condition,
    }
}

impl From<&Op> for proto::Op {
    fn from(op: &Op) -> Self {
        use proto::op::Kind;
        use proto::put::Condition;
        let kind = match op {
            Op::Put { key, value, ttl } => Kind::Put(put(key, value, *ttl, None)),
            Op::PutIfAbsent { key, value, ttl } => {
                Kind::Put(put(key, value, *ttl, Some(Condition::Absent(proto::Absent {}))))
            }
            Op::PutIfRevision { key, value, ttl, revision } => {
                Kind::Put(put(key, value, *ttl, Some(Condition::Revision(revision.get()))))
            }
            Op::Delete { key } => Kind::Delete(proto::Delete { key: key.as_str().into() }),
            Op::Append { log, value, max_len } => Kind::Append(proto::Append {
                log: log.as_str().into(),
                value: Bytes::from_owner(value.clone()),
                max_len: u32::try_from(*max_len).unwrap_or(u32::MAX),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<proto::Op> for Op {
    type Error = Error;

    fn try_from(op: proto::Op) -> Result<Self> {
        use proto::op::Kind;
        use proto::put::Condition;
        Ok(match required(op.kind, "op")? {
            Kind::Put(put) => {
                let (key, value, ttl) = (Key::new(put.key)?, Arc::from(&*put.value), ttl(put.ttl_ms)?);
                match put.condition {
                    None => Self::Put { key, value, ttl },
                    Some(Condition::Absent(_)) => Self::PutIfAbsent { key, value, ttl },
                    Some(Condition::Revision(number)) => {
                        Self::PutIfRevision { key, value, ttl, revision: Revision::new(number) }
                    }
                }
            }
            Kind::Delete(delete) => Self::Delete { key: Key::new(delete.key)? },
            Kind::Append(append) => Self::Append {
                log: Key::new(append.log)?,
                value: Arc::from(&*append.value),
                max_len: append.max_len as usize,
            },
        })
    }
}

impl From<Committed> for proto::CommitResponse {
    fn from(committed: Committed) -> Self {
        use proto::commit_response::Outcome;
        let outcome = match committed {
            Committed::Written { revision } => Outcome::Written(revision.get()),
            Committed::Conflict { index, found } => {
                Outcome::Conflict(proto::Conflict { index: index as u32, found: found.map(Revision::get) })
            }
            Committed::FencedOut { current } => {
                Outcome::FencedOut(proto::FencedOut { current: current.map(Generation::get) })
            }
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::CommitResponse> for Committed {
    type Error = Error;

    fn try_from(response: proto::CommitResponse) -> Result<Self> {
        use proto::commit_response::Outcome;
        match response.outcome.ok_or_else(|| unreadable("outcome"))? {
            Outcome::Written(number) => Ok(Self::Written { revision: Revision::new(number) }),
            Outcome::Conflict(conflict) => Ok(Self::Conflict {
                index: conflict.index as usize,
                found: conflict.found.map(Revision::new),
            }),
            Outcome::FencedOut(proto::FencedOut { current }) => {
                Ok(Self::FencedOut { current: current.and_then(|number| Generation::new(number).ok()) })
            }
        }
    }
}

impl From<Record> for proto::Record {
    fn from(record: Record) -> Self {
        Self {
            key: record.key.as_str().into(),
            value: Bytes::from_owner(record.value),
            revision: record.revision.get(),
            remaining_us: record.remaining.map(to_micros),
        }
    }
}

impl TryFrom<proto::Record> for Record {
    type Error = Error;

    fn try_from(record: proto::Record) -> Result<Self> {
        Ok(Self {
            key: readable(Some(Key::new(record.key)), "key")?,
            value: Arc::from(&*record.value),
            revision: Revision::new(record.revision),
            remaining: record.remaining_us.map(from_micros),
        })
    }
}

impl From<Page<Record>> for proto::ScanResponse {
    fn from(page: Page<Record>) -> Self {
        let items = page.items.into_iter().map(Into::into).collect();
        Self { items, next: state::next(page.next), revision: page.revision.get() }
    }
}

impl TryFrom<proto::ScanResponse> for Page<Record> {
    type Error = Error;

    fn try_from(response: proto::ScanResponse) -> Result<Self> {
        state::page(response.items, response.next, response.revision)
    }
}

impl From<&Announcement> for proto::Announcement {
    fn from(item: &Announcement) -> Self {
        Self {
            fence: Some((&item.fence).into()),
            channel: item.channel.as_str().into(),
            message: Bytes::from_owner(item.message.clone()),
            latest: item.latest.as_str().into(),
            ttl_ms: item.ttl.as_millis() as u32,
            log: item.log.as_str().into(),
            max_len: u32::try_from(item.max_len).unwrap_or(u32::MAX),
        }
    }
}

impl TryFrom<proto::Announcement> for Announcement {
    type Error = Error;

    fn try_from(item: proto::Announcement) -> Result<Self> {
        Ok(Self {
            fence: required(item.fence, "fence")?.try_into()?,
            channel: Key::new(item.channel)?,
            message: Arc::from(&*item.message),
            latest: Key::new(item.latest)?,
            ttl: Ttl::from_millis(item.ttl_ms.into())?,
            log: Key::new(item.log)?,
            max_len: item.max_len as usize,
        })
    }
}

impl From<LogEntry> for proto::LogEntry {
    fn from(entry: LogEntry) -> Self {
        Self { seq: entry.seq, value: Bytes::from_owner(entry.value) }
    }
}

impl From<proto::LogEntry> for LogEntry {
    fn from(entry: proto::LogEntry) -> Self {
        Self { seq: entry.seq, value: Arc::from(&*entry.value) }
    }
}
