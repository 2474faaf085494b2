//! One request, from its headers to its answer: everything that is the same for all of them.

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

use super::activity::Activity;
use super::answer::{Answer, Record};
use crate::body::Bounded;
use crate::clock::Clock;
use crate::code::Code;
use crate::config::Limits;
use crate::context::{self, Context, REQUEST_ID};
use crate::problem::{Problem, Rendered};
use crate::telemetry::request_span;

/// The text of a refusal that is taken over into a problem, at most.
const LONGEST_DETAIL: usize = 1_024;
/// The path that is logged, at most.
const LONGEST_PATH: usize = 512;

/// The router behind the rules that hold for every request.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    router: Router,
    limits: Limits,
    clock: Clock,
}

impl Edge {
    pub(super) fn new(router: Router, limits: Limits, clock: Clock) -> Self {
        // Extractors hold bodies to the same limit, also those that claim to be gRPC to get past `admit`.
        let most = usize::try_from(limits.max_body_bytes).unwrap_or(usize::MAX);
        let router = router.layer(DefaultBodyLimit::max(most)).layer(middleware::from_fn(note_route));
        Self { router, limits, clock }
    }

    /// Answers a request. Never fails: what goes wrong is a problem.
    pub(super) async fn answer(
        self,
        request: http::Request<Incoming>,
        peer: SocketAddr,
        activity: Arc<Activity>,
    ) -> http::Response<Answer> {
        let busy = activity.begin(request.version() == Version::HTTP_2);
        let started = self.clock.now();
        let context = Context::new(request.headers());
        let (parts, body) = request.into_parts();
        let span = request_span(&parts, &context);
        let (method, path) = (parts.method.clone(), shortened(parts.uri.path()));
        let work = self.run(http::Request::from_parts(parts, body), peer).instrument(span.clone());
        let mut response = context.clone().scope(work).await;
        if let Ok(id) = HeaderValue::from_str(context.id()) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        span.record("status", response.status().as_u16());
        let route = response.extensions_mut().remove::<Route>();
        let record = Record {
            context,
            clock: self.clock.clone(),
            started,
            method,
            path,
            route: route.map_or_else(|| "other".to_owned(), |route| route.0),
            status: response.status(),
            code: response.extensions().get::<Rendered>().map(|rendered| rendered.0),
            _busy: busy,
        };
        response.map(|body| Answer::new(body, record))
    }

    async fn run(&self, request: http::Request<Incoming>, peer: SocketAddr) -> Response {
        let answer = AssertUnwindSafe(async {
            let request = self.admit(request, peer);
            match self.router.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        });
        let response = answer.catch_unwind().await;
        normalized(response.unwrap_or_else(|panic| report(&*panic).into_response())).await
    }

    /// The request with its body bounded. The streams of gRPC go on for as long as they like; their messages
    /// are bounded where they are decoded.
    fn admit(&self, request: http::Request<Incoming>, peer: SocketAddr) -> Request {
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(ConnectInfo(peer));
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

/// The pattern of the route that answered.
#[derive(Clone, Debug)]
struct Route(String);

async fn note_route(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| Route(path.as_str().to_owned()));
    let mut response = next.run(request).await;
    route.map(|route| response.extensions_mut().insert(route));
    response
}

/// Turns refusals of routers and extractors, which are bare or plain text, into problems. Answers with a
/// body of their own are left alone.
async fn normalized(response: Response) -> Response {
    let status = response.status();
    let fails = status.is_client_error() || status.is_server_error();
    if !fails || response.extensions().get::<Rendered>().is_some() || !is_plain(&response) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let small = http_body::Body::size_hint(&body).upper().is_some_and(|upper| upper <= LONGEST_DETAIL as u64);
    let text = match small {
        true => body.collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
        false => Default::default(),
    };
    let code = Code::from_status(status);
    let detail = match std::str::from_utf8(&text).unwrap_or_default().trim() {
        "" => code.title().to_owned(),
        // What failed inside is for the log, not for the client.
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

/// Logs a panic and gives the client nothing of it.
fn report(panic: &(dyn std::any::Any + Send)) -> Problem {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
    tracing::error!(panic = text, "a handler panicked");
    metrics::counter!("http_panics_total").increment(1);
    Problem::new(Code::INTERNAL, "the server failed while answering; its log has the request id")
}

fn shortened(path: &str) -> String {
    path.chars().take(LONGEST_PATH).collect()
}
