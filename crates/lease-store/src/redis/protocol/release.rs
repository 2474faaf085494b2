//! Releases.

use redis::Value;
use tenure_lease::{Digest, Generation, Holder, Key, Release, Released, Result};

use super::reply;
use super::script::RELEASE;
use super::{Instance, ScriptCall, ServerIdentity, WaiterId};
use crate::redis::fault::unexpected_reply;

/// A release as a script takes it.
#[derive(Clone, Debug)]
pub struct ReleaseRequest {
    /// What is released.
    pub key: Key,
    /// Proves the reign.
    pub token: Digest,
    /// The reign, or whichever the token has.
    pub generation: Option<Generation>,
    /// The holder that gets the key next.
    pub successor: Option<Holder>,
    /// What it releases.
    pub scope: ReleaseScope,
    /// The waiting claim that leaves the queue.
    pub waiter: Option<WaiterId>,
}

/// What a release gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReleaseScope {
    /// The lease, and the place in the queue if there is one.
    Lease,
    /// Only the place in the queue.
    QueueOnly,
}

/// The reply to a release.
#[derive(Debug)]
pub struct ReleaseReply {
    /// What happened.
    pub released: Released,
    /// The claim that was granted the key and that this reply tells, if it waits in the process that released.
    pub granted: Option<(WaiterId, Generation)>,
}

impl From<Release> for ReleaseRequest {
    fn from(release: Release) -> Self {
        let Release { key, token, generation, to } = release;
        Self {
            key,
            token: *token.digest(),
            generation,
            successor: to,
            scope: ReleaseScope::Lease,
            waiter: None,
        }
    }
}

/// Releases keys; no two releases may have the same key. `repeated`: an earlier attempt may have been applied.
pub fn encode<'a>(
    server: &ServerIdentity,
    instance: &Instance,
    releases: impl ExactSizeIterator<Item = &'a ReleaseRequest> + Clone,
    repeated: bool,
) -> ScriptCall {
    let mut call = server.call(&RELEASE, releases.clone().map(|release| release.key.as_str()));
    call.arg("instance", instance);
    for release in releases {
        let mode = match release.scope {
            ReleaseScope::QueueOnly => "leave",
            ReleaseScope::Lease if repeated => "repeat",
            ReleaseScope::Lease => "release",
        };
        call.arg("token", release.token.as_bytes())
            .optional("generation", release.generation.map(Generation::get))
            .arg("mode", mode)
            .arg("successor", release.successor.as_ref().map(Holder::as_str).unwrap_or_default())
            .arg("waiter", release.waiter.as_ref().map(WaiterId::as_slice).unwrap_or_default());
    }
    call.finish()
}

/// The reply to one release.
pub fn decode(value: &Value) -> Result<ReleaseReply> {
    let fields = RELEASE.read(value)?;
    if fields.tag() == "not_held" {
        return Ok(ReleaseReply { released: Released::NotHeld, granted: None });
    }
    let granted = match fields.bytes("waiter")? {
        [] => None,
        id => {
            let id = id.try_into().map_err(|_| unexpected_reply("not the id of a waiting claim"))?;
            Some((id, fields.generation("generation")?))
        }
    };
    Ok(ReleaseReply { released: Released::Released, granted })
}

/// Reads a message on a wake-up channel: the claim that was granted, and its generation.
pub fn decode_wake_up(payload: &[u8]) -> Option<(WaiterId, Generation)> {
    let (id, rest) = payload.split_first_chunk::<16>()?;
    let digits = std::str::from_utf8(rest.strip_prefix(b" ")?).ok()?;
    Some((*id, reply::generation(digits)?))
}
