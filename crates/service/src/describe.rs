//! What the OpenAPI descriptions of all services share: the error format, and the errors that every operation may return.

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{Content, Ref};

/// An error (RFC 9457). Programs match on `code`; further members depend on it.
#[derive(Serialize, ToSchema)]
#[schema(title = "Problem", example = json!({
    "type": "urn:tenure:error:TTL_OUT_OF_RANGE",
    "title": "The TTL is outside what this engine grants",
    "status": 400,
    "detail": "a ttl of 5 ms is out of range for embedded (250 to 86400000 ms)",
    "code": "TTL_OUT_OF_RANGE",
    "requestId": "8f14e45fceea167a5a36dedd4bea2543"
}))]
pub struct ProblemBody {
    /// The kind of problem, as a URN.
    #[serde(rename = "type")]
    kind: String,
    /// The same sentence for every occurrence.
    title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What happened this time.
    detail: String,
    /// The stable code.
    code: String,
    /// The id of the request, as in the header `x-request-id`.
    #[serde(rename = "requestId")]
    request_id: Option<String>,
}

/// Adds the errors that every operation may return, unless it describes them itself. Needs [`ProblemBody`] in the
/// description.
pub fn add_common_responses(openapi: &mut utoipa::openapi::OpenApi) {
    let common = [
        ("400", "The request is malformed"),
        ("401", "No valid token"),
        ("403", "The token lacks a scope"),
        ("408", "The body arrived too slowly"),
        ("413", "The body is too large"),
        ("415", "The body is not JSON"),
        ("429", "Too many requests, or a limit is reached"),
        ("503", "The store is unavailable; the request had no effect"),
        ("504", "The store did not respond; the outcome is unknown"),
    ];
    add_responses(openapi, &common);
}

/// Adds these errors to every operation that does not describe them itself.
pub fn add_responses(openapi: &mut utoipa::openapi::OpenApi, responses: &[(&str, &str)]) {
    for item in openapi.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            for (status, description) in responses {
                let content = Content::new(Some(Ref::from_schema_name("ProblemBody")));
                let response = ResponseBuilder::new().description(*description);
                let response = response.content("application/problem+json", content).build();
                operation.responses.responses.entry((*status).into()).or_insert_with(|| response.into());
            }
        }
    }
}
