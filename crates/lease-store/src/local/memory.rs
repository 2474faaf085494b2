//! The engine for tests, examples and anything that may forget with its process.

use std::sync::Arc;
use std::time::Duration;

use lease::{Capabilities, Clock, Floor, Loss, Revision, Ttl};

use super::engine::{Local, Shared};
use super::table::Table;
use crate::BootClock;

impl Local {
    /// An empty store that lives and dies with this process. Must be called within a tokio runtime.
    pub fn memory() -> Self {
        Self::memory_on(Arc::new(BootClock))
    }

    /// An empty store on another clock.
    pub fn memory_on(clock: Arc<dyn Clock>) -> Self {
        let floor = Floor::default().raise(clock.wall());
        let table = Table::new(floor, Revision::new(floor.get()), false);
        let capabilities = Capabilities { engine: "memory", loss: Loss::Process, ..in_process() };
        Self::start(Shared::new(table, clock, capabilities, None))
    }
}

/// What every engine in process can promise.
pub(crate) fn in_process() -> Capabilities {
    Capabilities {
        engine: "embedded",
        min_ttl: Ttl::from_millis(250).unwrap_or(Ttl::MAX),
        max_ttl: Ttl::MAX,
        expiry_lag: Duration::from_millis(50),
        failover: Duration::ZERO,
        loss: Loss::Nothing,
    }
}
