//! One write: fenced, signed with the owner, and retried until its outcome is known.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Committed, Error, Generation, Key, Mode, Op, Outcome, Record, Revision};

use crate::breaker::TIMEOUT;
use crate::ledger::{ControllerState, Ledger, LedgerError, refused};
use crate::metric;

/// The pause before a write in doubt is retried.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a write may be in doubt. Then the ownership is given up, since the stored state is unknown.
const DOUBT: Duration = Duration::from_secs(15);
/// How often the owner records may have an unexpected revision although this controller wrote them.
const SURPRISES: u32 = 3;
/// The name of an owner that did not write its id.
const UNKNOWN_OWNER: &str = "an unknown controller";

/// The outcome of a call to the store.
enum StoreReply<T> {
    Ok(T),
    /// The call failed and was not applied.
    NotApplied(String),
    /// The call may have been applied.
    Unknown,
    /// The store refuses the call; a retry does not help.
    Rejected(String),
}

/// Calls the store and reports the outcome to the circuit breaker.
async fn call_store<T>(
    shared: &ControllerState,
    clock: &Arc<dyn Clock>,
    call: impl Future<Output = tenure_lease::Result<T>>,
) -> StoreReply<T> {
    let began = clock.now();
    let reply = tokio::select! {
        biased;
        result = call => match result {
            Ok(value) => StoreReply::Ok(value),
            Err(error @ (Error::Invalid { .. } | Error::Refused(_))) => StoreReply::Rejected(error.to_string()),
            Err(error) if error.outcome() == Outcome::NotApplied => StoreReply::NotApplied(error.to_string()),
            Err(_) => StoreReply::Unknown,
        },
        () = clock.sleep_until(began + TIMEOUT) => StoreReply::Unknown,
    };
    let now = clock.now();
    metric::store_called(now.since(began));
    match &reply {
        StoreReply::Ok(_) | StoreReply::Rejected(_) => shared.breaker.lock().succeeded(),
        StoreReply::NotApplied(_) | StoreReply::Unknown => shared.breaker.lock().failed(now),
    }
    reply
}

/// Reads from the store, through the circuit breaker.
pub(super) async fn read_store<T>(
    shared: &ControllerState,
    clock: &Arc<dyn Clock>,
    read: impl Future<Output = tenure_lease::Result<T>>,
) -> Result<T, LedgerError> {
    let now = clock.now();
    if !shared.breaker.lock().allows(now) {
        return Err(breaker_open());
    }
    match call_store(shared, clock, read).await {
        StoreReply::Ok(value) => Ok(value),
        StoreReply::NotApplied(why) => Err(LedgerError::Unavailable(why)),
        StoreReply::Unknown => Err(LedgerError::Unavailable("no reply".to_owned())),
        StoreReply::Rejected(why) => Err(LedgerError::Refused(why)),
    }
}

fn breaker_open() -> LedgerError {
    LedgerError::Unavailable("the circuit breaker is open".to_owned())
}

/// The two records that show operators the last writer.
pub(super) struct OwnerRecords {
    pub(super) generation: Option<Record>,
    pub(super) controller: Option<Record>,
}

impl OwnerRecords {
    pub(super) async fn read(ledger: &Ledger) -> Result<Self, LedgerError> {
        let (shared, clock) = (&ledger.shared, &ledger.clock);
        let generation = ledger.keys.generation().map_err(refused)?;
        let controller = ledger.keys.controller().map_err(refused)?;
        Ok(Self {
            generation: read_store(shared, clock, shared.store.get(&generation)).await?,
            controller: read_store(shared, clock, shared.store.get(&controller)).await?,
        })
    }

    /// Whether controller `mc_id` may write with generation `own`.
    pub(super) fn check(&self, own: Generation, mc_id: &str) -> Result<(), LedgerError> {
        let Some(record) = self.generation.as_ref().filter(|_| !broken(Break::TrustsOwnerRecords)) else {
            return Ok(());
        };
        let text = std::str::from_utf8(&record.value).unwrap_or_default();
        let controller =
            self.controller.as_ref().map(|record| String::from_utf8_lossy(&record.value).into_owned());
        let other = controller.filter(|controller| controller != mc_id);
        match Generation::parse(text) {
            Ok(written) if written > own => Err(fenced_out()),
            Ok(written) if written < own => Ok(()),
            Ok(_) => other.map_or(Ok(()), |other| Err(split_brain(other))),
            // Not written by a controller.
            Err(_) => Err(split_brain(other.unwrap_or_else(|| UNKNOWN_OWNER.to_owned()))),
        }
    }

    pub(super) fn revisions(&self) -> (Option<Revision>, Option<Revision>) {
        let revision = |record: &Option<Record>| record.as_ref().map(|record| record.revision);
        (revision(&self.generation), revision(&self.controller))
    }
}

fn fenced_out() -> LedgerError {
    metric::fenced_out("stale_generation");
    LedgerError::FencedOut
}

fn split_brain(other: String) -> LedgerError {
    metric::fenced_out("concurrent_write");
    LedgerError::SplitBrain(other)
}

impl Ledger {
    /// The operations that begin every write: they name the writer, and fail if another controller wrote since.
    fn owner_ops(&self) -> Result<[Op; 2], LedgerError> {
        let op = |key: Key, text: String, revision: Option<Revision>| {
            let value = Arc::from(text.into_bytes());
            match revision {
                Some(revision) => Op::PutIfRevision { key, value, ttl: None, revision },
                None => Op::PutIfAbsent { key, value, ttl: None },
            }
        };
        let generation = self.held.generation().to_string();
        Ok([
            op(self.keys.generation().map_err(refused)?, generation, self.generation),
            op(self.keys.controller().map_err(refused)?, self.shared.mc_id.clone(), self.controller),
        ])
    }

    /// Writes operations, all or none, and remembers if another controller turned out to own the meeting.
    pub(super) async fn commit(&mut self, ops: &[Op], nonce: Option<Key>) -> Result<(), LedgerError> {
        tracing::debug!(target: metric::TARGET, lease = %self.held.key(), generation = %self.held.generation(), ops = ops.len(), "writing");
        let written = self.commit_until_known(ops, nonce).await;
        self.superseded |= matches!(written, Err(LedgerError::FencedOut | LedgerError::SplitBrain(_)));
        written
    }

    /// Retries a write in doubt until its outcome is known, the lease is lost or [`DOUBT`] has passed; in the latter two
    /// cases the ownership is lost.
    async fn commit_until_known(&mut self, ops: &[Op], nonce: Option<Key>) -> Result<(), LedgerError> {
        let (mut in_doubt, mut surprises) = (false, 0);
        let spend = nonce.map(Self::spend_nonce).transpose()?;
        let began = self.clock.now();
        loop {
            let now = self.clock.now();
            if in_doubt && now.since(began) > DOUBT {
                return Err(LedgerError::Lost);
            }
            let fence = match self.held.permit(Duration::ZERO) {
                Ok(permit) => permit.fence(Mode::Strict),
                Err(_) => return Err(LedgerError::Lost),
            };
            if !self.shared.breaker.lock().allows(now) {
                if !in_doubt {
                    return Err(breaker_open());
                }
                self.pause().await?;
                continue;
            }
            let mut all = self.owner_ops()?.to_vec();
            all.extend(spend.clone());
            all.extend_from_slice(ops);
            let write = self.shared.store.write_fenced(&fence, &all);
            match call_store(&self.shared, &self.clock, write).await {
                StoreReply::Ok(Committed::Written { revision }) => {
                    (self.generation, self.controller) = (Some(revision), Some(revision));
                    return Ok(());
                }
                StoreReply::Ok(Committed::FencedOut { .. }) => return Err(fenced_out()),
                StoreReply::Ok(Committed::Conflict { index, .. }) if index >= 2 => {
                    return Err(LedgerError::NonceSpent);
                }
                StoreReply::Ok(Committed::Conflict { .. }) => match self.refresh_owner_records().await {
                    // The write whose reply was lost: no other controller has this id and generation.
                    Ok(true) if in_doubt => return Ok(()),
                    Ok(_) if surprises < SURPRISES => surprises += 1,
                    Ok(_) => return Err(split_brain(UNKNOWN_OWNER.to_owned())),
                    Err(LedgerError::Unavailable(_)) if in_doubt => self.pause().await?,
                    Err(error) => return Err(error),
                },
                StoreReply::Rejected(why) => return Err(LedgerError::Refused(why)),
                StoreReply::NotApplied(why) if !in_doubt => return Err(LedgerError::Unavailable(why)),
                StoreReply::NotApplied(_) => self.pause().await?,
                StoreReply::Unknown => {
                    in_doubt = true;
                    self.pause().await?;
                }
            }
        }
    }

    /// Reads the owner records again. True if this controller wrote them with a revision that was not known here; an
    /// error if another controller wrote them.
    async fn refresh_owner_records(&mut self) -> Result<bool, LedgerError> {
        let owners = OwnerRecords::read(self).await?;
        owners.check(self.held.generation(), &self.shared.mc_id)?;
        let own = owners
            .controller
            .as_ref()
            .is_some_and(|record| record.value[..] == *self.shared.mc_id.as_bytes());
        let before = (self.generation, self.controller);
        (self.generation, self.controller) = owners.revisions();
        let together = self.generation == self.controller && self.generation.is_some();
        if !own {
            // An older owner cannot write any more: another controller changed the records.
            let other = owners.controller.map(|record| String::from_utf8_lossy(&record.value).into_owned());
            return Err(split_brain(other.unwrap_or_else(|| UNKNOWN_OWNER.to_owned())));
        }
        Ok(together && before != (self.generation, self.controller))
    }

    async fn pause(&self) -> Result<(), LedgerError> {
        tokio::select! {
            biased;
            _ = self.held.lost() => Err(LedgerError::Lost),
            () = self.clock.sleep_until(self.clock.now() + PAUSE) => Ok(()),
        }
    }
}
