//! Commands on hashes.

use super::string::text_or_nil;
use super::{Outcome, Refused, Reply, Server, bulk, count, integer};

fn field<'a>(fields: Option<&'a Vec<(Vec<u8>, Vec<u8>)>>, name: &[u8]) -> Option<&'a [u8]> {
    fields?.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_slice())
}

pub(super) fn hset(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    if args.len() % 2 == 1 {
        return Err(Refused("ERR wrong number of arguments for 'hset' command".to_owned()));
    }
    let now = server.now_ms();
    let fields = server.data.hash_mut(&args[1], now)?;
    let before = fields.len();
    for pair in args[2..].chunks(2) {
        match fields.iter_mut().find(|(field, _)| *field == pair[0]) {
            Some((_, value)) => value.clone_from(&pair[1]),
            None => fields.push((pair[0].clone(), pair[1].clone())),
        }
    }
    Ok(count(fields.len() - before))
}

pub(super) fn hget(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(text_or_nil(field(server.data.hash(&args[1], now)?, &args[2])))
}

pub(super) fn hmget(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let fields = server.data.hash(&args[1], now)?;
    Ok(Reply::Array(Some(args[2..].iter().map(|name| text_or_nil(field(fields, name))).collect())))
}

pub(super) fn hgetall(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let fields = server.data.hash(&args[1], now)?.map(Vec::as_slice).unwrap_or_default();
    Ok(Reply::Array(Some(fields.iter().flat_map(|(name, value)| [bulk(name), bulk(value)]).collect())))
}

pub(super) fn hdel(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    if server.data.hash(&args[1], now)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let fields = server.data.hash_mut(&args[1], now)?;
    let before = fields.len();
    fields.retain(|(name, _)| !args[2..].contains(name));
    let removed = before - fields.len();
    server.data.drop_if_empty(&args[1]);
    Ok(count(removed))
}

pub(super) fn hexists(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(Reply::Int(field(server.data.hash(&args[1], now)?, &args[2]).is_some().into()))
}

pub(super) fn hlen(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(count(server.data.hash(&args[1], now)?.map_or(0, Vec::len)))
}

pub(super) fn hincrby(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (now, by) = (server.now_ms(), integer(&args[3])?);
    let before = match field(server.data.hash(&args[1], now)?, &args[2]) {
        Some(value) => integer(value).map_err(|_| Refused("ERR hash value is not an integer".to_owned()))?,
        None => 0,
    };
    let Some(after) = before.checked_add(by) else {
        return Err(Refused("ERR increment or decrement would overflow".to_owned()));
    };
    let text = after.to_string().into_bytes();
    let fields = server.data.hash_mut(&args[1], now)?;
    match fields.iter_mut().find(|(name, _)| *name == args[2]) {
        Some((_, value)) => *value = text,
        None => fields.push((args[2].clone(), text)),
    }
    Ok(Reply::Int(after))
}
