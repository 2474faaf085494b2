//! Acquires the leases of a session: first its channel or recording, then a tuner; all or none.

use std::time::Duration;

use tenure_keeper::{Bundle, Error, Guard, Policy, Terms};
use tenure_lease::{Error as StoreError, Refusal, Token, Ttl};
use tenure_session::{Detail, Session, TargetKind};

use crate::keys;
use crate::state::WorkerState;

/// The outcome of acquiring the leases.
pub(crate) enum LeaseOutcome {
    /// All leases are held.
    Acquired { leases: Bundle, slot: Option<u32> },
    /// A lease is held by another session; none is held.
    Busy(Detail),
    /// The store failed; no lease may be assumed held.
    Failed(String),
}

/// Acquires the leases of a session without waiting.
pub(crate) async fn acquire(worker: &WorkerState, session: &Session) -> LeaseOutcome {
    let dedup = match acquire_dedup(worker, session).await {
        Ok(guard) => guard,
        Err(Error::Busy { .. }) => return LeaseOutcome::Busy(Detail::RejectedBusy),
        Err(error) => return LeaseOutcome::Failed(error.to_string()),
    };
    let mut leases = Bundle::from(vec![dedup]);
    if session.kind() == TargetKind::Recording {
        return LeaseOutcome::Acquired { leases, slot: None };
    }
    let terms = match terms(worker, session) {
        Ok(terms) => terms,
        Err(error) => return LeaseOutcome::Failed(error.to_string()),
    };
    match worker.slots.take_from(0, terms, Duration::ZERO).await {
        Ok(slot) => {
            let index = slot.index();
            leases.add(slot.into_guard());
            LeaseOutcome::Acquired { leases, slot: Some(index) }
        }
        Err(error) => {
            // The reaper retries a release that fails.
            drop(leases.release().await);
            match error {
                Error::Busy { .. } => LeaseOutcome::Busy(Detail::RejectedNoTuner),
                error => LeaseOutcome::Failed(error.to_string()),
            }
        }
    }
}

/// Acquires the dedup lease. In phase 1 this continues the lease that the API acquired; if that lease has ended, a new
/// one is acquired.
async fn acquire_dedup(worker: &WorkerState, session: &Session) -> Result<Guard, Error> {
    let (key, terms) = (keys::dedup(&session.target)?, terms(worker, session)?);
    let ticket = session.ticket.as_ref().and_then(|ticket| Token::parse(ticket.reveal()).ok());
    if let Some(token) = ticket {
        match worker.keeper.try_acquire(key.clone(), terms.clone().token(token)).await {
            Err(Error::Store(StoreError::Refused(Refusal::TokenSpent)) | Error::Lost { .. }) => {}
            other => return other,
        }
    }
    worker.keeper.try_acquire(key, terms).await
}

fn terms(worker: &WorkerState, session: &Session) -> Result<Terms, Error> {
    let options = &worker.options;
    let ttl = Ttl::from_millis(options.lease_ttl.as_millis() as u64)?;
    Ok(Terms::new(ttl)
        .heartbeat(options.heartbeat)
        .renew_early(options.heartbeat / 2)
        .policy(Policy::Abort)
        .holder(keys::holder(&session.id)?))
}

/// The detail code for a lost lease.
pub(crate) fn lost_detail(key: &tenure_lease::Key) -> Detail {
    match keys::slot_in(key) {
        Some(_) => Detail::TunerLeaseLost,
        None => Detail::ServiceLeaseLost,
    }
}
