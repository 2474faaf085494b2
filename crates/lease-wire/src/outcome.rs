//! Outcomes of the lease verbs.

use tenure_lease::{
    Acquired, Busy, BusyReason, End, Error, Generation, Grant, Holder, Key, Lease, Released, Renewed, Result,
    Revoked, Transferred, Ttl, Verified, Wiped,
};

use crate::proto;
use crate::{from_micros, readable, to_micros, unreadable};

impl From<Acquired> for proto::AcquireResponse {
    fn from(acquired: Acquired) -> Self {
        use proto::acquire_response::Outcome;
        let outcome = match acquired {
            Acquired::Granted(grant) => {
                Outcome::Granted(proto::Grant { lease: Some(grant.lease.into()), parked: grant.parked })
            }
            Acquired::Busy(busy) => Outcome::Busy(proto::Busy {
                holder: busy.holder.map(|holder| holder.as_str().into()),
                generation: busy.generation.map(Generation::get),
                remaining_us: busy.remaining.map(to_micros),
                position: busy.position,
                reason: busy.reason.as_str().into(),
            }),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::AcquireResponse> for Acquired {
    type Error = Error;

    fn try_from(response: proto::AcquireResponse) -> Result<Self> {
        use proto::acquire_response::Outcome;
        match response.outcome.ok_or_else(|| unreadable("outcome"))? {
            Outcome::Granted(grant) => {
                let lease = readable(grant.lease.map(Lease::try_from), "lease")?;
                Ok(Self::Granted(Grant { lease, parked: grant.parked }))
            }
            Outcome::Busy(busy) => Ok(Self::Busy(Busy {
                holder: busy.holder.and_then(|name| Holder::new(name).ok()),
                generation: busy.generation.and_then(|number| Generation::new(number).ok()),
                remaining: busy.remaining_us.map(from_micros),
                position: busy.position,
                reason: BusyReason::parse(&busy.reason).unwrap_or(BusyReason::Held),
            })),
        }
    }
}

impl From<Lease> for proto::Lease {
    fn from(lease: Lease) -> Self {
        Self {
            key: lease.key.as_str().into(),
            holder: lease.holder.as_str().into(),
            generation: lease.generation.get(),
            ttl_ms: lease.ttl.as_millis() as u32,
        }
    }
}

impl TryFrom<proto::Lease> for Lease {
    type Error = Error;

    fn try_from(lease: proto::Lease) -> Result<Self> {
        Ok(Self {
            key: Key::new(lease.key)?,
            holder: Holder::new(lease.holder)?,
            generation: Generation::new(lease.generation)?,
            ttl: Ttl::from_millis(lease.ttl_ms.into())?,
        })
    }
}

impl From<End> for proto::End {
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

/// How a reign ended; none while it lasts.
pub(crate) fn end(code: i32) -> Option<End> {
    match proto::End::try_from(code) {
        Ok(proto::End::Unspecified) => None,
        Ok(proto::End::Released) => Some(End::Released),
        Ok(proto::End::Transferred) => Some(End::Transferred),
        Ok(proto::End::Expired) => Some(End::Expired),
        Ok(proto::End::Revoked) => Some(End::Revoked),
        Ok(proto::End::Superseded) => Some(End::Superseded),
        Ok(proto::End::Wiped) => Some(End::Wiped),
        Ok(proto::End::HolderDied) => Some(End::HolderDied),
        // A reason that only a newer server knows is still an end.
        Ok(proto::End::Gone) | Err(_) => Some(End::Gone),
    }
}

impl From<Vec<Renewed>> for proto::RenewResponse {
    fn from(results: Vec<Renewed>) -> Self {
        let lost = results.iter().any(|response| matches!(response, Renewed::Lost(_)));
        let mut remaining_us = Vec::with_capacity(results.len());
        let mut ends = Vec::with_capacity(if lost { results.len() } else { 0 });
        for response in results {
            let (left, end) = match response {
                Renewed::Renewed { remaining } => (to_micros(remaining), proto::End::Unspecified),
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

impl proto::RenewResponse {
    /// One result for each of `count` items.
    pub fn into_results(self, count: usize) -> Result<Vec<Renewed>> {
        let fits = self.remaining_us.len() == count && (self.ends.is_empty() || self.ends.len() == count);
        if !fits {
            return Err(unreadable("result for each item"));
        }
        let ends = self.ends.into_iter().chain(std::iter::repeat(0));
        let response = |(left, code)| match end(code) {
            None => Renewed::Renewed { remaining: from_micros(left) },
            Some(end) => Renewed::Lost(end),
        };
        Ok(self.remaining_us.into_iter().zip(ends).map(response).collect())
    }
}

impl From<Released> for proto::ReleaseResponse {
    fn from(released: Released) -> Self {
        Self { released: released == Released::Released }
    }
}

impl From<proto::ReleaseResponse> for Released {
    fn from(response: proto::ReleaseResponse) -> Self {
        if response.released { Self::Released } else { Self::NotHeld }
    }
}

impl From<Transferred> for proto::TransferResponse {
    fn from(transferred: Transferred) -> Self {
        use proto::transfer_response::Outcome;
        let outcome = match transferred {
            Transferred::Transferred(lease) => Outcome::Transferred(lease.into()),
            Transferred::NotHeld => Outcome::NotHeld(proto::NotHeld {}),
            Transferred::NoSuccessor => Outcome::NoSuccessor(proto::NoSuccessor {}),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::TransferResponse> for Transferred {
    type Error = Error;

    fn try_from(response: proto::TransferResponse) -> Result<Self> {
        use proto::transfer_response::Outcome;
        match response.outcome.ok_or_else(|| unreadable("outcome"))? {
            Outcome::Transferred(lease) => readable(Some(lease.try_into()), "lease").map(Self::Transferred),
            Outcome::NotHeld(_) => Ok(Self::NotHeld),
            Outcome::NoSuccessor(_) => Ok(Self::NoSuccessor),
        }
    }
}

impl From<Revoked> for proto::RevokeResponse {
    fn from(revoked: Revoked) -> Self {
        use proto::revoke_response::Outcome;
        let outcome = match revoked {
            Revoked::Revoked { delay } => Outcome::DelayUs(to_micros(delay)),
            Revoked::Stale { current } => {
                Outcome::Stale(proto::Stale { current: current.map(Generation::get) })
            }
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::RevokeResponse> for Revoked {
    type Error = Error;

    fn try_from(response: proto::RevokeResponse) -> Result<Self> {
        use proto::revoke_response::Outcome;
        match response.outcome.ok_or_else(|| unreadable("outcome"))? {
            Outcome::DelayUs(delay) => Ok(Self::Revoked { delay: from_micros(delay) }),
            Outcome::Stale(proto::Stale { current }) => {
                Ok(Self::Stale { current: current.and_then(|number| Generation::new(number).ok()) })
            }
        }
    }
}

impl From<Verified> for proto::VerifyResponse {
    fn from(verified: Verified) -> Self {
        use proto::verify_response::Outcome;
        let outcome = match verified {
            Verified::Live { generation, remaining } => Outcome::Live(proto::Live {
                generation: generation.get(),
                remaining_us: to_micros(remaining),
            }),
            Verified::Ended => Outcome::Ended(proto::Ended {}),
            Verified::Wrong => Outcome::Wrong(proto::Wrong {}),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::VerifyResponse> for Verified {
    type Error = Error;

    fn try_from(response: proto::VerifyResponse) -> Result<Self> {
        use proto::verify_response::Outcome;
        match response.outcome.ok_or_else(|| unreadable("outcome"))? {
            Outcome::Live(live) => {
                let generation = readable(Some(Generation::new(live.generation)), "generation")?;
                Ok(Self::Live { generation, remaining: from_micros(live.remaining_us) })
            }
            Outcome::Ended(_) => Ok(Self::Ended),
            Outcome::Wrong(_) => Ok(Self::Wrong),
        }
    }
}

impl From<Wiped> for proto::WipeResponse {
    fn from(wiped: Wiped) -> Self {
        use proto::wipe_response::Outcome;
        let outcome = match wiped {
            Wiped::Wiped { count } => Outcome::Wiped(count as u64),
            Wiped::Unproven => Outcome::Unproven(proto::Unproven {}),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::WipeResponse> for Wiped {
    type Error = Error;

    fn try_from(response: proto::WipeResponse) -> Result<Self> {
        use proto::wipe_response::Outcome;
        match response.outcome.ok_or_else(|| unreadable("outcome"))? {
            Outcome::Wiped(count) => Ok(Self::Wiped { count: count as usize }),
            Outcome::Unproven(_) => Ok(Self::Unproven),
        }
    }
}
