//! What the OpenAPI description says besides the routes.

use lease::Capabilities;
use serde::Serialize;
use service::ProblemBody;
use utoipa::Number;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi, ToSchema};

/// Why a key was not granted.
#[derive(Serialize, ToSchema)]
#[schema(title = "Busy", example = json!({
    "type": "urn:tenure:error:BUSY",
    "title": "Someone else holds the key",
    "status": 409,
    "detail": "tuner/3 is held by node-b",
    "code": "BUSY",
    "holder": "node-b",
    "generation": "1782579200000042",
    "remaining_ms": 12040,
    "position": 1,
    "reason": "held"
}))]
pub(super) struct BusyBody {
    /// The kind of problem, as a URN.
    #[serde(rename = "type")]
    kind: String,
    /// The same sentence for every occurrence.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What happened this time.
    detail: String,
    /// `BUSY`.
    code: String,
    /// Who is in the way, or for whom the key is reserved.
    holder: Option<String>,
    /// The generation in the way, or the last one minted; "0" when there never was one.
    generation: String,
    /// How long at most until that changes; null when it has no end.
    remaining_ms: Option<u64>,
    /// The place in the queue that this claim had or would have had; the first is 1.
    position: u32,
    /// held, delayed, reserved, queued, quarantine or foreign.
    reason: String,
    /// True when the key is kept for a named heir.
    reserved: Option<bool>,
    /// The id of the request, as in the header `x-request-id`.
    #[serde(rename = "requestId")]
    request_id: Option<String>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tenure leases",
        description = "Who owns what, until when, and proof of it. Generations travel as strings.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "leases", description = "Owning a key"),
        (name = "records", description = "Writing only while owning")
    ),
    components(schemas(ProblemBody, BusyBody)),
    security(("bearer" = [])),
    modifiers(&Bearer)
)]
pub(super) struct Description;

/// Adds the TTLs that this engine can keep, and what every operation may answer.
pub(super) fn complete(openapi: &mut utoipa::openapi::OpenApi, capabilities: &Capabilities) {
    for name in ["AcquireBody", "RenewBody"] {
        narrow(openapi, name, capabilities);
    }
    service::common_answers(openapi);
}

/// Narrows the bounds of a body's TTL.
fn narrow(openapi: &mut utoipa::openapi::OpenApi, body: &str, capabilities: &Capabilities) {
    let schemas = openapi.components.as_mut().map(|components| &mut components.schemas);
    let body = schemas.and_then(|schemas| schemas.get_mut(body));
    if let Some(RefOr::T(Schema::Object(object))) = body
        && let Some(RefOr::T(Schema::Object(ttl))) = object.properties.get_mut("ttl_ms")
    {
        ttl.minimum = Some(Number::UInt(capabilities.min_ttl.as_millis() as usize));
        ttl.maximum = Some(Number::UInt(capabilities.max_ttl.as_millis() as usize));
    }
}

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let mut scheme = Http::new(HttpAuthScheme::Bearer);
        scheme.description = Some(
            "A token with the scope lease:read to look, lease:write to act, lease:admin to revoke".into(),
        );
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}
