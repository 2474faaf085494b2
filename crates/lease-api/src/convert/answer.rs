//! What stores answer to the verbs that change something.

use lease::{
    Acquired, Busy, End, Error, Generation, Grant, Holder, Key, Lease, Reason, Released, Renewed, Result,
    Revoked, Transferred, Ttl, Verified, Wiped,
};

use super::{micros, nonsense, readable, span};
use crate::wire;

impl From<Acquired> for wire::AcquireResponse {
    fn from(acquired: Acquired) -> Self {
        use wire::acquire_response::Outcome;
        let outcome = match acquired {
            Acquired::Granted(grant) => {
                Outcome::Granted(wire::Grant { lease: Some(grant.lease.into()), parked: grant.parked })
            }
            Acquired::Busy(busy) => Outcome::Busy(wire::Busy {
                holder: busy.holder.map(|holder| holder.as_str().into()),
                generation: busy.generation.map(Generation::get),
                remaining_us: busy.remaining.map(micros),
                position: busy.position,
                reason: busy.reason.as_str().into(),
            }),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<wire::AcquireResponse> for Acquired {
    type Error = Error;

    fn try_from(answer: wire::AcquireResponse) -> Result<Self> {
        use wire::acquire_response::Outcome;
        match answer.outcome.ok_or_else(|| nonsense("outcome"))? {
            Outcome::Granted(grant) => {
                let lease = readable(grant.lease.map(Lease::try_from), "lease")?;
                Ok(Self::Granted(Grant { lease, parked: grant.parked }))
            }
            Outcome::Busy(busy) => Ok(Self::Busy(Busy {
                holder: busy.holder.and_then(|name| Holder::new(name).ok()),
                generation: busy.generation.and_then(|number| Generation::new(number).ok()),
                remaining: busy.remaining_us.map(span),
                position: busy.position,
                reason: Reason::parse(&busy.reason).unwrap_or(Reason::Held),
            })),
        }
    }
}

impl From<Lease> for wire::Lease {
    fn from(lease: Lease) -> Self {
        Self {
            key: lease.key.as_str().into(),
            holder: lease.holder.as_str().into(),
            generation: lease.generation.get(),
            ttl_ms: lease.ttl.as_millis() as u32,
        }
    }
}

impl TryFrom<wire::Lease> for Lease {
    type Error = Error;

    fn try_from(lease: wire::Lease) -> Result<Self> {
        Ok(Self {
            key: Key::new(lease.key)?,
            holder: Holder::new(lease.holder)?,
            generation: Generation::new(lease.generation)?,
            ttl: Ttl::from_millis(lease.ttl_ms.into())?,
        })
    }
}

impl From<End> for wire::End {
    fn from(end: End) -> Self {
        match end {
            End::Released => Self::Released,
            End::Transferred => Self::Transferred,
            End::Expired => Self::Expired,
            End::Revoked => Self::Revoked,
            End::Superseded => Self::Superseded,
            End::Wiped => Self::Wiped,
            End::HolderDied => Self::HolderDied,
            End::Gone => Self::Gone,
        }
    }
}

/// None while a reign lasts.
pub(super) fn end(code: i32) -> Option<End> {
    match wire::End::try_from(code) {
        Ok(wire::End::Unspecified) => None,
        Ok(wire::End::Released) => Some(End::Released),
        Ok(wire::End::Transferred) => Some(End::Transferred),
        Ok(wire::End::Expired) => Some(End::Expired),
        Ok(wire::End::Revoked) => Some(End::Revoked),
        Ok(wire::End::Superseded) => Some(End::Superseded),
        Ok(wire::End::Wiped) => Some(End::Wiped),
        Ok(wire::End::HolderDied) => Some(End::HolderDied),
        // An end that a newer server knows and we do not is an end all the same.
        Ok(wire::End::Gone) | Err(_) => Some(End::Gone),
    }
}

impl From<Vec<Renewed>> for wire::RenewResponse {
    fn from(answers: Vec<Renewed>) -> Self {
        let lost = answers.iter().any(|answer| matches!(answer, Renewed::Lost(_)));
        let mut remaining_us = Vec::with_capacity(answers.len());
        let mut ends = Vec::with_capacity(if lost { answers.len() } else { 0 });
        for answer in answers {
            let (left, end) = match answer {
                Renewed::Renewed { remaining } => (micros(remaining), wire::End::Unspecified),
                Renewed::Lost(end) => (0, end.into()),
            };
            remaining_us.push(left);
            if lost {
                ends.push(end.into());
            }
        }
        Self { remaining_us, ends }
    }
}

impl wire::RenewResponse {
    /// One answer for each of `count` items.
    pub(crate) fn read(self, count: usize) -> Result<Vec<Renewed>> {
        let fits = self.remaining_us.len() == count && (self.ends.is_empty() || self.ends.len() == count);
        if !fits {
            return Err(nonsense("answer for each item"));
        }
        let ends = self.ends.into_iter().chain(std::iter::repeat(0));
        let answer = |(left, code)| match end(code) {
            None => Renewed::Renewed { remaining: span(left) },
            Some(end) => Renewed::Lost(end),
        };
        Ok(self.remaining_us.into_iter().zip(ends).map(answer).collect())
    }
}

impl From<Released> for wire::ReleaseResponse {
    fn from(released: Released) -> Self {
        Self { released: released == Released::Released }
    }
}

impl From<wire::ReleaseResponse> for Released {
    fn from(answer: wire::ReleaseResponse) -> Self {
        if answer.released { Self::Released } else { Self::NotHeld }
    }
}

impl From<Transferred> for wire::TransferResponse {
    fn from(transferred: Transferred) -> Self {
        use wire::transfer_response::Outcome;
        let outcome = match transferred {
            Transferred::Transferred(lease) => Outcome::Transferred(lease.into()),
            Transferred::NotHeld => Outcome::NotHeld(wire::NotHeld {}),
            Transferred::NoSuccessor => Outcome::NoSuccessor(wire::NoSuccessor {}),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<wire::TransferResponse> for Transferred {
    type Error = Error;

    fn try_from(answer: wire::TransferResponse) -> Result<Self> {
        use wire::transfer_response::Outcome;
        match answer.outcome.ok_or_else(|| nonsense("outcome"))? {
            Outcome::Transferred(lease) => readable(Some(lease.try_into()), "lease").map(Self::Transferred),
            Outcome::NotHeld(_) => Ok(Self::NotHeld),
            Outcome::NoSuccessor(_) => Ok(Self::NoSuccessor),
        }
    }
}

impl From<Revoked> for wire::RevokeResponse {
    fn from(revoked: Revoked) -> Self {
        use wire::revoke_response::Outcome;
        let outcome = match revoked {
            Revoked::Revoked { delay } => Outcome::DelayUs(micros(delay)),
            Revoked::Stale { current } => {
                Outcome::Stale(wire::Stale { current: current.map(Generation::get) })
            }
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<wire::RevokeResponse> for Revoked {
    type Error = Error;

    fn try_from(answer: wire::RevokeResponse) -> Result<Self> {
        use wire::revoke_response::Outcome;
        match answer.outcome.ok_or_else(|| nonsense("outcome"))? {
            Outcome::DelayUs(delay) => Ok(Self::Revoked { delay: span(delay) }),
            Outcome::Stale(wire::Stale { current }) => {
                Ok(Self::Stale { current: current.and_then(|number| Generation::new(number).ok()) })
            }
        }
    }
}

impl From<Verified> for wire::VerifyResponse {
    fn from(verified: Verified) -> Self {
        use wire::verify_response::Outcome;
        let outcome = match verified {
            Verified::Live { generation, remaining } => {
                Outcome::Live(wire::Live { generation: generation.get(), remaining_us: micros(remaining) })
            }
            Verified::Ended => Outcome::Ended(wire::Ended {}),
            Verified::Wrong => Outcome::Wrong(wire::Wrong {}),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<wire::VerifyResponse> for Verified {
    type Error = Error;

    fn try_from(answer: wire::VerifyResponse) -> Result<Self> {
        use wire::verify_response::Outcome;
        match answer.outcome.ok_or_else(|| nonsense("outcome"))? {
            Outcome::Live(live) => {
                let generation = readable(Some(Generation::new(live.generation)), "generation")?;
                Ok(Self::Live { generation, remaining: span(live.remaining_us) })
            }
            Outcome::Ended(_) => Ok(Self::Ended),
            Outcome::Wrong(_) => Ok(Self::Wrong),
        }
    }
}

impl From<Wiped> for wire::WipeResponse {
    fn from(wiped: Wiped) -> Self {
        use wire::wipe_response::Outcome;
        let outcome = match wiped {
            Wiped::Wiped { count } => Outcome::Wiped(count as u64),
            Wiped::Unproven => Outcome::Unproven(wire::Unproven {}),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<wire::WipeResponse> for Wiped {
    type Error = Error;

    fn try_from(answer: wire::WipeResponse) -> Result<Self> {
        use wire::wipe_response::Outcome;
        match answer.outcome.ok_or_else(|| nonsense("outcome"))? {
            Outcome::Wiped(count) => Ok(Self::Wiped { count: count as usize }),
            Outcome::Unproven(_) => Ok(Self::Unproven),
        }
    }
}
