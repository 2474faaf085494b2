//! The limits and the shutdown of the service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::limits;
use tenure_service::{Caller, Problem, Shutdown};
use tokio::sync::Semaphore;

/// Limits of the service. Clones share their counters: pass clones of one value to [`http`](crate::http) and
/// [`grpc`](crate::grpc).
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) max_watchers: usize,
    pub(crate) stall_timeout: Duration,
    pub(crate) shutdown: Shutdown,
    pub(crate) rate_limit: Option<RateLimit>,
}

/// Limits requests on a keep-alive stream.
#[derive(Clone)]
pub(crate) struct RateLimit(Arc<CheckRate>);

type CheckRate = dyn Fn(&Caller) -> Result<(), Problem> + Send + Sync;

impl RateLimit {
    pub(crate) fn check(&self, caller: &Caller) -> Result<(), Problem> {
        (self.0)(caller)
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RateLimit")
    }
}

impl Default for Options {
    /// As many watchers as a store allows, a stall timeout of 10 s, no rate limit and no shutdown.
    fn default() -> Self {
        Self {
            watchers: Arc::new(Semaphore::new(limits::WATCHERS)),
            max_watchers: limits::WATCHERS,
            stall_timeout: Duration::from_secs(10),
            shutdown: Shutdown::default(),
            rate_limit: None,
        }
    }
}

impl Options {
    /// Limits the concurrent watches, over HTTP and gRPC together, to at most what a store allows.
    pub fn max_watchers(mut self, max: usize) -> Self {
        let max = max.min(limits::WATCHERS);
        self.watchers = Arc::new(Semaphore::new(max));
        self.max_watchers = max;
        self
    }

    /// Closes a watcher that reads nothing for this long.
    pub fn stall_timeout(mut self, limit: Duration) -> Self {
        self.stall_timeout = limit;
        self
    }

    /// Calls `check` for every claim and release on a keep-alive stream, which the limit on calls counts as one call,
    /// and refuses them with its problem. Renewals are exempt, so that a holder can keep its leases.
    pub fn rate_limit(
        mut self,
        check: impl Fn(&Caller) -> Result<(), Problem> + Send + Sync + 'static,
    ) -> Self {
        self.rate_limit = Some(RateLimit(Arc::new(check)));
        self
    }

    /// Ends waiting claims, watches and keep-alive streams when this shutdown begins.
    pub fn shutdown(mut self, shutdown: Shutdown) -> Self {
        self.shutdown = shutdown;
        self
    }
}
