//! Clients that do what they should not, and operators.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_keeper::Result;
use tenure_lease::{
    Acquired, Claim, Generation, Key, Leases, Prefix, Proof, Release, Renewal, Revoke, Token, Ttl, Wipe,
};

use super::{Process, SimEntropy, ms};
use crate::rng::Rng;

impl Process {
    /// Ends the running reign of a key, with the lock-delay that protects it.
    pub(super) async fn revoke(self: &Arc<Self>, key: u8) -> Result<()> {
        let key = self.key(key)?;
        let status = self.bounded(self.store.inspect(&key)).await?;
        if let (tenure_lease::Phase::Held, Some(generation)) = (status.phase, status.generation) {
            self.bounded(self.store.revoke(Revoke {
                key,
                generation,
                delay: None,
                reason: tenure_lease::RevokeReason::default(),
            }))
            .await?;
        }
        Ok(())
    }

    /// Asks with tokens and generations that are not its own.
    pub(super) async fn forge(self: &Arc<Self>, key: u8, mut rng: Rng) -> Result<()> {
        let key = self.key(key)?;
        let token = self.token(&mut rng);
        let status = self.bounded(self.store.inspect(&key)).await?;
        let generation = status.generation.map_or_else(|| Generation::new(1), Ok)?;
        let own = Renewal { key: key.clone(), token: token.clone(), generation, ttl: None };
        drop(self.bounded(self.store.renew(&[own])).await);
        drop(self.bounded(self.store.release(Release::new(key.clone(), token.clone()))).await);
        drop(self.bounded(self.store.verify(&key, &token)).await);
        let gate_key = Key::new("gate")?;
        let gate = self.bounded(self.store.inspect(&gate_key)).await?;
        let generation = gate.generation.map_or_else(|| Generation::new(1), Ok)?;
        let wipe = Wipe { prefix: Prefix::new("k/")?, gate: Proof { key: gate_key, token, generation } };
        drop(self.bounded(self.store.wipe(wipe)).await);
        Ok(())
    }

    /// Holds without a keeper, and asks for more when its time is over.
    pub(super) async fn overstay(self: &Arc<Self>, key: u8, late: Duration, mut rng: Rng) -> Result<()> {
        let (key, token) = (self.key(key)?, self.token(&mut rng));
        let ttl = Ttl::from_millis(u64::from(self.plan.ttl_ms))?;
        let claim = Claim::new(key.clone(), self.keeper.holder().clone(), token.clone(), ttl);
        let answer = self.bounded(self.store.acquire(claim.waiting(ms(self.plan.ttl_ms / 2)))).await?;
        let Acquired::Granted(grant) = answer else { return Ok(()) };
        let own = [Renewal {
            key: key.clone(),
            token: token.clone(),
            generation: grant.lease.generation,
            ttl: None,
        }];
        if rng.chance(50) {
            self.sleep(ttl.as_duration() / 3).await;
            drop(self.bounded(self.store.renew(&own)).await);
        }
        self.sleep(ttl.as_duration() - ms(20) + late).await;
        drop(self.bounded(self.store.renew(&own)).await);
        drop(self.bounded(self.store.release(Release::new(key, token))).await);
        Ok(())
    }

    fn token(&self, rng: &mut Rng) -> Token {
        Token::random(&SimEntropy(Mutex::new(rng.fork())))
    }
}
