//! `GET /v1/leases`

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_lease::{Key, Prefix, limits};
use tenure_service::{Json, ProblemBody, Query};
use utoipa::{IntoParams, ToSchema};

use super::body::StatusBody;
use super::scope::Reader;
use crate::error::ApiError;
use crate::reserved;
use crate::service::LeaseService;

const DEFAULT_PAGE: usize = 100;

/// What to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only keys with this prefix.
    #[param(max_length = 256, pattern = "^[!-~]*$")]
    prefix: Option<String>,
    /// The size of the page; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only keys after this one: the `next` of the page before.
    #[param(max_length = 256, pattern = "^[!-~]*$")]
    after: Option<String>,
}

/// One page of the keys that are not free, ordered.
#[derive(Serialize, ToSchema)]
#[schema(title = "Page")]
pub(super) struct PageBody {
    items: Vec<StatusBody>,
    /// Pass this as `after` for the next page; null on the last page.
    next: Option<String>,
    /// Watch from here to miss no change.
    revision: String,
}

/// List the keys that are not free.
#[utoipa::path(
    get, path = "/v1/leases", tag = "leases", operation_id = "list",
    params(ListQuery),
    responses(
        (status = 200, body = PageBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(service): State<Arc<LeaseService>>,
    _: Reader,
    Query(query): Query<ListQuery>,
) -> Result<Json<PageBody>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if limit == 0 || limit > limits::BATCH {
        let why = format!("{limit} is not within 1 and {}", limits::BATCH);
        return Err(tenure_lease::Error::invalid("limit", why).into());
    }
    let query = tenure_lease::Query {
        prefix: Prefix::new(query.prefix.unwrap_or_default())?,
        after: query.after.filter(|key| !key.is_empty()).map(Key::new).transpose()?,
        limit,
    };
    let page = service.store.list(&query).await?;
    Ok(Json(PageBody {
        items: page.items.into_iter().map(|status| (&reserved::redact(status)).into()).collect(),
        next: page.next.map(|key| key.as_str().into()),
        revision: page.revision.get().to_string(),
    }))
}
