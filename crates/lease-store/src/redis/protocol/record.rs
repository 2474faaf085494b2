//! Records, logs and announcements.

use std::time::Duration;

use redis::Value;
use tenure_lease::{
    Announcement, Committed, Fence, Generation, Key, LogEntry, Mode, Op, Record, Refusal, Result, Revision,
    Ttl,
};

use super::call::CallBuilder;
use super::reply::{self, Fields};
use super::script::{ANNOUNCE, COMMIT, DISCOVER, READ_LOG, READ_RECORDS};
use super::{ScriptCall, ServerIdentity};
use crate::redis::fault::unexpected_reply;

/// Performs all operations or none, under a fence if there is one.
pub fn encode_commit(server: &ServerIdentity, fence: Option<&Fence>, ops: &[Op]) -> ScriptCall {
    let keys: Vec<&str> =
        fence.iter().map(|fence| &fence.key).chain(ops.iter().map(Op::key)).map(Key::as_str).collect();
    let mut call = server.call(&COMMIT, keys.into_iter());
    let mode = match fence.map(|fence| fence.mode) {
        None => "",
        Some(Mode::Strict) => "strict",
        Some(Mode::Monotonic) => "monotonic",
    };
    call.arg("mode", mode)
        .arg("token", fence.map(|fence| fence.token.digest().as_bytes().as_slice()).unwrap_or_default())
        .optional("generation", fence.map(|fence| fence.generation.get()));
    ops.iter().for_each(|op| encode_op(&mut call, op));
    call.finish()
}

fn encode_op(call: &mut CallBuilder, op: &Op) {
    let (kind, value, ttl, number): (_, &[u8], _, _) = match op {
        Op::Put { value, ttl, .. } => ("put", value, *ttl, None),
        Op::PutIfAbsent { value, ttl, .. } => ("put_if_absent", value, *ttl, None),
        Op::PutIfRevision { value, ttl, revision, .. } => {
            ("put_if_revision", value, *ttl, Some(revision.get()))
        }
        Op::Delete { .. } => ("delete", &[], None, None),
        Op::Append { value, max_len, .. } => ("append", value, None, Some(*max_len as u64)),
    };
    call.arg("kind", kind)
        .arg("value", value)
        .optional("ttl", ttl.map(Ttl::as_millis))
        .optional("number", number);
}

/// What a commit did.
pub fn decode_commit(ops: &[Op], value: &Value) -> Result<Committed> {
    let fields = COMMIT.read(value)?;
    match fields.tag() {
        "written" => Ok(Committed::Written { revision: reply::revision(fields.text("revision")?)? }),
        "fenced_out" => Ok(Committed::FencedOut { current: reply::generation(fields.text("generation")?) }),
        "conflict" => {
            let found = fields.text("revision")?.parse().ok().map(Revision::new);
            Ok(Committed::Conflict { index: fields.count("index")?, found })
        }
        _ => {
            let op = ops.get(fields.count("index")?);
            let op = op.ok_or_else(|| unexpected_reply("an operation that was not sent"))?;
            Err(Refusal::KeyIsLeased { key: op.key().as_str().to_owned() }.into())
        }
    }
}

/// Reads records.
pub fn encode_read(keys: &[Key]) -> ScriptCall {
    CallBuilder::new(&READ_RECORDS, keys.iter().map(Key::as_str)).finish()
}

/// The record under one key.
pub fn decode_read(key: &Key, value: &Value) -> Result<Option<Record>> {
    let fields = READ_RECORDS.read(value)?;
    if fields.tag() == "absent" {
        return Ok(None);
    }
    let remaining = fields.int("remaining")?.try_into().ok().map(Duration::from_millis);
    Ok(Some(Record { remaining, ..record(key, &fields)? }))
}

fn record(key: &Key, fields: &Fields<'_>) -> Result<Record> {
    Ok(Record {
        key: key.clone(),
        value: fields.bytes("value")?.into(),
        revision: reply::revision(fields.text("revision")?)?,
        remaining: None,
    })
}

/// Reads plain strings that any program may have written.
pub fn encode_discover(keys: &[Key]) -> ScriptCall {
    CallBuilder::new(&DISCOVER, keys.iter().map(Key::as_str)).finish()
}

/// The string under one key, and whether it has a TTL.
pub fn decode_discover(key: &Key, value: &Value) -> Result<Option<(Record, bool)>> {
    let fields = DISCOVER.read(value)?;
    if fields.tag() == "absent" {
        return Ok(None);
    }
    Ok(Some((record(key, &fields)?, fields.int("expires")? == 1)))
}

/// Reads at most `limit` entries of a log after the one numbered `after`.
pub fn encode_read_log(log: &Key, after: u64, limit: usize) -> ScriptCall {
    let keys = ["tenure:log:", "tenure:n:"].map(|kind| format!("{kind}{}", log.as_str()));
    let mut call = CallBuilder::new(&READ_LOG, keys.iter());
    call.number("after", after).number("limit", limit as u64);
    call.finish()
}

/// Entries of a log.
pub fn decode_read_log(value: &Value) -> Result<Vec<LogEntry>> {
    let fields = READ_LOG.read(value)?;
    let first = fields.count("first")? as u64;
    let entry = |(seq, value): (u64, &Value)| Ok(LogEntry { seq, value: reply::bytes(value)?.into() });
    (first..).zip(fields.list()).map(entry).collect()
}

/// Publishes and stores messages, each only while its lease is live.
pub fn encode_announce(items: &[Announcement]) -> ScriptCall {
    let mut call = CallBuilder::new(&ANNOUNCE, items.iter().map(|item| item.fence.key.as_str()));
    for item in items {
        call.arg("token", item.fence.token.digest().as_bytes())
            .number("generation", Generation::get(item.fence.generation))
            .arg("channel", item.channel.as_str())
            .arg("message", &item.message)
            .arg("latest", item.latest.as_str())
            .number("ttl", item.ttl.as_millis())
            .arg("log", item.log.as_str())
            .number("max_len", item.max_len as u64);
    }
    call.finish()
}

/// Which messages were published.
pub fn decode_announce(items: &[Announcement], value: &Value) -> Result<Vec<bool>> {
    let read = |(value, item): (&Value, &Announcement)| match ANNOUNCE.read(value)?.tag() {
        "leased" => Err(Refusal::KeyIsLeased { key: item.latest.as_str().to_owned() }.into()),
        tag => Ok(tag == "announced"),
    };
    reply::exactly(value, items.len())?.iter().zip(items).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_whose_first_number_is_negative_is_refused() {
        let entries = |first| {
            let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            Value::Array(vec![text("entries"), Value::Int(first), text("one")])
        };
        assert_eq!(decode_read_log(&entries(5)).unwrap()[0].seq, 5);
        for bad in [-1, i64::MIN] {
            assert!(decode_read_log(&entries(bad)).is_err(), "{bad}");
        }
    }
}
