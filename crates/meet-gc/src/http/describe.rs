//! The OpenAPI description besides the routes.

use utoipa::OpenApi;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{Content, Ref};

use crate::error::{ErrorBody, ErrorDetail};

#[derive(OpenApi)]
#[openapi(
    tags((name = "meetings", description = "Create, join and configure meetings")),
    components(schemas(ErrorBody, ErrorDetail))
)]
pub(super) struct Description;

const ANSWERS: [(&str, &str); 11] = [
    ("400", "The request is invalid"),
    ("401", "The token is missing or invalid"),
    ("403", "The caller is not allowed to do this"),
    ("404", "The meeting does not exist"),
    ("408", "The body came too slowly"),
    ("409", "The request conflicts with the current state; nothing was changed"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("429", "Too many requests"),
    ("503", "No controller accepts the meeting, or the store is unavailable; retry"),
    ("504", "The store did not respond; the request may have taken effect"),
];

/// Adds the common error responses to every operation: problem details of the server, and meeting errors except where
/// operators call.
pub(super) fn complete(openapi: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut openapi.paths.paths {
        let for_operators = path.starts_with(super::admin::PATH);
        let operations = [&mut item.get, &mut item.post, &mut item.patch];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            for (status, description) in ANSWERS {
                let content = |schema: &str| Content::new(Some(Ref::from_schema_name(schema)));
                let mut response = ResponseBuilder::new().description(description);
                if !for_operators {
                    response = response.content("application/json", content("ErrorBody"));
                }
                let response = response.content("application/problem+json", content("ProblemBody")).build();
                operation.responses.responses.entry(status.into()).or_insert_with(|| response.into());
            }
        }
    }
}
