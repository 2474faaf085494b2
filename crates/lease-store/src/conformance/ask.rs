//! The verbs, for tests that expect a certain answer.

use std::sync::Arc;

use lease::{
    Acquired, Busy, Claim, Committed, Grant, Key, LogEntry, Op, Record, Refusal, Released, Renewed, Revision,
    Revoked, Status, Transferred, Verified,
};
use tokio::task::JoinSet;

use super::{Held, Parked, World, refused, said};
use crate::Store;

impl World {
    /// Asks for a key.
    pub async fn acquire(&self, claim: Claim) -> Acquired {
        said(self.store().acquire(claim).await)
    }

    /// Asks for a key that must be granted.
    pub async fn grant(&self, claim: Claim) -> Held {
        let (token, who, sent) = (claim.token.clone(), claim.holder.clone(), self.now());
        match self.within("the grant", self.acquire(claim)).await {
            Acquired::Granted(Grant { lease, parked }) => Held { lease, token, parked, sent, told: self.now() },
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
        let error = refused(self.store().acquire(claim).await);
        assert!(matches!(error, lease::Error::Refused(Refusal::TokenSpent)), "the token is spent: {error}");
    }

    /// Takes a free key for longer than the test.
    pub async fn hold(&self, key: &Key, who: &str) -> Held {
        self.grant(self.claim(key, who)).await
    }

    /// Takes a free key for a short time.
    pub async fn hold_briefly(&self, key: &Key, who: &str) -> Held {
        self.grant(self.brief_claim(key, who)).await
    }

    /// Puts a claim into the queue of a busy key and waits until it is there.
    pub async fn park(&self, claim: Claim) -> Parked {
        self.park_at(self.store(), claim).await
    }

    /// The same through a certain handle.
    pub async fn park_at(&self, store: Store, mut claim: Claim) -> Parked {
        let key = claim.key.clone();
        let before = self.inspect(&key).await.waiters;
        claim.wait.get_or_insert(self.long_ttl().as_duration() * 4);
        let (sent, mut task, asked) = (self.now(), JoinSet::new(), claim.clone());
        task.spawn(async move { store.acquire(asked).await });
        self.until_parked(&key, before + 1).await;
        Parked::new(claim, sent, task)
    }

    /// Parks a claim with a long TTL under a name.
    pub async fn queue(&self, key: &Key, who: &str) -> Parked {
        self.park(self.claim(key, who)).await
    }

    /// Renews a lease as it was granted.
    pub async fn renew(&self, held: &Held) -> Renewed {
        match said(self.store().renew(&[held.renewal(None)]).await)[..] {
            [answer] => answer,
            ref answers => panic!("one item has one answer: {answers:?}"),
        }
    }

    /// Gives a lease back that must be held.
    pub async fn give_back(&self, held: &Held) {
        assert_eq!(said(self.store().release(held.giving(None)).await), Released::Released);
    }

    /// Hands a lease to a successor that must be parked.
    pub async fn hand_over(&self, held: &Held, to: &str) -> lease::Lease {
        match said(self.store().transfer(held.handing(self.holder(to))).await) {
            Transferred::Transferred(lease) => lease,
            other => panic!("expected a transfer to {to}, got {other:?}"),
        }
    }

    /// Revokes a lease that must be live, and says the lock-delay.
    pub async fn revoke(&self, held: &Held, delay: Option<std::time::Duration>) -> std::time::Duration {
        match said(self.store().revoke(held.revoking(delay)).await) {
            Revoked::Revoked { delay } => delay,
            stale => panic!("expected a revocation, got {stale:?}"),
        }
    }

    /// Replaces a lease that must be live.
    pub async fn replace(&self, held: &Held, who: &str) -> Held {
        self.grant(self.claim(held.key(), who).instead_of(held.generation())).await
    }

    /// What a key is doing.
    pub async fn inspect(&self, key: &Key) -> Status {
        said(self.store().inspect(key).await)
    }

    /// What a token is to its key.
    pub async fn verify(&self, held: &Held) -> Verified {
        said(self.store().verify(held.key(), &held.token).await)
    }

    /// Asserts that a reign goes on.
    pub async fn assert_live(&self, held: &Held) {
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
        written(said(self.store().commit(ops).await))
    }

    /// Reads a record.
    pub async fn get(&self, key: &Key) -> Option<Record> {
        said(self.store().get(key).await)
    }

    /// Asserts what a record says; none when it must not be there.
    pub async fn assert_record(&self, key: &Key, expected: Option<&str>) {
        let found = self.get(key).await.map(|record| String::from_utf8_lossy(&record.value).into_owned());
        assert_eq!(found.as_deref(), expected, "the record {key}");
    }

    /// Reads a log from its oldest entry.
    pub async fn log(&self, log: &Key) -> Vec<LogEntry> {
        said(self.store().read_log(log, 0, 1_000).await)
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
