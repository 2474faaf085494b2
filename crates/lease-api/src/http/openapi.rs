//! The OpenAPI description besides the routes.

use serde::Serialize;
use tenure_lease::Capabilities;
use tenure_service::ProblemBody;
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
    /// The holder, or the holder that the key is reserved for.
    holder: Option<String>,
    /// The current generation, or the last one; "0" if there never was one.
    generation: String,
    /// The longest time until that changes; null if it does not end.
    remaining_ms: Option<u64>,
    /// The queue position of this claim; the first is 1.
    position: u32,
    /// held, delayed, reserved, queued, quarantine or foreign.
    reason: String,
    /// True if the key is reserved for a named successor.
    reserved: Option<bool>,
    /// The id of the request, as in the header `x-request-id`.
    #[serde(rename = "requestId")]
    request_id: Option<String>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tenure leases",
        description = "Exclusive ownership with expiry and fencing. Generations are strings.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "leases", description = "Exclusive ownership of keys"),
        (name = "records", description = "Records written under a lease")
    ),
    components(schemas(ProblemBody, BusyBody)),
    security(("bearer" = [])),
    modifiers(&BearerScheme)
)]
pub(super) struct Description;

/// Adds the TTLs that this engine supports, and the responses that every operation may return.
pub(super) fn complete(openapi: &mut utoipa::openapi::OpenApi, capabilities: &Capabilities) {
    for name in ["AcquireBody", "RenewBody"] {
        set_ttl_bounds(openapi, name, capabilities);
    }
    tenure_service::add_common_responses(openapi);
}

/// Sets the bounds of a body's TTL.
fn set_ttl_bounds(openapi: &mut utoipa::openapi::OpenApi, body: &str, capabilities: &Capabilities) {
    let schemas = openapi.components.as_mut().map(|components| &mut components.schemas);
    let body = schemas.and_then(|schemas| schemas.get_mut(body));
    if let Some(RefOr::T(Schema::Object(object))) = body
        && let Some(RefOr::T(Schema::Object(ttl))) = object.properties.get_mut("ttl_ms")
    {
        ttl.minimum = Some(Number::UInt(capabilities.min_ttl.as_millis() as usize));
        ttl.maximum = Some(Number::UInt(capabilities.max_ttl.as_millis() as usize));
    }
}

struct BearerScheme;

impl Modify for BearerScheme {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let mut scheme = Http::new(HttpAuthScheme::Bearer);
        scheme.description = Some(
            "A token with the scope lease:read to read, lease:write to acquire and write, lease:admin to revoke".into(),
        );
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}
