//! What the OpenAPI description says besides the routes: bodies that travel as free JSON here, because fields that mean
//! nothing to us are kept.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::result::PollResult;

#[derive(OpenApi)]
#[openapi(tags((name = "polling", description = "Many replicas, each endpoint polled once")))]
pub(super) struct Description;

/// A new target. Further fields are kept.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "NewTarget", example = json!({ "address": "https://host/status", "intervalMs": 10000 }))]
pub(super) struct NewTargetBody {
    /// What to GET: an absolute URL, http or https.
    address: String,
    #[serde(flatten)]
    fields: FieldsBody,
}

/// What changes of a target. Null removes a field; `***` keeps a secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "TargetChange", example = json!({ "intervalMs": 30000, "bearer": null }))]
pub(super) struct ChangeBody {
    /// What to GET; cannot be removed.
    address: Option<String>,
    #[serde(flatten)]
    fields: FieldsBody,
}

/// Fields of a target that may be absent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "TargetFields")]
pub(super) struct FieldsBody {
    /// The rest of its record's key; a new one without gets a UUID, and it never changes.
    id: Option<String>,
    /// For people; the id, if absent.
    name: Option<String>,
    /// Whether it is left alone for now.
    is_paused: Option<bool>,
    /// How often, in milliseconds; 4000 if absent.
    #[schema(minimum = 10, maximum = 86_400_000)]
    interval_ms: Option<u64>,
    /// How long one poll may take, in milliseconds.
    #[schema(minimum = 10, maximum = 86_400_000)]
    timeout_ms: Option<u64>,
    /// Sent along; shown as `***`.
    headers: Option<BTreeMap<String, String>>,
    /// A bearer token to send along; shown as `***`.
    bearer: Option<String>,
    /// What of an answer is its value: `text`, `line:PREFIX` or a path.
    extract: Option<String>,
    /// Where results are posted; shown as `***`.
    webhook: Option<String>,
}

/// A target: its record without secrets, and what this node knows of it. Further members are the record's own.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Target")]
pub(super) struct TargetBody {
    id: String,
    /// `owned`, `uncertain`, `reserved`, `free`, `paused` or `invalid`.
    state: String,
    /// Its last result, where there is one.
    last: Option<PollResult>,
}

/// Some targets, by id.
#[derive(Serialize, ToSchema)]
#[schema(title = "Targets")]
pub(super) struct TargetsBody {
    items: Vec<TargetBody>,
    /// Where the next page begins; null on the last.
    next: Option<String>,
}

/// The last results, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(title = "PollResults")]
pub(super) struct PollResultsBody {
    results: Vec<PollResult>,
}

/// Who has polled a target, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(title = "PollHistory")]
pub(super) struct PollHistoryBody {
    reigns: Vec<PollReignBody>,
}

/// One owner's time.
#[derive(Serialize, ToSchema)]
#[schema(title = "PollReign")]
pub(super) struct PollReignBody {
    owner: String,
    generation: String,
    /// Milliseconds since the epoch.
    from: u64,
    /// Null while it lasts.
    until: Option<u64>,
    /// Why it ended: released, transferred, expired, revoked, superseded, wiped or gone.
    end: Option<String>,
}
