//! The store as the judge sees it: every write that the engine accepted, in its order.

use std::sync::Arc;

use tenure_lease::{Acquired, Claim, Committed, Fence, Op, Phase, Result, Store, StoreLayer};

use super::world::World;

/// A layer around the engine, inside its server.
pub(super) struct WatchedStore {
    pub(super) engine: Arc<dyn Store>,
    pub(super) world: Arc<World>,
}

impl StoreLayer for WatchedStore {
    fn inner(&self) -> &dyn Store {
        &*self.engine
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        let taken = claim.instead_of.is_some().then(|| claim.holder.to_string());
        let answer = self.engine.acquire(claim).await;
        if let (Some(holder), Ok(Acquired::Granted(grant))) = (taken, &answer) {
            self.world.judge.lock().took_over(self.world.now(), &grant.lease.key, &holder);
        }
        answer
    }

    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        let answer = self.engine.commit(ops).await;
        if let Ok(Committed::Written { .. }) = &answer {
            self.world.judge.lock().wrote_unfenced(self.world.now(), ops);
        }
        answer
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        let before = self.engine.inspect(&fence.key).await?;
        let owner = before.generation.filter(|_| before.phase == Phase::Held);
        let answer = self.engine.write_fenced(fence, ops).await;
        if let Ok(Committed::Written { .. }) = &answer {
            self.world.judge.lock().wrote(self.world.now(), fence, owner, ops);
        }
        answer
    }
}
