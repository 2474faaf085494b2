//! Records, logs and the write step.

use std::sync::Arc;

use bytes::Bytes;
use lease::{
    Committed, Error, Fence, Generation, Key, LogEntry, Mode, Op, Page, Record, Result, Revision, Token, Ttl,
};

use super::{micros, needed, nonsense, readable, span, ttl, view};
use crate::wire;

impl From<&Fence> for wire::Fence {
    fn from(fence: &Fence) -> Self {
        Self {
            key: fence.key.as_str().into(),
            token: fence.token.reveal().into(),
            generation: fence.generation.get(),
            monotonic: fence.mode == Mode::Monotonic,
        }
    }
}

impl TryFrom<wire::Fence> for Fence {
    type Error = Error;

    fn try_from(fence: wire::Fence) -> Result<Self> {
        Ok(Self {
            key: Key::new(fence.key)?,
            token: Token::parse(&fence.token)?,
            generation: Generation::new(fence.generation)?,
            mode: if fence.monotonic { Mode::Monotonic } else { Mode::Strict },
        })
    }
}

fn put(key: &Key, value: &Arc<[u8]>, ttl: Option<Ttl>, condition: Option<wire::put::Condition>) -> wire::Put {
    wire::Put {
        key: key.as_str().into(),
        value: Bytes::from_owner(value.clone()),
        ttl_ms: ttl.map_or(0, |ttl| ttl.as_millis() as u32),
        condition,
    }
}

impl From<&Op> for wire::Op {
    fn from(op: &Op) -> Self {
        use wire::op::Kind;
        use wire::put::Condition;
        let kind = match op {
            Op::Put { key, value, ttl } => Kind::Put(put(key, value, *ttl, None)),
            Op::PutIfAbsent { key, value, ttl } => {
                Kind::Put(put(key, value, *ttl, Some(Condition::Absent(wire::Absent {}))))
            }
            Op::PutIfRevision { key, value, ttl, revision } => {
                Kind::Put(put(key, value, *ttl, Some(Condition::Revision(revision.get()))))
            }
            Op::Delete { key } => Kind::Delete(wire::Delete { key: key.as_str().into() }),
            Op::Append { log, value, max_len } => Kind::Append(wire::Append {
                log: log.as_str().into(),
                value: Bytes::from_owner(value.clone()),
                max_len: u32::try_from(*max_len).unwrap_or(u32::MAX),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<wire::Op> for Op {
    type Error = Error;

    fn try_from(op: wire::Op) -> Result<Self> {
        use wire::op::Kind;
        use wire::put::Condition;
        Ok(match needed(op.kind, "op")? {
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

impl From<Committed> for wire::CommitResponse {
    fn from(committed: Committed) -> Self {
        use wire::commit_response::Outcome;
        let outcome = match committed {
            Committed::Written { revision } => Outcome::Written(revision.get()),
            Committed::Conflict { index, found } => {
                Outcome::Conflict(wire::Conflict { index: index as u32, found: found.map(Revision::get) })
            }
            Committed::FencedOut { current } => {
                Outcome::FencedOut(wire::FencedOut { current: current.map(Generation::get) })
            }
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<wire::CommitResponse> for Committed {
    type Error = Error;

    fn try_from(answer: wire::CommitResponse) -> Result<Self> {
        use wire::commit_response::Outcome;
        match answer.outcome.ok_or_else(|| nonsense("outcome"))? {
            Outcome::Written(number) => Ok(Self::Written { revision: Revision::new(number) }),
            Outcome::Conflict(conflict) => Ok(Self::Conflict {
                index: conflict.index as usize,
                found: conflict.found.map(Revision::new),
            }),
            Outcome::FencedOut(wire::FencedOut { current }) => {
                Ok(Self::FencedOut { current: current.and_then(|number| Generation::new(number).ok()) })
            }
        }
    }
}

impl From<Record> for wire::Record {
    fn from(record: Record) -> Self {
        Self {
            key: record.key.as_str().into(),
            value: Bytes::from_owner(record.value),
            revision: record.revision.get(),
            remaining_us: record.remaining.map(micros),
        }
    }
}

impl TryFrom<wire::Record> for Record {
    type Error = Error;

    fn try_from(record: wire::Record) -> Result<Self> {
        Ok(Self {
            key: readable(Some(Key::new(record.key)), "key")?,
            value: Arc::from(&*record.value),
            revision: Revision::new(record.revision),
            remaining: record.remaining_us.map(span),
        })
    }
}

impl From<Page<Record>> for wire::ScanResponse {
    fn from(page: Page<Record>) -> Self {
        let items = page.items.into_iter().map(Into::into).collect();
        Self { items, next: view::next(page.next), revision: page.revision.get() }
    }
}

impl TryFrom<wire::ScanResponse> for Page<Record> {
    type Error = Error;

    fn try_from(answer: wire::ScanResponse) -> Result<Self> {
        view::page(answer.items, answer.next, answer.revision)
    }
}

impl From<LogEntry> for wire::LogEntry {
    fn from(entry: LogEntry) -> Self {
        Self { seq: entry.seq, value: Bytes::from_owner(entry.value) }
    }
}

impl From<wire::LogEntry> for LogEntry {
    fn from(entry: wire::LogEntry) -> Self {
        Self { seq: entry.seq, value: Arc::from(&*entry.value) }
    }
}
