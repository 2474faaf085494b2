//! The result of a poll, as it is published.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// One result. Generations are strings because they exceed JavaScript's safe integers.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PollResult {
    /// The id of the target.
    pub(crate) id: String,
    /// The generation of the lease. Of two results, the one with the smaller generation is older.
    pub(crate) generation: String,
    /// The instance that polled.
    pub(crate) instance: String,
    /// When it was polled, in milliseconds since the epoch.
    pub(crate) at: u64,
    /// Whether the poll succeeded: a status below 400 and a readable value.
    pub(crate) ok: bool,
    /// Whether this was a probe.
    pub(crate) probe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    pub(crate) latency_ms: f64,
    pub(crate) bytes: usize,
    /// Whether the server responded 304 Not Modified.
    pub(crate) not_modified: bool,
    /// Whether it differs from the previous result.
    pub(crate) changed: bool,
    /// Consecutive failures, including this one.
    pub(crate) failures: u32,
    pub(crate) down: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) value: Value,
}

impl PollResult {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
