//! Data beside the leases.

use std::time::Duration;

use lease::{
    Committed, Error, Fence, Key, LogEntry, Mode, Op, Page, Query, Record, Refusal, Result, Revision, Ttl,
    limits,
};
use redis::Value;

use super::fault::strange;
use super::look::{lex, range, tip};
use super::names::{Call, RECORDS};
use super::reply;
use super::script::{COMMIT, LOG, READ};
use super::wire::{Repeat, Wire};

/// Most records in one call: values may be large.
const CALL: usize = 64;

/// Performs all operations or none, under a fence if there is one, and waits for the replicas that are asked for.
pub(super) async fn commit(wire: &Wire, fence: Option<&Fence>, ops: &[Op]) -> Result<Committed> {
    Op::check(ops)?;
    let deadline = wire.budget();
    let (answer, link) = wire
        .run_over(Some(&COMMIT), deadline, Repeat::Never, |link, _| {
            let keys = 1 + fence.map_or(0, |_| 5) + ops.len() * 4;
            let mut call = Call::new(&COMMIT, keys);
            call.key(RECORDS);
            if let Some(fence) = fence {
                call.key(fence.key.as_str());
                for kind in ["tenure:l:", "tenure:g:", "tenure:o:", "tenure:m:"] {
                    call.companion(kind, &fence.key);
                }
            }
            ops.iter().for_each(|op| op_keys(&mut call, op));
            call.head(link, b"");
            match fence {
                None => {
                    call.text("");
                    call.text("");
                }
                Some(fence) => {
                    call.text(if fence.mode == Mode::Strict { "s" } else { "m" });
                    call.proof(fence.generation, fence.token.digest());
                }
            }
            ops.iter().for_each(|op| op_arguments(&mut call, op));
            call.done()
        })
        .await?;
    let committed = committed(ops, answer)?;
    if wire.options.replicas > 0 && matches!(committed, Committed::Written { .. }) {
        wire.copied(&link, deadline).await?;
    }
    Ok(committed)
}

fn op_keys(call: &mut Call, op: &Op) {
    if let Op::Append { log, .. } = op {
        for kind in ["tenure:log:", "tenure:n:", "tenure:log:", "tenure:n:"] {
            call.companion(kind, log);
        }
    } else {
        record_keys(call, op.key());
    }
}

fn record_keys(call: &mut Call, key: &Key) {
    call.key(key.as_str());
    for kind in ["tenure:v:", "tenure:l:", "tenure:o:"] {
        call.companion(kind, key);
    }
}

fn op_arguments(call: &mut Call, op: &Op) {
    let (kind, value, ttl, number): (_, &[u8], _, _) = match op {
        Op::Put { value, ttl, .. } => ("p", value, ttl.map(Ttl::as_millis), None),
        Op::PutIfAbsent { value, ttl, .. } => ("a", value, ttl.map(Ttl::as_millis), None),
        Op::PutIfRevision { value, ttl, revision, .. } => {
            ("r", value, ttl.map(Ttl::as_millis), Some(revision.get()))
        }
        Op::Delete { .. } => ("d", &[], None, None),
        Op::Append { value, max_len, .. } => ("l", value, None, Some(*max_len as u64)),
    };
    call.text(kind);
    call.text(value);
    call.maybe(ttl);
    call.maybe(number);
}

/// `{w, revision}`, `{f, current}`, `{c, index, found}` or `{k, index}`
pub(super) fn committed(ops: &[Op], answer: Value) -> Result<Committed> {
    let parts = reply::array(answer)?;
    let part = |i: usize| parts.get(i).ok_or_else(|| strange("half an answer"));
    let index = || usize::try_from(reply::int(part(1)?)?).map_err(|_| strange("not an index"));
    match reply::text(part(0)?)? {
        "w" => Ok(Committed::Written { revision: reply::revision(reply::text(part(1)?)?)? }),
        "f" => Ok(Committed::FencedOut { current: reply::generation(reply::text(part(1)?)?) }),
        "c" => {
            let found = reply::text(part(2)?)?;
            Ok(Committed::Conflict { index: index()?, found: found.parse().ok().map(Revision::new) })
        }
        "k" => {
            let op = ops.get(index()?).ok_or_else(|| strange("an operation that was not sent"))?;
            Err(Refusal::KeyIsLeased { key: op.key().as_str().to_owned() }.into())
        }
        other => Err(strange(other)),
    }
}

/// Reads records, in the order of the keys.
pub(super) async fn read(wire: &Wire, keys: &[Key]) -> Result<Vec<Option<Record>>> {
    let answer = wire
        .call(&READ, Repeat::Freely, |_, _| {
            let mut call = Call::new(&READ, 1 + keys.len() * 4);
            call.key(RECORDS);
            keys.iter().for_each(|key| record_keys(&mut call, key));
            call.done()
        })
        .await?;
    let answers = reply::exactly(answer, keys.len())?;
    answers.into_iter().zip(keys).map(|(value, key)| record(key, value)).collect()
}

pub(super) fn record(key: &Key, value: Value) -> Result<Option<Record>> {
    let parts = reply::array(value)?;
    let [value, revision, left] = parts.as_slice() else { return Ok(None) };
    Ok(Some(Record {
        key: key.clone(),
        value: reply::bytes(value)?.into(),
        revision: reply::revision(reply::text(revision)?)?,
        remaining: reply::int(left)?.try_into().ok().map(Duration::from_millis),
    }))
}

/// Lists records.
pub(super) async fn scan(wire: &Wire, query: &Query) -> Result<Page<Record>> {
    query.check()?;
    let revision = reply::revision(&tip(wire).await?)?;
    let mut items: Vec<Record> = Vec::new();
    let mut after = query.after.clone();
    loop {
        let want = (query.limit + 1 - items.len()).min(CALL);
        let (first, last) = range(&query.prefix, after.as_ref());
        let keys = lex(wire, RECORDS, &first, &last, want).await?;
        let Some(end) = keys.last() else { break };
        after = Some(end.clone());
        let more = keys.len() == want;
        items.extend(read(wire, &keys).await?.into_iter().flatten());
        if !more || items.len() > query.limit {
            break;
        }
    }
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    let next = items.last().filter(|_| more).map(|record| record.key.clone());
    Ok(Page { items, next, revision })
}

/// Reads a log.
pub(super) async fn read_log(wire: &Wire, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
    if limit == 0 || limit > limits::BATCH {
        return Err(Error::invalid("limit", format!("{limit} is not within 1 and {}", limits::BATCH)));
    }
    let answer = wire
        .call(&LOG, Repeat::Freely, |_, _| {
            let mut call = Call::new(&LOG, 2);
            call.companion("tenure:log:", log);
            call.companion("tenure:n:", log);
            call.number(after);
            call.number(limit as u64);
            call.done()
        })
        .await?;
    entries(answer)
}

/// `{number of the first, entry, ...}`
pub(super) fn entries(answer: Value) -> Result<Vec<LogEntry>> {
    let parts = reply::array(answer)?;
    let (first, entries) = parts.split_first().ok_or_else(|| strange("nothing"))?;
    let first = u64::try_from(reply::int(first)?).map_err(|_| strange("not a number of an entry"))?;
    let entry = |(seq, value): (u64, &Value)| Ok(LogEntry { seq, value: reply::bytes(value)?.into() });
    (first..).zip(entries).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_whose_first_number_is_none_is_refused() {
        let answer = |first| Value::Array(vec![Value::Int(first), Value::BulkString(b"one".to_vec())]);
        assert_eq!(entries(answer(5)).unwrap()[0].seq, 5);
        for bad in [-1, i64::MIN] {
            assert!(entries(answer(bad)).is_err(), "{bad}");
        }
    }
}
