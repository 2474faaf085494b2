//! Claims.

use redis::Value;
use tenure_lease::{
    Busy, BusyReason, Claim, Digest, Error, Generation, Holder, Key, Meta, Refusal, Result, Ttl, limits,
};

use super::reply::{self, Fields};
use super::script::ACQUIRE;
use super::{Instance, ScriptCall, ServerIdentity, WaiterId};
use crate::redis::fault::{ENGINE, too_many, unexpected_reply};

/// A claim as a script takes it.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// What is claimed.
    pub key: Key,
    /// The name under which it is held.
    pub holder: Holder,
    /// Proves the reign.
    pub token: Digest,
    /// How long it lasts without renewal.
    pub ttl: Ttl,
    /// What the holder adds.
    pub meta: Meta,
    /// The generation to replace.
    pub instead_of: Option<Generation>,
    /// What the claim does about the queue.
    pub queue: Queue,
}

/// What a claim does about the queue of its key.
#[derive(Clone, Debug)]
pub enum Queue {
    /// Nothing: it is answered at once.
    Skip,
    /// It waits, or keeps waiting.
    Join {
        /// The waiting claim.
        waiter: WaiterId,
        /// The process that is woken.
        instance: Instance,
        /// How long it waits.
        wait_ms: u64,
    },
    /// It stops waiting and is answered at once.
    Leave {
        /// The waiting claim.
        waiter: WaiterId,
    },
}

/// The reply to a claim.
#[derive(Debug)]
pub enum ClaimReply {
    /// A new reign.
    Granted(Generation),
    /// The reign that this token has already.
    Kept(Generation, Ttl, Holder),
    /// The key cannot be granted now.
    Busy(Busy),
}

impl ClaimRequest {
    /// The claim without a place in the queue.
    pub fn new(claim: &Claim) -> Self {
        Self {
            key: claim.key.clone(),
            holder: claim.holder.clone(),
            token: *claim.token.digest(),
            ttl: claim.ttl,
            meta: claim.meta.clone(),
            instead_of: claim.instead_of,
            queue: Queue::Skip,
        }
    }
}

/// Claims keys; no two claims may have the same key.
pub fn encode<'a>(
    server: &ServerIdentity,
    claims: impl ExactSizeIterator<Item = &'a ClaimRequest> + Clone,
) -> ScriptCall {
    let mut call = server.call(&ACQUIRE, claims.clone().map(|claim| claim.key.as_str()));
    for claim in claims {
        let (mode, waiter, instance, wait): (_, &[u8], &[u8], _) = match &claim.queue {
            Queue::Skip => ("", &[], &[], None),
            Queue::Join { waiter, instance, wait_ms } => ("join", waiter, instance, Some(*wait_ms)),
            Queue::Leave { waiter } => ("leave", waiter, &[], None),
        };
        call.arg("token", claim.token.as_bytes())
            .arg("holder", claim.holder.as_str())
            .number("ttl", claim.ttl.as_millis())
            .arg("meta", claim.meta.as_str())
            .optional("instead_of", claim.instead_of.map(Generation::get))
            .arg("queue", mode)
            .arg("waiter", waiter)
            .arg("instance", instance)
            .optional("wait", wait);
    }
    call.finish()
}

/// The reply to one claim.
pub fn decode(value: &Value) -> Result<ClaimReply> {
    let fields = ACQUIRE.read(value)?;
    match fields.tag() {
        "granted" => Ok(ClaimReply::Granted(fields.generation("generation")?)),
        "kept" => Ok(ClaimReply::Kept(
            fields.generation("generation")?,
            fields.ttl("ttl")?,
            reply::holder(fields.bytes("holder")?)?,
        )),
        "busy" => Ok(ClaimReply::Busy(busy(&fields)?)),
        _ => Err(match fields.text("why")? {
            "spent" => Refusal::TokenSpent.into(),
            "waiters" => too_many("claims parked on one key", limits::WAITERS),
            _ => Error::unavailable(ENGINE, "all 2^53 generations of this key are used"),
        }),
    }
}

fn busy(fields: &Fields<'_>) -> Result<Busy> {
    let reason =
        BusyReason::parse(fields.text("reason")?).ok_or_else(|| unexpected_reply("unknown reason"))?;
    let holder = match (reason, fields.bytes("holder")?) {
        (BusyReason::Delayed | BusyReason::Quarantine, _) => None,
        (BusyReason::Foreign, name) => reply::any_holder(name),
        (_, []) => None,
        (_, name) => reply::any_holder(name),
    };
    Ok(Busy {
        holder,
        generation: reply::generation(fields.text("generation")?),
        remaining: reply::remaining(fields.int("remaining")?),
        position: fields.count("position")? as u32,
        reason,
    })
}
