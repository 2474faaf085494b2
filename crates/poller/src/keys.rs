//! The keys of polling. Only leases match `poll:lease:*`, and only heartbeats match `poll:node:*`.

use tenure_lease::{Key, Prefix, Result};

pub(crate) const LEASE: &str = "poll:lease:";
pub(crate) const NODE: &str = "poll:node:";
pub(crate) const TARGET: &str = "session:";
pub(crate) const ABOUT: &str = "poll:about:";
const LATEST: &str = "poll:latest:";
const LOG: &str = "poll:log:";
const RESULTS: &str = "poll:results:";
pub(crate) const SURVEY: &str = "poll:survey";

pub(crate) fn lease(id: &str) -> Result<Key> {
    Key::new(format!("{LEASE}{id}"))
}

pub(crate) fn target(id: &str) -> Result<Key> {
    Key::new(format!("{TARGET}{id}"))
}

/// The heartbeat of a node.
pub(crate) fn node(instance: &str) -> Result<Key> {
    Key::new(format!("{NODE}{instance}"))
}

/// The information that a node publishes for other Tenure nodes.
pub(crate) fn about(instance: &str) -> Result<Key> {
    Key::new(format!("{ABOUT}{instance}"))
}

/// The latest result of a target.
pub(crate) fn latest(id: &str) -> Result<Key> {
    Key::new(format!("{LATEST}{id}"))
}

/// The log of a target's recent results.
pub(crate) fn log(id: &str) -> Result<Key> {
    Key::new(format!("{LOG}{id}"))
}

/// The channel of a target's results.
pub(crate) fn results(id: &str) -> Result<Key> {
    Key::new(format!("{RESULTS}{id}"))
}

/// The survey.
pub(crate) fn survey() -> Result<Key> {
    Key::new(SURVEY)
}

/// The prefixes that a node watches.
pub(crate) fn watched_prefixes() -> Result<Vec<Prefix>> {
    [LEASE, NODE, TARGET, SURVEY].into_iter().map(prefix).collect()
}

pub(crate) fn prefix(text: &str) -> Result<Prefix> {
    Prefix::new(text)
}
