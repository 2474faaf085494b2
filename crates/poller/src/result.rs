//! What a poll found, as everybody hears it.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// One result. Generations are texts: they are larger than what JavaScript counts to.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PollResult {
    /// The target.
    pub(crate) id: String,
    /// The lease's generation: a result with a smaller one than another is older.
    pub(crate) generation: String,
    /// Who polled.
    pub(crate) instance: String,
    /// When, in milliseconds since the epoch.
    pub(crate) at: u64,
    /// Whether it worked: an answer below 400 whose value could be read.
    pub(crate) ok: bool,
    /// Whether it was only a light probe.
    pub(crate) probe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    pub(crate) latency_ms: f64,
    pub(crate) bytes: usize,
    /// Whether the server said that nothing changed.
    pub(crate) not_modified: bool,
    /// Whether it differs from the result before.
    pub(crate) changed: bool,
    /// Failures in a row up to and with this one.
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
