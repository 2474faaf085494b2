//! Targets: the records `session:{id}`, their results and their owners.

use std::sync::Arc;

use ::http::StatusCode;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tenure_keeper::OsEntropy;
use tenure_lease::{Committed, Entropy, Op, Revision};
use tenure_service::{Area, Caller, Code, Json, Level, Path, Problem, Query};
use utoipa::IntoParams;

use super::error::ApiError;
use super::openapi::{ChangeBody, NewTargetBody, PollHistoryBody, PollResultsBody, TargetBody, TargetsBody};
use crate::cluster_view::ClusterView;
use crate::discovery::with_timeout;
use crate::node::NodeState;
use crate::{Target, keys, limits, snapshot};

type JsonResult = Result<Json<Value>, ApiError>;

/// Attempts of a write that conflicts with concurrent writes.
const WRITE_ATTEMPTS: usize = 8;

/// Paging parameters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Return targets after this id.
    after: Option<String>,
    /// Maximum number of targets; defaults to 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists targets by id.
#[utoipa::path(get, path = "/poll/v1/targets", tag = "polling", operation_id = "pollTargets", params(Page), responses((status = 200, body = TargetsBody)))]
pub(super) async fn list(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Query(page): Query<Page>,
) -> JsonResult {
    caller.require(Area::Poll, Level::Read)?;
    let limit = page.limit.unwrap_or(100);
    if !(1..=limits::PAGE).contains(&limit) {
        let detail = format!("limit: {limit} is not between 1 and {}", limits::PAGE);
        return Err(Problem::new(Code::INVALID_REQUEST, detail).with("field", "limit").into());
    }
    let cluster = state.cluster.lock();
    let after = page.after.unwrap_or_default();
    let mut ids: Vec<&String> =
        cluster.targets.keys().chain(cluster.invalid.keys()).filter(|id| **id > after).collect();
    ids.sort_unstable();
    let more = ids.len() > limit;
    ids.truncate(limit);
    let next = ids.last().filter(|_| more).map(|id| (*id).clone());
    let items: Vec<Value> = ids.iter().filter_map(|id| render_target(&cluster, id)).collect();
    Ok(Json(json!({ "items": items, "next": next })))
}

fn render_target(cluster: &ClusterView, id: &str) -> Option<Value> {
    let view = snapshot::target_view(cluster, id)?;
    let record = cluster.targets.get(id).map(|target| target.redacted_record()).unwrap_or_default();
    let mut rendered = snapshot::merge_record(&view, record);
    if let (Some(last), Some(map)) = (snapshot::last_result(cluster, id), rendered.as_object_mut()) {
        map.insert("last".into(), serde_json::to_value(&*last).unwrap_or_default());
    }
    Some(rendered)
}

/// Creates a target. Without an id, a new UUID is used.
#[utoipa::path(
    post, path = "/poll/v1/targets", tag = "polling", operation_id = "createPollTarget",
    request_body = NewTargetBody,
    responses(
        (status = 201, body = TargetBody, headers(("location" = String, description = "The path of the new target"))),
        (status = 409, description = "The target exists, is being changed concurrently, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Json(mut record): Json<Map<String, Value>>,
) -> Result<Response, ApiError> {
    caller.require(Area::Poll, Level::Write)?;
    let id = match record.remove("id") {
        Some(Value::String(id)) => id,
        None | Some(Value::Null) => new_id(),
        Some(_) => {
            return Err(Problem::new(Code::INVALID_REQUEST, "id: must be a string")
                .with("field", "id")
                .into());
        }
    };
    let target = Target::new(&id, record)?;
    let put = Op::PutIfAbsent { key: keys::target(&id)?, value: encode_record(&target)?, ttl: None };
    match with_timeout(&*state.store, state.store.commit(&[put])).await? {
        Committed::Written { .. } => {
            let answer = remember_target(&state, target);
            let location = format!("/poll/v1/targets/{id}");
            let created = (StatusCode::CREATED, [(::http::header::LOCATION, location)], answer);
            Ok(created.into_response())
        }
        _ => {
            Err(Problem::new(Code::CONFLICT, format!("target {id} already exists; nothing was written"))
                .into())
        }
    }
}

/// Reads one target.
#[utoipa::path(
    get, path = "/poll/v1/targets/{id}", tag = "polling", operation_id = "pollTarget", params(("id" = String, Path, description = "The id of the target")),
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "Target not found", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Path(id): Path<String>,
) -> JsonResult {
    caller.require(Area::Poll, Level::Read)?;
    let (target, _) = read_target(&state, &id).await?;
    let latest = with_timeout(&*state.store, state.store.get(&keys::latest(&id)?)).await?;
    let mut rendered = remember_target(&state, target).0;
    if let (Some(latest), Some(map)) = (latest, rendered.as_object_mut()) {
        map.insert("last".into(), serde_json::from_slice(&latest.value).unwrap_or_default());
    }
    Ok(Json(rendered))
}

/// Changes the given fields. Null removes a field; a secret given as `***` is unchanged.
#[utoipa::path(
    patch, path = "/poll/v1/targets/{id}", tag = "polling", operation_id = "changePollTarget", params(("id" = String, Path, description = "The id of the target")),
    request_body = ChangeBody,
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "Target not found", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "The target exists, is being changed concurrently, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn patch(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Path(id): Path<String>,
    Json(patch): Json<Map<String, Value>>,
) -> JsonResult {
    caller.require(Area::Poll, Level::Write)?;
    update_target(&state, &id, &patch).await
}

/// Pauses polling and releases the target's lease.
#[utoipa::path(
    post, path = "/poll/v1/targets/{id}/pause", tag = "polling", operation_id = "pausePollTarget", params(("id" = String, Path, description = "The id of the target")),
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "Target not found", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "The target exists, is being changed concurrently, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn pause(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Path(id): Path<String>,
) -> JsonResult {
    caller.require(Area::Poll, Level::Write)?;
    update_target(&state, &id, &pause_patch(true)).await
}

/// Resumes polling.
#[utoipa::path(
    post, path = "/poll/v1/targets/{id}/resume", tag = "polling", operation_id = "resumePollTarget", params(("id" = String, Path, description = "The id of the target")),
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "Target not found", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "The target exists, is being changed concurrently, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Path(id): Path<String>,
) -> JsonResult {
    caller.require(Area::Poll, Level::Write)?;
    update_target(&state, &id, &pause_patch(false)).await
}

fn pause_patch(paused: bool) -> Map<String, Value> {
    Map::from_iter([("isPaused".to_owned(), paused.into())])
}

/// Deletes a target and its latest result.
#[utoipa::path(
    delete, path = "/poll/v1/targets/{id}", tag = "polling", operation_id = "deletePollTarget", params(("id" = String, Path, description = "The id of the target")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "Target not found", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "The target exists, is being changed concurrently, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    caller.require(Area::Poll, Level::Write)?;
    let key = keys::target(&id)?;
    if with_timeout(&*state.store, state.store.get(&key)).await?.is_none() {
        return Err(target_not_found(&id).into());
    }
    let ops = [Op::Delete { key }, Op::Delete { key: keys::latest(&id)? }];
    with_timeout(&*state.store, state.store.commit(&ops)).await?;
    state.cluster.lock().set_target(&id, None, state.store.clock().now());
    Ok(StatusCode::NO_CONTENT)
}

/// Reads recent results, oldest first.
#[utoipa::path(
    get, path = "/poll/v1/targets/{id}/results", tag = "polling", operation_id = "pollResults", params(("id" = String, Path, description = "The id of the target")),
    responses(
        (status = 200, body = PollResultsBody),
    )
)]
pub(super) async fn results(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Path(id): Path<String>,
) -> JsonResult {
    caller.require(Area::Poll, Level::Read)?;
    let log = keys::log(&id)?;
    let entries = with_timeout(&*state.store, state.store.read_log(&log, 0, limits::PAGE)).await?;
    let results: Vec<Value> =
        entries.iter().filter_map(|entry| serde_json::from_slice(&entry.value).ok()).collect();
    Ok(Json(json!({ "results": results })))
}

/// Reads the owners of a target, oldest first, and why each reign ended.
#[utoipa::path(
    get, path = "/poll/v1/targets/{id}/history", tag = "polling", operation_id = "pollHistory", params(("id" = String, Path, description = "The id of the target")),
    responses(
        (status = 200, body = PollHistoryBody),
    )
)]
pub(super) async fn history(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
    Path(id): Path<String>,
) -> JsonResult {
    caller.require(Area::Poll, Level::Read)?;
    let reigns = with_timeout(&*state.store, state.store.history(&keys::lease(&id)?)).await?;
    let reigns: Vec<Value> = reigns
        .into_iter()
        .map(|reign| {
            json!({
                "owner": reign.holder.as_str(),
                "generation": reign.generation.to_string(),
                "from": reign.from.as_millis(),
                "until": reign.until.map(tenure_lease::Wall::as_millis),
                "end": reign.end.map(tenure_lease::End::as_str),
            })
        })
        .collect();
    Ok(Json(json!({ "reigns": reigns })))
}

/// Reads, changes and writes a target; retries after concurrent writes.
async fn update_target(state: &Arc<NodeState>, id: &str, patch: &Map<String, Value>) -> JsonResult {
    for _ in 0..WRITE_ATTEMPTS {
        let (target, revision) = read_target(state, id).await?;
        if patch.get("id").is_some_and(|other| other.as_str() != Some(id)) {
            return Err(Problem::new(Code::INVALID_REQUEST, "id: cannot be changed")
                .with("field", "id")
                .into());
        }
        let target = target.patched(patch.clone())?;
        let put =
            Op::PutIfRevision { key: keys::target(id)?, value: encode_record(&target)?, ttl: None, revision };
        match with_timeout(&*state.store, state.store.commit(&[put])).await? {
            Committed::Written { .. } => return Ok(remember_target(state, target)),
            Committed::Conflict { .. } | Committed::FencedOut { .. } => {}
        }
    }
    Err(Problem::new(
        Code::CONFLICT,
        format!("target {id} is being changed concurrently; nothing was written"),
    )
    .into())
}

async fn read_target(state: &NodeState, id: &str) -> Result<(Target, Revision), ApiError> {
    let record = with_timeout(&*state.store, state.store.get(&keys::target(id)?)).await?;
    let record = record.ok_or_else(|| target_not_found(id))?;
    Ok((Target::parse(id, &record.value)?, record.revision))
}

fn target_not_found(id: &str) -> Problem {
    Problem::new(Code::NOT_FOUND, format!("target {id} not found"))
}

fn encode_record(target: &Target) -> Result<Arc<[u8]>, ApiError> {
    let bytes = target.to_bytes();
    match bytes.len() > limits::RECORD {
        true => {
            Err(Problem::new(Code::BODY_TOO_LARGE, format!("at most {} bytes are allowed", limits::RECORD))
                .into())
        }
        false => Ok(bytes.into()),
    }
}

/// Adds the target to the cluster view, and renders it without secrets.
fn remember_target(state: &Arc<NodeState>, target: Target) -> Json<Value> {
    let id = target.id.clone();
    let mut cluster = state.cluster.lock();
    if cluster.targets.get(&id).is_none_or(|known| **known != target) {
        cluster.set_target(&id, Some(Ok(Arc::new(target))), state.store.clock().now());
    }
    Json(render_target(&cluster, &id).unwrap_or_default())
}

fn new_id() -> String {
    let mut bytes = [0; 16];
    OsEntropy.fill(&mut bytes);
    // The format of a random UUID, which other writers of these records use.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
