//! `GET /api/v3/sessions` and `GET /api/v3/sessions/{id}`

use std::sync::Arc;

use axum::extract::State;
use http::header;
use serde::{Deserialize, Serialize};
use tenure_service::{Json, Problem, ProblemBody, Query, request_id};
use tenure_session::{Error, SessionFilter};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::extract::{AdminAccess, PathId, ReadAccess};
use crate::limits;
use crate::state::{ApiState, bounded};
use crate::view::SessionBody;

/// A response that must not be cached.
pub(crate) type NoStore<T> = ([(header::HeaderName, &'static str); 1], Json<T>);

/// Marks a response as not cacheable.
pub(crate) fn no_store<T>(body: T) -> NoStore<T> {
    ([(header::CACHE_CONTROL, "no-store")], Json(body))
}

/// One session. A session that has ended gives 410 with the reason.
#[utoipa::path(
    get, path = "/api/v3/sessions/{id}", tag = "sessions", operation_id = "session",
    params(("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$")),
    responses(
        (status = 200, body = SessionBody),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The session does not exist"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "The session has ended; see session, state, reason and reason_detail"),
    )
)]
pub(crate) async fn get_session(
    State(api): State<Arc<ApiState>>,
    _: ReadAccess,
    PathId(id): PathId,
) -> Result<NoStore<SessionBody>, ApiError> {
    let session = api.get_active(&id).await?;
    let expiry = api.expiry(api.last_wanted(&session).await?);
    Ok(no_store(SessionBody::new(&api, &session).with_expiry(expiry).with_request_id(request_id())))
}

/// The page to return.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Sessions to skip; default 0.
    offset: Option<usize>,
    /// Most sessions to return; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only sessions that have not ended.
    live: Option<bool>,
}

/// One page of sessions, newest first, ended ones included.
#[derive(Serialize, ToSchema)]
#[schema(title = "SessionPage")]
pub(crate) struct SessionPageBody {
    sessions: Vec<SessionBody>,
    pagination: PaginationBody,
}

/// The position of a page.
#[derive(Serialize, ToSchema)]
#[schema(title = "Pagination")]
pub(crate) struct PaginationBody {
    /// Sessions skipped.
    offset: usize,
    /// The limit that was applied.
    limit: usize,
    /// Matching sessions in total.
    total: usize,
    /// Sessions in this page.
    count: usize,
}

/// List sessions.
#[utoipa::path(
    get, path = "/api/v3/sessions", tag = "sessions", operation_id = "sessions",
    params(ListQuery),
    responses((status = 200, body = SessionPageBody))
)]
pub(crate) async fn list_sessions(
    State(api): State<Arc<ApiState>>,
    _: AdminAccess,
    query: Result<Query<ListQuery>, Problem>,
) -> Result<NoStore<SessionPageBody>, ApiError> {
    let Query(query) = query.map_err(ApiError::invalid_input)?;
    let (offset, limit) = (query.offset.unwrap_or(0), query.limit.unwrap_or(limits::PAGE));
    if !(1..=tenure_session::limits::PAGE).contains(&limit) {
        let why = format!("{limit} is not between 1 and {}", tenure_session::limits::PAGE);
        return Err(Error::Invalid { field: "limit", why }.into());
    }
    let filter = if query.live.unwrap_or(false) { SessionFilter::Active } else { SessionFilter::All };
    let listed = bounded(api.ports.log.list(filter, offset, limit)).await?;
    let sessions: Vec<_> = listed.sessions.iter().map(|session| SessionBody::new(&api, session)).collect();
    let pagination = PaginationBody { offset, limit, total: listed.total, count: sessions.len() };
    Ok(no_store(SessionPageBody { sessions, pagination }))
}
