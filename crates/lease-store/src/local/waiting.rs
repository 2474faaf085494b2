//! Acquire: waits in the queue while the key is busy.

use std::time::Duration;

use tenure_lease::{Acquired, BusyReason, Claim, Digest, Error, Grant, Key, Lease, Origin, Result, limits};

use super::engine::{Engine, PendingSync, no_values};
use crate::sync::oneshot;

/// Acquires a key, parked in its queue for as long as the claim allows.
pub(crate) async fn acquire(engine: &Engine, claim: Claim) -> Result<Acquired> {
    let wait = claim.wait.unwrap_or_default();
    if wait > Duration::from_millis(limits::WAIT_MS) {
        return Err(Error::invalid("wait", format!("at most {} ms are allowed", limits::WAIT_MS)));
    }
    let deadline = engine.clock.now() + wait;
    loop {
        let mut decided = engine.clock.now();
        let deciding = engine.decide(no_values, |table, now| {
            decided = now.tick;
            let answer = table.acquire(&claim, now)?;
            match &answer {
                Acquired::Busy(busy) if !wait.is_zero() && parks(&claim, busy.reason) => {
                    let (sender, grant) = oneshot::channel();
                    table.park(claim.clone(), sender)?;
                    Ok((answer, Some(grant)))
                }
                _ => Ok((answer, None)),
            }
        });
        let ((answer, grant), pending) = deciding.await?;
        let Some(grant) = grant else {
            let unconfirmed = UnconfirmedGrant::new(engine, &claim, &answer);
            engine.wait(pending).await?;
            // A refreshed lease wrote nothing, so the heartbeat was not checked yet.
            if matches!(answer, Acquired::Granted(_)) && claim.origin == Origin::Remote {
                engine
                    .check_heartbeat(decided)
                    .map_err(|e| Error::unknown(engine.capabilities.engine, e.to_string()))?;
            }
            unconfirmed.confirm();
            return Ok(answer);
        };
        let mut parked = ParkedClaim::new(engine, &claim, grant);
        let granted = tokio::select! {
            biased;
            granted = parked.grant() => granted,
            () = engine.clock.sleep_until(deadline) => match parked.give_up(&claim).map_err(|e| indeterminate(engine, &e))? {
                Some((answer, pending)) => {
                    let unconfirmed = UnconfirmedGrant::new(engine, &claim, &answer);
                    engine.wait(pending).await?;
                    unconfirmed.confirm();
                    return Ok(answer);
                }
                // It was granted at the same time; the grant is being delivered.
                None => parked.grant().await,
            },
        };
        if let Some(grant) = granted {
            engine.state.lock().table.confirm_grant(&grant.lease);
            return Ok(Acquired::Granted(grant));
        }
        // A duplicate of this claim got the grant: acquire again to find it.
        parked.settle();
        let state = engine.state.lock();
        if state.closed {
            return Err(Error::unknown(engine.capabilities.engine, "the store was closed"));
        }
        // The grant may be among the effects that were not synced.
        if let Some(why) = &state.failed {
            return Err(Error::unknown(engine.capabilities.engine, why.clone()));
        }
    }
}

/// A parked claim may have been granted by another caller's step, so its own failure is indeterminate.
fn indeterminate(engine: &Engine, error: &Error) -> Error {
    Error::unknown(engine.capabilities.engine, error.to_string())
}

/// Whether waiting can help. A claim that replaces a generation is never parked: in the queue it would be granted a reign
/// of its own.
fn parks(claim: &Claim, reason: BusyReason) -> bool {
    match reason {
        BusyReason::Held
        | BusyReason::Delayed
        | BusyReason::Reserved
        | BusyReason::Queued
        | BusyReason::Quarantine => true,
        BusyReason::Foreign => claim.instead_of.is_none(),
        BusyReason::NotThatGeneration => false,
    }
}

/// A grant to a holder in this process that its caller has not received yet. Dropping it releases the grant. A remote
/// holder's grant stays: its connection may have been cut, and the same token will be used again.
struct UnconfirmedGrant<'a> {
    engine: &'a Engine,
    grant: Option<(Lease, Digest)>,
}

impl<'a> UnconfirmedGrant<'a> {
    fn new(engine: &'a Engine, claim: &Claim, answer: &Acquired) -> Self {
        let grant = match answer {
            Acquired::Granted(grant) if claim.origin == Origin::Local && engine.durable.is_some() => {
                Some((grant.lease.clone(), *claim.token.digest()))
            }
            _ => None,
        };
        Self { engine, grant }
    }

    fn confirm(mut self) {
        if let Some((lease, _)) = self.grant.take() {
            self.engine.state.lock().table.confirm_grant(&lease);
        }
    }
}

impl Drop for UnconfirmedGrant<'_> {
    fn drop(&mut self) {
        let Some((lease, digest)) = self.grant.take() else { return };
        let (mut state, now) = self.engine.enter();
        self.engine.abandon_grant(&mut state, &lease, &digest, now);
        drop(self.engine.finish(&mut state, now));
    }
}

/// A queued claim that leaves the queue when the future is dropped.
struct ParkedClaim<'a> {
    engine: &'a Engine,
    key: Key,
    digest: Digest,
    grant: Option<oneshot::Receiver<Grant>>,
}

impl<'a> ParkedClaim<'a> {
    fn new(engine: &'a Engine, claim: &Claim, grant: oneshot::Receiver<Grant>) -> Self {
        let (key, digest) = (claim.key.clone(), *claim.token.digest());
        Self { engine, key, digest, grant: Some(grant) }
    }

    /// Waits for the grant; `None` when a duplicate got it.
    async fn grant(&mut self) -> Option<Grant> {
        let receiver = self.grant.as_mut()?;
        let grant = receiver.await.ok();
        self.grant = None;
        grant
    }

    /// Leaves the queue; `None` when the grant was already decided.
    fn give_up(&mut self, claim: &Claim) -> Result<Option<(Acquired, PendingSync)>> {
        let receiver = &mut self.grant;
        let (answer, pending) = self.engine.step(|state, now| {
            if !state.table.is_parked(&self.key, &self.digest) {
                return Ok(None);
            }
            *receiver = None;
            if !self.engine.has_room(state, 0) {
                state.table.leave(&self.key, &self.digest)?;
                return Err(self.engine.no_room());
            }
            state.table.unpark(claim, now).map(Some)
        })?;
        Ok(answer.map(|answer| (answer, pending)))
    }

    fn settle(mut self) {
        self.grant = None;
    }
}

impl Drop for ParkedClaim<'_> {
    fn drop(&mut self) {
        let Some(mut receiver) = self.grant.take() else { return };
        receiver.close();
        let granted = receiver.try_recv();
        drop(receiver);
        let (mut state, now) = self.engine.enter();
        // An undelivered grant is released by its delivery; a delivered one is released here.
        if let Ok(grant) = granted {
            self.engine.abandon_grant(&mut state, &grant.lease, &self.digest, now);
        } else if let Err(error) = state.table.leave(&self.key, &self.digest) {
            tracing::error!(key = %self.key, %error, "cannot remove a dropped claim from the queue");
        }
        drop(self.engine.finish(&mut state, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_replaces_a_generation_does_not_wait_for_a_record() {
        let (key, holder) = (Key::new("k").unwrap(), tenure_lease::Holder::new("a").unwrap());
        let token = tenure_lease::Token::parse("token-of-some-length-or-so").unwrap();
        let claim = Claim::new(key, holder, token, tenure_lease::Ttl::from_secs(10).unwrap());
        assert!(parks(&claim, BusyReason::Foreign));
        let instead = claim.instead_of(tenure_lease::Generation::new(7).unwrap());
        // In the queue it would be granted a new reign, although the one that it names is over.
        assert!(!parks(&instead, BusyReason::Foreign) && !parks(&instead, BusyReason::NotThatGeneration));
    }
}
