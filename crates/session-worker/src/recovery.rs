//! Recovers the sessions of a predecessor that ended unexpectedly, before the worker starts.

use tenure_lease::Record;
use tenure_session::{Detail, Reason, SessionEvent, SessionId, SessionState};

use crate::record::{Cause, SessionError, SessionRecord};
use crate::state::WorkerState;
use crate::{WorkerError, keys, limits, orphan_processes, output_dir, rows, scan, telemetry};

/// The event that recovers a session in this state.
pub(crate) const fn recovery_event(state: SessionState) -> Option<SessionEvent> {
    match state {
        SessionState::New | SessionState::Stopped | SessionState::Failed | SessionState::Cancelled => None,
        SessionState::Starting => Some(SessionEvent::Reset),
        SessionState::Priming | SessionState::Ready | SessionState::Draining | SessionState::Stopping => {
            Some(SessionEvent::Fail)
        }
    }
}

/// Resets sessions in STARTING and fails all later ones, whatever their age. A tuner is withheld while a process of the
/// predecessor still uses it.
pub(crate) async fn run(worker: &WorkerState) -> Result<(), WorkerError> {
    let orphans = orphan_processes::sessions();
    let needs_recovery = |record: &Record| {
        let has_process =
            || keys::id_in(&record.key, keys::SESSION).is_some_and(|id| orphans.contains(id.as_str()));
        rows::decode_summary(&record.value).map_or(true, |summary| recovery_event(summary.state).is_some())
            || has_process()
    };
    for mut entry in scan::read_sessions(worker, needs_recovery).await.map_err(fatal)? {
        let (id, slot) = (entry.session.id.clone(), entry.session.slot);
        if orphans.contains(id.as_str()) && !kill_processes(worker, &id).await {
            match slot {
                Some(slot) => worker.withhold(slot, &id),
                // It is unknown which tuner it uses.
                None => worker.options.slots.iter().for_each(|slot| worker.withhold(*slot, &id)),
            }
        }
        let Some(event) = recovery_event(entry.session.state) else { continue };
        recover(worker, &mut entry, event).await.map_err(fatal)?;
        let gone = output_dir::remove(&output_dir::of(&worker.options.output_dir, &id));
        if let Err(error) = gone {
            tracing::warn!(target: telemetry::TARGET, session = %id, %error, "failed to remove the output directory of a session");
        }
    }
    Ok(())
}

pub(crate) async fn recover(
    worker: &WorkerState,
    entry: &mut SessionRecord,
    event: SessionEvent,
) -> Result<(), SessionError> {
    let before = entry.session.state;
    let cause = (event == SessionEvent::Fail).then(|| {
        let message = format!("the worker ended while the session was {before}");
        Cause::new(Reason::ProcessEnded, Some(Detail::WorkerRestarted), message)
    });
    entry.session.recovered_from = Some(before);
    match entry.apply_event(worker, event, cause).await {
        // Only the guard holder writes records; after a conflict the session belongs to another worker.
        Err(SessionError::RecordConflict) => Ok(()),
        other => other,
    }
}

/// Kills the processes of a session. Returns whether all have exited in time.
async fn kill_processes(worker: &WorkerState, id: &SessionId) -> bool {
    let end = worker.clock.now() + worker.options.gone_timeout;
    while orphan_processes::kill(id) {
        if worker.clock.now() >= end {
            return false;
        }
        worker.pause(limits::GONE_POLL).await;
    }
    true
}

fn fatal(error: SessionError) -> WorkerError {
    WorkerError::store(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_session::Transition;

    #[test]
    fn every_recovery_is_a_legal_transition() {
        for state in SessionState::ALL {
            let next = recovery_event(*state).map(|event| state.transition(event));
            let expected = match state {
                SessionState::New
                | SessionState::Stopped
                | SessionState::Failed
                | SessionState::Cancelled => None,
                SessionState::Starting => Some(Transition::To(SessionState::New)),
                _ => Some(Transition::To(SessionState::Failed)),
            };
            assert_eq!(next, expected, "{state}");
        }
    }
}
