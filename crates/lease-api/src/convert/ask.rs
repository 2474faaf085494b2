//! What callers ask.

use std::time::Duration;

use lease::{
    Claim, Error, Generation, Holder, Key, Meta, Motive, Prefix, Proof, Release, Renewal, Result, Revoke,
    Token, Transfer, Ttl, Wipe,
};

use super::{generation, holder, micros, needed, span, ttl};
use crate::wire;

impl From<Claim> for wire::AcquireRequest {
    fn from(claim: Claim) -> Self {
        Self {
            key: claim.key.as_str().into(),
            holder: claim.holder.as_str().into(),
            token: claim.token.reveal().into(),
            ttl_ms: claim.ttl.as_millis() as u32,
            // Rounded up: a wait that is not over must not become a question that does not wait.
            wait_ms: claim
                .wait
                .map_or(0, |wait| wait.as_micros().div_ceil(1_000).min(u32::MAX.into()) as u32),
            meta: claim.meta.as_str().into(),
            instead_of: claim.instead_of.map_or(0, Generation::get),
        }
    }
}

/// What arrives over a network is remote, whatever it says.
impl TryFrom<wire::AcquireRequest> for Claim {
    type Error = Error;

    fn try_from(asked: wire::AcquireRequest) -> Result<Self> {
        let mut claim = Self::new(
            Key::new(asked.key)?,
            Holder::new(asked.holder)?,
            Token::parse(&asked.token)?,
            Ttl::from_millis(asked.ttl_ms.into())?,
        )
        .meta(Meta::new(asked.meta)?)
        .remote();
        claim.wait = (asked.wait_ms != 0).then(|| Duration::from_millis(asked.wait_ms.into()));
        claim.instead_of = generation(asked.instead_of)?;
        Ok(claim)
    }
}

impl From<&Renewal> for wire::Renewal {
    fn from(item: &Renewal) -> Self {
        Self {
            key: item.key.as_str().into(),
            token: item.token.reveal().into(),
            generation: item.generation.get(),
            ttl_ms: item.ttl.map_or(0, |ttl| ttl.as_millis() as u32),
        }
    }
}

impl TryFrom<wire::Renewal> for Renewal {
    type Error = Error;

    fn try_from(item: wire::Renewal) -> Result<Self> {
        Ok(Self {
            key: Key::new(item.key)?,
            token: Token::parse(&item.token)?,
            generation: Generation::new(item.generation)?,
            ttl: ttl(item.ttl_ms)?,
        })
    }
}

impl From<Release> for wire::ReleaseRequest {
    fn from(release: Release) -> Self {
        Self {
            key: release.key.as_str().into(),
            token: release.token.reveal().into(),
            generation: release.generation.map_or(0, Generation::get),
            to: release.to.map_or_else(String::new, |to| to.as_str().into()),
        }
    }
}

impl TryFrom<wire::ReleaseRequest> for Release {
    type Error = Error;

    fn try_from(asked: wire::ReleaseRequest) -> Result<Self> {
        Ok(Self {
            key: Key::new(asked.key)?,
            token: Token::parse(&asked.token)?,
            generation: generation(asked.generation)?,
            to: holder(&asked.to)?,
        })
    }
}

impl From<Transfer> for wire::TransferRequest {
    fn from(transfer: Transfer) -> Self {
        Self {
            key: transfer.key.as_str().into(),
            token: transfer.token.reveal().into(),
            generation: transfer.generation.get(),
            to: transfer.to.as_str().into(),
        }
    }
}

impl TryFrom<wire::TransferRequest> for Transfer {
    type Error = Error;

    fn try_from(asked: wire::TransferRequest) -> Result<Self> {
        Ok(Self {
            key: Key::new(asked.key)?,
            token: Token::parse(&asked.token)?,
            generation: Generation::new(asked.generation)?,
            to: Holder::new(asked.to)?,
        })
    }
}

impl From<Revoke> for wire::RevokeRequest {
    fn from(revoke: Revoke) -> Self {
        Self {
            key: revoke.key.as_str().into(),
            generation: revoke.generation.get(),
            delay_us: revoke.delay.map(micros),
            reason: revoke.reason.as_str().into(),
        }
    }
}

impl TryFrom<wire::RevokeRequest> for Revoke {
    type Error = Error;

    fn try_from(asked: wire::RevokeRequest) -> Result<Self> {
        Ok(Self {
            key: Key::new(asked.key)?,
            generation: Generation::new(asked.generation)?,
            delay: asked.delay_us.map(span),
            reason: Motive::new(asked.reason)?,
        })
    }
}

impl From<Wipe> for wire::WipeRequest {
    fn from(wipe: Wipe) -> Self {
        let gate = wire::Proof {
            key: wipe.gate.key.as_str().into(),
            token: wipe.gate.token.reveal().into(),
            generation: wipe.gate.generation.get(),
        };
        Self { prefix: wipe.prefix.as_str().into(), gate: Some(gate) }
    }
}

impl TryFrom<wire::WipeRequest> for Wipe {
    type Error = Error;

    fn try_from(asked: wire::WipeRequest) -> Result<Self> {
        let gate = needed(asked.gate, "gate")?;
        let gate = Proof {
            key: Key::new(gate.key)?,
            token: Token::parse(&gate.token)?,
            generation: Generation::new(gate.generation)?,
        };
        Ok(Self { prefix: Prefix::new(asked.prefix)?, gate })
    }
}
