//! What the OpenAPI description says besides the routes.

use service::ProblemBody;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

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

/// Adds what every operation may answer; here some of it has reasons of its own.
pub(crate) fn complete(openapi: &mut utoipa::openapi::OpenApi) {
    let own = [
        ("400", "The request cannot be meant, or its body is too large"),
        ("403", "The token lacks a scope, or the client is not of the local network"),
        ("503", "The store or the bus cannot answer, or no tuner is configured"),
    ];
    service::answers(openapi, &own);
    service::common_answers(openapi);
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
