//! The console's files, inside the binary.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tenure_service::{Code, Problem};

#[derive(rust_embed::RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/console"]
struct Files;

/// The content security policy of pages: they connect only to their own server, and play media received from it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'";

/// The policy of the meeting page, which also connects to the controller of the meeting.
const MEET_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     media-src 'self' blob:; connect-src 'self' https:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'";
const MEET: &str = "meet.html";

/// `/` and the files beside it.
pub(crate) fn routes() -> Router {
    Router::new()
        .route("/", get(async || file("index.html")))
        // The page of meetings reads the code of one from its own address.
        .route("/meet", get(async || file(MEET)))
        .route("/meet/{code}", get(async || file(MEET)))
        .route("/{file}", get(async |Path(name): Path<String>| file(&name)))
}

fn file(name: &str) -> Response {
    let policy = if name == MEET { MEET_POLICY } else { POLICY };
    let Some(found) = Files::get(name) else {
        return Problem::new(Code::NOT_FOUND, "no such page").into_response();
    };
    let kind = HeaderValue::from_str(found.metadata.mimetype())
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // A new binary brings new files under the same names.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    (StatusCode::OK, headers, found.data).into_response()
}
