//! What the OpenAPI description says besides the routes.

use utoipa::OpenApi;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{Content, Ref};

use crate::trouble::{ErrorBody, ErrorWords};

#[derive(OpenApi)]
#[openapi(
    tags((name = "meetings", description = "Meetings: made, joined, and found again")),
    components(schemas(ErrorBody, ErrorWords))
)]
pub(super) struct Description;

const ANSWERS: [(&str, &str); 11] = [
    ("400", "The request cannot be meant"),
    ("401", "There is no valid token"),
    ("403", "Not for you"),
    ("404", "There is no such meeting"),
    ("408", "The body came too slowly"),
    ("409", "Not as things are; nothing happened"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("429", "Too many requests"),
    ("503", "Nobody can take the meeting, or the store cannot answer; ask again"),
    ("504", "The store did not answer; it may have happened"),
];

/// Adds the errors that every operation may answer: in the words of meetings, or of the server around them.
pub(super) fn complete(openapi: &mut utoipa::openapi::OpenApi) {
    for item in openapi.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.patch];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            for (status, description) in ANSWERS {
                let content = |schema: &str| Content::new(Some(Ref::from_schema_name(schema)));
                let response = ResponseBuilder::new()
                    .description(description)
                    .content("application/json", content("ErrorBody"))
                    .content("application/problem+json", content("ProblemBody"))
                    .build();
                operation.responses.responses.entry(status.into()).or_insert_with(|| response.into());
            }
        }
    }
}
