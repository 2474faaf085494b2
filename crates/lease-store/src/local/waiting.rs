//! Acquire, parked in the queue while the key is busy.

use std::time::Duration;

use lease::{Acquired, Claim, Digest, Error, Grant, Key, Lease, Origin, Reason, Result, limits};

use super::engine::Shared;
use super::pending::Pending;
use crate::sync::oneshot;

/// Asks for a key, waiting in line for as long as the claim allows.
pub(crate) async fn acquire(shared: &Shared, claim: Claim) -> Result<Acquired> {
    let wait = claim.wait.unwrap_or_default();
    if wait > Duration::from_millis(limits::WAIT_MS) {
        return Err(Error::invalid("wait", format!("at most {} ms are allowed", limits::WAIT_MS)));
    }
    let deadline = shared.clock.now() + wait;
    loop {
        let mut decided = shared.clock.now();
        let asked = shared.decide(0, |table, now| {
            decided = now.tick;
            let answer = table.acquire(&claim, now)?;
            match &answer {
                Acquired::Busy(busy) if !wait.is_zero() && parks(&claim, busy.reason) => {
                    let (told, grant) = oneshot::channel();
                    table.park(claim.clone(), told)?;
                    Ok((answer, Some(grant)))
                }
                _ => Ok((answer, None)),
            }
        });
        let ((answer, grant), pending) = asked.await?;
        let Some(grant) = grant else {
            let on_its_way = OnItsWay::new(shared, &claim, &answer);
            shared.wait(pending).await?;
            // A lease that was only prolonged wrote nothing, so nobody has looked at the sign of life yet.
            if matches!(answer, Acquired::Granted(_)) && claim.origin == Origin::Remote {
                shared
                    .alive(decided)
                    .map_err(|e| Error::unknown(shared.capabilities.engine, e.to_string()))?;
            }
            on_its_way.arrived();
            return Ok(answer);
        };
        let mut parked = Parked::new(shared, &claim, grant);
        let told = tokio::select! {
            biased;
            told = parked.grant() => told,
            () = shared.clock.sleep_until(deadline) => match parked.give_up(&claim).map_err(|e| unsure(shared, &e))? {
                Some((answer, pending)) => {
                    let on_its_way = OnItsWay::new(shared, &claim, &answer);
                    shared.wait(pending).await?;
                    on_its_way.arrived();
                    return Ok(answer);
                }
                // It was granted in the same moment; the news is on its way.
                None => parked.grant().await,
            },
        };
        if let Some(grant) = told {
            shared.inner.lock().table.told(&grant.lease);
            return Ok(Acquired::Granted(grant));
        }
        // A duplicate of this claim was told instead: ask again and find what it got.
        parked.settle();
        let inner = shared.inner.lock();
        if inner.closed {
            return Err(Error::unknown(shared.capabilities.engine, "the store was closed"));
        }
        // The grant may have been among what failed to be synced.
        if let Some(why) = &inner.failed {
            return Err(Error::unknown(shared.capabilities.engine, why.clone()));
        }
    }
}

/// A claim that was parked may have been granted by somebody else's step, whatever became of its own.
fn unsure(shared: &Shared, error: &Error) -> Error {
    Error::unknown(shared.capabilities.engine, error.to_string())
}

/// Reasons that pass, so that waiting in line makes sense. Who comes instead of somebody does not come next.
fn parks(claim: &Claim, reason: Reason) -> bool {
    match reason {
        Reason::Held | Reason::Delayed | Reason::Reserved | Reason::Queued | Reason::Quarantine => true,
        Reason::Foreign => claim.instead_of.is_none(),
        Reason::NotThatGeneration => false,
    }
}

/// A grant to a holder in this process that nobody has heard of yet. Dropped before it arrived, it is given
/// back. A remote holder's is not: its connection may have been cut, and the same token will ask again.
struct OnItsWay<'a> {
    shared: &'a Shared,
    grant: Option<(Lease, Digest)>,
}

impl<'a> OnItsWay<'a> {
    fn new(shared: &'a Shared, claim: &Claim, answer: &Acquired) -> Self {
        let grant = match answer {
            Acquired::Granted(grant) if claim.origin == Origin::Local && shared.durable.is_some() => {
                Some((grant.lease.clone(), *claim.token.digest()))
            }
            _ => None,
        };
        Self { shared, grant }
    }

    fn arrived(mut self) {
        if let Some((lease, _)) = self.grant.take() {
            self.shared.inner.lock().table.told(&lease);
        }
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        let Some((lease, digest)) = self.grant.take() else { return };
        let (mut inner, now) = self.shared.enter();
        if let Err(error) = inner.table.lost(&lease, &digest, now) {
            tracing::error!(key = %lease.key, %error, "a dropped grant could not be given back");
        }
        drop(self.shared.finish(&mut inner, now));
    }
}

/// A place in the queue that is left when the future is dropped.
struct Parked<'a> {
    shared: &'a Shared,
    key: Key,
    digest: Digest,
    told: Option<oneshot::Receiver<Grant>>,
}

impl<'a> Parked<'a> {
    fn new(shared: &'a Shared, claim: &Claim, told: oneshot::Receiver<Grant>) -> Self {
        let (key, digest) = (claim.key.clone(), *claim.token.digest());
        Self { shared, key, digest, told: Some(told) }
    }

    /// Waits for the grant; none when a duplicate got it.
    async fn grant(&mut self) -> Option<Grant> {
        let told = self.told.as_mut()?;
        let grant = told.await.ok();
        self.told = None;
        grant
    }

    /// Leaves the queue. None when the grant was already decided.
    fn give_up(&mut self, claim: &Claim) -> Result<Option<(Acquired, Pending<'a>)>> {
        let told = &mut self.told;
        let (answer, pending) = self.shared.step(|table, now| {
            if !table.is_parked(&self.key, &self.digest) {
                return Ok(None);
            }
            *told = None;
            table.unpark(claim, now).map(Some)
        })?;
        Ok(answer.map(|answer| (answer, pending)))
    }

    fn settle(mut self) {
        self.told = None;
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let Some(mut told) = self.told.take() else { return };
        told.close();
        let granted = told.try_recv();
        drop(told);
        let (mut inner, now) = self.shared.enter();
        // A grant that was not heard is given back by whoever delivers it; one that was heard, here.
        let left = match granted {
            Ok(grant) => inner.table.lost(&grant.lease, &self.digest, now),
            Err(_) => inner.table.leave(&self.key, &self.digest),
        };
        if let Err(error) = left {
            tracing::error!(key = %self.key, %error, "a dropped claim could not leave the queue");
        }
        drop(self.shared.finish(&mut inner, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_record_to_go_does_not_come_instead_of_anybody() {
        let (key, holder) = (Key::new("k").unwrap(), lease::Holder::new("a").unwrap());
        let token = lease::Token::parse("token-of-some-length-or-so").unwrap();
        let claim = Claim::new(key, holder, token, lease::Ttl::from_secs(10).unwrap());
        assert!(parks(&claim, Reason::Foreign));
        let instead = claim.instead_of(lease::Generation::new(7).unwrap());
        // In line it would be granted a reign that begins, though the one that it names is over.
        assert!(!parks(&instead, Reason::Foreign) && !parks(&instead, Reason::NotThatGeneration));
    }
}
