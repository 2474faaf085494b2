//! What a test holds, and what it has in the queue.

use std::time::Duration;

use lease::{
    Acquired, Busy, Claim, Fence, Generation, Holder, Key, Lease, Mode, Motive, Proof, Release, Renewal,
    Result, Revoke, Tick, Token, Transfer, Ttl,
};
use tokio::task::JoinSet;

use super::{World, said};

/// A lease with its secret, and when it was asked for and answered.
#[derive(Clone, Debug)]
pub struct Held {
    /// The lease.
    pub lease: Lease,
    /// The secret of the reign.
    pub token: Token,
    /// Whether the claim had been parked.
    pub parked: bool,
    /// Before the request left.
    pub sent: Tick,
    /// After the answer came.
    pub told: Tick,
}

/// A claim that waits in the queue. Dropping it drops the future.
#[derive(Debug)]
pub struct Parked {
    claim: Claim,
    sent: Tick,
    task: JoinSet<Result<Acquired>>,
}

impl Held {
    /// The key.
    pub fn key(&self) -> &Key {
        &self.lease.key
    }

    /// The generation.
    pub fn generation(&self) -> Generation {
        self.lease.generation
    }

    /// The renewal of it.
    pub fn renewal(&self, ttl: Option<Ttl>) -> Renewal {
        Renewal { key: self.key().clone(), token: self.token.clone(), generation: self.generation(), ttl }
    }

    /// The release of it, with everything named.
    pub fn giving(&self, to: Option<Holder>) -> Release {
        let generation = Some(self.generation());
        Release { key: self.key().clone(), token: self.token.clone(), generation, to }
    }

    /// The transfer of it.
    pub fn handing(&self, to: Holder) -> Transfer {
        let (key, token, generation) = (self.key().clone(), self.token.clone(), self.generation());
        Transfer { key, token, generation, to }
    }

    /// The revocation of it.
    pub fn revoking(&self, delay: Option<Duration>) -> Revoke {
        Revoke { key: self.key().clone(), generation: self.generation(), delay, reason: Motive::default() }
    }

    /// The fence of it.
    pub fn fence(&self, mode: Mode) -> Fence {
        let (key, token, generation) = (self.key().clone(), self.token.clone(), self.generation());
        Fence { key, token, generation, mode }
    }

    /// The proof of it.
    pub fn proof(&self) -> Proof {
        let (key, token, generation) = (self.key().clone(), self.token.clone(), self.generation());
        Proof { key, token, generation }
    }

    /// A generation of the same key that nobody was granted: the next number.
    pub fn other_generation(&self) -> Generation {
        said(Generation::new(self.generation().get() + 1))
    }
}

impl Parked {
    pub(super) fn new(claim: Claim, sent: Tick, task: JoinSet<Result<Acquired>>) -> Self {
        Self { claim, sent, task }
    }

    /// The secret of the claim.
    pub fn token(&self) -> &Token {
        &self.claim.token
    }

    /// Whether it still has no answer.
    pub fn is_parked(&mut self) -> bool {
        match self.task.try_join_next() {
            None => true,
            Some(answer) => panic!("the claim was answered: {answer:?}"),
        }
    }

    /// The answer, whatever it is.
    pub async fn answer(mut self, world: &World) -> Result<Acquired> {
        let who = format!("the answer to {}", self.claim.holder);
        match world.within(&who, self.task.join_next()).await {
            Some(Ok(answer)) => answer,
            other => panic!("{who}: {other:?}"),
        }
    }

    /// The lease that it must get.
    pub async fn granted(self, world: &World) -> Held {
        let (claim, sent) = (self.claim.clone(), self.sent);
        match said(self.answer(world).await) {
            Acquired::Granted(grant) => {
                let told = world.now();
                Held { lease: grant.lease, token: claim.token, parked: grant.parked, sent, told }
            }
            Acquired::Busy(busy) => panic!("{} was not granted: {busy:?}", claim.holder),
        }
    }

    /// The refusal that it must get.
    pub async fn busy(self, world: &World) -> Busy {
        match said(self.answer(world).await) {
            Acquired::Busy(busy) => busy,
            Acquired::Granted(grant) => panic!("expected busy, got {grant:?}"),
        }
    }
}
