//! What the OpenAPI description says besides the routes.

use serde::Serialize;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, Ref};
use utoipa::{Modify, OpenApi, ToSchema};

/// An error (RFC 9457). Programs match on `code`; further members depend on it.
#[derive(Serialize, ToSchema)]
#[schema(title = "Problem", example = json!({
    "type": "urn:tenure:error:INVALID_INPUT",
    "title": "The intent cannot be meant",
    "status": 400,
    "detail": "serviceRef: is missing; give serviceRef for live or recordingId for a recording",
    "code": "INVALID_INPUT",
    "requestId": "8f14e45fceea167a5a36dedd4bea2543"
}))]
pub(crate) struct ProblemBody {
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

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tenure sessions",
        description = "Wishes to watch, and what becomes of them.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags((name = "sessions", description = "Watching a channel or a recording")),
    components(schemas(ProblemBody)),
    security(("bearer" = [])),
    modifiers(&Bearer)
)]
pub(crate) struct Description;

/// Adds what every operation may answer.
pub(crate) fn complete(openapi: &mut utoipa::openapi::OpenApi) {
    let common = [
        ("400", "The request cannot be meant"),
        ("401", "There is no valid token"),
        ("403", "The token lacks a scope, or the client is not of the local network"),
        ("408", "The body came too slowly"),
        ("415", "The body is not JSON"),
        ("429", "Too many requests, or a limit is reached"),
        ("503", "The store or the bus cannot answer, or no tuner is configured"),
    ];
    for item in openapi.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post].into_iter().filter_map(Option::as_mut) {
            for (status, description) in common {
                let content = Content::new(Some(Ref::from_schema_name("ProblemBody")));
                let response = ResponseBuilder::new().description(description);
                let response = response.content("application/problem+json", content).build();
                operation.responses.responses.entry(status.into()).or_insert_with(|| response.into());
            }
        }
    }
}

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let mut scheme = Http::new(HttpAuthScheme::Bearer);
        scheme.description = Some(
            "A token with the scope v3:read to watch, v3:write to start and stop, v3:admin to list".into(),
        );
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}
