//! HTTP: who may ask, then the gate, then the command.

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
use service::{Area, Caller, Level};

use crate::args::{Field, Kind};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::command::{self, Command};
use crate::desk::{Inner, lacks};
use crate::gate::{Classes, GateLayer, hand};
use crate::routes::{AREAS, ROUTES, below, classes};
use crate::{socket, wire};

/// Bytes of a body.
const BODY: usize = 64 * 1_024;
/// Levels of nesting in JSON.
pub(crate) const DEPTH: usize = 10;

const ALLOWED_HEADERS: &str =
    "Authorization, Content-Type, X-API-Key, X-Control-Lease, X-Control-Lease-Id, X-OTA-Token";
const ALLOWED_METHODS: &str = "GET, POST, PUT, PATCH, DELETE, OPTIONS";

/// Which pages of other origins may ask.
pub type Origins = Arc<dyn Fn(&str) -> bool + Send + Sync>;

#[derive(Clone)]
struct Door {
    inner: Arc<Inner>,
    classes: Arc<Classes>,
    origins: Origins,
}

/// All routes of the service, `/ws` included.
pub(crate) fn router(inner: Arc<Inner>, origins: Origins) -> Router {
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
            router = router.route(&format!("/api/v1/{area}"), any(nothing));
        }
        router = router.route(&below(area), any(nothing));
    }
    let door = Door { inner: inner.clone(), classes: Arc::new(classes()), origins };
    router
        .method_not_allowed_fallback(other_methods)
        .with_state(inner.clone())
        .layer(GateLayer::new(inner, classes()))
        .layer(middleware::from_fn_with_state(door, front))
}

fn handler(filter: MethodFilter, command: &'static Command) -> MethodRouter<Arc<Inner>> {
    on(filter, async move |State(inner): State<Arc<Inner>>, request: Request| {
        let answer = answer(&inner, command, request).await;
        let now = inner.now();
        answer.map_or_else(|refusal| wire::rest_error(&refusal, now), |data| wire::rest_ok(&data, now))
    })
}

async fn answer(inner: &Arc<Inner>, command: &'static Command, request: Request) -> Result<Value, Refusal> {
    let (mut parts, body) = request.into_parts();
    let mut hand = hand(&parts.headers, parts.extensions.get::<Caller>());
    hand.write = parts
        .extensions
        .get::<Caller>()
        .is_some_and(|caller| caller.scopes.allows(Area::Control, Level::Write));
    let mut given = match parts.method {
        Method::GET | Method::HEAD => Map::new(),
        _ => object(body).await?,
    };
    if parts.method == Method::GET
        && let Ok(Query(query)) = Query::<HashMap<String, String>>::try_from_uri(&parts.uri)
    {
        given.extend(query.into_iter().map(|(name, text)| typed(command.fields, name, text)));
    }
    if let Ok(Path(path)) = Path::<HashMap<String, String>>::from_request_parts(&mut parts, &()).await {
        given.extend(path.into_iter().map(|(name, text)| typed(command.fields, name, text)));
    }
    command::perform(inner, &hand, command, given).await
}

/// The body as an object; nothing is the empty one.
async fn object(body: Body) -> Result<Map<String, Value>, Refusal> {
    let bytes = to_bytes(body, BODY).await.map_err(|_| {
        Refusal::new(Code::INVALID_VALUE, format!("the body has at most {BODY} bytes"))
            .status(StatusCode::PAYLOAD_TOO_LARGE)
    })?;
    let text =
        std::str::from_utf8(&bytes).map_err(|_| Refusal::new(Code::INVALID_JSON, "the body is not UTF-8"))?;
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    parse(text)
}

/// A text as an object, not too deep.
pub(crate) fn parse(text: &str) -> Result<Map<String, Value>, Refusal> {
    if wire::depth(text) > DEPTH {
        return Err(Refusal::new(Code::INVALID_JSON, format!("nested deeper than {DEPTH} levels")));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Refusal::new(Code::INVALID_JSON, "a JSON object is expected")),
        Err(error) => Err(Refusal::new(Code::INVALID_JSON, format!("no JSON: {error}"))),
    }
}

/// A text of the path or the query in the type that its field has.
fn typed(fields: &[Field], name: String, text: String) -> (String, Value) {
    let kind = fields.iter().find(|field| field.name == name).map(|field| field.kind);
    let value = match kind {
        Some(Kind::Int { .. }) => text.parse::<i64>().map_or(Value::String(text), Value::from),
        Some(Kind::Bool) => text.parse::<bool>().map_or(Value::String(text), Value::from),
        _ => Value::String(text),
    };
    (name, value)
}

/// Before everything: preflights, who asks, with what right, how often.
async fn front(State(door): State<Door>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.filter(|origin| origin.to_str().is_ok_and(|origin| (door.origins)(origin)));
    if is_preflight(request.method(), request.headers()) {
        return preflight(&door.inner, allowed);
    }
    let mut response = match door.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => wire::rest_error(&refusal, door.inner.now()),
    };
    if let Some(origin) = allowed {
        open(response.headers_mut(), origin);
    }
    response
}

impl Door {
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
            return Err(lacks(scope));
        }
        self.inner.meter(&caller.name)?;
        self.inner.ready()
    }
}

fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(inner: &Inner, origin: Option<HeaderValue>) -> Response {
    let Some(origin) = origin else {
        let refusal = Refusal::new(
            Code::UNAUTHORIZED,
            "this origin is not allowed; add it to allowed_origins if it is yours",
        );
        return wire::rest_error(&refusal.status(StatusCode::FORBIDDEN), inner.now());
    };
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOWED_METHODS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    open(headers, origin);
    response
}

/// Lets a page of this origin read the answer.
fn open(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_name(HeaderName::from_static("origin")));
}

async fn nothing(State(inner): State<Arc<Inner>>) -> Response {
    wire::rest_error(&Refusal::new(Code::NOT_FOUND, "there is nothing at this path"), inner.now())
}

async fn other_methods(State(inner): State<Arc<Inner>>) -> Response {
    let refusal = Refusal::new(Code::INVALID_ACTION, "the path knows other methods")
        .status(StatusCode::METHOD_NOT_ALLOWED);
    wire::rest_error(&refusal, inner.now())
}
