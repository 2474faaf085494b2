//! Commands on strings.

use super::command::option;
use super::dataset::Value;
use super::{Outcome, Refused, Reply, Server, bulk, count, integer, ok, syntax};

pub(super) fn get(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(Reply::Bulk(server.data.string(&args[1], now)?.map(<[u8]>::to_vec)))
}

pub(super) fn mget(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    // A key of another type counts as absent.
    let read = |key: &Vec<u8>| Reply::Bulk(server.data.string(key, now).ok().flatten().map(<[u8]>::to_vec));
    Ok(Reply::Array(Some(args[1..].iter().map(read).collect())))
}

pub(super) fn mset(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Refused("ERR wrong number of arguments for 'mset' command".to_owned()));
    }
    for pair in args[1..].chunks(2) {
        server.data.insert(&pair[0], Value::String(pair[1].clone()), None);
    }
    Ok(ok())
}

pub(super) fn strlen(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(count(server.data.string(&args[1], now)?.map_or(0, <[u8]>::len)))
}

pub(super) fn incr(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    add(server, &args[1], 1)
}

pub(super) fn incrby(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    add(server, &args[1], integer(&args[2])?)
}

fn add(server: &mut Server, key: &[u8], by: i64) -> Outcome {
    let now = server.now_ms();
    let before = server.data.string(key, now)?.map_or(Ok(0), integer)?;
    let Some(after) = before.checked_add(by) else {
        return Err(Refused("ERR increment or decrement would overflow".to_owned()));
    };
    let expires = server.data.expiry(key, now).flatten();
    server.data.insert(key, Value::String(after.to_string().into_bytes()), expires);
    Ok(Reply::Int(after))
}

#[derive(Default)]
struct SetOptions {
    expires_ms: Option<u64>,
    keep_ttl: bool,
    only_absent: bool,
    only_present: bool,
    get: bool,
}

fn options(args: &[Vec<u8>], now_ms: u64) -> Result<SetOptions, Refused> {
    let mut options = SetOptions::default();
    let mut at = 3;
    while at < args.len() {
        let name = args[at].to_ascii_uppercase();
        match name.as_slice() {
            b"NX" => options.only_absent = true,
            b"XX" => options.only_present = true,
            b"GET" => options.get = true,
            b"KEEPTTL" => options.keep_ttl = true,
            b"EX" | b"PX" | b"EXAT" | b"PXAT" if options.expires_ms.is_none() => {
                let number = integer(option(args, &mut at)?)?;
                if number <= 0 {
                    return Err(Refused("ERR invalid expire time in 'set' command".to_owned()));
                }
                let unit = if name.starts_with(b"E") { 1_000 } else { 1 };
                let base = if name.ends_with(b"AT") { 0 } else { now_ms };
                options.expires_ms = Some(number as u64 * unit + base);
            }
            _ => return Err(syntax()),
        }
        at += 1;
    }
    let both =
        options.only_absent && options.only_present || options.keep_ttl && options.expires_ms.is_some();
    if both { Err(syntax()) } else { Ok(options) }
}

pub(super) fn set(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let options = options(args, now)?;
    let key = &args[1];
    let before = match options.get {
        true => Some(Reply::Bulk(server.data.string(key, now)?.map(<[u8]>::to_vec))),
        false => None,
    };
    let exists = server.data.exists(key, now);
    if (options.only_absent && exists) || (options.only_present && !exists) {
        return Ok(before.unwrap_or(Reply::Bulk(None)));
    }
    let expires = match options.keep_ttl {
        true => server.data.expiry(key, now).flatten(),
        false => options.expires_ms,
    };
    server.data.insert(key, Value::String(args[2].clone()), expires);
    // An expiry in the past removes the key at once.
    server.data.get(key, now);
    Ok(before.unwrap_or_else(ok))
}

/// The bytes of a reply that is a string.
pub(super) fn text_or_nil(bytes: Option<&[u8]>) -> Reply {
    bytes.map_or(Reply::Bulk(None), bulk)
}
