//! `GET /v1/leases`

use std::sync::Arc;

use axum::extract::State;
use lease::{Key, Prefix, limits};
use serde::{Deserialize, Serialize};
use service::{Json, ProblemBody, Query};
use utoipa::{IntoParams, ToSchema};

use super::gate::Reader;
use super::view::StatusBody;
use crate::reserved;
use crate::site::Site;
use crate::trouble::Trouble;

const PAGE: usize = 100;

/// What to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only keys that begin so.
    #[param(max_length = 256, pattern = "^[!-~]*$")]
    prefix: Option<String>,
    /// At most so many; 100 unless told.
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
    /// Ask again with this as `after`; null when this is the last page.
    next: Option<String>,
    /// Watch from here to miss nothing.
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
    State(site): State<Arc<Site>>,
    _: Reader,
    Query(asked): Query<ListQuery>,
) -> Result<Json<PageBody>, Trouble> {
    let limit = asked.limit.unwrap_or(PAGE);
    if limit == 0 || limit > limits::BATCH {
        let why = format!("{limit} is not within 1 and {}", limits::BATCH);
        return Err(lease::Error::invalid("limit", why).into());
    }
    let query = lease::Query {
        prefix: Prefix::new(asked.prefix.unwrap_or_default())?,
        after: asked.after.filter(|key| !key.is_empty()).map(Key::new).transpose()?,
        limit,
    };
    let page = site.store.list(&query).await?;
    Ok(Json(PageBody {
        items: page.items.into_iter().map(|status| (&reserved::hide(status)).into()).collect(),
        next: page.next.map(|key| key.as_str().into()),
        revision: page.revision.get().to_string(),
    }))
}
