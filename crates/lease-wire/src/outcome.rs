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
        Ok(proto::End::Gone | proto::End::Unanswered) | Err(_) => Some(End::Gone),
    }
}

impl proto::RenewResponse {
    /// The response with these results; `problem` describes an error.
    pub fn from_results(results: Vec<Result<Renewed>>, problem: impl Fn(Error) -> proto::Problem) -> Self {
        let all_renewed = results.iter().all(|result| matches!(result, Ok(Renewed::Renewed { .. })));
        let mut response = Self {
            remaining_us: Vec::with_capacity(results.len()),
            ends: Vec::with_capacity(if all_renewed { 0 } else { results.len() }),
            failures: Vec::new(),
        };
        for (result, index) in results.into_iter().zip(0..) {
            let (left, end) = match result {
                Ok(Renewed::Renewed { remaining }) => (to_micros(remaining), proto::End::Unspecified),
                Ok(Renewed::Lost(end)) => (0, end.into()),
                Err(error) => {
                    response.failures.push(proto::RenewFailure { index, problem: Some(problem(error)) });
                    (0, proto::End::Unanswered)
                }
            };
            response.remaining_us.push(left);
            if !all_renewed {
                response.ends.push(end.into());
            }
        }
        response
    }

    /// One result for each of `count` items.
    pub fn into_results(self, count: usize) -> Result<Vec<Result<Renewed>>> {
        let fits = self.remaining_us.len() == count && (self.ends.is_empty() || self.ends.len() == count);
        if !fits {
            return Err(unreadable("result for each item"));
        }
        let ends = self.ends.into_iter().chain(std::iter::repeat(0));
        let result = |(left, code)| match end(code) {
            None => Ok(Renewed::Renewed { remaining: from_micros(left) }),
            Some(_) if code == proto::End::Unanswered as i32 => Err(unreadable("reason of a failed renewal")),
            Some(end) => Ok(Renewed::Lost(end)),
        };
        let mut results: Vec<_> = self.remaining_us.into_iter().zip(ends).map(result).collect();
        for failure in self.failures {
            // Only an item that was not renewed has a reason: a wrong position must not hide a loss.
            if let Some(result @ Err(_)) = results.get_mut(failure.index as usize)
                && let Some(problem) = failure.problem
            {
                *result = Err(problem.into());
            }
        }
        Ok(results)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_renewal_has_its_own_result_over_the_wire() {
        let results = || {
            vec![
                Ok(Renewed::Renewed { remaining: Duration::from_secs(3) }),
                Err(Error::unknown("redis", "went away")),
                Ok(Renewed::Lost(End::Expired)),
            ]
        };
        let response = proto::RenewResponse::from_results(results(), |error| {
            proto::Problem::from_error("UNKNOWN_OUTCOME", &error)
        });
        let arrived = response.clone().into_results(3).unwrap();
        assert_eq!(format!("{arrived:?}"), format!("{:?}", results()));
        // A failure without its reason, or at a wrong position, is never a renewal.
        let silent = proto::RenewResponse { failures: Vec::new(), ..response.clone() };
        assert!(matches!(silent.into_results(3).unwrap()[1], Err(Error::Unknown { .. })));
        let mut elsewhere = response;
        elsewhere.failures[0].index = 2;
        let arrived = elsewhere.into_results(3).unwrap();
        assert!(arrived[1].is_err() && matches!(arrived[2], Ok(Renewed::Lost(End::Expired))), "{arrived:?}");
    }
}
