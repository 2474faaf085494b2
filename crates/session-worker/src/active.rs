//! The active sessions, cached so that a sweep does not read the sessions that ended within the retention time.
//!
//! Only the worker updates records, and a watch on the store reports those that the API adds, so the cache is complete.
//! All sessions are read again when a change may have been missed, and periodically.

use std::collections::HashMap;

use tenure_lease::Tick;
use tenure_session::SessionId;

use crate::orchestrator::SessionHandle;
use crate::record::{SessionError, SessionRecord};
use crate::state::WorkerState;
use crate::{limits, scan};

#[derive(Default)]
pub(crate) struct ActiveSessions {
    live: HashMap<SessionId, SessionRecord>,
    /// When all sessions were last read. `None`: the cache is invalid.
    read: Option<Tick>,
}

impl ActiveSessions {
    /// Marks the cache as invalid: all sessions are read before the next use.
    pub(crate) fn invalidate(&mut self) {
        self.read = None;
    }

    /// Updates a session. An older revision is ignored.
    pub(crate) fn update(&mut self, entry: SessionRecord) {
        let id = &entry.session.id;
        if self.live.get(id).is_some_and(|known| known.revision > entry.revision) {
            return;
        }
        match entry.session.state.is_terminal() {
            true => drop(self.live.remove(id)),
            false => drop(self.live.insert(id.clone(), entry)),
        }
    }

    /// Removes a deleted record.
    pub(crate) fn forget(&mut self, id: &SessionId) {
        self.live.remove(id);
    }

    /// Returns all active sessions. Running ones come from their tasks.
    pub(crate) async fn all(
        &mut self,
        worker: &WorkerState,
        handles: &HashMap<SessionId, SessionHandle>,
    ) -> Result<Vec<SessionRecord>, SessionError> {
        let now = worker.clock.now();
        if self.read.is_none_or(|then| now.since(then) >= limits::READ_ALL) {
            let live = scan::read_active_sessions(worker).await?;
            self.live = live.into_iter().map(|entry| (entry.session.id.clone(), entry)).collect();
            self.read = Some(now);
        }
        for handle in handles.values() {
            self.update(handle.entry.lock().clone());
        }
        Ok(self.live.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use tenure_lease::Revision;
    use tenure_session::{CorrelationId, IdempotencyKey, ProfileId, Session, SessionState, Target, UnixMs};

    use super::*;

    fn entry(state: SessionState, revision: u64) -> SessionRecord {
        let session = Session::new(
            SessionId::new("s1").unwrap(),
            Target::new(Some("1:0:1:"), None, None).unwrap(),
            ProfileId::new("high").unwrap(),
            CorrelationId::new("c1").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(7),
        );
        SessionRecord { session: Session { state, ..session }, revision: Revision::new(revision) }
    }

    #[test]
    fn ended_sessions_are_dropped_and_older_revisions_ignored() {
        let mut known = ActiveSessions::default();
        let states =
            |known: &ActiveSessions| known.live.values().map(|entry| entry.session.state).collect::<Vec<_>>();
        known.update(entry(SessionState::New, 1));
        known.update(entry(SessionState::Ready, 3));
        known.update(entry(SessionState::Starting, 2));
        assert_eq!(states(&known), [SessionState::Ready]);
        known.update(entry(SessionState::Stopped, 4));
        assert_eq!(states(&known), []);
    }
}
