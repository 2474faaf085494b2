//! Session records. Every write carries the guard's fence.

use std::time::Duration;

use tenure_keeper::Lost;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Committed, End, Fence, Mode, Op, Revision, Ttl};
use tenure_session::{Detail, Reason, Session, SessionEvent};

use crate::state::WorkerState;
use crate::{keys, limits, rows, session_log, telemetry};

/// Why a worker cannot continue with a session.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("guard lost")]
    GuardLost,
    #[error("the record was modified concurrently")]
    RecordConflict,
    #[error("{0}")]
    Store(String),
}

/// A session as last written or read, with its revision.
#[derive(Clone, Debug)]
pub(crate) struct SessionRecord {
    pub(crate) session: Session,
    pub(crate) revision: Revision,
}

/// The cause of a state change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cause {
    pub(crate) reason: Reason,
    pub(crate) detail: Option<Detail>,
    pub(crate) message: Option<String>,
}

impl Cause {
    pub(crate) fn new(reason: Reason, detail: Option<Detail>, message: impl Into<Option<String>>) -> Self {
        Self { reason, detail, message: message.into() }
    }
}

impl SessionRecord {
    /// Applies an event and writes the record if that changes it.
    pub(crate) async fn apply_event(
        &mut self,
        worker: &WorkerState,
        event: SessionEvent,
        cause: Option<Cause>,
    ) -> Result<(), SessionError> {
        let next = self
            .session
            .apply(event, worker.wall())
            .map_err(|error| SessionError::Store(error.to_string()))?;
        let Some(mut next) = next else { return Ok(()) };
        if let Some(Cause { reason, detail, message }) = cause {
            next = next.with_reason(reason, detail, message);
        }
        let from = self.session.state;
        self.save(worker, next).await?;
        telemetry::record_transition(&self.session, from);
        Ok(())
    }

    /// Writes the next version of the session. Retries while the guard is held.
    pub(crate) async fn save(&mut self, worker: &WorkerState, next: Session) -> Result<(), SessionError> {
        let value = rows::encode_session(&next).map_err(|error| SessionError::Store(error.to_string()))?;
        let mut extras = self.final_ops(worker, &next).await;
        let mut pause = Duration::from_millis(20);
        loop {
            let mut ops = vec![Op::PutIfRevision {
                key: key(keys::session(&next.id))?,
                value: value.clone(),
                ttl: retention(worker, &next),
                revision: self.revision,
            }];
            ops.append(&mut extras.clone());
            let fence = fence(worker)?;
            let written = match broken(Break::WritesUnfenced) {
                true => worker.call_store(worker.store.commit(&ops)).await,
                false => worker.call_store(worker.store.write_fenced(&fence, &ops)).await,
            };
            match written {
                Ok(Committed::Written { revision }) => {
                    (self.session, self.revision) = (next, revision);
                    return Ok(());
                }
                Ok(Committed::FencedOut { .. }) => {
                    // The guard is lost, although this process has not noticed yet.
                    worker.loss.report(Lost::Ended(End::Gone));
                    return Err(SessionError::GuardLost);
                }
                Ok(Committed::Conflict { index, .. }) if index > 0 => extras.clear(),
                Ok(Committed::Conflict { .. }) => {
                    // Possibly an earlier attempt of this write whose response was lost.
                    let record = worker.call_store(worker.store.get(ops[0].key())).await?;
                    let own =
                        record.filter(|record| record.value == value).ok_or(SessionError::RecordConflict)?;
                    (self.session, self.revision) = (next, own.revision);
                    return Ok(());
                }
                Err(SessionError::Store(why)) => {
                    tracing::warn!(target: telemetry::TARGET, session = %next.id, why, "failed to write the session record; retrying");
                    tokio::select! {
                        biased;
                        _ = worker.loss.wait() => return Err(SessionError::GuardLost),
                        () = worker.pause(pause) => pause = (pause * 2).min(limits::BACK_OFF),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Further operations of the last write of a session: its mapping gets the same TTL, and its stop request and access
    /// time are deleted.
    async fn final_ops(&self, worker: &WorkerState, next: &Session) -> Vec<Op> {
        if !next.state.is_terminal() {
            return Vec::new();
        }
        let side_records = [keys::stop(&next.id), keys::seen(&next.id)].into_iter().flatten();
        let mut extras: Vec<Op> = side_records.map(|key| Op::Delete { key }).collect();
        if let Ok(key) = keys::idem(&next.idempotency)
            && let Ok(Some(mapping)) = worker.call_store(worker.store.get(&key)).await
            && rows::decode_mapping(&mapping.value).is_ok_and(|id| id == next.id)
        {
            let (value, revision) = (mapping.value, mapping.revision);
            extras.push(Op::PutIfRevision { key, value, ttl: retention(worker, next), revision });
        }
        extras
    }
}

/// The fence of a write.
fn fence(worker: &WorkerState) -> Result<Fence, SessionError> {
    let permit = worker.guard.permit(Duration::ZERO).map_err(|_| SessionError::GuardLost)?;
    Ok(permit.fence(Mode::Strict))
}

fn retention(worker: &WorkerState, next: &Session) -> Option<Ttl> {
    let millis = worker.options.retention.as_millis() as u64;
    next.state.is_terminal().then(|| Ttl::from_millis(millis).unwrap_or(Ttl::MAX))
}

fn key(key: tenure_lease::Result<tenure_lease::Key>) -> Result<tenure_lease::Key, SessionError> {
    key.map_err(|error| SessionError::Store(session_log::store_error(error).to_string()))
}
