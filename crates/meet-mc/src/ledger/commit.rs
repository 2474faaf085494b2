//! One write: fenced, signed with the owner, and retried until its outcome is known or its caller must be answered.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::{Lost, PermitError};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{
    Clock, Committed, End, Error, Fence, Generation, Key, Mode, Op, Outcome, Record, Revision, Tick,
};

use crate::ledger::doubt::{DoubtfulWrite, WriteEffect};
use crate::ledger::{ControllerState, Ledger, LedgerError, refused};
use crate::metric;

/// How long a read may take. Only the opening of a meeting waits for it.
const READ: Duration = Duration::from_secs(5);
/// How long one call of a write may take.
const WRITE: Duration = Duration::from_secs(2);
/// How long the callers of a write wait for its outcome: they must be answered within 3 s.
const ANSWER: Duration = Duration::from_millis(2_500);
/// How long one attempt to resolve a write in doubt may take: the meeting answers nothing meanwhile.
const RESOLVE: Duration = Duration::from_secs(1);
/// The pause before a write in doubt is retried.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the owner records may have an unexpected revision although this controller wrote them.
const SURPRISES: u32 = 3;
/// The name of an owner that did not write its id.
const UNKNOWN_OWNER: &str = "an unknown controller";

/// The outcome of a call to the store.
pub(crate) enum StoreReply<T> {
    Ok(T),
    /// The call failed and was not applied.
    NotApplied(String),
    /// The call may have been applied.
    Unknown,
    /// The store refuses the call; a retry does not help.
    Rejected(String),
}

/// Calls the store and reports the outcome to the circuit breaker.
pub(crate) async fn call_store<T>(
    shared: &ControllerState,
    clock: &Arc<dyn Clock>,
    timeout: Duration,
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
        () = clock.sleep_until(began + timeout) => StoreReply::Unknown,
    };
    let now = clock.now();
    metric::store_called(now.since(began));
    match &reply {
        StoreReply::Ok(_) | StoreReply::Rejected(_) => shared.breaker.lock().succeeded(),
        StoreReply::NotApplied(_) | StoreReply::Unknown => shared.breaker.lock().failed(),
    }
    reply
}

/// Reads from the store, through the circuit breaker.
pub(super) async fn read_store<T>(
    shared: &ControllerState,
    clock: &Arc<dyn Clock>,
    read: impl Future<Output = tenure_lease::Result<T>>,
) -> Result<T, LedgerError> {
    if !shared.breaker.lock().is_closed() {
        return Err(breaker_open());
    }
    match call_store(shared, clock, READ, read).await {
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

    /// Writes operations, all or none. An outcome that is not known in time is [`LedgerError::InDoubt`]: the write is kept
    /// and [`Ledger::resolve_doubt`] retries it; until then nothing else is written.
    pub(super) async fn commit(
        &mut self,
        ops: Vec<Op>,
        nonce: Option<Key>,
        effect: WriteEffect,
    ) -> Result<(), LedgerError> {
        tracing::debug!(target: metric::TARGET, lease = %self.held.key(), generation = %self.held.generation(), ops = ops.len(), "writing");
        let spend = nonce.map(Self::spend_nonce).transpose()?;
        let mut write = DoubtfulWrite { ops, spend, effect, sent: false };
        let written = self.attempt(&mut write, self.clock.now() + ANSWER).await;
        if written == Err(LedgerError::InDoubt) {
            self.doubt = Some(write);
        }
        written
    }

    /// Tries to learn the outcome of the write in doubt, if there is one.
    pub(super) async fn resolve_doubt(&mut self) -> Result<(), LedgerError> {
        let Some(mut write) = self.doubt.take() else { return Ok(()) };
        let written = self.attempt(&mut write, self.clock.now() + RESOLVE).await;
        match written {
            Ok(()) => self.landed(write.effect),
            Err(LedgerError::InDoubt) => {
                self.doubt = Some(write);
                return Err(LedgerError::InDoubt);
            }
            Err(LedgerError::NonceSpent | LedgerError::Refused(_)) => self.not_applied(write.effect),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends a write until its outcome is known, and remembers if another controller turned out to own the meeting.
    async fn attempt(&mut self, write: &mut DoubtfulWrite, end: Tick) -> Result<(), LedgerError> {
        let written = self.attempt_until(write, end).await;
        self.superseded |= matches!(written, Err(LedgerError::FencedOut | LedgerError::SplitBrain(_)));
        written
    }

    async fn attempt_until(&mut self, write: &mut DoubtfulWrite, end: Tick) -> Result<(), LedgerError> {
        let mut surprises = 0;
        // What is unavailable before the first call was not applied.
        let unavailable = |sent: bool, why: LedgerError| if sent { LedgerError::InDoubt } else { why };
        loop {
            let now = self.clock.now();
            if now >= end {
                return Err(LedgerError::InDoubt);
            }
            let fence = match self.fence() {
                Err(why @ LedgerError::Unavailable(_)) => return Err(unavailable(write.sent, why)),
                fence => fence?,
            };
            if !self.shared.breaker.lock().is_closed() {
                return Err(unavailable(write.sent, breaker_open()));
            }
            let mut all = self.owner_ops()?.to_vec();
            all.extend(write.spend.clone());
            all.extend_from_slice(&write.ops);
            let store = &self.shared.store;
            let call = async {
                match broken(Break::UnfencedWrites) {
                    true => store.commit(&all).await,
                    false => store.write_fenced(&fence, &all).await,
                }
            };
            match call_store(&self.shared, &self.clock, WRITE.min(end.since(now)), call).await {
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
                    Ok(true) if write.sent => return Ok(()),
                    Ok(_) if surprises < SURPRISES => surprises += 1,
                    Ok(_) => return Err(split_brain(UNKNOWN_OWNER.to_owned())),
                    Err(LedgerError::Unavailable(_)) if write.sent => self.pause().await,
                    Err(error) => return Err(error),
                },
                StoreReply::Rejected(why) => return Err(LedgerError::Refused(why)),
                StoreReply::NotApplied(why) if !write.sent => return Err(LedgerError::Unavailable(why)),
                StoreReply::NotApplied(_) => self.pause().await,
                StoreReply::Unknown if broken(Break::UnknownWriteFails) => {
                    return Err(LedgerError::Unavailable("no reply".to_owned()));
                }
                StoreReply::Unknown => {
                    write.sent = true;
                    self.pause().await;
                }
            }
        }
    }

    /// The fence of a write now. Unavailable while the lease is suspended, or expired and not acquired anew yet: the store's
    /// next answer decides.
    fn fence(&self) -> Result<Fence, LedgerError> {
        match self.held.permit(Duration::ZERO) {
            Ok(permit) => Ok(permit.fence(Mode::Strict)),
            Err(PermitError::Lost(lost)) if !may_regain(lost) => Err(LedgerError::Lost),
            Err(error) => Err(LedgerError::Unavailable(error.to_string())),
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

    async fn pause(&self) {
        self.clock.sleep_until(self.clock.now() + PAUSE).await;
    }
}

/// Whether a lease that ended like this may be acquired anew: it ended by time, and no other controller is known to have
/// it.
pub(crate) const fn may_regain(lost: Lost) -> bool {
    matches!(lost, Lost::Ended(End::Expired | End::Gone) | Lost::Unconfirmed)
}
