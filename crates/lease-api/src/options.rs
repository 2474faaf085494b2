//! What both surfaces share: bounds and the end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease::limits;
use service::{Caller, Problem, Shutdown};
use tokio::sync::Semaphore;

/// Bounds of the service. Clones share their counts, so give [`http`](crate::http) and
/// [`grpc`](crate::grpc) clones of one.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) most_watchers: usize,
    pub(crate) stall: Duration,
    pub(crate) shutdown: Shutdown,
    pub(crate) meter: Option<Meter>,
}

/// Counts requests that do not come as calls of their own.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Count>);

type Count = dyn Fn(&Caller) -> Result<(), Problem> + Send + Sync;

impl Meter {
    pub(crate) fn count(&self, caller: &Caller) -> Result<(), Problem> {
        (self.0)(caller)
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}

impl Default for Options {
    /// As many watchers as a store allows, 10 s for a watcher to take an event, and no end.
    fn default() -> Self {
        Self {
            watchers: Arc::new(Semaphore::new(limits::WATCHERS)),
            most_watchers: limits::WATCHERS,
            stall: Duration::from_secs(10),
            shutdown: Shutdown::default(),
            meter: None,
        }
    }
}

impl Options {
    /// At most so many watches at once, over HTTP and gRPC together.
    pub fn max_watchers(mut self, most: usize) -> Self {
        self.watchers = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        self.most_watchers = most;
        self
    }

    /// A watcher that takes no event for so long is closed.
    pub fn stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Claims and releases on a keep-alive stream, which is one call however many there are, are counted by
    /// `meter` and refused with its problem. Renewals are free: who holds must be able to keep.
    pub fn meter(mut self, meter: impl Fn(&Caller) -> Result<(), Problem> + Send + Sync + 'static) -> Self {
        self.meter = Some(Meter(Arc::new(meter)));
        self
    }

    /// Claims that wait, watches and keep-alive streams end when this shutdown starts.
    pub fn shutdown(mut self, shutdown: Shutdown) -> Self {
        self.shutdown = shutdown;
        self
    }
}
