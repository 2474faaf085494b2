//! The OpenAPI description besides the routes.

use tenure_service::ProblemBody;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tenure sessions",
        description = "Start and stop TV sessions, follow their state and play their HLS output.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags((name = "sessions", description = "Watching a channel or a recording")),
    components(schemas(ProblemBody)),
    security(("bearer" = [])),
    modifiers(&Bearer)
)]
pub(crate) struct Description;

/// Adds the responses that every operation may give, with descriptions specific to this API.
pub(crate) fn add_common_responses(openapi: &mut utoipa::openapi::OpenApi) {
    let own = [
        ("400", "The request is invalid, or its body is too large"),
        ("403", "The token lacks a scope, or the client is not in an allowed network"),
        ("503", "The session store is unavailable, or no tuner is configured"),
    ];
    tenure_service::add_responses(openapi, &own);
    tenure_service::add_common_responses(openapi);
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
