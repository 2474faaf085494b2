//! OpenAPI schemas of bodies that the handlers treat as free JSON, because unknown fields are preserved.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::result::PollResult;

#[derive(OpenApi)]
#[openapi(tags((name = "polling", description = "Many replicas, each endpoint polled once")))]
pub(super) struct Description;

/// A new target. Unknown fields are preserved.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "NewTarget", example = json!({ "address": "https://host/status", "intervalMs": 10000 }))]
pub(super) struct NewTargetBody {
    /// The URL to GET: absolute, http or https.
    address: String,
    #[serde(flatten)]
    fields: FieldsBody,
}

/// Changes to a target. Null removes a field; `***` keeps a secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "TargetChange", example = json!({ "intervalMs": 30000, "bearer": null }))]
pub(super) struct ChangeBody {
    /// The URL to GET; cannot be removed.
    address: Option<String>,
    #[serde(flatten)]
    fields: FieldsBody,
}

/// Optional fields of a target.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "TargetFields")]
pub(super) struct FieldsBody {
    /// The suffix of the record's key. Defaults to a new UUID; cannot be changed.
    id: Option<String>,
    /// Display name; defaults to the id.
    name: Option<String>,
    /// Whether polling is paused.
    is_paused: Option<bool>,
    /// Poll interval in milliseconds; defaults to 4000.
    #[schema(minimum = 10, maximum = 86_400_000)]
    interval_ms: Option<u64>,
    /// Timeout of one poll in milliseconds.
    #[schema(minimum = 10, maximum = 86_400_000)]
    timeout_ms: Option<u64>,
    /// Request headers; values are returned as `***`.
    headers: Option<BTreeMap<String, String>>,
    /// Bearer token of the request; returned as `***`.
    bearer: Option<String>,
    /// How to extract the value from a response: `text`, `line:PREFIX` or a path.
    extract: Option<String>,
    /// URL to which results are posted; returned as `***`.
    webhook: Option<String>,
}

/// A target: its record without secrets, and its state as known by this node. Other members come from the record.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Target")]
pub(super) struct TargetBody {
    id: String,
    /// `owned`, `uncertain`, `reserved`, `free`, `paused` or `invalid`.
    state: String,
    /// Its last result, if any.
    last: Option<PollResult>,
}

/// One page of targets, ordered by id.
#[derive(Serialize, ToSchema)]
#[schema(title = "Targets")]
pub(super) struct TargetsBody {
    items: Vec<TargetBody>,
    /// The cursor of the next page; null on the last page.
    next: Option<String>,
}

/// Recent results, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(title = "PollResults")]
pub(super) struct PollResultsBody {
    results: Vec<PollResult>,
}

/// The owners of a target, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(title = "PollHistory")]
pub(super) struct PollHistoryBody {
    reigns: Vec<PollReignBody>,
}

/// The reign of one owner.
#[derive(Serialize, ToSchema)]
#[schema(title = "PollReign")]
pub(super) struct PollReignBody {
    owner: String,
    generation: String,
    /// Milliseconds since the epoch.
    from: u64,
    /// Null while the reign lasts.
    until: Option<u64>,
    /// Why it ended: released, transferred, expired, revoked, superseded, wiped or gone.
    end: Option<String>,
}
