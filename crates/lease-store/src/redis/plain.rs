//! What other programs see and write: plain strings under any key, and channels.

use lease::{Announcement, Error, Key, Prefix, Record, Refusal, Result, limits};
use redis::Value;

use super::fault::{strange, too_many};
use super::link::Link;
use super::names::Call;
use super::reply;
use super::script::{ANNOUNCE, ENDING};
use super::wire::{Repeat, Wire};

/// Keys that one step of a scan looks at: more would keep everybody else waiting.
const STEP: usize = 1_000;
/// Most records read in one call.
pub(super) const READ: usize = 500;
/// What a companion ends with, after the name.
const TAIL: usize = 110;
/// How far the server's clock may be from where it is taken to be, in milliseconds.
const SLACK_MS: u64 = 1_000;
/// Most announcements in one call.
const CALL: usize = 128;

/// Every plain string under a prefix, whoever wrote it, ordered by key.
pub(super) async fn discover(wire: &Wire, prefix: &Prefix) -> Result<Vec<Record>> {
    let keys = keys(wire, prefix).await?;
    let mut records = Vec::with_capacity(keys.len());
    for part in keys.chunks(READ) {
        read(wire, part, &mut records).await?;
    }
    few(records.len())?;
    Ok(records)
}

/// Every key under a prefix, in order: a look at every key of the server.
pub(super) async fn keys(wire: &Wire, prefix: &Prefix) -> Result<Vec<Key>> {
    let pattern = glob(prefix.as_str());
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let answer = wire
            .plain(|| {
                let mut cmd = redis::cmd("SCAN");
                cmd.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
                cmd
            })
            .await?;
        let parts = reply::exactly(answer, 2)?;
        cursor = reply::text(&parts[0])?.to_owned();
        let Some(Value::Array(found)) = parts.into_iter().nth(1) else { return Err(strange("no keys")) };
        // A key that we could not have written ourselves has no name here.
        keys.extend(found.iter().filter_map(|key| Key::new(reply::text(key).ok()?).ok()));
        few(keys.len() / 2)?;
        if cursor == "0" {
            break;
        }
    }
    // A scan may give a key twice.
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Refuses more records than a discovery gives.
pub(super) fn few(records: usize) -> Result<()> {
    match records > limits::DISCOVERY {
        true => Err(Refusal::TooMany { what: "records under a prefix", limit: limits::DISCOVERY }.into()),
        false => Ok(()),
    }
}

/// Which of these keys time may take away.
pub(super) async fn ending(wire: &Wire, keys: &[Key]) -> Result<Vec<bool>> {
    let answer = wire
        .call(&ENDING, Repeat::Freely, |_, _| {
            let mut call = Call::new(&ENDING, keys.len());
            keys.iter().for_each(|key| call.key(key.as_str()));
            call.done()
        })
        .await?;
    reply::exactly(answer, keys.len())?.iter().map(|answer| Ok(reply::int(answer)? == 1)).collect()
}

/// What is under these keys, at most [`READ`] of them, but for leases.
pub(super) async fn read(wire: &Wire, keys: &[Key], records: &mut Vec<Record>) -> Result<()> {
    let build = |_: &Link, _| {
        let mut cmd = redis::cmd("MGET");
        for key in keys {
            let key = key.as_str();
            cmd.arg(key).arg(format!("tenure:v:{key}")).arg(format!("tenure:o:{key}"));
        }
        cmd
    };
    let (answer, link) = wire.run_over(None, wire.budget(), Repeat::Freely, build).await?;
    let answers = reply::exactly(answer, keys.len() * 3)?;
    let now = link.server_ms();
    for (key, parts) in keys.iter().zip(answers.chunks(3)) {
        let Value::BulkString(value) = &parts[0] else { continue };
        if shows_a_lease(value, &parts[2], now) {
            continue;
        }
        let mark = reply::text(&parts[1]).unwrap_or_default();
        let revision = mark.split(' ').next().filter(|digits| !digits.is_empty()).unwrap_or("0");
        records.push(Record {
            key: key.clone(),
            value: value.as_slice().into(),
            revision: reply::revision(revision)?,
            remaining: None,
        });
    }
    Ok(())
}

/// Whether a value is the holder or the heir that the key's companion names, between fields of fixed length: see
/// `head.lua`. A key is kept for an heir until a moment of the server's clock.
fn shows_a_lease(value: &[u8], companion: &Value, now: u64) -> bool {
    let Value::BulkString(o) = companion else { return false };
    let until = || std::str::from_utf8(o.get(1..17)?).ok()?.parse::<u64>().ok();
    let from = match o.first() {
        Some(b'h') => 73,
        Some(b'r') if until().is_some_and(|until| until + SLACK_MS > now) => 17,
        _ => return false,
    };
    o.get(from..o.len().saturating_sub(TAIL)) == Some(value)
}

/// A pattern for what begins with `prefix`.
fn glob(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 8);
    for c in prefix.chars() {
        if "*?[]\\^".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

/// Tells news, each only while its lease is live.
pub(super) async fn announce(wire: &Wire, items: &[Announcement]) -> Result<Vec<bool>> {
    if items.len() > limits::BATCH {
        return Err(too_many("announcements in one call", limits::BATCH));
    }
    if items.iter().any(|item| item.message.len() > limits::VALUE) {
        return Err(Error::invalid("message", format!("at most {} bytes are allowed", limits::VALUE)));
    }
    let mut told = Vec::with_capacity(items.len());
    for part in items.chunks(CALL) {
        let answer = wire
            .call(&ANNOUNCE, Repeat::Never, |_, _| {
                let mut call = Call::new(&ANNOUNCE, part.len());
                part.iter().for_each(|item| call.key(item.fence.key.as_str()));
                for item in part {
                    call.proof(item.fence.generation, item.fence.token.digest());
                    call.text(item.channel.as_str());
                    call.text(&item.message);
                    call.text(item.latest.as_str());
                    call.number(item.ttl.as_millis());
                    call.text(item.log.as_str());
                    call.number(item.max_len as u64);
                }
                call.done()
            })
            .await?;
        for (answer, item) in reply::exactly(answer, part.len())?.iter().zip(part) {
            match reply::int(answer)? {
                2 => return Err(Refusal::KeyIsLeased { key: item.latest.as_str().to_owned() }.into()),
                answer => told.push(answer == 1),
            }
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_matches_itself_and_nothing_it_could_mean_as_a_pattern() {
        assert_eq!(glob("session:"), "session:*");
        assert_eq!(glob("a*b[c]?"), "a\\*b\\[c\\]\\?*");
    }

    #[test]
    fn a_value_that_its_companion_names_is_a_lease() {
        let tail = "0".repeat(TAIL);
        let held = format!("h{}node-1{tail}", "0".repeat(72));
        let kept = format!("r{:016}node-1{tail}", 10_000);
        let says = |o: &str, now| shows_a_lease(b"node-1", &Value::BulkString(o.as_bytes().to_vec()), now);
        for (o, leased) in
            [(held.as_str(), true), (kept.as_str(), true), ("f0", false), ("h", false), ("r", false)]
        {
            assert_eq!(says(o, 9_000), leased, "{o}");
        }
        assert!(!shows_a_lease(b"node-1", &Value::Nil, 9_000));
        assert!(says(&held, 20_000) && !says(&kept, 20_000), "a reservation ends");
    }
}
