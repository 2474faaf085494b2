//! What holders and operators do with a reign: renew, transfer, revoke, wipe, verify.

use std::time::Duration;

use futures_util::future::try_join_all;
use lease::{
    End, Key, Lease, Renewal, Renewed, Result, Revoke, Revoked, Token, Transfer, Transferred, Ttl, Verified,
    Wipe, Wiped, limits,
};
use redis::Value;

use super::fault::{strange, too_many};
use super::names::{Call, INDEX, digits, mark};
use super::reply;
use super::script::{RENEW, REVOKE, TRANSFER, VERIFY, WIPE};
use super::sweep::touch;
use super::wire::{Repeat, Wire};

/// Most renewals in one call: what the server reads at once, 16 KiB. A longer call is read in pieces, keeps everybody
/// else waiting, and no longer fits the caches.
const CALL: usize = 100;

/// Prolongs reigns, in calls that travel together.
pub(super) async fn renew(wire: &Wire, items: &[Renewal]) -> Result<Vec<Renewed>> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let parts = try_join_all(items.chunks(CALL).map(|part| renew_part(wire, part))).await?;
    Ok(parts.concat())
}

async fn renew_part(wire: &Wire, items: &[Renewal]) -> Result<Vec<Renewed>> {
    let answer = wire
        .call(&RENEW, Repeat::Freely, |_, _| {
            let mut call = Call::new(&RENEW, 1 + items.len());
            call.key(INDEX);
            items.iter().for_each(|item| call.key(item.key.as_str()));
            for item in items {
                let mark = mark(item.generation, item.token.digest());
                match item.ttl {
                    Some(ttl) => call.packed(&[&mark, &digits::<8>(ttl.as_millis())]),
                    None => call.text(mark),
                }
            }
            call.done()
        })
        .await?;
    let mut lost = Vec::new();
    let mut renewed = Vec::with_capacity(items.len());
    if let Value::Int(ms) = answer {
        let remaining = Duration::from_millis(u64::try_from(ms).map_err(|_| strange("not a ttl"))?);
        return Ok(vec![Renewed::Renewed { remaining }; items.len()]);
    }
    for (i, answer) in reply::exactly(answer, items.len())?.iter().enumerate() {
        renewed.push(match u64::try_from(reply::int(answer)?) {
            Ok(ms) => Renewed::Renewed { remaining: Duration::from_millis(ms) },
            Err(_) => {
                lost.push(i);
                Renewed::Lost(End::Gone)
            }
        });
    }
    if !lost.is_empty() {
        let keys: Vec<Key> = lost.iter().map(|i| items[*i].key.clone()).collect();
        let reigns: Vec<_> = lost.iter().map(|i| Some(items[*i].generation)).collect();
        for (i, letter) in lost.into_iter().zip(touch(wire, &keys, &reigns).await?) {
            // A reign that lives under another token was never this caller's.
            renewed[i] = Renewed::Lost(end(letter).unwrap_or(End::Gone));
        }
    }
    Ok(renewed)
}

/// Hands a key to a parked successor.
pub(super) async fn transfer(wire: &Wire, transfer: &Transfer) -> Result<Transferred> {
    let answer = wire
        .call(&TRANSFER, Repeat::Never, |link, _| {
            let mut call = Call::on(&TRANSFER, link, [&transfer.key].into_iter());
            call.proof(transfer.generation, transfer.token.digest());
            call.text(transfer.to.as_str());
            call.done()
        })
        .await?;
    match reply::text(&answer)? {
        "n" => Ok(Transferred::NotHeld),
        "s" => Ok(Transferred::NoSuccessor),
        words => {
            let (generation, ttl) = words
                .strip_prefix('t')
                .and_then(|words| words.split_once(' '))
                .ok_or_else(|| strange(words))?;
            Ok(Transferred::Transferred(Lease {
                key: transfer.key.clone(),
                holder: transfer.to.clone(),
                generation: reply::minted(generation)?,
                ttl: Ttl::from_millis(ttl.parse().map_err(|_| strange("not a ttl"))?)?,
            }))
        }
    }
}

/// Ends a reign by force.
pub(super) async fn revoke(wire: &Wire, revoke: &Revoke) -> Result<Revoked> {
    let delay = revoke.delay.map(|delay| (delay.as_millis() as u64).min(limits::DELAY_MS));
    let answer = wire
        .call(&REVOKE, Repeat::Never, |link, _| {
            let mut call = Call::on(&REVOKE, link, [&revoke.key].into_iter());
            call.generation(Some(revoke.generation));
            call.maybe(delay);
            call.done()
        })
        .await?;
    let words = reply::text(&answer)?;
    match (words.strip_prefix('v'), words.strip_prefix('s')) {
        (Some(ms), _) => {
            let delay = Duration::from_millis(ms.parse().map_err(|_| strange("not a delay"))?);
            Ok(Revoked::Revoked { delay })
        }
        (_, Some(current)) => Ok(Revoked::Stale { current: reply::generation(current) }),
        _ => Err(strange(words)),
    }
}

/// Says whether a token holds a key.
pub(super) async fn verify(wire: &Wire, key: &Key, token: &Token) -> Result<Verified> {
    let answer = wire
        .call(&VERIFY, Repeat::Freely, |link, _| {
            let mut call = Call::on(&VERIFY, link, [key].into_iter());
            call.text(token.digest().as_bytes());
            call.done()
        })
        .await?;
    match reply::text(&answer)? {
        "e" => Ok(Verified::Ended),
        "w" => Ok(Verified::Wrong),
        words => {
            let (generation, left) = words
                .strip_prefix('l')
                .and_then(|words| words.split_once(' '))
                .ok_or_else(|| strange(words))?;
            let remaining = Duration::from_millis(left.parse().unwrap_or(0));
            Ok(Verified::Live { generation: reply::minted(generation)?, remaining })
        }
    }
}

/// Ends every reign under a prefix.
pub(super) async fn wipe(wire: &Wire, wipe: &Wipe) -> Result<Wiped> {
    let (first, last) = super::look::range(&wipe.prefix, None);
    let answer = wire
        .call(&WIPE, Repeat::Never, |link, _| {
            let mut call = Call::on(&WIPE, link, [&wipe.gate.key].into_iter());
            call.proof(wipe.gate.generation, wipe.gate.token.digest());
            call.text(&first);
            call.text(&last);
            call.number(limits::WIPE as u64);
            call.done()
        })
        .await?;
    match reply::int(&answer)? {
        -1 => Ok(Wiped::Unproven),
        -2 => Err(too_many("leases in one wipe", limits::WIPE)),
        count => Ok(Wiped::Wiped { count: usize::try_from(count).map_err(|_| strange("not a count"))? }),
    }
}

/// The end with this letter.
pub(super) fn end(letter: u8) -> Option<End> {
    match letter {
        b'r' => Some(End::Released),
        b't' => Some(End::Transferred),
        b'e' => Some(End::Expired),
        b'v' => Some(End::Revoked),
        b's' => Some(End::Superseded),
        b'w' => Some(End::Wiped),
        b'g' => Some(End::Gone),
        _ => None,
    }
}
