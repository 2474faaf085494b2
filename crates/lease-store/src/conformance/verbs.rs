//! The verbs, for tests that expect a certain answer.

use std::sync::Arc;

use tenure_lease::{
    Acquired, Busy, Claim, Committed, Grant, Key, LogEntry, Op, Record, Refusal, Released, Renewed, Revision,
    Revoked, Status, Transferred, Verified,
};
use tokio::task::JoinSet;

use super::{Harness, HeldLease, ParkedClaim, expect_ok, expect_refusal, expect_renewals};
use crate::Store;

impl Harness {
    /// Asks for a key.
    pub async fn acquire(&self, claim: Claim) -> Acquired {
        expect_ok(self.store().acquire(claim).await)
    }

    /// Asks for a key that must be granted.
    pub async fn grant(&self, claim: Claim) -> HeldLease {
        let (token, who, sent) = (claim.token.clone(), claim.holder.clone(), self.now());
        match self.within("the grant", self.acquire(claim)).await {
            Acquired::Granted(Grant { lease, parked }) => {
                HeldLease { lease, token, parked, sent, answered: self.now() }
            }
            Acquired::Busy(busy) => panic!("{who} was not granted: {busy:?}"),
        }
    }

    /// Asks for a key that must be busy.
    pub async fn busy(&self, claim: Claim) -> Busy {
        match self.acquire(claim).await {
            Acquired::Busy(busy) => busy,
            Acquired::Granted(grant) => panic!("expected busy, got {grant:?}"),
        }
    }

    /// Asks for a key with a token that must be spent.
    pub async fn spent(&self, claim: Claim) {
        let error = expect_refusal(self.store().acquire(claim).await);
        assert!(
            matches!(error, tenure_lease::Error::Refused(Refusal::TokenSpent)),
            "the token is spent: {error}"
        );
    }

    /// Takes a free key for longer than the test.
    pub async fn hold(&self, key: &Key, who: &str) -> HeldLease {
        self.grant(self.claim(key, who)).await
    }

    /// Takes a free key for a short time.
    pub async fn hold_briefly(&self, key: &Key, who: &str) -> HeldLease {
        self.grant(self.brief_claim(key, who)).await
    }

    /// Puts a claim into the queue of a busy key and waits until it is there.
    pub async fn park(&self, claim: Claim) -> ParkedClaim {
        self.park_at(self.store(), claim).await
    }

    /// The same through a certain handle.
    pub async fn park_at(&self, store: Store, mut claim: Claim) -> ParkedClaim {
        let key = claim.key.clone();
        let before = self.inspect(&key).await.waiters;
        claim.wait.get_or_insert(self.long_ttl().as_duration() * 4);
        let (sent, mut task, asked) = (self.now(), JoinSet::new(), claim.clone());
        task.spawn(async move { store.acquire(asked).await });
        self.until_parked(&key, before + 1).await;
        ParkedClaim::new(claim, sent, task)
    }

    /// Parks a claim with a long TTL under a name.
    pub async fn queue(&self, key: &Key, who: &str) -> ParkedClaim {
        self.park(self.claim(key, who)).await
    }

    /// Renews a lease as it was granted.
    pub async fn renew(&self, held: &HeldLease) -> Renewed {
        match expect_renewals(self.store().renew(&[held.renewal(None)]).await)[..] {
            [answer] => answer,
            ref answers => panic!("one item has one answer: {answers:?}"),
        }
    }

    /// Gives a lease back that must be held.
    pub async fn release_held(&self, held: &HeldLease) {
        assert_eq!(expect_ok(self.store().release(held.release(None)).await), Released::Released);
    }

    /// Hands a lease to a successor that must be parked.
    pub async fn transfer_held(&self, held: &HeldLease, to: &str) -> tenure_lease::Lease {
        match expect_ok(self.store().transfer(held.transfer(self.holder(to))).await) {
            Transferred::Transferred(lease) => lease,
            other => panic!("expected a transfer to {to}, got {other:?}"),
        }
    }

    /// Revokes a lease that must be live, and says the lock-delay.
    pub async fn revoke(&self, held: &HeldLease, delay: Option<std::time::Duration>) -> std::time::Duration {
        match expect_ok(self.store().revoke(held.revoke(delay)).await) {
            Revoked::Revoked { delay } => delay,
            stale => panic!("expected a revocation, got {stale:?}"),
        }
    }

    /// Replaces a lease that must be live.
    pub async fn replace(&self, held: &HeldLease, who: &str) -> HeldLease {
        self.grant(self.claim(held.key(), who).instead_of(held.generation())).await
    }

    /// What a key is doing.
    pub async fn inspect(&self, key: &Key) -> Status {
        expect_ok(self.store().inspect(key).await)
    }

    /// What a token is to its key.
    pub async fn verify(&self, held: &HeldLease) -> Verified {
        expect_ok(self.store().verify(held.key(), &held.token).await)
    }

    /// Asserts that a reign goes on.
    pub async fn assert_live(&self, held: &HeldLease) {
        match self.verify(held).await {
            Verified::Live { generation, .. } => assert_eq!(generation, held.generation()),
            other => panic!("{} does not hold {}: {other:?}", held.lease.holder, held.key()),
        }
    }

    /// Writes one record, whatever is there.
    pub async fn put(&self, key: &Key, value: &str) -> Revision {
        self.write(&[put(key, value)]).await
    }

    /// Performs operations whose conditions must hold.
    pub async fn write(&self, ops: &[Op]) -> Revision {
        written(expect_ok(self.store().commit(ops).await))
    }

    /// Reads a record.
    pub async fn get(&self, key: &Key) -> Option<Record> {
        expect_ok(self.store().get(key).await)
    }

    /// Asserts what a record says; none when it must not be there.
    pub async fn assert_record(&self, key: &Key, expected: Option<&str>) {
        let found = self.get(key).await.map(|record| String::from_utf8_lossy(&record.value).into_owned());
        assert_eq!(found.as_deref(), expected, "the record {key}");
    }

    /// Reads a log from its oldest entry.
    pub async fn log(&self, log: &Key) -> Vec<LogEntry> {
        expect_ok(self.store().read_log(log, 0, 1_000).await)
    }
}

/// An unconditional write without a TTL.
pub(super) fn put(key: &Key, value: &str) -> Op {
    Op::Put { key: key.clone(), value: bytes(value), ttl: None }
}

/// A write where nothing may be.
pub(super) fn put_if_absent(key: &Key, value: &str) -> Op {
    Op::PutIfAbsent { key: key.clone(), value: bytes(value), ttl: None }
}

/// An entry for a log.
pub(super) fn append(log: &Key, value: &str, max_len: usize) -> Op {
    Op::Append { log: log.clone(), value: bytes(value), max_len }
}

pub(super) fn bytes(text: &str) -> Arc<[u8]> {
    Arc::from(text.as_bytes())
}

/// The revision of a commit that must have happened.
#[track_caller]
pub(super) fn written(committed: Committed) -> Revision {
    match committed {
        Committed::Written { revision } => revision,
        other => panic!("expected a write, got {other:?}"),
    }
}
