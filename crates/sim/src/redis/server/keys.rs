//! Commands on keys of any type.

use super::command::option;
use super::{Outcome, Refused, Reply, Server, bulk, count, integer, syntax};

pub(super) fn del(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(count(args[1..].iter().filter(|key| server.data.remove(key, now)).count()))
}

pub(super) fn exists(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(count(args[1..].iter().filter(|key| server.data.exists(key, now)).count()))
}

pub(super) fn type_of(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let name = server.data.get(&args[1], now).map_or("none", |value| value.type_name());
    Ok(Reply::Status(name.to_owned()))
}

pub(super) fn pttl(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(Reply::Int(match server.data.expiry(&args[1], now) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => at.saturating_sub(now) as i64,
    }))
}

pub(super) fn pexpiretime(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(Reply::Int(match server.data.expiry(&args[1], now) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => at as i64,
    }))
}

pub(super) fn pexpire(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let at = server.now_ms() as i64 + integer(&args[2])?;
    expire(server, args, at)
}

pub(super) fn pexpireat(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let at = integer(&args[2])?;
    expire(server, args, at)
}

fn expire(server: &mut Server, args: &[Vec<u8>], at: i64) -> Outcome {
    let now = server.now_ms();
    let before = server.data.expiry(&args[1], now);
    let applies = match args.get(3).map(|flag| flag.to_ascii_uppercase()).as_deref() {
        None => true,
        Some(b"NX") => before.is_some_and(|expiry| expiry.is_none()),
        Some(b"XX") => before.is_some_and(|expiry| expiry.is_some()),
        // Without an expiry a key lives longest.
        Some(b"GT") => before.flatten().is_some_and(|before| at > before as i64),
        Some(b"LT") => before.flatten().is_none_or(|before| at < before as i64),
        Some(_) => return Err(Refused("ERR Unsupported option".to_owned())),
    };
    if before.is_none() || !applies {
        return Ok(Reply::Int(0));
    }
    if at <= now as i64 {
        server.data.remove(&args[1], now);
    } else {
        server.data.set_expiry(&args[1], Some(at as u64));
    }
    Ok(Reply::Int(1))
}

pub(super) fn persist(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let had = server.data.expiry(&args[1], now).flatten().is_some();
    server.data.set_expiry(&args[1], None);
    Ok(Reply::Int(had.into()))
}

/// Gives every key at once: how many a step gives is a hint only.
pub(super) fn scan(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    integer(&args[1]).map_err(|_| Refused("ERR invalid cursor".to_owned()))?;
    let (mut pattern, mut at) = (None, 2);
    while at < args.len() {
        match args[at].to_ascii_uppercase().as_slice() {
            b"MATCH" => pattern = Some(option(args, &mut at)?),
            b"COUNT" => drop(integer(option(args, &mut at)?)?),
            _ => return Err(syntax()),
        }
        at += 1;
    }
    let keys = server.data.keys(server.now_ms());
    let found = keys.iter().filter(|key| pattern.is_none_or(|pattern| matches(pattern, key)));
    let found = found.map(|key| bulk(key)).collect();
    Ok(Reply::Array(Some(vec![bulk(b"0"), Reply::Array(Some(found))])))
}

/// Whether a text matches a pattern with `*`, `?`, `[…]` and escapes.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        ([b'?', rest @ ..], [_, after @ ..]) => matches(rest, after),
        ([b'\\', literal, rest @ ..], [first, after @ ..]) => literal == first && matches(rest, after),
        ([b'[', rest @ ..], [first, after @ ..]) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let (class, rest) = (&rest[..end], &rest[end + 1..]);
            let (inverted, class) = match class {
                [b'^', class @ ..] => (true, class),
                class => (false, class),
            };
            class.contains(first) != inverted && matches(rest, after)
        }
        ([literal, rest @ ..], [first, after @ ..]) => literal == first && matches(rest, after),
        _ => false,
    }
}
