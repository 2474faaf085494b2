//! Streams and their commands.

use std::collections::VecDeque;
use std::sync::Arc;

use super::command::option;
use super::{Outcome, Refused, Reply, Server, bulk, count, integer, syntax};

/// The id of an entry: two numbers, of which the first is a time or a revision.
type Id = (u64, u64);

/// An entry's id, and its fields and values in turn.
#[derive(Clone, Debug, PartialEq)]
struct StreamEntry {
    id: Id,
    fields: Vec<Vec<u8>>,
}

/// Entries in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    entries: VecDeque<Arc<StreamEntry>>,
    last: Id,
}

fn invalid_id() -> Refused {
    Refused("ERR Invalid stream ID specified as stream command argument".to_owned())
}

/// An id; `low` is its second number where there is none.
fn parse_id(text: &[u8], low: u64) -> Result<Id, Refused> {
    let text = std::str::from_utf8(text).map_err(|_| invalid_id())?;
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| invalid_id());
    match text.split_once('-') {
        Some((first, second)) => Ok((number(first)?, number(second)?)),
        None => Ok((number(text)?, low)),
    }
}

enum Trim {
    Nothing,
    OlderThan(Id),
    LongerThan(usize),
}

/// Reads `MINID`, `MAXLEN` and what belongs to them. An approximate limit is taken exactly.
fn parse_trim(args: &[Vec<u8>], at: &mut usize) -> Result<Trim, Refused> {
    let by_id = match args[*at].to_ascii_uppercase().as_slice() {
        b"MINID" => true,
        b"MAXLEN" => false,
        _ => return Ok(Trim::Nothing),
    };
    let mut limit = option(args, at)?;
    if matches!(limit, b"~" | b"=") {
        limit = option(args, at)?;
    }
    *at += 1;
    if by_id {
        return Ok(Trim::OlderThan(parse_id(limit, 0)?));
    }
    let most = usize::try_from(integer(limit)?);
    Ok(Trim::LongerThan(most.map_err(|_| Refused("ERR The MAXLEN argument must be >= 0.".to_owned()))?))
}

pub(super) fn xadd(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let mut at = 2;
    let trim = parse_trim(args, &mut at)?;
    let (Some(id), Some(fields)) = (args.get(at), args.get(at + 1..)) else { return Err(syntax()) };
    if fields.is_empty() || fields.len() % 2 == 1 {
        return Err(Refused("ERR wrong number of arguments for 'xadd' command".to_owned()));
    }
    let (id, now) = (parse_id(id, 0)?, server.now_ms());
    if id == (0, 0) {
        return Err(Refused("ERR The ID specified in XADD must be greater than 0-0".to_owned()));
    }
    if server.data.stream(&args[1], now)?.is_some_and(|stream| id <= stream.last) {
        let text = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
        return Err(Refused(text.to_owned()));
    }
    let stream = server.data.stream_mut(&args[1], now)?;
    stream.entries.push_back(Arc::new(StreamEntry { id, fields: fields.to_vec() }));
    stream.last = id;
    match trim {
        Trim::Nothing => {}
        Trim::OlderThan(least) => {
            let old = stream.entries.iter().take_while(|entry| entry.id < least).count();
            stream.entries.drain(..old);
        }
        Trim::LongerThan(most) => {
            let surplus = stream.entries.len().saturating_sub(most);
            stream.entries.drain(..surplus);
        }
    }
    Ok(format_id(id))
}

fn format_id(id: Id) -> Reply {
    bulk(format!("{}-{}", id.0, id.1).as_bytes())
}

fn format_entry(entry: &StreamEntry) -> Reply {
    let fields = entry.fields.iter().map(|field| bulk(field)).collect();
    Reply::Array(Some(vec![format_id(entry.id), Reply::Array(Some(fields))]))
}

pub(super) fn xlen(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(count(server.data.stream(&args[1], now)?.map_or(0, |stream| stream.entries.len())))
}

pub(super) fn xrange(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    range(server, args, false)
}

pub(super) fn xrevrange(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    range(server, args, true)
}

/// The first id of a range.
fn first_id(text: &[u8]) -> Result<Id, Refused> {
    match text {
        b"-" => Ok((0, 0)),
        b"+" => Ok((u64::MAX, u64::MAX)),
        [b'(', rest @ ..] => {
            let (ms, seq) = parse_id(rest, 0)?;
            Ok(if seq == u64::MAX { (ms + 1, 0) } else { (ms, seq + 1) })
        }
        all => parse_id(all, 0),
    }
}

/// The last id of a range.
fn last_id(text: &[u8]) -> Result<Id, Refused> {
    match text {
        b"-" => Ok((0, 0)),
        b"+" => Ok((u64::MAX, u64::MAX)),
        [b'(', rest @ ..] => {
            let (ms, seq) = parse_id(rest, u64::MAX)?;
            Ok(if seq == 0 { (ms.saturating_sub(1), u64::MAX) } else { (ms, seq - 1) })
        }
        all => parse_id(all, u64::MAX),
    }
}

fn range(server: &mut Server, args: &[Vec<u8>], reverse: bool) -> Outcome {
    let (low, high) = if reverse { (&args[3], &args[2]) } else { (&args[2], &args[3]) };
    let (from, to, now) = (first_id(low)?, last_id(high)?, server.now_ms());
    let limit = match args.get(4..) {
        Some([name, limit]) if name.eq_ignore_ascii_case(b"COUNT") => integer(limit)?.max(0) as usize,
        Some([]) => usize::MAX,
        _ => return Err(syntax()),
    };
    let Some(stream) = server.data.stream(&args[1], now)? else { return Ok(Reply::Array(Some(Vec::new()))) };
    if limit == 0 {
        return Ok(Reply::Array(None));
    }
    let found = stream.entries.iter().filter(|entry| from <= entry.id && entry.id <= to);
    let found: Vec<Reply> = match reverse {
        true => found.rev().take(limit).map(|entry| format_entry(entry)).collect(),
        false => found.take(limit).map(|entry| format_entry(entry)).collect(),
    };
    Ok(Reply::Array(Some(found)))
}

/// `XREAD [COUNT n] STREAMS key id` of one stream; it never blocks.
pub(super) fn xread(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (mut limit, mut at) = (usize::MAX, 1);
    while !args[at].eq_ignore_ascii_case(b"STREAMS") {
        match args[at].to_ascii_uppercase().as_slice() {
            b"COUNT" => limit = integer(option(args, &mut at)?)?.max(0) as usize,
            b"BLOCK" => drop(integer(option(args, &mut at)?)?),
            _ => return Err(syntax()),
        }
        at += 1;
        if at >= args.len() {
            return Err(syntax());
        }
    }
    let [key, after] = &args[at + 1..] else { return Err(syntax()) };
    let now = server.now_ms();
    let Some(stream) = server.data.stream(key, now)? else { return Ok(Reply::Array(None)) };
    let after = if after == b"$" { stream.last } else { parse_id(after, 0)? };
    let found: Vec<Reply> = stream
        .entries
        .iter()
        .filter(|entry| entry.id > after)
        .take(limit)
        .map(|entry| format_entry(entry))
        .collect();
    if found.is_empty() {
        return Ok(Reply::Array(None));
    }
    Ok(Reply::Array(Some(vec![Reply::Array(Some(vec![bulk(key), Reply::Array(Some(found))]))])))
}
