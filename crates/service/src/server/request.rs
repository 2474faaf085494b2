//! What is the same for every request: context, limits, panics, error format and access log.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, DefaultBodyLimit, MatchedPath, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderValue, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tower::ServiceExt;
use tracing::Instrument;

use super::access_log::{AccessRecord, LoggedBody};
use super::activity::Activity;
use crate::body::Bounded;
use crate::clock::Clock;
use crate::code::Code;
use crate::config::Limits;
use crate::context::{self, Context, REQUEST_ID};
use crate::net::{ClientAddress, TrustedProxies};
use crate::problem::{Problem, Rendered};
use crate::telemetry::request_span;

/// The longest plain-text error that becomes the detail of a problem.
const MAX_DETAIL_BYTES: usize = 1_024;
/// The longest logged path, in characters.
const MAX_PATH_CHARS: usize = 512;

/// The router, and what applies to every request.
#[derive(Clone, Debug)]
pub(super) struct RequestHandler {
    router: Router,
    limits: Limits,
    trusted_proxies: TrustedProxies,
    clock: Clock,
}

impl RequestHandler {
    pub(super) fn new(router: Router, limits: Limits, trusted_proxies: TrustedProxies, clock: Clock) -> Self {
        // Extractors apply the same limit, also to bodies that claim to be gRPC to bypass `admit`.
        let most = usize::try_from(limits.max_body_bytes).unwrap_or(usize::MAX);
        let router = router.layer(DefaultBodyLimit::max(most)).layer(middleware::from_fn(note_route));
        Self { router, limits, trusted_proxies, clock }
    }

    /// Handles a request. Never fails: errors become problems.
    pub(super) async fn handle(
        self,
        request: http::Request<Incoming>,
        peer: SocketAddr,
        activity: Arc<Activity>,
    ) -> http::Response<LoggedBody> {
        let active = activity.begin_request(request.version() == Version::HTTP_2);
        let started = self.clock.now();
        let context = Context::new(request.headers());
        let (parts, body) = request.into_parts();
        let span = request_span(&parts, &context);
        let (method, path) = (parts.method.clone(), truncate_path(parts.uri.path()));
        let work = self.run(http::Request::from_parts(parts, body), peer).instrument(span.clone());
        let mut response = context.clone().scope(work).await;
        if let Ok(id) = HeaderValue::from_str(context.id()) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        span.record("status", response.status().as_u16());
        let route = response.extensions_mut().remove::<Route>();
        let record = AccessRecord {
            context,
            clock: self.clock.clone(),
            started,
            method,
            path,
            route: route.map_or_else(|| "other".to_owned(), |route| route.0),
            status: response.status(),
            code: response.extensions().get::<Rendered>().map(|rendered| rendered.0),
            _active: active,
        };
        response.map(|body| LoggedBody::new(body, record))
    }

    async fn run(&self, request: http::Request<Incoming>, peer: SocketAddr) -> Response {
        let response = AssertUnwindSafe(async {
            let request = self.admit(request, peer);
            match self.router.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        });
        let response = response.catch_unwind().await;
        normalize_error(response.unwrap_or_else(|panic| report_panic(&*panic).into_response())).await
    }

    /// Bounds the body of a request. gRPC streams are unbounded; their messages are bounded where they are decoded.
    fn admit(&self, request: http::Request<Incoming>, peer: SocketAddr) -> Request {
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(ConnectInfo(peer));
        // A proxy whose header cannot be read is itself the client.
        let client = self.trusted_proxies.client_address(peer.ip(), &parts.headers).unwrap_or(peer.ip());
        parts.extensions.insert(ClientAddress(client));
        let body = if context::is_grpc(&parts.headers) {
            Body::new(body)
        } else {
            let limits = &self.limits;
            Bounded::wrap(body, limits.max_body_bytes, limits.body_timeout())
                .unwrap_or_else(|error| error.body())
        };
        Request::from_parts(parts, body)
    }
}

/// The pattern of the matched route.
#[derive(Clone, Debug)]
struct Route(String);

async fn note_route(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| Route(path.as_str().to_owned()));
    let mut response = next.run(request).await;
    route.map(|route| response.extensions_mut().insert(route));
    response
}

/// Turns errors of routers and extractors, which are empty or plain text, into problems. Other bodies stay as they are.
async fn normalize_error(response: Response) -> Response {
    let status = response.status();
    let fails = status.is_client_error() || status.is_server_error();
    if !fails || response.extensions().get::<Rendered>().is_some() || !is_plain(&response) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let small =
        http_body::Body::size_hint(&body).upper().is_some_and(|upper| upper <= MAX_DETAIL_BYTES as u64);
    let text = match small {
        true => body.collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
        false => Default::default(),
    };
    let code = Code::from_status(status);
    let detail = match std::str::from_utf8(&text).unwrap_or_default().trim() {
        "" => code.title().to_owned(),
        // Internal details go to the log, not to the client.
        _ if status == StatusCode::INTERNAL_SERVER_ERROR => code.title().to_owned(),
        text => text.to_owned(),
    };
    let mut problem = Problem::new(code, detail).into_response();
    for name in [header::ALLOW, header::RETRY_AFTER, header::WWW_AUTHENTICATE] {
        if let Some(value) = parts.headers.get(&name) {
            problem.headers_mut().insert(name, value.clone());
        }
    }
    problem.extensions_mut().extend(parts.extensions);
    problem
}

fn is_plain(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

/// Logs a panic and hides it from the client.
fn report_panic(panic: &(dyn std::any::Any + Send)) -> Problem {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
    tracing::error!(panic = text, "a handler panicked");
    metrics::counter!("tenure_http_panics_total").increment(1);
    Problem::new(Code::INTERNAL, "internal server error; the log of the server has the request id")
}

fn truncate_path(path: &str) -> String {
    path.chars().take(MAX_PATH_CHARS).collect()
}
