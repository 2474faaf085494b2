//! The keys of polling. Nothing of ours but leases matches `poll:lease:*`, and nothing but heartbeats `poll:node:*`.

use lease::{Key, Prefix, Result};

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

/// What a node says about itself, to ours.
pub(crate) fn about(instance: &str) -> Result<Key> {
    Key::new(format!("{ABOUT}{instance}"))
}

/// The last result of a target.
pub(crate) fn latest(id: &str) -> Result<Key> {
    Key::new(format!("{LATEST}{id}"))
}

/// The last results of a target.
pub(crate) fn log(id: &str) -> Result<Key> {
    Key::new(format!("{LOG}{id}"))
}

/// The channel of a target's results.
pub(crate) fn results(id: &str) -> Result<Key> {
    Key::new(format!("{RESULTS}{id}"))
}

/// What the one node that looks at every key of the store found.
pub(crate) fn survey() -> Result<Key> {
    Key::new(SURVEY)
}

/// What a node listens to: other changes do not wake it.
pub(crate) fn heard() -> Result<Vec<Prefix>> {
    [LEASE, NODE, TARGET, SURVEY].into_iter().map(prefix).collect()
}

pub(crate) fn prefix(text: &str) -> Result<Prefix> {
    Prefix::new(text)
}
