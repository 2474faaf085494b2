//! Targets: the records `session:{id}`, and what became of polling them.

use std::sync::Arc;

use ::http::StatusCode;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use lease::{Committed, Entropy, Op, Revision};
use lease_keeper::OsEntropy;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use service::{Area, Caller, Code, Json, Level, Path, Problem, Query};
use utoipa::IntoParams;

use super::describe::{ChangeBody, NewTargetBody, PollHistoryBody, PollResultsBody, TargetBody, TargetsBody};
use super::trouble::Trouble;
use crate::book::Book;
use crate::look::bounded;
use crate::node::Desk;
use crate::{Target, keys, limits, view};

type Answer = Result<Json<Value>, Trouble>;

/// How often a write is tried again when somebody else wrote meanwhile.
const TRIES: usize = 8;

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// The id after which the page begins.
    after: Option<String>,
    /// Most targets on it; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Some targets, by id.
#[utoipa::path(get, path = "/poll/v1/targets", tag = "polling", operation_id = "pollTargets", params(Page), responses((status = 200, body = TargetsBody)))]
pub(super) async fn list(State(desk): State<Arc<Desk>>, caller: Caller, Query(page): Query<Page>) -> Answer {
    caller.require(Area::Poll, Level::Read)?;
    let limit = page.limit.unwrap_or(100);
    if !(1..=limits::PAGE).contains(&limit) {
        let why = format!("limit: {limit} is not within 1 and {}", limits::PAGE);
        return Err(Problem::new(Code::INVALID_REQUEST, why).with("field", "limit").into());
    }
    let book = desk.book.lock();
    let after = page.after.unwrap_or_default();
    let mut ids: Vec<&String> =
        book.targets.keys().chain(book.invalid.keys()).filter(|id| **id > after).collect();
    ids.sort_unstable();
    let more = ids.len() > limit;
    ids.truncate(limit);
    let next = ids.last().filter(|_| more).map(|id| (*id).clone());
    let items: Vec<Value> = ids.iter().filter_map(|id| shown(&book, id)).collect();
    Ok(Json(json!({ "items": items, "next": next })))
}

fn shown(book: &Book, id: &str) -> Option<Value> {
    let view = view::target(book, id)?;
    let record = book.targets.get(id).map(|target| target.shown()).unwrap_or_default();
    let mut shown = view::with_record(&view, record);
    if let (Some(last), Some(map)) = (view::last(book, id), shown.as_object_mut()) {
        map.insert("last".into(), serde_json::to_value(&*last).unwrap_or_default());
    }
    Some(shown)
}

/// A new target. Without an id it gets one.
#[utoipa::path(
    post, path = "/poll/v1/targets", tag = "polling", operation_id = "createPollTarget",
    request_body = NewTargetBody,
    responses(
        (status = 201, body = TargetBody, headers(("location" = String, description = "Its path"))),
        (status = 409, description = "It is there already, changes too fast, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Json(mut record): Json<Map<String, Value>>,
) -> Result<Response, Trouble> {
    caller.require(Area::Poll, Level::Write)?;
    let id = match record.remove("id") {
        Some(Value::String(id)) => id,
        None | Some(Value::Null) => fresh_id(),
        Some(_) => {
            return Err(Problem::new(Code::INVALID_REQUEST, "id: must be a text").with("field", "id").into());
        }
    };
    let target = Target::new(&id, record)?;
    let put = Op::PutIfAbsent { key: keys::target(&id)?, value: bytes(&target)?, ttl: None };
    match bounded(&*desk.store, desk.store.commit(&[put])).await? {
        Committed::Written { .. } => {
            let answer = put_down(&desk, target);
            let place = format!("/poll/v1/targets/{id}");
            let created = (StatusCode::CREATED, [(::http::header::LOCATION, place)], answer);
            Ok(created.into_response())
        }
        _ => Err(Problem::new(Code::CONFLICT, format!("there is a target {id}; nothing was written")).into()),
    }
}

/// One target.
#[utoipa::path(
    get, path = "/poll/v1/targets/{id}", tag = "polling", operation_id = "pollTarget", params(("id" = String, Path, description = "Which target")),
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "There is no such target", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(State(desk): State<Arc<Desk>>, caller: Caller, Path(id): Path<String>) -> Answer {
    caller.require(Area::Poll, Level::Read)?;
    let (target, _) = read(&desk, &id).await?;
    let latest = bounded(&*desk.store, desk.store.get(&keys::latest(&id)?)).await?;
    let mut shown = put_down(&desk, target).0;
    if let (Some(latest), Some(map)) = (latest, shown.as_object_mut()) {
        map.insert("last".into(), serde_json::from_slice(&latest.value).unwrap_or_default());
    }
    Ok(Json(shown))
}

/// Changes what the body names; null removes a field, and secrets shown as `***` stay.
#[utoipa::path(
    patch, path = "/poll/v1/targets/{id}", tag = "polling", operation_id = "changePollTarget", params(("id" = String, Path, description = "Which target")),
    request_body = ChangeBody,
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "There is no such target", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "It is there already, changes too fast, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn patch(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
    Json(patch): Json<Map<String, Value>>,
) -> Answer {
    caller.require(Area::Poll, Level::Write)?;
    change(&desk, &id, &patch).await
}

/// Nobody polls it any more, and its lease is given back.
#[utoipa::path(
    post, path = "/poll/v1/targets/{id}/pause", tag = "polling", operation_id = "pausePollTarget", params(("id" = String, Path, description = "Which target")),
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "There is no such target", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "It is there already, changes too fast, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn pause(State(desk): State<Arc<Desk>>, caller: Caller, Path(id): Path<String>) -> Answer {
    caller.require(Area::Poll, Level::Write)?;
    change(&desk, &id, &paused(true)).await
}

/// It is polled again.
#[utoipa::path(
    post, path = "/poll/v1/targets/{id}/resume", tag = "polling", operation_id = "resumePollTarget", params(("id" = String, Path, description = "Which target")),
    responses(
        (status = 200, body = TargetBody),
        (status = 404, description = "There is no such target", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "It is there already, changes too fast, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(State(desk): State<Arc<Desk>>, caller: Caller, Path(id): Path<String>) -> Answer {
    caller.require(Area::Poll, Level::Write)?;
    change(&desk, &id, &paused(false)).await
}

fn paused(paused: bool) -> Map<String, Value> {
    Map::from_iter([("isPaused".to_owned(), paused.into())])
}

/// It is gone, and its last result with it.
#[utoipa::path(
    delete, path = "/poll/v1/targets/{id}", tag = "polling", operation_id = "deletePollTarget", params(("id" = String, Path, description = "Which target")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is no such target", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
        (status = 409, description = "It is there already, changes too fast, or its key is leased; nothing was written", body = ref("#/components/schemas/ProblemBody"), content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Trouble> {
    caller.require(Area::Poll, Level::Write)?;
    let key = keys::target(&id)?;
    if bounded(&*desk.store, desk.store.get(&key)).await?.is_none() {
        return Err(missing(&id).into());
    }
    let ops = [Op::Delete { key }, Op::Delete { key: keys::latest(&id)? }];
    bounded(&*desk.store, desk.store.commit(&ops)).await?;
    desk.book.lock().set_target(&id, None, desk.store.clock().now());
    Ok(StatusCode::NO_CONTENT)
}

/// The last results, oldest first.
#[utoipa::path(
    get, path = "/poll/v1/targets/{id}/results", tag = "polling", operation_id = "pollResults", params(("id" = String, Path, description = "Which target")),
    responses(
        (status = 200, body = PollResultsBody),
    )
)]
pub(super) async fn results(State(desk): State<Arc<Desk>>, caller: Caller, Path(id): Path<String>) -> Answer {
    caller.require(Area::Poll, Level::Read)?;
    let log = keys::log(&id)?;
    let entries = bounded(&*desk.store, desk.store.read_log(&log, 0, limits::PAGE)).await?;
    let results: Vec<Value> =
        entries.iter().filter_map(|entry| serde_json::from_slice(&entry.value).ok()).collect();
    Ok(Json(json!({ "results": results })))
}

/// Who has polled it, oldest first, and why each stopped.
#[utoipa::path(
    get, path = "/poll/v1/targets/{id}/history", tag = "polling", operation_id = "pollHistory", params(("id" = String, Path, description = "Which target")),
    responses(
        (status = 200, body = PollHistoryBody),
    )
)]
pub(super) async fn history(State(desk): State<Arc<Desk>>, caller: Caller, Path(id): Path<String>) -> Answer {
    caller.require(Area::Poll, Level::Read)?;
    let reigns = bounded(&*desk.store, desk.store.history(&keys::lease(&id)?)).await?;
    let reigns: Vec<Value> = reigns
        .into_iter()
        .map(|reign| {
            json!({
                "owner": reign.holder.as_str(),
                "generation": reign.generation.to_string(),
                "from": reign.from.as_millis(),
                "until": reign.until.map(lease::Wall::as_millis),
                "end": reign.end.map(lease::End::as_str),
            })
        })
        .collect();
    Ok(Json(json!({ "reigns": reigns })))
}

/// Reads, changes and writes, and again if somebody wrote meanwhile.
async fn change(desk: &Arc<Desk>, id: &str, patch: &Map<String, Value>) -> Answer {
    for _ in 0..TRIES {
        let (target, revision) = read(desk, id).await?;
        if patch.get("id").is_some_and(|other| other.as_str() != Some(id)) {
            return Err(Problem::new(Code::INVALID_REQUEST, "id: cannot be changed")
                .with("field", "id")
                .into());
        }
        let target = target.patched(patch.clone())?;
        let put = Op::PutIfRevision { key: keys::target(id)?, value: bytes(&target)?, ttl: None, revision };
        match bounded(&*desk.store, desk.store.commit(&[put])).await? {
            Committed::Written { .. } => return Ok(put_down(desk, target)),
            Committed::Conflict { .. } | Committed::FencedOut { .. } => {}
        }
    }
    Err(Problem::new(Code::CONFLICT, format!("{id} changes too fast; nothing was written")).into())
}

async fn read(desk: &Desk, id: &str) -> Result<(Target, Revision), Trouble> {
    let record = bounded(&*desk.store, desk.store.get(&keys::target(id)?)).await?;
    let record = record.ok_or_else(|| missing(id))?;
    Ok((Target::parse(id, &record.value)?, record.revision))
}

fn missing(id: &str) -> Problem {
    Problem::new(Code::NOT_FOUND, format!("there is no target {id}"))
}

fn bytes(target: &Target) -> Result<Arc<[u8]>, Trouble> {
    let bytes = target.to_bytes();
    match bytes.len() > limits::RECORD {
        true => {
            Err(Problem::new(Code::BODY_TOO_LARGE, format!("at most {} bytes are allowed", limits::RECORD))
                .into())
        }
        false => Ok(bytes.into()),
    }
}

/// What was read or written is known from now on; shown as everybody may see it.
fn put_down(desk: &Arc<Desk>, target: Target) -> Json<Value> {
    let id = target.id.clone();
    let mut book = desk.book.lock();
    if book.targets.get(&id).is_none_or(|known| **known != target) {
        book.set_target(&id, Some(Ok(Arc::new(target))), desk.store.clock().now());
    }
    Json(shown(&book, &id).unwrap_or_default())
}

fn fresh_id() -> String {
    let mut bytes = [0; 16];
    OsEntropy.fill(&mut bytes);
    // As a random UUID is written, which is what other writers of these records use.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
