//! The HTTP API: authorization, then the gate, then the command.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, MatchedPath, Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, any, get, on};
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value};
use tenure_service::{Area, Caller, Level};

use crate::args::{Field, Kind};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::command::{self, Command};
use crate::gate::{GateLayer, RouteClasses, requester_of};
use crate::routes::{AREAS, ROUTES, catch_all, classes};
use crate::service::{ControlService, missing_scope};
use crate::{socket, wire};

/// Maximum bytes of a body.
const MAX_BODY: usize = 64 * 1_024;
/// Maximum nesting depth of JSON.
pub(crate) const MAX_DEPTH: usize = 10;

const ALLOWED_HEADERS: &str =
    "Authorization, Content-Type, X-API-Key, X-Control-Lease, X-Control-Lease-Id, X-OTA-Token";
const ALLOWED_METHODS: &str = "GET, POST, PUT, PATCH, DELETE, OPTIONS";

/// Decides which other origins may send requests.
pub type Origins = Arc<dyn Fn(&str) -> bool + Send + Sync>;

#[derive(Clone)]
struct RestContext {
    service: Arc<ControlService>,
    classes: Arc<RouteClasses>,
    origins: Origins,
}

/// All routes of the service, `/ws` included.
pub(crate) fn router(service: Arc<ControlService>, origins: Origins) -> Router {
    let mut router = Router::new().route("/ws", get(socket::upgrade));
    for route in ROUTES {
        let (Some(command), Ok(filter)) = (route.command(), MethodFilter::try_from(route.method.clone()))
        else {
            continue;
        };
        router = router.route(route.path, handler(filter, command));
    }
    for area in AREAS {
        if !ROUTES.iter().any(|route| route.path.strip_prefix("/api/v1/") == Some(area)) {
            router = router.route(&format!("/api/v1/{area}"), any(not_found));
        }
        router = router.route(&catch_all(area), any(not_found));
    }
    let context = RestContext { service: service.clone(), classes: Arc::new(classes()), origins };
    router
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(service.clone())
        .layer(GateLayer::new(service, classes()))
        .layer(middleware::from_fn_with_state(context, authorize))
}

fn handler(filter: MethodFilter, command: &'static Command) -> MethodRouter<Arc<ControlService>> {
    on(filter, async move |State(service): State<Arc<ControlService>>, request: Request| {
        let outcome = run_command(&service, command, request).await;
        let now = service.now();
        outcome.map_or_else(|refusal| wire::rest_error(&refusal, now), |data| wire::rest_ok(&data, now))
    })
}

async fn run_command(
    service: &Arc<ControlService>,
    command: &'static Command,
    request: Request,
) -> Result<Value, Refusal> {
    let (mut parts, body) = request.into_parts();
    let mut requester = requester_of(&parts.headers, parts.extensions.get::<Caller>());
    requester.write = parts
        .extensions
        .get::<Caller>()
        .is_some_and(|caller| caller.scopes.allows(Area::Control, Level::Write));
    let mut given = match parts.method {
        Method::GET | Method::HEAD => Map::new(),
        _ => read_object(body).await?,
    };
    if parts.method == Method::GET
        && let Ok(Query(query)) = Query::<HashMap<String, String>>::try_from_uri(&parts.uri)
    {
        given.extend(query.into_iter().map(|(name, text)| parse_parameter(command.fields, name, text)));
    }
    if let Ok(Path(path)) = Path::<HashMap<String, String>>::from_request_parts(&mut parts, &()).await {
        given.extend(path.into_iter().map(|(name, text)| parse_parameter(command.fields, name, text)));
    }
    command::perform(service, &requester, command, given).await
}

/// Reads the body as a JSON object. An empty body is an empty object.
async fn read_object(body: Body) -> Result<Map<String, Value>, Refusal> {
    let bytes = to_bytes(body, MAX_BODY).await.map_err(|_| {
        Refusal::new(Code::INVALID_VALUE, format!("the body exceeds {MAX_BODY} bytes"))
            .status(StatusCode::PAYLOAD_TOO_LARGE)
    })?;
    let text =
        std::str::from_utf8(&bytes).map_err(|_| Refusal::new(Code::INVALID_JSON, "the body is not UTF-8"))?;
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    parse_object(text)
}

/// Parses a JSON object of limited depth.
pub(crate) fn parse_object(text: &str) -> Result<Map<String, Value>, Refusal> {
    if wire::nesting_depth(text) > MAX_DEPTH {
        return Err(Refusal::new(Code::INVALID_JSON, format!("nested deeper than {MAX_DEPTH} levels")));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Refusal::new(Code::INVALID_JSON, "expected a JSON object")),
        Err(error) => Err(Refusal::new(Code::INVALID_JSON, format!("invalid JSON: {error}"))),
    }
}

/// Converts a path or query parameter to the type of its field.
fn parse_parameter(fields: &[Field], name: String, text: String) -> (String, Value) {
    let kind = fields.iter().find(|field| field.name == name).map(|field| field.kind);
    let value = match kind {
        Some(Kind::Int { .. }) => text.parse::<i64>().map_or(Value::String(text), Value::from),
        Some(Kind::Bool) => text.parse::<bool>().map_or(Value::String(text), Value::from),
        _ => Value::String(text),
    };
    (name, value)
}

/// The outermost layer: preflight requests, authentication, scopes and rate limits.
async fn authorize(State(context): State<RestContext>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.filter(|origin| origin.to_str().is_ok_and(|origin| (context.origins)(origin)));
    if is_preflight(request.method(), request.headers()) {
        return preflight_response(&context.service, allowed);
    }
    let mut response = match context.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => wire::rest_error(&refusal, context.service.now()),
    };
    if let Some(origin) = allowed {
        allow_origin(response.headers_mut(), origin);
    }
    response
}

impl RestContext {
    fn admit(&self, request: &Request) -> Result<(), Refusal> {
        let Some(caller) = request.extensions().get::<Caller>() else {
            return Err(Refusal::new(
                Code::UNAUTHORIZED,
                "send `Authorization: Bearer <token>`, or log in at /",
            ));
        };
        let pattern =
            request.extensions().get::<MatchedPath>().map_or(request.uri().path(), MatchedPath::as_str);
        let (level, scope) = match self.classes.class(request.method(), pattern) {
            Class::Mutate => (Level::Write, "control:write"),
            _ => (Level::Read, "control:read"),
        };
        if !caller.scopes.allows(Area::Control, level) {
            return Err(missing_scope(scope));
        }
        self.service.check_rate(&caller.name)?;
        self.service.check_serving()
    }
}

fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight_response(service: &ControlService, origin: Option<HeaderValue>) -> Response {
    let Some(origin) = origin else {
        let refusal = Refusal::new(Code::UNAUTHORIZED, "origin not allowed; see the setting allowed_origins");
        return wire::rest_error(&refusal.status(StatusCode::FORBIDDEN), service.now());
    };
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOWED_METHODS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    allow_origin(headers, origin);
    response
}

/// Allows pages of this origin to read the response.
fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_name(HeaderName::from_static("origin")));
}

async fn not_found(State(service): State<Arc<ControlService>>) -> Response {
    wire::rest_error(&Refusal::new(Code::NOT_FOUND, "path not found"), service.now())
}

async fn method_not_allowed(State(service): State<Arc<ControlService>>) -> Response {
    let refusal = Refusal::new(Code::INVALID_ACTION, "method not allowed for this path")
        .status(StatusCode::METHOD_NOT_ALLOWED);
    wire::rest_error(&refusal, service.now())
}
