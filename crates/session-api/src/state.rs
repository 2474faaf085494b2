//! The state shared by all routes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_session::{Error, Result, Session, SessionId, UnixMs};
use tokio::sync::Semaphore;

use crate::capacity::RecordLimit;
use crate::error::ApiError;
use crate::options::{Options, Ports};
use crate::{clock, limits};

pub(crate) struct ApiState {
    pub(crate) ports: Ports,
    pub(crate) options: Options,
    pub(crate) starts: Arc<Semaphore>,
    pub(crate) record_limit: RecordLimit,
    pub(crate) watchers: Arc<Semaphore>,
    /// When access to a session was last recorded, by the monotonic clock.
    touched: Mutex<HashMap<SessionId, Duration>>,
}

impl ApiState {
    pub(crate) fn new(ports: Ports, options: Options) -> Self {
        Self {
            starts: Arc::new(Semaphore::new(limits::STARTS)),
            record_limit: RecordLimit::new(options.max_records),
            watchers: Arc::new(Semaphore::new(options.max_watchers)),
            touched: Mutex::default(),
            ports,
            options,
        }
    }

    pub(crate) fn now(&self) -> UnixMs {
        clock::wall(&self.options.clock)
    }

    /// Returns the session with this id in any state.
    pub(crate) async fn get(&self, id: &SessionId) -> Result<Session, ApiError> {
        bounded(self.ports.log.get(id)).await?.ok_or_else(|| ApiError::session_not_found(id))
    }

    /// Returns the session with this id, or an error if it has ended.
    pub(crate) async fn get_active(&self, id: &SessionId) -> Result<Session, ApiError> {
        let session = self.get(id).await?;
        match session.state.is_terminal() {
            true => Err(ApiError::session_gone(&session)),
            false => Ok(session),
        }
    }

    /// When a client last showed interest in this session: created it, heartbeat, or fetched its playlist.
    pub(crate) async fn last_wanted(&self, session: &Session) -> Result<UnixMs> {
        let last_seen = bounded(self.ports.log.last_seen(&session.id)).await?;
        Ok(last_seen.into_iter().chain(session.published).fold(session.created, UnixMs::max))
    }

    /// When a session expires that was last wanted at this time.
    pub(crate) fn expiry(&self, wanted: UnixMs) -> UnixMs {
        let ttl = u64::try_from(self.options.session_lease_ttl.as_millis()).unwrap_or(u64::MAX);
        UnixMs(wanted.0.saturating_add(ttl))
    }

    /// Records that a viewer was seen, at most every few seconds. A failure is logged and does not affect the viewer.
    pub(crate) async fn record_access(&self, id: &SessionId) {
        if !self.is_access_due(id) {
            return;
        }
        if let Err(error) = bounded(self.ports.log.touch(id, self.now())).await {
            tracing::warn!(session = %id, %error, "failed to record access to session");
            self.touched.lock().remove(id);
        }
    }

    /// Whether it is time to record access to this session again.
    fn is_access_due(&self, id: &SessionId) -> bool {
        let now = self.options.clock.now();
        let fresh = |then: &Duration| now.saturating_sub(*then) < limits::TOUCH;
        let mut touched = self.touched.lock();
        if touched.get(id).is_some_and(fresh) {
            return false;
        }
        if touched.len() >= limits::TOUCHED {
            touched.retain(|_, then| fresh(then));
        }
        // When the map is full, some sessions are recorded more often, none less often.
        if touched.len() < limits::TOUCHED {
            touched.insert(id.clone(), now);
        }
        true
    }
}

/// Bounds a call to a port. After a timeout the outcome is unknown.
pub(crate) async fn bounded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Err(Error::Unknown(format!("no response within {} s", limits::PORT.as_secs())));
    clock::within(limits::PORT, work).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_port_that_never_responds_gives_an_unknown_outcome() {
        let answer: Result<()> = bounded(std::future::pending()).await;
        assert!(matches!(answer, Err(Error::Unknown(_))));
    }
}
