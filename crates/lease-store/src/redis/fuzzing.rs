//! The body of the fuzz target for what a Redis server answers.
#![expect(clippy::expect_used, reason = "a body ends in a panic when a promise is broken")]

use lease::{Claim, Generation, Holder, Key, Op, Release, Result, Revision, Token, Ttl, Wall};
use redis::Value;

use super::job::{Claimed, Claiming, Job, Releasing};
use super::options::Options;
use super::{look, records, reply, watch};

/// Greatest TTL, quarantine and timeout of an address, in milliseconds.
pub fn redis_address(url: &str) -> Result<(u64, u64, u64)> {
    let options = Options::parse(url)?;
    let (quarantine, timeout) =
        (options.quarantine.as_millis() as u64, options.op_timeout.as_millis() as u64);
    Ok((options.max_ttl.as_millis(), quarantine, timeout))
}

/// Whatever a server answers is read or refused; what was read is within its type's bounds.
pub fn redis(data: &[u8]) {
    words(data);
    if let Ok(value) = redis::parse_redis_value(data) {
        structures(&value);
    }
    // The same shapes without lengths in front, which a mutation would have to keep right.
    let lines: Vec<Value> = data.split(|byte| *byte == b'|').map(scalar).collect();
    structures(&Value::Array(lines.clone()));
    if let Some((id, fields)) = lines.split_first() {
        structures(&Value::Array(vec![id.clone(), Value::Array(fields.to_vec())]));
    }
}

fn scalar(text: &[u8]) -> Value {
    let number = text.strip_prefix(b":").and_then(|rest| std::str::from_utf8(rest).ok()?.parse().ok());
    number.map_or_else(|| Value::BulkString(text.to_vec()), Value::Int)
}

fn claim() -> Claim {
    let token = Token::parse("0123456789abcdef012345").expect("a token");
    let (key, holder) = (Key::new("k").expect("a key"), Holder::new("h").expect("a holder"));
    Claim::new(key, holder, token, Ttl::MAX)
}

fn words(data: &[u8]) {
    let claim = claim();
    if let Ok(busy) = reply::busy(data) {
        let text = format!(
            "{} {} {} {} {}",
            busy.reason.as_str(),
            busy.generation.map_or(0, Generation::get),
            busy.remaining.map_or(-1, |left| left.as_millis() as i64),
            busy.position,
            busy.holder.as_ref().map_or("", Holder::as_str),
        );
        assert_eq!(reply::busy(text.as_bytes()).expect("what was read is read again"), busy);
    }
    match Claiming::new(&claim).read(data) {
        Ok(Claimed::New(generation)) => assert!(data.starts_with(b"+") && generation.get() < 1 << 53),
        Ok(Claimed::Kept(_, ttl, _)) => assert!(ttl <= Ttl::MAX),
        Ok(Claimed::Busy(_)) | Err(_) => {}
    }
    drop(Releasing::from(Release::new(claim.key, claim.token)).read(data));
    if let Ok(reign) = look::closed_reign(data) {
        assert!(reign.until.is_some());
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(event) = watch::event(text, Revision::new(7), Wall::from_micros(9)) {
        let word = |text: Option<String>| text.map(|text| format!(" {text}")).unwrap_or_default();
        let holder = word(event.holder.as_ref().map(ToString::to_string));
        let generation = word(event.generation.map(|generation| generation.to_string()));
        let letter = text.chars().next().unwrap_or_default();
        let line = format!("{letter}{}{holder}{generation}", event.key);
        assert_eq!(watch::event(&line, event.revision, event.at).expect("the same"), event);
    }
}

fn structures(value: &Value) {
    let key = claim().key;
    if let Ok(status) = look::status(&key, value.clone()) {
        assert_eq!(status.key, key);
    }
    if let Ok(Some(record)) = records::record(&key, value.clone()) {
        assert_eq!(record.key, key);
    }
    drop(records::committed(&[Op::Delete { key }], value.clone()));
    if let Ok(entries) = records::entries(value.clone()) {
        assert!(entries.windows(2).all(|two| two[0].seq < two[1].seq));
    }
    if let Ok(entry) = watch::Entry::read(value.clone()) {
        assert!(entry.first <= entry.last);
        let events = watch::events(entry.first, entry.last, entry.at, &entry.lines).unwrap_or_default();
        assert!(events.iter().all(|event| (entry.first..=entry.last).contains(&event.revision.get())));
    }
}

/// Answers as the scripts give them.
pub fn redis_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "+0000000000000042",
        "=0000000000000042 15000 node-1",
        "-held 0000000000000012 750 3 node-1",
        "held 0000000000000012 750 3 node-1",
        "quarantine 0 9000 1 ",
        "foreign 0 -1 1 a b",
        "!spent",
        "r",
        "+tuner/3 node-1 42",
        "pr/1",
        "h|node-1|42|:750|1700000000000000|:3|meta",
        "value|7|:-1",
        "w|9",
        "c|:0|9",
        ":5|one|two",
        "5-0|e|1700000000000000 2\n+k h 42\nrk h 42",
        "r0000000000000042000000000000170000000000000001800001234567node-1",
    ];
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let array = |parts: &[String]| format!("*{}\r\n{}", parts.len(), parts.concat());
    let fields: Vec<String> = ["e", "1700000000000000 2\n+k h 42\nrk h 42"].map(bulk).into();
    let structures = [
        array(&["h", "node-1", "42", "750", "1700000000000000", "3", "meta"].map(bulk)),
        array(&["value", "7", "-1"].map(bulk)),
        array(&["w", "9"].map(bulk)),
        array(&["c", "0", "9"].map(bulk)),
        array(&["k", "0"].map(bulk)),
        array(&[":5\r\n".to_owned(), bulk("one"), bulk("two")]),
        array(&[bulk("5-0"), array(&fields)]),
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain(structures.map(String::into_bytes)).collect()
}
