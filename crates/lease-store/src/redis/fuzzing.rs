//! The body of the fuzz target for replies of a Redis server.
#![expect(clippy::expect_used, reason = "a body ends in a panic when a promise is broken")]

use redis::Value;
use tenure_lease::{Key, Op, Result, Revision, Ttl, Wall};

use super::options::Options;
use super::protocol::acquire::{self, ClaimReply};
use super::protocol::status::{StreamEntry, closed_reign, decode_event, decode_history, decode_inspect};
use super::protocol::{lease, record, release, server};

/// Greatest TTL, quarantine and timeout of an address, in milliseconds.
pub fn redis_address(url: &str) -> Result<(u64, u64, u64)> {
    let options = Options::parse(url)?;
    let (quarantine, timeout) =
        (options.quarantine.as_millis() as u64, options.op_timeout.as_millis() as u64);
    Ok((options.max_ttl.as_millis(), quarantine, timeout))
}

/// Any reply is decoded or refused; what is decoded is within the bounds of its type.
pub fn redis(data: &[u8]) {
    texts(data);
    if let Ok(value) = redis::parse_redis_value(data) {
        replies(&value);
    }
    // The same shapes without lengths in front, which a mutation would have to keep right.
    let fields: Vec<Value> = data.split(|byte| *byte == b'|').map(scalar).collect();
    replies(&Value::Array(fields.clone()));
    replies(&Value::Array(vec![Value::Array(fields.clone())]));
    if let Some((id, fields)) = fields.split_first() {
        replies(&Value::Array(vec![id.clone(), Value::Array(fields.to_vec())]));
    }
}

fn scalar(text: &[u8]) -> Value {
    let number = text.strip_prefix(b":").and_then(|rest| std::str::from_utf8(rest).ok()?.parse().ok());
    number.map_or_else(|| Value::BulkString(text.to_vec()), Value::Int)
}

fn texts(data: &[u8]) {
    if let Ok(reign) = closed_reign(data) {
        assert!(reign.until.is_some());
    }
    if let Some((id, generation)) = release::decode_wake_up(data) {
        assert!(data.starts_with(&id) && generation.get() < 1 << 53);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(event) = decode_event(text, Revision::new(7), Wall::from_micros(9)) {
        let word = |text: Option<String>| text.map(|text| format!(" {text}")).unwrap_or_default();
        let holder = word(event.holder.as_ref().map(ToString::to_string));
        let generation = word(event.generation.map(|generation| generation.to_string()));
        let line = format!("{} {}{holder}{generation}", event.verb.as_str(), event.key);
        assert_eq!(decode_event(&line, event.revision, event.at).expect("the same"), event);
    }
}

fn replies(value: &Value) {
    let key = Key::new("k").expect("a key");
    match acquire::decode(value) {
        Ok(ClaimReply::Granted(generation)) => assert!(generation.get() < 1 << 53),
        Ok(ClaimReply::Kept(_, ttl, _)) => assert!(ttl <= Ttl::MAX),
        Ok(ClaimReply::Busy(_)) | Err(_) => {}
    }
    drop(release::decode(value));
    drop(lease::decode_renew(value, 1));
    drop(lease::decode_settle(value, 1));
    drop(lease::decode_revoke(value));
    drop(lease::decode_verify(value));
    drop(lease::decode_wipe(value));
    drop(server::decode_open(value));
    drop(server::decode_sweep(value));
    drop(decode_history(value));
    if let Ok(status) = decode_inspect(&key, value) {
        assert_eq!(status.key, key);
    }
    if let Ok(Some(record)) = record::decode_read(&key, value) {
        assert_eq!(record.key, key);
    }
    drop(record::decode_discover(&key, value));
    drop(record::decode_commit(&[Op::Delete { key }], value));
    if let Ok(entries) = record::decode_read_log(value) {
        assert!(entries.windows(2).all(|two| two[0].seq < two[1].seq));
    }
    if let Ok(entry) = StreamEntry::decode(value) {
        assert!(entry.first <= entry.last);
        let events = entry.events().unwrap_or_default();
        assert!(events.iter().all(|event| (entry.first..=entry.last).contains(&event.revision.get())));
    }
}

/// Replies as the scripts give them.
pub fn redis_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "granted|42",
        "kept|42|15000|node-1",
        "busy|held|12|750|:3|node-1",
        "busy|quarantine|0|9000|:1|",
        "busy|foreign|0|-1|:1|a b",
        "refused|spent",
        "released|0123456789abcdef|42",
        "not_held",
        "renewed|:15000",
        "ended|expired",
        "revoked|1000",
        "stale|42",
        "live|42|750",
        "wiped|:3",
        "opened|1700000000000000",
        "swept|:3",
        "granted tuner/3 node-1 42",
        "written r/1 - 0",
        "0123456789abcdef 42",
        "status|held|node-1|42|750|1700000000000000|:3|meta",
        "reigns|42|1700000000000000|node-1|released 1700000000000000 41 1690000000000000 node-1 token",
        "record|value|7|:-1",
        "written|9",
        "conflict|:0|9",
        "leased|:0",
        "fenced_out|9",
        "entries|:5|one|two",
        "5-0|at|1700000000000000|count|2|events|granted k h 42\nreleased k h 42",
        "released 1700000000000000 42 1690000000000000 node-1 token",
    ];
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let array = |parts: &[String]| format!("*{}\r\n{}", parts.len(), parts.concat());
    let fields: Vec<String> =
        ["at", "1700000000000000", "count", "2", "events", "granted k h 42\nreleased k h 42"]
            .map(bulk)
            .into();
    let structures = [
        array(&["status", "held", "node-1", "42", "750", "1700000000000000", "3", "meta"].map(bulk)),
        array(&["record", "value", "7", "-1"].map(bulk)),
        array(&["written", "9"].map(bulk)),
        array(&["conflict", "0", "9"].map(bulk)),
        array(&["leased", "0"].map(bulk)),
        array(&[bulk("entries"), ":5\r\n".to_owned(), bulk("one"), bulk("two")]),
        array(&[bulk("5-0"), array(&fields)]),
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain(structures.map(String::into_bytes)).collect()
}
