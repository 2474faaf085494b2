//! `GET /api/v3/sessions` and `GET /api/v3/sessions/{id}`

use std::sync::Arc;

use axum::extract::State;
use http::header;
use serde::{Deserialize, Serialize};
use service::{Json, Problem, ProblemBody, Query, request_id};
use session::{Among, Error};
use utoipa::{IntoParams, ToSchema};

use crate::gate::{Admin, Id, Reader};
use crate::limits;
use crate::site::{Site, bounded};
use crate::trouble::Trouble;
use crate::view::SessionBody;

/// An answer that nobody keeps.
pub(crate) type Fresh<T> = ([(header::HeaderName, &'static str); 1], Json<T>);

/// Marks an answer as one that nobody keeps.
pub(crate) fn fresh<T>(body: T) -> Fresh<T> {
    ([(header::CACHE_CONTROL, "no-store")], Json(body))
}

/// One session. A session that is over is a 410 that says why.
#[utoipa::path(
    get, path = "/api/v3/sessions/{id}", tag = "sessions", operation_id = "session",
    params(("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$")),
    responses(
        (status = 200, body = SessionBody),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "It is over; session, state, reason and reason_detail say how"),
    )
)]
pub(crate) async fn one(
    State(site): State<Arc<Site>>,
    _: Reader,
    Id(id): Id,
) -> Result<Fresh<SessionBody>, Trouble> {
    let session = site.live(&id).await?;
    let expiry = site.expiry(site.wanted(&session).await?);
    Ok(fresh(SessionBody::new(&site, &session).until(expiry).asked_by(request_id())))
}

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// How many to pass over; none unless told.
    offset: Option<usize>,
    /// At most so many; 100 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only sessions that are not over.
    live: Option<bool>,
}

/// One page of sessions, newest first, those that are over included.
#[derive(Serialize, ToSchema)]
#[schema(title = "SessionPage")]
pub(crate) struct SessionPageBody {
    sessions: Vec<SessionBody>,
    pagination: PaginationBody,
}

/// Where a page is.
#[derive(Serialize, ToSchema)]
#[schema(title = "Pagination")]
pub(crate) struct PaginationBody {
    /// How many were passed over.
    offset: usize,
    /// How many were asked for.
    limit: usize,
    /// How many there are in all.
    total: usize,
    /// How many are here.
    count: usize,
}

/// Every session.
#[utoipa::path(
    get, path = "/api/v3/sessions", tag = "sessions", operation_id = "sessions",
    params(ListQuery),
    responses((status = 200, body = SessionPageBody))
)]
pub(crate) async fn list(
    State(site): State<Arc<Site>>,
    _: Admin,
    asked: Result<Query<ListQuery>, Problem>,
) -> Result<Fresh<SessionPageBody>, Trouble> {
    let Query(asked) = asked.map_err(Trouble::input)?;
    let (offset, limit) = (asked.offset.unwrap_or(0), asked.limit.unwrap_or(limits::PAGE));
    if !(1..=session::limits::PAGE).contains(&limit) {
        let why = format!("{limit} is not within 1 and {}", session::limits::PAGE);
        return Err(Error::Invalid { field: "limit", why }.into());
    }
    let among = if asked.live.unwrap_or(false) { Among::Live } else { Among::All };
    let listed = bounded(site.ports.log.list(among, offset, limit)).await?;
    let sessions: Vec<_> = listed.sessions.iter().map(|session| SessionBody::new(&site, session)).collect();
    let pagination = PaginationBody { offset, limit, total: listed.total, count: sessions.len() };
    Ok(fresh(SessionPageBody { sessions, pagination }))
}
