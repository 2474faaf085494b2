//! Looking without changing: inspect, list, history.

use lease::{Key, Meta, Page, Phase, Prefix, Query, Reign, Result, Status, Wall};
use redis::Value;

use super::fault::strange;
use super::hold::end;
use super::link::Link;
use super::names::{Call, KEYS};
use super::reply;
use super::script::{HISTORY, INSPECT, TIP};
use super::wire::{Repeat, Wire};

/// Most keys in one call.
const CALL: usize = 250;

/// Says what keys are doing, in their order.
pub(super) async fn inspect(wire: &Wire, keys: &[Key]) -> Result<Vec<Status>> {
    let answer =
        wire.call(&INSPECT, Repeat::Freely, |link, _| Call::on(&INSPECT, link, keys.iter()).done()).await?;
    reply::exactly(answer, keys.len())?.into_iter().zip(keys).map(|(value, key)| status(key, value)).collect()
}

/// `{state, holder, last generation, remaining, since, waiters, meta}`
pub(super) fn status(key: &Key, value: Value) -> Result<Status> {
    let parts = reply::exactly(value, 7)?;
    let (phase, holder) = match (reply::text(&parts[0])?, reply::bytes(&parts[1])?) {
        ("f", _) => (Phase::Free, None),
        ("d", _) => (Phase::Delayed, None),
        ("r", name) => (Phase::Reserved, reply::stranger(name)),
        ("h" | "x", name) => (Phase::Held, reply::stranger(name)),
        (other, _) => return Err(strange(other)),
    };
    Ok(Status {
        key: key.clone(),
        phase,
        holder,
        generation: reply::generation(reply::text(&parts[2])?),
        remaining: reply::left(reply::int(&parts[3])?),
        meta: Meta::new(String::from_utf8_lossy(reply::bytes(&parts[6])?))?,
        since: reply::text(&parts[4])?.parse().ok().map(Wall::from_micros),
        waiters: reply::int(&parts[5])? as u32,
    })
}

/// Lists the keys that are not free. The page is read in pieces: each status is of its own moment, and none is
/// older than the page's revision.
pub(super) async fn list(wire: &Wire, query: &Query) -> Result<Page<Status>> {
    query.check()?;
    let revision = reply::revision(&tip(wire).await?)?;
    let mut items: Vec<Status> = Vec::new();
    let mut after = query.after.clone();
    loop {
        // One more than asked for tells whether there is a next page.
        let want = (query.limit + 1 - items.len()).min(CALL);
        let (first, last) = range(&query.prefix, after.as_ref());
        let keys = lex(wire, KEYS, &first, &last, want).await?;
        let Some(end) = keys.last() else { break };
        after = Some(end.clone());
        let more = keys.len() == want;
        items.extend(inspect(wire, &keys).await?.into_iter().filter(|s| s.phase != Phase::Free));
        if !more || items.len() > query.limit {
            break;
        }
    }
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    let next = items.last().filter(|_| more).map(|status| status.key.clone());
    Ok(Page { items, next, revision })
}

/// The last reigns of a key, oldest first, and the running one.
pub(super) async fn history(wire: &Wire, key: &Key) -> Result<Vec<Reign>> {
    let answer = wire
        .call(&HISTORY, Repeat::Freely, |link, _| Call::on(&HISTORY, link, [key].into_iter()).done())
        .await?;
    let parts = reply::array(answer)?;
    let (running, closed) = parts.split_first().ok_or_else(|| strange("nothing"))?;
    let mut reigns = closed.iter().map(|raw| closed_reign(reply::bytes(raw)?)).collect::<Result<Vec<_>>>()?;
    let running = reply::bytes(running)?;
    if !running.is_empty() {
        reigns.push(Reign {
            holder: reply::holder(running.get(73..running.len().saturating_sub(110)).unwrap_or_default())?,
            generation: reply::minted(digits(running, 33..49)?)?,
            from: Wall::from_micros(number(running, 49..65)?),
            until: None,
            end: None,
        });
    }
    let surplus = reigns.len().saturating_sub(lease::limits::REIGNS);
    reigns.drain(..surplus);
    Ok(reigns)
}

/// `why until(16) digest(8) generation(16) since(16) ttl(8) holder`
pub(super) fn closed_reign(raw: &[u8]) -> Result<Reign> {
    Ok(Reign {
        holder: reply::holder(raw.get(65..).unwrap_or_default())?,
        generation: reply::minted(digits(raw, 25..41)?)?,
        from: Wall::from_micros(number(raw, 41..57)?),
        until: Some(Wall::from_micros(number(raw, 1..17)?)),
        end: raw.first().and_then(|letter| end(*letter)),
    })
}

fn digits(raw: &[u8], at: std::ops::Range<usize>) -> Result<&str> {
    raw.get(at).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(|| strange("a short reign"))
}

fn number(raw: &[u8], at: std::ops::Range<usize>) -> Result<u64> {
    digits(raw, at)?.parse().map_err(|_| strange("not a number"))
}

/// The last revision.
pub(super) async fn tip(wire: &Wire) -> Result<String> {
    tip_as(wire, "0").await
}

/// Says that an engine is opened: from here on generations are greater than any that was minted elsewhere before.
pub(super) async fn arrive(wire: &Wire) -> Result<()> {
    tip_as(wire, "1").await.map(drop)
}

async fn tip_as(wire: &Wire, arriving: &str) -> Result<String> {
    let build = |link: &Link, _| {
        let mut call = Call::on(&TIP, link, [].into_iter());
        call.text(arriving);
        call.done()
    };
    let answer = wire.call(&TIP, Repeat::Freely, build).await?;
    Ok(reply::text(&answer)?.to_owned())
}

/// A page of an ordered set.
pub(super) async fn lex(wire: &Wire, set: &str, first: &[u8], last: &[u8], limit: usize) -> Result<Vec<Key>> {
    let answer = wire
        .plain(|| {
            let mut cmd = redis::cmd("ZRANGEBYLEX");
            cmd.arg(set).arg(first).arg(last).arg("LIMIT").arg(0).arg(limit);
            cmd
        })
        .await?;
    reply::array(answer)?.iter().map(|key| Key::new(reply::text(key)?)).collect()
}

/// The first and the last of the keys under a prefix, as Redis takes them. Keys are printable ASCII, so nothing
/// that begins with the prefix sorts after it and the highest byte.
pub(super) fn range(prefix: &Prefix, after: Option<&Key>) -> (Vec<u8>, Vec<u8>) {
    let start = prefix.as_str().as_bytes();
    let first = match after {
        Some(after) if after.as_str().as_bytes() >= start => [b"(", after.as_str().as_bytes()].concat(),
        _ => [b"[", start].concat(),
    };
    (first, [b"[", start, &[0xff]].concat())
}
