//! Starts a session: find the mapping, then commit the record.
//!
//! Phase 2, the default: if the intent maps to an active session, that session is returned; otherwise a new one is
//! recorded. Phase 1 of the migration: the lease is acquired first, and any existing session is a conflict.

use std::sync::Arc;

use tenure_breaks::{Break, broken};
use tenure_service::Code;
use tenure_session::{
    Admission, AdmissionOutcome, CreateOutcome, Error, IdempotencyKey, Mapping, Session, SessionId,
    StartIntent, TargetKind, Ticket,
};
use tracing::Instrument;

use crate::error::ApiError;
use crate::intents::IntentOutcome;
use crate::state::{ApiState, bounded};
use crate::telemetry::{self, Mode, Outcome};
use crate::{ids, limits};

/// Why a start failed, and the outcome it is counted as.
struct Failure(Outcome, ApiError);

type StartResult = Result<(Outcome, IntentOutcome), Failure>;

/// The outcome of recording a session.
enum RecordOutcome {
    /// This request created the record.
    Created,
    /// The intent maps to another active session.
    Existing(Box<Session>),
}

/// Handles a start intent and counts its outcome.
pub(crate) async fn start(api: &Arc<ApiState>, intent: StartIntent) -> Result<IntentOutcome, ApiError> {
    let mode = if api.ports.admission.is_some() { Mode::Phase1 } else { Mode::Phase2 };
    let result = match intent.target.kind() {
        TargetKind::Live if api.options.slots == 0 => {
            let error = ApiError::new(Code::ADMISSION_NO_TUNERS, "no tuner slots are configured");
            Err(Failure(Outcome::NoSlots, error))
        }
        TargetKind::Live | TargetKind::Recording => handle_start(api, intent).await,
    };
    match result {
        Ok((outcome, done)) => {
            telemetry::count_start(mode, outcome);
            Ok(done)
        }
        Err(Failure(outcome, error)) => {
            telemetry::count_start(mode, outcome);
            Err(error)
        }
    }
}

async fn handle_start(api: &Arc<ApiState>, intent: StartIntent) -> StartResult {
    let keys = api.options.secrets.candidates(&intent);
    let admission = api.ports.admission.clone();
    // In phase 2 most intents are repeats and end here. In phase 1 the admission comes before the lookup.
    let found = match &admission {
        None => find_mapping(api, &keys).await?,
        Some(_) => None,
    };
    if let Some(session) = found.as_ref().and_then(active_session) {
        return Ok((Outcome::Replay, replay(session)));
    }
    let permit = api.starts.clone().try_acquire_owned().map_err(|_| {
        Failure(Outcome::StoreError, ApiError::new(Code::V3_UNAVAILABLE, "too many starts in progress"))
    })?;
    api.record_limit.reserve(api).await.map_err(|error| Failure(Outcome::SessionsFull, error))?;
    let session = new_session(api, intent, &keys).map_err(store_failed)?;
    let work = {
        let api = api.clone();
        async move {
            let _permit = permit;
            match admission {
                None => start_phase2(&api, &session, &keys, found).await,
                Some(admission) => start_phase1(&api, &*admission, session, &keys).await,
            }
        }
    };
    if broken(Break::StartsInRequest) {
        return work.await;
    }
    // In its own task, so that a client that disconnects does not cancel it.
    let result = api.options.tasks.spawn(work.in_current_span()).await;
    result.unwrap_or_else(|error| {
        tracing::error!(%error, "start task failed");
        Err(Failure(Outcome::StoreError, ApiError::new(Code::INTERNAL, "the start was interrupted")))
    })
}

/// Phase 2: records the session, or returns the one recorded concurrently.
async fn start_phase2(
    api: &ApiState,
    session: &Session,
    keys: &[IdempotencyKey],
    found: Option<Mapping>,
) -> StartResult {
    match record(api, session, keys, found).await.map_err(|error| failed(Outcome::StoreError, error))? {
        RecordOutcome::Existing(session) => Ok((Outcome::Replay, replay(&session))),
        RecordOutcome::Created => Ok((Outcome::Accepted, accepted(session))),
    }
}

/// Phase 1: acquires the lease, then records the session. The lease is released unless the record with its ticket was
/// written or may have been.
async fn start_phase1(
    api: &ApiState,
    admission: &dyn Admission,
    session: Session,
    keys: &[IdempotencyKey],
) -> StartResult {
    let admitted = bounded(admission.admit(&session.target, &session.id)).await;
    let ticket = match admitted.map_err(|error| failed(Outcome::LeaseError, error))? {
        AdmissionOutcome::Granted(ticket) => ticket,
        AdmissionOutcome::Busy => return Err(conflict()),
    };
    let session = Session { ticket: Some(ticket.clone()), ..session };
    let recorded = match find_mapping(api, keys).await {
        Err(failure) => {
            release(admission, &session, &ticket).await;
            return Err(failure);
        }
        Ok(Some(found)) if active_session(&found).is_some() => {
            release(admission, &session, &ticket).await;
            return Err(conflict());
        }
        Ok(found) => record(api, &session, keys, found).await,
    };
    match recorded {
        Ok(RecordOutcome::Created) => Ok((Outcome::Accepted, accepted(&session))),
        Ok(RecordOutcome::Existing(_)) => {
            release(admission, &session, &ticket).await;
            Err(conflict())
        }
        Err(error) => {
            // If the record may have been written, a worker may continue with the ticket; then the lease is left to expire.
            if !matches!(error, Error::Unknown(_)) {
                release(admission, &session, &ticket).await;
            }
            Err(failed(Outcome::StoreError, error))
        }
    }
}

/// Commits record and mapping, replacing the mapping of a session that has ended. A concurrent start is looked up again,
/// and so is the result of a commit without a response.
async fn record(
    api: &ApiState,
    session: &Session,
    keys: &[IdempotencyKey],
    mut found: Option<Mapping>,
) -> tenure_session::Result<RecordOutcome> {
    let log = &*api.ports.log;
    let mut indeterminate = None;
    for _ in 0..limits::ATTEMPTS {
        let replaced =
            found.take().filter(|found| found.key == session.idempotency).map(|found| found.version);
        match bounded(log.create(session, replaced)).await {
            Ok(CreateOutcome::Created(_)) => return Ok(created()),
            Ok(CreateOutcome::AlreadyMapped) => {}
            Err(error @ Error::Unknown(_)) => indeterminate = Some(error),
            // This attempt had no effect, but an earlier one may have.
            Err(error) => return Err(indeterminate.unwrap_or(error)),
        }
        found = match bounded(log.find_mapping(keys)).await {
            Ok(found) => found,
            // A lookup has no side effects, so its failure is never indeterminate.
            Err(error) => return Err(indeterminate.unwrap_or_else(|| Error::Unavailable(error.to_string()))),
        };
        match found.as_ref().and_then(|found| found.session.as_ref()) {
            Some(seen) if seen.id == session.id => return Ok(created()),
            Some(seen) if !seen.state.is_terminal() => {
                return Ok(RecordOutcome::Existing(Box::new(seen.clone())));
            }
            _ => {}
        }
    }
    Err(indeterminate
        .unwrap_or_else(|| Error::Unavailable("too many concurrent starts of the same intent".into())))
}

fn created() -> RecordOutcome {
    telemetry::count_start_event();
    RecordOutcome::Created
}

/// Releases an admitted lease. If that fails, the lease expires.
async fn release(admission: &dyn Admission, session: &Session, ticket: &Ticket) {
    if let Err(error) = bounded(admission.release(&session.target, ticket)).await {
        tracing::warn!(session = %session.id, %error, "failed to release an admitted lease; it will expire");
    }
}

async fn find_mapping(api: &ApiState, keys: &[IdempotencyKey]) -> Result<Option<Mapping>, Failure> {
    bounded(api.ports.log.find_mapping(keys)).await.map_err(|error| failed(Outcome::StoreError, error))
}

fn new_session(
    api: &ApiState,
    intent: StartIntent,
    keys: &[IdempotencyKey],
) -> tenure_session::Result<Session> {
    let now = api.now();
    let id: SessionId = ids::session(now)?;
    let correlation = intent.correlation.map_or_else(|| ids::correlation(now), Ok)?;
    let key = keys.first().ok_or_else(|| Error::Unavailable("no idempotency key".into()))?;
    Ok(Session::new(id, intent.target, intent.profile, correlation, key.clone(), now))
}

fn active_session(found: &Mapping) -> Option<&Session> {
    let active = |session: &&Session| !session.state.is_terminal() && !broken(Break::IgnoresActiveSession);
    found.session.as_ref().filter(active)
}

fn accepted(session: &Session) -> IntentOutcome {
    IntentOutcome { session: session.id.clone(), replay: false, correlation: session.correlation.clone() }
}

fn replay(session: &Session) -> IntentOutcome {
    IntentOutcome { replay: true, ..accepted(session) }
}

fn failed(outcome: Outcome, error: Error) -> Failure {
    Failure(outcome, error.into())
}

fn store_failed(error: Error) -> Failure {
    failed(Outcome::StoreError, error)
}

fn conflict() -> Failure {
    let mut error = ApiError::new(Code::LEASE_BUSY, "the channel is leased");
    error.0 = error.0.with("retryAfterSeconds", 1);
    Failure(Outcome::Conflict, error)
}
