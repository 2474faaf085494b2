//! The page of meetings with a real controller behind it and a scripted door in front.

use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::{get, post};
use axum::{Json, Router};
use lease::Store;
use lease_store::Local;
use meet_client::Place;
use meet_wire::jwt::Role;
use meet_wire::transport::quic::Timing;
use serde_json::{Value, json};
use testkit::UdpProxy;
use testkit_meet::{MEETING, Seats, Venue};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// As the pages of the binary are served.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:; \
     connect-src 'self' https:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Everything that the page needs.
pub(crate) struct House {
    pub(crate) url: String,
    pub(crate) proxy: UdpProxy,
    _venue: Venue,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Door {
    seats: Seats,
    place: Place,
}

impl House {
    pub(crate) fn open() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let timing = Timing { idle: Duration::from_secs(3), keep_alive: Duration::from_millis(500) };
        let (venue, url, proxy) = runtime.block_on(async {
            let store: Arc<dyn Store> = Arc::new(Local::memory());
            let mut venue = Venue::open(&store, "mc-1").unwrap();
            venue.assign().await.unwrap();
            let (address, mut place) = venue.on_loopback(timing).unwrap();
            let proxy = UdpProxy::start(address).unwrap();
            place.url = format!("https://{}/wt/mc", proxy.addr());
            let router = routes(Door { seats: venue.seats(), place });
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
            (venue, url, proxy)
        });
        Self { url, proxy, _venue: venue, _runtime: runtime }
    }
}

fn routes(door: Door) -> Router {
    Router::new()
        .route("/api/v1/me", get(who))
        .route("/api/v1/meetings/{code}", get(join))
        .route("/api/v1/meetings/{code}/guest-token", post(guest))
        .route("/api/v1/meetings/{code}/unreachable", post(async || Json(json!({}))))
        .route("/meet", get(async || file("meet.html")))
        .route("/meet/{code}", get(async || file("meet.html")))
        .route("/{file}", get(async |Path(name): Path<String>| file(&name)))
        .with_state(door)
}

fn file(name: &str) -> Response<Body> {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../web/console").join(name);
    let Ok(bytes) = std::fs::read(path) else {
        return Response::builder().status(StatusCode::NOT_FOUND).body(Body::empty()).unwrap();
    };
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        _ => "image/svg+xml",
    };
    let answer = Response::builder().header(header::CONTENT_TYPE, kind);
    answer.header(header::CONTENT_SECURITY_POLICY, POLICY).body(Body::from(bytes)).unwrap()
}

/// Whoever has the host's cookie.
fn is_host(headers: &HeaderMap) -> bool {
    headers.get(header::COOKIE).is_some_and(|cookie| cookie.to_str().unwrap_or_default().contains("host=1"))
}

async fn who(headers: HeaderMap) -> (StatusCode, Json<Value>) {
    match is_host(&headers) {
        true => (StatusCode::OK, Json(json!({ "user_id": "u_1", "display_name": "Ada Host", "roles": [] }))),
        false => {
            (StatusCode::UNAUTHORIZED, Json(json!({ "error": { "code": "INVALID_TOKEN", "message": "no" } })))
        }
    }
}

async fn join(State(door): State<Door>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = match bearer.and_then(|value| value.strip_prefix("Bearer ")) {
        Some(token) => token.to_owned(),
        None if is_host(&headers) => door.seats.token("u_1", Role::Host).unwrap(),
        None => {
            let body = json!({ "error": { "code": "INVALID_TOKEN", "message": "no token" } });
            return (StatusCode::UNAUTHORIZED, Json(body));
        }
    };
    let hashes: Vec<String> = door.place.hashes.iter().map(|hash| base64(hash)).collect();
    let assignment = json!({
        "mc_id": "mc-1", "webtransport_endpoint": door.place.url, "grpc_endpoint": "", "certificate_hashes": hashes,
    });
    let body = json!({
        "token": token, "expires_in": 900, "meeting_id": MEETING, "meeting_name": "Tea at five", "role": "participant", "mc_assignment": assignment,
    });
    (StatusCode::OK, Json(body))
}

async fn guest(State(door): State<Door>, headers: HeaderMap, Json(body): Json<Value>) -> Json<Value> {
    let name = body["display_name"].as_str().unwrap().to_owned();
    let bearer = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    // The same guest again keeps its token: it is good for long enough.
    let token = match bearer {
        Some(bearer) => bearer.trim_start_matches("Bearer ").to_owned(),
        None => door.seats.guest(&format!("g_{name}"), &name).unwrap(),
    };
    Json(json!({ "token": token, "expires_in": 900, "meeting_id": MEETING, "display_name": name }))
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
