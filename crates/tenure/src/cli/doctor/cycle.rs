//! Checks the life cycle of a lease on an unused key: acquire, renew, fenced write, release, acquire again.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{
    Acquired, BusyReason, Claim, Committed, Entropy, Fence, Holder, Key, Lease, Mode, Op, Release, Released,
    Renewal, Renewed, Store, Token, Ttl, Wall,
};
use tenure_store::OsEntropy;

use super::report::Report;
use super::time;
use crate::cli::view::describe_busy;
use crate::cli::{Failure, Result, human};

/// Long enough for a slow store; the key is released at once.
const TTL: Duration = Duration::from_secs(5);

const CONTRACT_BROKEN: &str = "the engine violates its contract: please report this";

pub(super) async fn check(store: &Arc<dyn Store>, report: &mut Report) {
    let start = store.clock().now();
    match LeaseCheck::new(store) {
        Ok(check) => match check.run(report).await {
            Ok(true) => {
                let took = human::format_latency(store.clock().now().since(start));
                report
                    .ok("lease", format!("acquired, renewed, fenced, released and acquired again in {took}"));
            }
            Ok(false) => {}
            Err(failure) => report.fail_with("lease", &failure),
        },
        Err(failure) => report.fail_with("lease", &failure),
    }
}

struct LeaseCheck<'a> {
    store: &'a Arc<dyn Store>,
    key: Key,
    record: Key,
    holder: Holder,
    ttl: Ttl,
}

impl<'a> LeaseCheck<'a> {
    fn new(store: &'a Arc<dyn Store>) -> Result<Self> {
        let mut bytes = [0; 8];
        OsEntropy.fill(&mut bytes);
        let key = Key::new(format!("tenure-doctor/{:016x}", u64::from_be_bytes(bytes)))?;
        let (floor, top) = (store.capabilities().min_ttl, store.capabilities().max_ttl);
        let ttl = Ttl::from_millis(TTL.as_millis() as u64)?.clamp(floor, top);
        Ok(Self { store, record: key.child("record")?, key, holder: Holder::new("tenure-doctor")?, ttl })
    }

    /// Returns whether all checks passed; failures are in the report.
    async fn run(&self, report: &mut Report) -> Result<bool> {
        let token = Token::random(&OsEntropy);
        let before = self.store.clock().wall();
        let Some(first) = self.acquire(&token, report).await? else { return Ok(false) };
        let after = self.store.clock().wall();
        self.compare_clocks(before, after, report).await?;
        let held = self.check_held(&first, &token, report).await;
        self.store.release(Release::new(self.key.clone(), token.clone())).await?;
        let held = held?;
        let ended = self.check_released(&first, &token, report).await?;
        let again = Token::random(&OsEntropy);
        let Some(second) = self.acquire(&again, report).await? else { return Ok(false) };
        self.store.release(Release::new(self.key.clone(), again)).await?;
        if second.generation <= first.generation {
            report.fail(
                "lease",
                format!("generation {} was granted after {}", second.generation, first.generation),
                CONTRACT_BROKEN,
            );
            return Ok(false);
        }
        Ok(held && ended)
    }

    async fn acquire(&self, token: &Token, report: &mut Report) -> Result<Option<Lease>> {
        let claim = Claim::new(self.key.clone(), self.holder.clone(), token.clone(), self.ttl).remote();
        match self.store.acquire(claim).await? {
            Acquired::Granted(grant) => Ok(Some(grant.lease)),
            Acquired::Busy(busy) if busy.reason == BusyReason::Quarantine => {
                let remedy = "wait until then and run the check again; holders can renew meanwhile";
                report.warn("lease", describe_busy(&self.key, &busy), remedy);
                Ok(None)
            }
            Acquired::Busy(busy) => {
                report.fail("lease", describe_busy(&self.key, &busy), CONTRACT_BROKEN);
                Ok(None)
            }
        }
    }

    async fn compare_clocks(&self, before: Wall, after: Wall, report: &mut Report) -> Result {
        if let Some(reign) = self.store.history(&self.key).await?.last() {
            time::check_skew(before, reign.from, after, report);
        }
        Ok(())
    }

    /// A renewal and a fenced write must succeed while it is held.
    async fn check_held(&self, lease: &Lease, token: &Token, report: &mut Report) -> Result<bool> {
        if let Renewed::Lost(end) = self.renew(lease, token).await? {
            report.fail("lease", format!("a new lease was lost: {end}"), CONTRACT_BROKEN);
            return Ok(false);
        }
        let value = Arc::from(&b"ok"[..]);
        let write = Op::Put { key: self.record.clone(), value, ttl: Some(self.ttl) };
        if let Committed::Written { .. } = self.write(lease, token, write).await? {
            return Ok(true);
        }
        report.fail("lease", "a fenced write under a live lease was refused", CONTRACT_BROKEN);
        Ok(false)
    }

    /// A renewal and a fenced write must fail after the release.
    async fn check_released(&self, lease: &Lease, token: &Token, report: &mut Report) -> Result<bool> {
        let renewed = self.renew(lease, token).await?;
        let written = self.write(lease, token, Op::Delete { key: self.record.clone() }).await?;
        let released = self.store.release(Release::new(self.key.clone(), token.clone())).await?;
        self.store.commit(&[Op::Delete { key: self.record.clone() }]).await?;
        match (renewed, written, released) {
            (Renewed::Lost(_), Committed::FencedOut { .. }, Released::NotHeld) => Ok(true),
            _ => {
                report.fail("lease", "a released lease could still be used", CONTRACT_BROKEN);
                Ok(false)
            }
        }
    }

    async fn renew(&self, lease: &Lease, token: &Token) -> Result<Renewed> {
        let (key, generation) = (self.key.clone(), lease.generation);
        let items = [Renewal { key, token: token.clone(), generation, ttl: None }];
        let answer = self.store.renew(&items).await?.pop().transpose()?;
        answer.ok_or_else(|| Failure::internal("the store returned no result for the renewal"))
    }

    async fn write(&self, lease: &Lease, token: &Token, op: Op) -> Result<Committed> {
        let (key, generation) = (self.key.clone(), lease.generation);
        let fence = Fence { key, token: token.clone(), generation, mode: Mode::Strict };
        Ok(self.store.write_fenced(&fence, &[op]).await?)
    }
}
