//! Commands on lists.

use super::string::text_or_nil;
use super::{Outcome, Reply, Server, bulk, count, integer, ok, slice};

pub(super) fn lpush(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let elements = server.data.list_mut(&args[1], now)?;
    args[2..].iter().for_each(|element| elements.push_front(element.clone()));
    Ok(count(elements.len()))
}

pub(super) fn rpush(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let elements = server.data.list_mut(&args[1], now)?;
    args[2..].iter().for_each(|element| elements.push_back(element.clone()));
    Ok(count(elements.len()))
}

pub(super) fn lpop(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    if server.data.list(&args[1], now)?.is_none() {
        return Ok(Reply::Bulk(None));
    }
    let first = server.data.list_mut(&args[1], now)?.pop_front();
    server.data.drop_if_empty(&args[1]);
    Ok(text_or_nil(first.as_deref()))
}

pub(super) fn llen(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(count(server.data.list(&args[1], now)?.map_or(0, |elements| elements.len())))
}

pub(super) fn lindex(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (now, index) = (server.now_ms(), integer(&args[2])?);
    let Some(elements) = server.data.list(&args[1], now)? else { return Ok(Reply::Bulk(None)) };
    let at = if index < 0 { index + elements.len() as i64 } else { index };
    Ok(text_or_nil(usize::try_from(at).ok().and_then(|at| elements.get(at)).map(Vec::as_slice)))
}

pub(super) fn lrange(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (now, first, last) = (server.now_ms(), integer(&args[2])?, integer(&args[3])?);
    let Some(elements) = server.data.list(&args[1], now)? else { return Ok(Reply::Array(Some(Vec::new()))) };
    let part = slice(elements.len(), first, last);
    Ok(Reply::Array(Some(elements.range(part).map(|element| bulk(element)).collect())))
}

/// Removes equal elements, as many as `count` says and from the end where that is negative.
pub(super) fn lrem(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (now, limit) = (server.now_ms(), integer(&args[2])?);
    if server.data.list(&args[1], now)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let elements = server.data.list_mut(&args[1], now)?;
    let most = if limit == 0 { usize::MAX } else { limit.unsigned_abs() as usize };
    let mut removed = 0;
    while removed < most {
        let equal = |element: &Vec<u8>| *element == args[3];
        let found = match limit < 0 {
            true => elements.iter().rposition(equal),
            false => elements.iter().position(equal),
        };
        let Some(at) = found else { break };
        elements.remove(at);
        removed += 1;
    }
    server.data.drop_if_empty(&args[1]);
    Ok(count(removed))
}

pub(super) fn ltrim(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (now, first, last) = (server.now_ms(), integer(&args[2])?, integer(&args[3])?);
    if server.data.list(&args[1], now)?.is_some() {
        let elements = server.data.list_mut(&args[1], now)?;
        let part = slice(elements.len(), first, last);
        elements.truncate(part.end);
        elements.drain(..part.start.min(elements.len()));
        server.data.drop_if_empty(&args[1]);
    }
    Ok(ok())
}

pub(super) fn lpos(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let found = server.data.list(&args[1], now)?.and_then(|list| list.iter().position(|e| *e == args[2]));
    Ok(found.map_or(Reply::Bulk(None), count))
}
