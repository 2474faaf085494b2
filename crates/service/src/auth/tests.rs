//! The rules of authentication, one by one, with a clock moved by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::{get, post};
use http::{Request, StatusCode};
use tower::ServiceExt;

use super::*;
use crate::clock::Hand;
use crate::config::Tls;

const ORIGIN: &str = "http://127.0.0.1:7400";

struct World {
    auth: Arc<Auth>,
    hand: Hand,
    router: Router,
    _dir: tempfile::TempDir,
}

fn world(change: impl FnOnce(&mut Settings)) -> World {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = Settings { data_dir: dir.path().into(), ..Settings::default() };
    change(&mut settings);
    let address: SocketAddr = "127.0.0.1:7400".parse().unwrap();
    let (clock, hand) = Clock::manual();
    let auth = Arc::new(Auth::with_clock(&settings, address, clock).unwrap());
    let router = Router::new()
        .route("/act", post(|caller: Caller| async move { caller.name }))
        .route("/look", get(|caller: Caller| async move { caller.name }))
        .route("/open", post(|| async { "open" }))
        .merge(login_routes(auth.clone()))
        .layer(auth_layer(auth.clone()));
    World { auth, hand, router, _dir: dir }
}

impl World {
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap()
    }

    async fn login(&self, body: &str) -> Response {
        self.send("POST", "/login", &[("content-type", "application/json")], body).await
    }

    /// A session cookie, as the browser would send it.
    async fn cookie(&self) -> String {
        let response = self.login(&format!("{{\"code\":\"{}\"}}", self.auth.login_code())).await;
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    fn token(&self) -> String {
        Auth::local_token(self._dir.path()).unwrap().unwrap()
    }
}

fn code_of(response: &Response) -> &'static str {
    response.extensions().get::<crate::problem::Rendered>().map_or("", |rendered| rendered.0.word())
}

#[tokio::test]
async fn the_generated_token_opens_everything_and_others_nothing() {
    let world = world(|_| {});
    let good = format!("Bearer {}", world.token());
    assert_eq!(world.send("POST", "/act", &[("authorization", &good)], "").await.status(), StatusCode::OK);
    let lower = format!("bearer {}", world.token());
    assert_eq!(world.send("POST", "/act", &[("authorization", &lower)], "").await.status(), StatusCode::OK);
    for bad in ["Bearer x", "Bearer ", "Bearer", "Basic YTpi", &world.token(), &format!("{good}x")] {
        let response = world.send("POST", "/act", &[("authorization", bad)], "").await;
        assert_eq!(code_of(&response), "UNAUTHENTICATED", "{bad}");
    }
    assert_eq!(code_of(&world.send("POST", "/act", &[], "").await), "UNAUTHENTICATED");
    let twice = [("authorization", good.as_str()), ("authorization", "Bearer x")];
    assert_eq!(code_of(&world.send("POST", "/act", &twice, "").await), "UNAUTHENTICATED");
    assert_eq!(
        world.send("POST", "/open", &[("authorization", "Bearer x")], "").await.status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn configured_tokens_replace_the_generated_one() {
    let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
    let world = world(|settings| settings.api_tokens = vec![ApiToken::new("ci", "tok1", read)]);
    assert_eq!(Auth::local_token(world._dir.path()).unwrap(), None, "no token is made that nobody accepts");
    let response = world.send("POST", "/act", &[("authorization", "Bearer tok1")], "").await;
    assert_eq!(response.status(), StatusCode::OK);
    let body = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
    assert_eq!(body, "ci", "the caller is known by its label");
}

#[tokio::test]
async fn a_login_code_works_once() {
    let world = world(|_| {});
    let body = format!("{{\"code\":\"{}\"}}", world.auth.login_code());
    assert_eq!(world.login(&body).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(code_of(&world.login(&body).await), "LOGIN_FAILED");
}

#[tokio::test]
async fn a_login_code_ends_after_ten_minutes() {
    let world = world(|_| {});
    let (early, late) = (world.auth.login_code(), world.auth.login_code());
    world.hand.advance(Duration::from_secs(599));
    assert_eq!(world.login(&format!("{{\"code\":\"{early}\"}}")).await.status(), StatusCode::NO_CONTENT);
    world.hand.advance(Duration::from_secs(1));
    assert_eq!(code_of(&world.login(&format!("{{\"code\":\"{late}\"}}")).await), "LOGIN_FAILED");
}

#[tokio::test]
async fn a_token_logs_in_with_its_own_rights() {
    let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
    let world = world(|settings| settings.api_tokens = vec![ApiToken::new("ci", "tok1", read)]);
    let response = world.login("{\"token\":\"tok1\"}").await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert!(!cookie.contains("tok1"), "the cookie is never the token");
    let response = world.send("GET", "/whoami", &[("cookie", &cookie)], "").await;
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    assert_eq!(body, "{\"name\":\"ci\",\"scopes\":[\"lease:read\"],\"via\":\"cookie\"}");
}

#[tokio::test]
async fn the_cookie_is_named_by_the_port_and_kept_from_scripts_and_other_sites() {
    let world = world(|_| {});
    let response = world.login(&format!("{{\"token\":\"{}\"}}", world.token())).await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("tenure_7400="), "{cookie}");
    for part in ["; Path=/", "; Max-Age=43200", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "plain HTTP could not send it back");
}

#[tokio::test]
async fn under_tls_the_cookie_is_secure() {
    let world = world(|settings| settings.tls = Some(Tls { cert: "c".into(), key: "k".into() }));
    let response = world.login(&format!("{{\"token\":\"{}\"}}", world.token())).await;
    assert!(response.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"));
    assert!(world.auth.login_url("x").starts_with("https://127.0.0.1:7400/#login=x"));
}

#[tokio::test]
async fn a_cookie_reads_freely_but_acts_only_from_an_allowed_origin() {
    let world = world(|settings| settings.allowed_origins = vec!["https://console.example".into()]);
    let cookie = world.cookie().await;
    let cookie = ("cookie", cookie.as_str());
    assert_eq!(world.send("GET", "/look", &[cookie], "").await.status(), StatusCode::OK);
    for origin in [ORIGIN, "http://localhost:7400", "https://console.example"] {
        let response = world.send("POST", "/act", &[cookie, ("origin", origin)], "").await;
        assert_eq!(response.status(), StatusCode::OK, "{origin}");
    }
    assert_eq!(code_of(&world.send("POST", "/act", &[cookie], "").await), "ORIGIN_REFUSED");
    for origin in ["null", "http://evil.example", "http://127.0.0.1:7401"] {
        let headers = [cookie, ("origin", origin), ("host", "evil.example")];
        assert_eq!(code_of(&world.send("POST", "/act", &headers, "").await), "ORIGIN_REFUSED", "{origin}");
    }
    let response = world.send("POST", "/open", &[cookie], "").await;
    assert_eq!(response.status(), StatusCode::OK, "what needs no caller needs no origin");
}

#[tokio::test]
async fn websockets_and_event_sources_need_an_origin_with_a_cookie_and_none_with_a_token() {
    let world = world(|_| {});
    let cookie = world.cookie().await;
    let bearer = format!("Bearer {}", world.token());
    for kind in [("upgrade", "websocket"), ("accept", "text/event-stream")] {
        let cookie = ("cookie", cookie.as_str());
        assert_eq!(code_of(&world.send("GET", "/look", &[cookie, kind], "").await), "ORIGIN_REFUSED");
        let good = [cookie, kind, ("origin", ORIGIN)];
        assert_eq!(world.send("GET", "/look", &good, "").await.status(), StatusCode::OK);
        let bad = [cookie, kind, ("origin", "http://127.0.0.1:1")];
        assert_eq!(code_of(&world.send("GET", "/look", &bad, "").await), "ORIGIN_REFUSED");
        let token = [("authorization", bearer.as_str()), kind];
        assert_eq!(world.send("GET", "/look", &token, "").await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_missing_origin_is_accepted_with_authorization() {
    let world = world(|_| {});
    let cookie = world.cookie().await;
    let bearer = format!("Bearer {}", world.token());
    let headers = [("cookie", cookie.as_str()), ("authorization", bearer.as_str())];
    assert_eq!(world.send("POST", "/act", &headers, "").await.status(), StatusCode::OK);
    let headers = [("cookie", cookie.as_str()), ("authorization", "Bearer wrong"), ("origin", ORIGIN)];
    assert_eq!(code_of(&world.send("POST", "/act", &headers, "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_session_ends_after_twelve_hours() {
    let world = world(|_| {});
    let cookie = world.cookie().await;
    world.hand.advance(SESSION_LIFE - Duration::from_secs(1));
    assert_eq!(world.send("GET", "/look", &[("cookie", &cookie)], "").await.status(), StatusCode::OK);
    world.hand.advance(Duration::from_secs(1));
    assert_eq!(code_of(&world.send("GET", "/look", &[("cookie", &cookie)], "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn logging_out_ends_the_session_on_the_server() {
    let world = world(|_| {});
    let (one, two) = (world.cookie().await, world.cookie().await);
    let headers = [("cookie", one.as_str()), ("origin", ORIGIN)];
    let response = world.send("POST", "/logout", &headers, "").await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert!(
        response.headers()["set-cookie"].to_str().unwrap().starts_with("tenure_7400=; Path=/; Max-Age=0")
    );
    assert_eq!(code_of(&world.send("GET", "/look", &[("cookie", &one)], "").await), "UNAUTHENTICATED");
    assert_eq!(world.send("GET", "/look", &[("cookie", &two)], "").await.status(), StatusCode::OK);
    world.auth.revoke_sessions();
    assert_eq!(code_of(&world.send("GET", "/look", &[("cookie", &two)], "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn logging_out_needs_an_origin_too() {
    let world = world(|_| {});
    let cookie = world.cookie().await;
    let response = world.send("POST", "/logout", &[("cookie", &cookie)], "").await;
    assert_eq!(code_of(&response), "ORIGIN_REFUSED");
    assert_eq!(world.send("GET", "/look", &[("cookie", &cookie)], "").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_right_cookie_is_found_among_others() {
    let world = world(|_| {});
    let cookie = world.cookie().await;
    let crowd = format!("a=b; xtenure_7400=no; tenure_7400=stale; {cookie}; tenure_74000=no");
    assert_eq!(world.send("GET", "/look", &[("cookie", &crowd)], "").await.status(), StatusCode::OK);
    let foreign = cookie.replace("tenure_7400", "tenure_7401");
    assert_eq!(code_of(&world.send("GET", "/look", &[("cookie", &foreign)], "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_log_in() {
    let world = world(|_| {});
    let body = format!("{{\"token\":\"{}\"}}", world.token());
    let json = ("content-type", "application/json");
    let response = world.send("POST", "/login", &[json, ("origin", "http://evil.example")], &body).await;
    assert_eq!(code_of(&response), "ORIGIN_REFUSED");
    let response = world.send("POST", "/login", &[json, ("origin", ORIGIN)], &body).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let response = world.send("POST", "/login", &[("content-type", "text/plain")], &body).await;
    assert_eq!(code_of(&response), "UNSUPPORTED_MEDIA_TYPE", "a form cannot log in");
}

#[tokio::test]
async fn a_login_is_either_a_code_or_a_token() {
    let world = world(|_| {});
    for body in ["{}", "{\"code\":\"a\",\"token\":\"b\"}", "{\"code\":\"a\",\"x\":1}", "{\"code\":1}"] {
        assert_eq!(code_of(&world.login(body).await), "INVALID_REQUEST", "{body}");
    }
}

#[tokio::test]
async fn failed_logins_are_slowed_and_good_ones_are_not() {
    let world = world(|_| {});
    let good = format!("{{\"token\":\"{}\"}}", world.token());
    for _ in 0..20 {
        assert_eq!(world.login(&good).await.status(), StatusCode::NO_CONTENT);
    }
    for _ in 0..FAILURES {
        assert_eq!(code_of(&world.login("{\"token\":\"x\"}").await), "LOGIN_FAILED");
    }
    let response = world.login("{\"token\":\"x\"}").await;
    assert_eq!(code_of(&response), "RATE_LIMITED");
    assert_eq!(response.headers()["retry-after"], "6");
    assert_eq!(code_of(&world.login(&good).await), "RATE_LIMITED", "a guesser learns nothing meanwhile");
    world.hand.advance(FAILURE_REFILL);
    assert_eq!(world.login(&good).await.status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_new_code_carries_the_rights_of_whoever_asked() {
    let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
    let world = world(|settings| settings.api_tokens = vec![ApiToken::new("ci", "tok1", read)]);
    assert_eq!(code_of(&world.send("POST", "/login/codes", &[], "").await), "UNAUTHENTICATED");
    let response = world.send("POST", "/login/codes", &[("authorization", "Bearer tok1")], "").await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let code = body["code"].as_str().unwrap();
    assert_eq!(body["url"], format!("http://127.0.0.1:7400/#login={code}"));
    assert_eq!(body["expiresInMs"], 600_000);
    let response = world.login(&format!("{{\"code\":\"{code}\"}}")).await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let response = world.send("GET", "/whoami", &[("cookie", &cookie)], "").await;
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    assert!(std::str::from_utf8(&body).unwrap().contains("[\"lease:read\"]"));
}

#[tokio::test]
async fn each_token_has_its_own_rate() {
    let world = world(|settings| {
        let token = |name: &str| ApiToken::new(name, name, Scopes::all_admin());
        settings.api_tokens = vec![token("a"), token("b")];
        settings.limits.rate_per_second = 1;
        settings.limits.rate_burst = 2;
    });
    let a = [("authorization", "Bearer a")];
    for _ in 0..2 {
        assert_eq!(world.send("GET", "/look", &a, "").await.status(), StatusCode::OK);
    }
    let response = world.send("GET", "/look", &a, "").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(code_of(&response), "RATE_LIMITED");
    assert_eq!(response.headers()["retry-after"], "1");
    let b = [("authorization", "Bearer b")];
    assert_eq!(world.send("GET", "/look", &b, "").await.status(), StatusCode::OK);
    world.hand.advance(Duration::from_secs(1));
    assert_eq!(world.send("GET", "/look", &a, "").await.status(), StatusCode::OK);
}
