//! What all routes share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use session::{Error, Result, Session, SessionId, UnixMs};
use tokio::sync::Semaphore;

use crate::options::{Options, Ports};
use crate::room::Room;
use crate::trouble::Trouble;
use crate::{clock, limits};

pub(crate) struct Site {
    pub(crate) ports: Ports,
    pub(crate) options: Options,
    pub(crate) starts: Arc<Semaphore>,
    pub(crate) room: Room,
    pub(crate) watchers: Arc<Semaphore>,
    /// When access to a session was last noted, on the clock that does not step.
    touched: Mutex<HashMap<SessionId, Duration>>,
}

impl Site {
    pub(crate) fn new(ports: Ports, options: Options) -> Self {
        Self {
            starts: Arc::new(Semaphore::new(limits::STARTS)),
            room: Room::new(options.max_records),
            watchers: Arc::new(Semaphore::new(options.max_watchers)),
            touched: Mutex::default(),
            ports,
            options,
        }
    }

    pub(crate) fn now(&self) -> UnixMs {
        clock::wall(&self.options.clock)
    }

    /// The session with this id, whatever became of it.
    pub(crate) async fn get(&self, id: &SessionId) -> Result<Session, Trouble> {
        bounded(self.ports.log.get(id)).await?.ok_or_else(|| Trouble::missing(id))
    }

    /// The session with this id, which is not over.
    pub(crate) async fn live(&self, id: &SessionId) -> Result<Session, Trouble> {
        let session = self.get(id).await?;
        match session.state.is_terminal() {
            true => Err(Trouble::gone(&session)),
            false => Ok(session),
        }
    }

    /// When somebody was last known to want this session.
    pub(crate) async fn wanted(&self, session: &Session) -> Result<UnixMs> {
        let seen = bounded(self.ports.log.seen(&session.id)).await?;
        Ok(seen.into_iter().chain(session.published).fold(session.created, UnixMs::max))
    }

    /// Until when a session lives that was last wanted then.
    pub(crate) fn expiry(&self, wanted: UnixMs) -> UnixMs {
        let ttl = u64::try_from(self.options.session_lease_ttl.as_millis()).unwrap_or(u64::MAX);
        UnixMs(wanted.0.saturating_add(ttl))
    }

    /// Notes that somebody watches, every few seconds at most. A note that fails costs the viewer nothing now.
    pub(crate) async fn watched(&self, id: &SessionId) {
        if !self.note(id) {
            return;
        }
        if let Err(error) = bounded(self.ports.log.touch(id, self.now())).await {
            tracing::warn!(session = %id, %error, "cannot note that somebody watches");
            self.touched.lock().remove(id);
        }
    }

    /// Whether it is time to note this session again.
    fn note(&self, id: &SessionId) -> bool {
        let now = self.options.clock.now();
        let fresh = |then: &Duration| now.saturating_sub(*then) < limits::TOUCH;
        let mut touched = self.touched.lock();
        if touched.get(id).is_some_and(fresh) {
            return false;
        }
        if touched.len() >= limits::TOUCHED {
            touched.retain(|_, then| fresh(then));
        }
        // With more viewers than places some are noted more often, none less.
        if touched.len() < limits::TOUCHED {
            touched.insert(id.clone(), now);
        }
        true
    }
}

/// The answer of a port, which must come in time. Without one it may have happened.
pub(crate) async fn bounded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Err(Error::Unknown(format!("no answer within {} s", limits::PORT.as_secs())));
    clock::within(limits::PORT, work).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_port_that_never_answers_is_an_unknown_outcome() {
        let answer: Result<()> = bounded(std::future::pending()).await;
        assert!(matches!(answer, Err(Error::Unknown(_))));
    }
}
