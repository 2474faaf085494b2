//! Requests of the lease verbs.

use std::time::Duration;

use tenure_lease::{
    Claim, Error, Generation, Holder, Key, Meta, Prefix, Proof, Release, Renewal, Result, Revoke,
    RevokeReason, Token, Transfer, Ttl, Wipe,
};

use crate::proto;
use crate::{from_micros, generation, holder, required, to_micros, ttl};

impl From<Claim> for proto::AcquireRequest {
    fn from(claim: Claim) -> Self {
        Self {
            key: claim.key.as_str().into(),
            holder: claim.holder.as_str().into(),
            token: claim.token.reveal().into(),
            ttl_ms: claim.ttl.as_millis() as u32,
            // Rounded up: a wait that is not over must not become a claim that does not wait.
            wait_ms: claim
                .wait
                .map_or(0, |wait| wait.as_micros().div_ceil(1_000).min(u32::MAX.into()) as u32),
            meta: claim.meta.as_str().into(),
            instead_of: claim.instead_of.map_or(0, Generation::get),
        }
    }
}

/// Claims that arrive over the network are remote.
impl TryFrom<proto::AcquireRequest> for Claim {
    type Error = Error;

    fn try_from(request: proto::AcquireRequest) -> Result<Self> {
        let mut claim = Self::new(
            Key::new(request.key)?,
            Holder::new(request.holder)?,
            Token::parse(&request.token)?,
            Ttl::from_millis(request.ttl_ms.into())?,
        )
        .meta(Meta::new(request.meta)?)
        .remote();
        claim.wait = (request.wait_ms != 0).then(|| Duration::from_millis(request.wait_ms.into()));
        claim.instead_of = generation(request.instead_of)?;
        Ok(claim)
    }
}

impl From<&Renewal> for proto::Renewal {
    fn from(item: &Renewal) -> Self {
        Self {
            key: item.key.as_str().into(),
            token: item.token.reveal().into(),
            generation: item.generation.get(),
            ttl_ms: item.ttl.map_or(0, |ttl| ttl.as_millis() as u32),
        }
    }
}

impl TryFrom<proto::Renewal> for Renewal {
    type Error = Error;

    fn try_from(item: proto::Renewal) -> Result<Self> {
        Ok(Self {
            key: Key::new(item.key)?,
            token: Token::parse(&item.token)?,
            generation: Generation::new(item.generation)?,
            ttl: ttl(item.ttl_ms)?,
        })
    }
}

impl From<Release> for proto::ReleaseRequest {
    fn from(release: Release) -> Self {
        Self {
            key: release.key.as_str().into(),
            token: release.token.reveal().into(),
            generation: release.generation.map_or(0, Generation::get),
            to: release.to.map_or_else(String::new, |to| to.as_str().into()),
        }
    }
}

impl TryFrom<proto::ReleaseRequest> for Release {
    type Error = Error;

    fn try_from(request: proto::ReleaseRequest) -> Result<Self> {
        Ok(Self {
            key: Key::new(request.key)?,
            token: Token::parse(&request.token)?,
            generation: generation(request.generation)?,
            to: holder(&request.to)?,
        })
    }
}

impl From<Transfer> for proto::TransferRequest {
    fn from(transfer: Transfer) -> Self {
        Self {
            key: transfer.key.as_str().into(),
            token: transfer.token.reveal().into(),
            generation: transfer.generation.get(),
            to: transfer.to.as_str().into(),
        }
    }
}

impl TryFrom<proto::TransferRequest> for Transfer {
    type Error = Error;

    fn try_from(request: proto::TransferRequest) -> Result<Self> {
        Ok(Self {
            key: Key::new(request.key)?,
            token: Token::parse(&request.token)?,
            generation: Generation::new(request.generation)?,
            to: Holder::new(request.to)?,
        })
    }
}

impl From<Revoke> for proto::RevokeRequest {
    fn from(revoke: Revoke) -> Self {
        Self {
            key: revoke.key.as_str().into(),
            generation: revoke.generation.get(),
            delay_us: revoke.delay.map(to_micros),
            reason: revoke.reason.as_str().into(),
        }
    }
}

impl TryFrom<proto::RevokeRequest> for Revoke {
    type Error = Error;

    fn try_from(request: proto::RevokeRequest) -> Result<Self> {
        Ok(Self {
            key: Key::new(request.key)?,
            generation: Generation::new(request.generation)?,
            delay: request.delay_us.map(from_micros),
            reason: RevokeReason::new(request.reason)?,
        })
    }
}

impl From<Wipe> for proto::WipeRequest {
    fn from(wipe: Wipe) -> Self {
        let gate = proto::Proof {
            key: wipe.gate.key.as_str().into(),
            token: wipe.gate.token.reveal().into(),
            generation: wipe.gate.generation.get(),
        };
        Self { prefix: wipe.prefix.as_str().into(), gate: Some(gate) }
    }
}

impl TryFrom<proto::WipeRequest> for Wipe {
    type Error = Error;

    fn try_from(request: proto::WipeRequest) -> Result<Self> {
        let gate = required(request.gate, "gate")?;
        let gate = Proof {
            key: Key::new(gate.key)?,
            token: Token::parse(&gate.token)?,
            generation: Generation::new(gate.generation)?,
        };
        Ok(Self { prefix: Prefix::new(request.prefix)?, gate })
    }
}
