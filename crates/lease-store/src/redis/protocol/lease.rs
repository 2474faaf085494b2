//! What holders and operators do with a reign: renew, transfer, revoke, wipe, verify.

use std::time::Duration;

use redis::Value;
use tenure_lease::{
    Digest, End, Error, Generation, Key, Lease, Prefix, Proof, Renewal, Result, Revoked, Transfer,
    Transferred, Ttl, Verified, Wiped, limits,
};

use super::call::CallBuilder;
use super::script::{RENEW, REVOKE, SETTLE, TRANSFER, VERIFY, WIPE};
use super::{ScriptCall, ServerIdentity, reply};
use crate::redis::fault::{ENGINE, too_many, unexpected_reply};

/// Renews leases.
pub fn encode_renew(server: &ServerIdentity, items: &[Renewal]) -> ScriptCall {
    let mut call = server.call(&RENEW, items.iter().map(|item| item.key.as_str()));
    for item in items {
        call.arg("token", item.token.digest().as_bytes())
            .number("generation", item.generation.get())
            .optional("ttl", item.ttl.map(Ttl::as_millis));
    }
    call.finish()
}

/// For each of `count` leases its TTL from now on, or nothing if it is not live.
pub fn decode_renew(value: &Value, count: usize) -> Result<Vec<Option<Duration>>> {
    let ttls = RENEW.read(value)?.list();
    if ttls.len() != count {
        return Err(unexpected_reply(&format!("{} replies to {count} renewals", ttls.len())));
    }
    ttls.iter().map(|ttl| Ok(reply::remaining(reply::int(ttl)?))).collect()
}

/// Brings keys up to date and reads how reigns ended.
pub fn encode_settle<'a>(
    server: &ServerIdentity,
    reigns: impl ExactSizeIterator<Item = (&'a Key, Generation)> + Clone,
) -> ScriptCall {
    let mut call = server.call(&SETTLE, reigns.clone().map(|(key, _)| key.as_str()));
    for (_, generation) in reigns {
        call.number("generation", generation.get());
    }
    call.finish()
}

/// How each of `count` reigns ended; nothing for a live or forgotten one.
pub fn decode_settle(value: &Value, count: usize) -> Result<Vec<Option<End>>> {
    let read = |value| {
        let fields = SETTLE.read(value)?;
        Ok(if fields.tag() == "ended" { End::parse(fields.text("how")?) } else { None })
    };
    reply::exactly(value, count)?.iter().map(read).collect()
}

/// Hands a key to a waiting successor.
pub fn encode_transfer(server: &ServerIdentity, transfer: &Transfer) -> ScriptCall {
    let mut call = server.call(&TRANSFER, std::iter::once(transfer.key.as_str()));
    call.arg("token", transfer.token.digest().as_bytes())
        .number("generation", transfer.generation.get())
        .arg("successor", transfer.to.as_str());
    call.finish()
}

/// What a transfer did.
pub fn decode_transfer(transfer: &Transfer, value: &Value) -> Result<Transferred> {
    let fields = TRANSFER.read(value)?;
    match fields.tag() {
        "not_held" => Ok(Transferred::NotHeld),
        "no_successor" => Ok(Transferred::NoSuccessor),
        "quarantine" => {
            let why = format!(
                "the server was restarted or replaced: renew the lease, or transfer it in {} ms",
                fields.count("remaining")?
            );
            Err(Error::unavailable(ENGINE, why))
        }
        _ => Ok(Transferred::Transferred(Lease {
            key: transfer.key.clone(),
            holder: transfer.to.clone(),
            generation: fields.generation("generation")?,
            ttl: fields.ttl("ttl")?,
        })),
    }
}

/// Ends a reign by force. Without a delay nothing is granted for the rest of the reign.
pub fn encode_revoke(
    server: &ServerIdentity,
    key: &Key,
    generation: Generation,
    delay_ms: Option<u64>,
) -> ScriptCall {
    let mut call = server.call(&REVOKE, std::iter::once(key.as_str()));
    call.number("generation", generation.get()).optional("delay", delay_ms);
    call.finish()
}

/// What a revocation did.
pub fn decode_revoke(value: &Value) -> Result<Revoked> {
    let fields = REVOKE.read(value)?;
    match fields.tag() {
        "revoked" => Ok(Revoked::Revoked { delay: Duration::from_millis(fields.count("delay")? as u64) }),
        _ => Ok(Revoked::Stale { current: reply::generation(fields.text("generation")?) }),
    }
}

/// Reads what a token is to a key.
pub fn encode_verify(key: &Key, token: &Digest) -> ScriptCall {
    let mut call = CallBuilder::new(&VERIFY, std::iter::once(key.as_str()));
    call.arg("token", token.as_bytes());
    call.finish()
}

/// What a token is to a key.
pub fn decode_verify(value: &Value) -> Result<Verified> {
    let fields = VERIFY.read(value)?;
    match fields.tag() {
        "ended" => Ok(Verified::Ended),
        "wrong" => Ok(Verified::Wrong),
        _ => Ok(Verified::Live {
            generation: fields.generation("generation")?,
            remaining: reply::remaining(fields.int("remaining")?).unwrap_or_default(),
        }),
    }
}

/// Ends every reign under a prefix, if the gate is held as the proof says.
pub fn encode_wipe(server: &ServerIdentity, gate: &Proof, prefix: &Prefix) -> ScriptCall {
    let (first, last) = key_range(prefix, None);
    let mut call = server.call(&WIPE, std::iter::once(gate.key.as_str()));
    call.arg("token", gate.token.digest().as_bytes())
        .number("generation", gate.generation.get())
        .arg("first", first)
        .arg("last", last)
        .number("limit", limits::WIPE as u64);
    call.finish()
}

/// How many reigns a wipe ended.
pub fn decode_wipe(value: &Value) -> Result<Wiped> {
    let fields = WIPE.read(value)?;
    match fields.tag() {
        "unproven" => Ok(Wiped::Unproven),
        "too_many" => Err(too_many("leases in one wipe", limits::WIPE)),
        _ => Ok(Wiped::Wiped { count: fields.count("count")? }),
    }
}

/// The bounds of the keys under a prefix, after `after`, as `ZRANGEBYLEX` takes them. Keys are printable ASCII, so no
/// key under the prefix sorts after the prefix and the highest byte.
pub fn key_range(prefix: &Prefix, after: Option<&Key>) -> (Vec<u8>, Vec<u8>) {
    let start = prefix.as_str().as_bytes();
    let first = match after {
        Some(after) if after.as_str().as_bytes() >= start => [b"(", after.as_str().as_bytes()].concat(),
        _ => [b"[", start].concat(),
    };
    (first, [b"[", start, &[0xff]].concat())
}
