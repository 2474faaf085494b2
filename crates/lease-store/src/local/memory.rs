//! The memory engine: for tests, examples and state that may end with its process.

use std::sync::Arc;

use tenure_lease::{Capabilities, Clock, Floor, Revision};

use super::engine::{Engine, Local};
use super::table::Table;
use crate::BootClock;

impl Local {
    /// An empty store in memory. Must be called within a tokio runtime.
    pub fn memory() -> Self {
        Self::memory_on(Arc::new(BootClock))
    }

    /// An empty store on another clock.
    pub fn memory_on(clock: Arc<dyn Clock>) -> Self {
        let floor = Floor::default().raise(clock.wall());
        let table = Table::new(floor, Revision::new(floor.get()), false);
        Self::start(Engine::new(table, clock, Capabilities::in_process("memory"), None))
    }
}
