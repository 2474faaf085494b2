//! Held leases and parked claims of a test.

use std::time::Duration;

use tenure_lease::{
    Acquired, Busy, Claim, Fence, Generation, Holder, Key, Lease, Mode, Proof, Release, Renewal, Result,
    Revoke, RevokeReason, Tick, Token, Transfer, Ttl,
};
use tokio::task::JoinSet;

use super::{Harness, expect_ok};

/// A lease with its token, and when it was requested and answered.
#[derive(Clone, Debug)]
pub struct HeldLease {
    /// The lease.
    pub lease: Lease,
    /// The secret of the reign.
    pub token: Token,
    /// Whether the claim had been parked.
    pub parked: bool,
    /// Before the request was sent.
    pub sent: Tick,
    /// After the response arrived.
    pub answered: Tick,
}

/// A claim that waits in the queue. Dropping it drops the future.
#[derive(Debug)]
pub struct ParkedClaim {
    claim: Claim,
    sent: Tick,
    task: JoinSet<Result<Acquired>>,
}

impl HeldLease {
    /// The key.
    pub fn key(&self) -> &Key {
        &self.lease.key
    }

    /// The generation.
    pub fn generation(&self) -> Generation {
        self.lease.generation
    }

    /// A renewal.
    pub fn renewal(&self, ttl: Option<Ttl>) -> Renewal {
        Renewal { key: self.key().clone(), token: self.token.clone(), generation: self.generation(), ttl }
    }

    /// A release with token and generation.
    pub fn release(&self, to: Option<Holder>) -> Release {
        let generation = Some(self.generation());
        Release { key: self.key().clone(), token: self.token.clone(), generation, to }
    }

    /// A transfer.
    pub fn transfer(&self, to: Holder) -> Transfer {
        let (key, token, generation) = (self.key().clone(), self.token.clone(), self.generation());
        Transfer { key, token, generation, to }
    }

    /// A revocation.
    pub fn revoke(&self, delay: Option<Duration>) -> Revoke {
        Revoke {
            key: self.key().clone(),
            generation: self.generation(),
            delay,
            reason: RevokeReason::default(),
        }
    }

    /// A fence.
    pub fn fence(&self, mode: Mode) -> Fence {
        let (key, token, generation) = (self.key().clone(), self.token.clone(), self.generation());
        Fence { key, token, generation, mode }
    }

    /// A proof.
    pub fn proof(&self) -> Proof {
        let (key, token, generation) = (self.key().clone(), self.token.clone(), self.generation());
        Proof { key, token, generation }
    }

    /// A generation of the same key that was never granted: the next number.
    pub fn other_generation(&self) -> Generation {
        expect_ok(Generation::new(self.generation().get() + 1))
    }
}

impl ParkedClaim {
    pub(super) fn new(claim: Claim, sent: Tick, task: JoinSet<Result<Acquired>>) -> Self {
        Self { claim, sent, task }
    }

    /// The secret of the claim.
    pub fn token(&self) -> &Token {
        &self.claim.token
    }

    /// Whether it has no answer yet.
    pub fn is_parked(&mut self) -> bool {
        match self.task.try_join_next() {
            None => true,
            Some(answer) => panic!("the claim was answered: {answer:?}"),
        }
    }

    /// The answer.
    pub async fn answer(mut self, harness: &Harness) -> Result<Acquired> {
        let who = format!("the answer to {}", self.claim.holder);
        match harness.within(&who, self.task.join_next()).await {
            Some(Ok(answer)) => answer,
            other => panic!("{who}: {other:?}"),
        }
    }

    /// The lease; fails if it is busy.
    pub async fn granted(self, harness: &Harness) -> HeldLease {
        let (claim, sent) = (self.claim.clone(), self.sent);
        match expect_ok(self.answer(harness).await) {
            Acquired::Granted(grant) => {
                let answered = harness.now();
                HeldLease { lease: grant.lease, token: claim.token, parked: grant.parked, sent, answered }
            }
            Acquired::Busy(busy) => panic!("{} was not granted: {busy:?}", claim.holder),
        }
    }

    /// The busy answer; fails if it is granted.
    pub async fn busy(self, harness: &Harness) -> Busy {
        match expect_ok(self.answer(harness).await) {
            Acquired::Busy(busy) => busy,
            Acquired::Granted(grant) => panic!("expected busy, got {grant:?}"),
        }
    }
}
