//! Sorted sets and their commands.

use std::cmp::Ordering;

use super::command::option;
use super::string::text_or_nil;
use super::{Outcome, Refused, Reply, Server, bulk, count, float, format_float, integer, slice, syntax};

/// Members with scores, ordered by score and then by member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSet(Vec<(f64, Vec<u8>)>);

impl SortedSet {
    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        self.0.iter().find(|(_, other)| other == member).map(|(score, _)| *score)
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let at = self.0.iter().position(|(_, other)| other == member);
        at.map(|at| self.0.remove(at)).is_some()
    }

    fn insert(&mut self, score: f64, member: &[u8]) {
        self.remove(member);
        let order =
            |other: &(f64, Vec<u8>)| other.0.total_cmp(&score).then_with(|| other.1.as_slice().cmp(member));
        let at = self.0.partition_point(|other| order(other) == Ordering::Less);
        self.0.insert(at, (score, member.to_vec()));
    }
}

fn members<'a>(found: impl Iterator<Item = &'a (f64, Vec<u8>)>, scores: bool) -> Reply {
    let mut items = Vec::new();
    for (score, member) in found {
        items.push(bulk(member));
        if scores {
            items.push(bulk(format_float(*score).as_bytes()));
        }
    }
    Reply::Array(Some(items))
}

fn not_a_float() -> Refused {
    Refused("ERR value is not a valid float".to_owned())
}

pub(super) fn zadd(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (mut only_new, mut only_old, mut less, mut greater, mut changed) =
        (false, false, false, false, false);
    let mut at = 2;
    while let Some(word) = args.get(at) {
        match word.to_ascii_uppercase().as_slice() {
            b"NX" => only_new = true,
            b"XX" => only_old = true,
            b"LT" => less = true,
            b"GT" => greater = true,
            b"CH" => changed = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = &args[at..];
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(syntax());
    }
    if (only_new && (only_old || less || greater)) || (less && greater) {
        return Err(Refused("ERR GT, LT, and/or NX options at the same time are not compatible".to_owned()));
    }
    let scores: Option<Vec<f64>> = pairs.chunks(2).map(|pair| float(&pair[0])).collect();
    let scores = scores.ok_or_else(not_a_float)?;
    let now = server.now_ms();
    let set = server.data.sorted_set_mut(&args[1], now)?;
    let (mut added, mut updated) = (0, 0);
    for (score, pair) in scores.into_iter().zip(pairs.chunks(2)) {
        match set.score(&pair[1]) {
            None if only_old => {}
            None => {
                set.insert(score, &pair[1]);
                added += 1;
            }
            Some(before) => {
                let skip = only_new || (less && score >= before) || (greater && score <= before);
                if !skip && score != before {
                    set.insert(score, &pair[1]);
                    updated += 1;
                }
            }
        }
    }
    server.data.drop_if_empty(&args[1]);
    Ok(count(if changed { added + updated } else { added }))
}

pub(super) fn zrem(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    if server.data.sorted_set(&args[1], now)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let set = server.data.sorted_set_mut(&args[1], now)?;
    let removed = args[2..].iter().filter(|member| set.remove(member)).count();
    server.data.drop_if_empty(&args[1]);
    Ok(count(removed))
}

pub(super) fn zcard(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    Ok(count(server.data.sorted_set(&args[1], now)?.map_or(0, |set| set.0.len())))
}

pub(super) fn zscore(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let now = server.now_ms();
    let score = server.data.sorted_set(&args[1], now)?.and_then(|set| set.score(&args[2]));
    Ok(text_or_nil(score.map(format_float).as_deref().map(str::as_bytes)))
}

pub(super) fn zrange(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (now, first, last) = (server.now_ms(), integer(&args[2])?, integer(&args[3])?);
    let scores = match args.get(4).map(|word| word.to_ascii_uppercase()).as_deref() {
        None => false,
        Some(b"WITHSCORES") => true,
        Some(_) => return Err(syntax()),
    };
    let Some(set) = server.data.sorted_set(&args[1], now)? else { return Ok(Reply::Array(Some(Vec::new()))) };
    Ok(members(set.0[slice(set.0.len(), first, last)].iter(), scores))
}

/// One end of a range of scores, and whether it is outside of the range.
fn score_bound(text: &[u8]) -> Result<(f64, bool), Refused> {
    let (number, open) = match text {
        [b'(', rest @ ..] => (rest, true),
        all => (all, false),
    };
    let number = float(number).ok_or_else(|| Refused("ERR min or max is not a float".to_owned()))?;
    Ok((number, open))
}

fn in_scores(score: f64, from: (f64, bool), to: (f64, bool)) -> bool {
    (if from.1 { score > from.0 } else { score >= from.0 })
        && (if to.1 { score < to.0 } else { score <= to.0 })
}

/// What `LIMIT offset count` and `WITHSCORES` say.
fn page(args: &[Vec<u8>]) -> Result<(usize, usize, bool), Refused> {
    let (mut offset, mut limit, mut scores, mut at) = (0, usize::MAX, false, 4);
    while at < args.len() {
        match args[at].to_ascii_uppercase().as_slice() {
            b"LIMIT" => {
                // A negative offset is beyond every element.
                offset = usize::try_from(integer(option(args, &mut at)?)?).unwrap_or(usize::MAX);
                limit = usize::try_from(integer(option(args, &mut at)?)?).unwrap_or(usize::MAX);
            }
            b"WITHSCORES" => scores = true,
            _ => return Err(syntax()),
        }
        at += 1;
    }
    Ok((offset, limit, scores))
}

pub(super) fn zrangebyscore(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (from, to) = (score_bound(&args[2])?, score_bound(&args[3])?);
    let ((offset, limit, scores), now) = (page(args)?, server.now_ms());
    let Some(set) = server.data.sorted_set(&args[1], now)? else { return Ok(Reply::Array(Some(Vec::new()))) };
    let found = set.0.iter().filter(|(score, _)| in_scores(*score, from, to));
    Ok(members(found.skip(offset).take(limit), scores))
}

/// Whether a member is beyond one end of a range of members: `-`, `+`, `[name` or `(name`.
fn lex_order(member: &[u8], bound: &[u8]) -> Result<(Ordering, bool), Refused> {
    match bound {
        [b'-'] => Ok((Ordering::Greater, false)),
        [b'+'] => Ok((Ordering::Less, false)),
        [b'[', name @ ..] => Ok((member.cmp(name), true)),
        [b'(', name @ ..] => Ok((member.cmp(name), false)),
        _ => Err(Refused("ERR min or max not valid string range item".to_owned())),
    }
}

pub(super) fn zrangebylex(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (from, to) = (&args[2], &args[3]);
    lex_order(b"", from)?;
    lex_order(b"", to)?;
    let ((offset, limit, _), now) = (page(args)?, server.now_ms());
    let Some(set) = server.data.sorted_set(&args[1], now)? else { return Ok(Reply::Array(Some(Vec::new()))) };
    let inside = |bound: &[u8], member: &[u8], side: Ordering| {
        lex_order(member, bound)
            .is_ok_and(|(order, closed)| order == side || (closed && order == Ordering::Equal))
    };
    let found = set
        .0
        .iter()
        .filter(|(_, member)| inside(from, member, Ordering::Greater) && inside(to, member, Ordering::Less));
    Ok(members(found.skip(offset).take(limit), false))
}

pub(super) fn zremrangebyscore(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (from, to, now) = (score_bound(&args[2])?, score_bound(&args[3])?, server.now_ms());
    if server.data.sorted_set(&args[1], now)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let set = server.data.sorted_set_mut(&args[1], now)?;
    let before = set.0.len();
    set.0.retain(|(score, _)| !in_scores(*score, from, to));
    let removed = before - set.0.len();
    server.data.drop_if_empty(&args[1]);
    Ok(count(removed))
}

pub(super) fn zremrangebyrank(server: &mut Server, args: &[Vec<u8>]) -> Outcome {
    let (now, first, last) = (server.now_ms(), integer(&args[2])?, integer(&args[3])?);
    if server.data.sorted_set(&args[1], now)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let set = server.data.sorted_set_mut(&args[1], now)?;
    let removed = set.0.drain(slice(set.0.len(), first, last)).count();
    server.data.drop_if_empty(&args[1]);
    Ok(count(removed))
}
