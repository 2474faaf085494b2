//! The rules of authentication, one by one, with a manual clock.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::{get, post};
use http::{Request, StatusCode};
use tower::ServiceExt;

use super::*;
use crate::clock::ClockControl;
use crate::config::Tls;

const ORIGIN: &str = "http://127.0.0.1:7400";

struct Fixture {
    auth: Arc<Auth>,
    control: ClockControl,
    clock: Clock,
    router: Router,
    dir: Arc<tempfile::TempDir>,
}

fn fixture(change: impl FnOnce(&mut Settings)) -> Fixture {
    let (clock, control) = Clock::manual();
    fixture_in(Arc::new(tempfile::tempdir().unwrap()), clock, control, change)
}

fn fixture_in(
    dir: Arc<tempfile::TempDir>,
    clock: Clock,
    control: ClockControl,
    change: impl FnOnce(&mut Settings),
) -> Fixture {
    let mut settings = Settings { data_dir: dir.path().into(), ..Settings::default() };
    change(&mut settings);
    let address: SocketAddr = "127.0.0.1:7400".parse().unwrap();
    let auth = Arc::new(Auth::with_clock(&settings, address, clock.clone()).unwrap());
    let router = Router::new()
        .route("/act", post(|caller: Caller| async move { caller.name }))
        .route("/look", get(|caller: Caller| async move { caller.name }))
        .route("/open", post(|| async { "open" }))
        .merge(login_routes(auth.clone()))
        .layer(auth_layer(auth.clone()));
    Fixture { auth, control, clock, router, dir }
}

impl Fixture {
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

    /// The next run in the same folder.
    fn restart(&self, change: impl FnOnce(&mut Settings)) -> Fixture {
        fixture_in(self.dir.clone(), self.clock.clone(), self.control.clone(), change)
    }

    /// Whether a page with this cookie is still signed in.
    async fn knows(&self, cookie: &str) -> bool {
        self.send("GET", "/look", &[("cookie", cookie)], "").await.status() == StatusCode::OK
    }

    fn sessions_file(&self) -> std::path::PathBuf {
        self.dir.path().join("sessions")
    }

    fn token(&self) -> String {
        Auth::local_token(self.dir.path()).unwrap().unwrap()
    }
}

fn code_of(response: &Response) -> &'static str {
    response.extensions().get::<crate::problem::Rendered>().map_or("", |rendered| rendered.0.as_str())
}

#[tokio::test]
async fn only_the_generated_token_is_accepted() {
    let fixture = fixture(|_| {});
    let good = format!("Bearer {}", fixture.token());
    assert_eq!(fixture.send("POST", "/act", &[("authorization", &good)], "").await.status(), StatusCode::OK);
    let lower = format!("bearer {}", fixture.token());
    assert_eq!(fixture.send("POST", "/act", &[("authorization", &lower)], "").await.status(), StatusCode::OK);
    for bad in ["Bearer x", "Bearer ", "Bearer", "Basic YTpi", &fixture.token(), &format!("{good}x")] {
        let response = fixture.send("POST", "/act", &[("authorization", bad)], "").await;
        assert_eq!(code_of(&response), "UNAUTHENTICATED", "{bad}");
    }
    assert_eq!(code_of(&fixture.send("POST", "/act", &[], "").await), "UNAUTHENTICATED");
    let twice = [("authorization", good.as_str()), ("authorization", "Bearer x")];
    assert_eq!(code_of(&fixture.send("POST", "/act", &twice, "").await), "UNAUTHENTICATED");
    assert_eq!(
        fixture.send("POST", "/open", &[("authorization", "Bearer x")], "").await.status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn configured_tokens_replace_the_generated_one() {
    let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
    let fixture = fixture(|settings| settings.api_tokens = vec![ApiToken::new("ci", "tok1", read)]);
    assert_eq!(Auth::local_token(fixture.dir.path()).unwrap(), None, "no unused token is created");
    let response = fixture.send("POST", "/act", &[("authorization", "Bearer tok1")], "").await;
    assert_eq!(response.status(), StatusCode::OK);
    let body = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
    assert_eq!(body, "ci", "the caller is known by its label");
}

#[tokio::test]
async fn a_login_code_works_once() {
    let fixture = fixture(|_| {});
    let body = format!("{{\"code\":\"{}\"}}", fixture.auth.login_code());
    assert_eq!(fixture.login(&body).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(code_of(&fixture.login(&body).await), "LOGIN_FAILED");
}

#[tokio::test]
async fn a_login_code_ends_after_ten_minutes() {
    let fixture = fixture(|_| {});
    let (early, late) = (fixture.auth.login_code(), fixture.auth.login_code());
    fixture.control.advance(Duration::from_secs(599));
    assert_eq!(fixture.login(&format!("{{\"code\":\"{early}\"}}")).await.status(), StatusCode::NO_CONTENT);
    fixture.control.advance(Duration::from_secs(1));
    assert_eq!(code_of(&fixture.login(&format!("{{\"code\":\"{late}\"}}")).await), "LOGIN_FAILED");
}

#[tokio::test]
async fn a_token_logs_in_with_its_own_rights() {
    let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
    let fixture = fixture(|settings| settings.api_tokens = vec![ApiToken::new("ci", "tok1", read)]);
    let response = fixture.login("{\"token\":\"tok1\"}").await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert!(!cookie.contains("tok1"), "the cookie is never the token");
    let response = fixture.send("GET", "/whoami", &[("cookie", &cookie)], "").await;
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    assert_eq!(body, "{\"name\":\"ci\",\"scopes\":[\"lease:read\"],\"via\":\"cookie\"}");
}

#[tokio::test]
async fn the_cookie_is_named_by_the_port_and_kept_from_scripts_and_other_sites() {
    let fixture = fixture(|_| {});
    let response = fixture.login(&format!("{{\"token\":\"{}\"}}", fixture.token())).await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("tenure_7400="), "{cookie}");
    for part in ["; Path=/", "; Max-Age=43200", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "plain HTTP could not send it back");
}

#[tokio::test]
async fn under_tls_the_cookie_is_secure() {
    let fixture = fixture(|settings| settings.tls = Some(Tls { cert: "c".into(), key: "k".into() }));
    let response = fixture.login(&format!("{{\"token\":\"{}\"}}", fixture.token())).await;
    assert!(response.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"));
    assert!(fixture.auth.login_url("x").starts_with("https://127.0.0.1:7400/#login=x"));
}

#[tokio::test]
async fn a_cookie_may_read_from_any_origin_and_change_only_from_an_allowed_one() {
    let fixture = fixture(|settings| settings.allowed_origins = vec!["https://console.example".into()]);
    let cookie = fixture.cookie().await;
    let cookie = ("cookie", cookie.as_str());
    assert_eq!(fixture.send("GET", "/look", &[cookie], "").await.status(), StatusCode::OK);
    for origin in [ORIGIN, "http://localhost:7400", "https://console.example"] {
        let response = fixture.send("POST", "/act", &[cookie, ("origin", origin)], "").await;
        assert_eq!(response.status(), StatusCode::OK, "{origin}");
    }
    assert_eq!(code_of(&fixture.send("POST", "/act", &[cookie], "").await), "ORIGIN_REFUSED");
    for origin in ["null", "http://evil.example", "http://127.0.0.1:7401"] {
        let headers = [cookie, ("origin", origin), ("host", "evil.example")];
        assert_eq!(code_of(&fixture.send("POST", "/act", &headers, "").await), "ORIGIN_REFUSED", "{origin}");
    }
    let response = fixture.send("POST", "/open", &[cookie], "").await;
    assert_eq!(response.status(), StatusCode::OK, "what needs no caller needs no origin");
}

#[tokio::test]
async fn websockets_and_event_sources_need_an_origin_with_a_cookie_and_none_with_a_token() {
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    let bearer = format!("Bearer {}", fixture.token());
    for kind in [("upgrade", "websocket"), ("accept", "text/event-stream")] {
        let cookie = ("cookie", cookie.as_str());
        assert_eq!(code_of(&fixture.send("GET", "/look", &[cookie, kind], "").await), "ORIGIN_REFUSED");
        let good = [cookie, kind, ("origin", ORIGIN)];
        assert_eq!(fixture.send("GET", "/look", &good, "").await.status(), StatusCode::OK);
        let bad = [cookie, kind, ("origin", "http://127.0.0.1:1")];
        assert_eq!(code_of(&fixture.send("GET", "/look", &bad, "").await), "ORIGIN_REFUSED");
        let token = [("authorization", bearer.as_str()), kind];
        assert_eq!(fixture.send("GET", "/look", &token, "").await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_missing_origin_is_accepted_with_authorization() {
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    let bearer = format!("Bearer {}", fixture.token());
    let headers = [("cookie", cookie.as_str()), ("authorization", bearer.as_str())];
    assert_eq!(fixture.send("POST", "/act", &headers, "").await.status(), StatusCode::OK);
    let headers = [("cookie", cookie.as_str()), ("authorization", "Bearer wrong"), ("origin", ORIGIN)];
    assert_eq!(code_of(&fixture.send("POST", "/act", &headers, "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_session_ends_after_twelve_hours() {
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    fixture.control.advance(SESSION_LIFE - Duration::from_secs(1));
    assert_eq!(fixture.send("GET", "/look", &[("cookie", &cookie)], "").await.status(), StatusCode::OK);
    fixture.control.advance(Duration::from_secs(1));
    assert_eq!(code_of(&fixture.send("GET", "/look", &[("cookie", &cookie)], "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn logging_out_ends_the_session_on_the_server() {
    let fixture = fixture(|_| {});
    let (one, two) = (fixture.cookie().await, fixture.cookie().await);
    let headers = [("cookie", one.as_str()), ("origin", ORIGIN)];
    let response = fixture.send("POST", "/logout", &headers, "").await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert!(
        response.headers()["set-cookie"].to_str().unwrap().starts_with("tenure_7400=; Path=/; Max-Age=0")
    );
    assert_eq!(code_of(&fixture.send("GET", "/look", &[("cookie", &one)], "").await), "UNAUTHENTICATED");
    assert_eq!(fixture.send("GET", "/look", &[("cookie", &two)], "").await.status(), StatusCode::OK);
    fixture.auth.revoke_sessions();
    assert_eq!(code_of(&fixture.send("GET", "/look", &[("cookie", &two)], "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn logging_out_needs_an_origin_too() {
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    let response = fixture.send("POST", "/logout", &[("cookie", &cookie)], "").await;
    assert_eq!(code_of(&response), "ORIGIN_REFUSED");
    assert_eq!(fixture.send("GET", "/look", &[("cookie", &cookie)], "").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_right_cookie_is_found_among_others() {
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    let crowd = format!("a=b; xtenure_7400=no; tenure_7400=stale; {cookie}; tenure_74000=no");
    assert_eq!(fixture.send("GET", "/look", &[("cookie", &crowd)], "").await.status(), StatusCode::OK);
    let foreign = cookie.replace("tenure_7400", "tenure_7401");
    assert_eq!(code_of(&fixture.send("GET", "/look", &[("cookie", &foreign)], "").await), "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_log_in() {
    let fixture = fixture(|_| {});
    let body = format!("{{\"token\":\"{}\"}}", fixture.token());
    let json = ("content-type", "application/json");
    let response = fixture.send("POST", "/login", &[json, ("origin", "http://evil.example")], &body).await;
    assert_eq!(code_of(&response), "ORIGIN_REFUSED");
    let response = fixture.send("POST", "/login", &[json, ("origin", ORIGIN)], &body).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let response = fixture.send("POST", "/login", &[("content-type", "text/plain")], &body).await;
    assert_eq!(code_of(&response), "UNSUPPORTED_MEDIA_TYPE", "a form cannot log in");
}

#[tokio::test]
async fn a_login_is_either_a_code_or_a_token() {
    let fixture = fixture(|_| {});
    for body in ["{}", "{\"code\":\"a\",\"token\":\"b\"}", "{\"code\":\"a\",\"x\":1}", "{\"code\":1}"] {
        assert_eq!(code_of(&fixture.login(body).await), "INVALID_REQUEST", "{body}");
    }
}

#[tokio::test]
async fn failed_logins_are_slowed_and_good_ones_are_not() {
    let fixture = fixture(|_| {});
    let good = format!("{{\"token\":\"{}\"}}", fixture.token());
    for _ in 0..20 {
        assert_eq!(fixture.login(&good).await.status(), StatusCode::NO_CONTENT);
    }
    for _ in 0..FAILURE_BURST {
        assert_eq!(code_of(&fixture.login("{\"token\":\"x\"}").await), "LOGIN_FAILED");
    }
    let response = fixture.login("{\"token\":\"x\"}").await;
    assert_eq!(code_of(&response), "RATE_LIMITED");
    assert_eq!(response.headers()["retry-after"], "6");
    assert_eq!(code_of(&fixture.login(&good).await), "RATE_LIMITED", "a guesser learns nothing meanwhile");
    fixture.control.advance(FAILURE_REFILL);
    assert_eq!(fixture.login(&good).await.status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_new_code_carries_the_rights_of_the_caller() {
    let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
    let fixture = fixture(|settings| settings.api_tokens = vec![ApiToken::new("ci", "tok1", read)]);
    assert_eq!(code_of(&fixture.send("POST", "/login/codes", &[], "").await), "UNAUTHENTICATED");
    let response = fixture.send("POST", "/login/codes", &[("authorization", "Bearer tok1")], "").await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let code = body["code"].as_str().unwrap();
    assert_eq!(body["url"], format!("http://127.0.0.1:7400/#login={code}"));
    assert_eq!(body["expiresInMs"], 600_000);
    let response = fixture.login(&format!("{{\"code\":\"{code}\"}}")).await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let response = fixture.send("GET", "/whoami", &[("cookie", &cookie)], "").await;
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    assert!(std::str::from_utf8(&body).unwrap().contains("[\"lease:read\"]"));
}

#[tokio::test]
async fn each_token_has_its_own_rate() {
    let fixture = fixture(|settings| {
        let token = |name: &str| ApiToken::new(name, name, Scopes::all_admin());
        settings.api_tokens = vec![token("a"), token("b")];
        settings.limits.rate_per_second = 1;
        settings.limits.rate_burst = 2;
    });
    let a = [("authorization", "Bearer a")];
    for _ in 0..2 {
        assert_eq!(fixture.send("GET", "/look", &a, "").await.status(), StatusCode::OK);
    }
    let response = fixture.send("GET", "/look", &a, "").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(code_of(&response), "RATE_LIMITED");
    assert_eq!(response.headers()["retry-after"], "1");
    let b = [("authorization", "Bearer b")];
    assert_eq!(fixture.send("GET", "/look", &b, "").await.status(), StatusCode::OK);
    fixture.control.advance(Duration::from_secs(1));
    assert_eq!(fixture.send("GET", "/look", &a, "").await.status(), StatusCode::OK);
}

fn token(name: &str, text: &str, scopes: &[&str]) -> ApiToken {
    ApiToken::new(name, text, scopes.iter().map(|scope| scope.parse::<crate::Scope>().unwrap()).collect())
}

#[tokio::test]
async fn a_session_survives_restarts_and_reboots_until_it_expires() {
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    fixture.control.advance(Duration::from_secs(3_600));
    let fixture = fixture.restart(|_| {});
    assert!(fixture.knows(&cookie).await);
    fixture.control.reboot();
    let fixture = fixture.restart(|_| {});
    fixture.control.advance(SESSION_LIFE - Duration::from_secs(3_601));
    assert!(fixture.knows(&cookie).await);
    fixture.control.advance(Duration::from_secs(2));
    assert!(!fixture.knows(&cookie).await, "what is left is counted on, not begun anew");
    assert!(!fixture.restart(|_| {}).knows(&cookie).await);
}

#[tokio::test]
async fn the_sessions_file_shows_no_secret_and_only_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    let path = fixture.sessions_file();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    let id = cookie.split_once('=').unwrap().1;
    assert!(!text.contains(id) && !text.contains(&fixture.token()), "{text}");
    assert!(text.contains(&Digest::of(id).hex()), "{text}");
    let names: Vec<_> =
        std::fs::read_dir(fixture.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no draft is left behind: {names:?}");
}

#[tokio::test]
async fn ended_sessions_stay_ended_after_a_restart() {
    let fixture = fixture(|_| {});
    let (one, two) = (fixture.cookie().await, fixture.cookie().await);
    fixture.send("POST", "/logout", &[("cookie", &one), ("origin", ORIGIN)], "").await;
    let fixture = fixture.restart(|_| {});
    assert!(!fixture.knows(&one).await && fixture.knows(&two).await);
    fixture.auth.revoke_sessions();
    assert!(!fixture.restart(|_| {}).knows(&two).await);
}

#[tokio::test]
async fn a_session_ends_when_its_token_changes() {
    let first = |settings: &mut Settings| settings.api_tokens = vec![token("ci", "tok1", &["lease:write"])];
    let fixture = fixture(first);
    let response = fixture.login("{\"token\":\"tok1\"}").await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    for (what, same, now) in [
        ("the same", true, token("ci", "tok1", &["lease:write"])),
        ("more rights", true, token("ci", "tok1", &["lease:admin", "meet:read"])),
        ("fewer rights", false, token("ci", "tok1", &["lease:read", "meet:admin"])),
        ("another text", false, token("ci", "tok2", &["lease:write"])),
        ("another name", false, token("cd", "tok1", &["lease:write"])),
    ] {
        let next = fixture.restart(|settings| settings.api_tokens = vec![now]);
        assert_eq!(next.knows(&cookie).await, same, "{what}");
    }
    let next = fixture.restart(|settings| settings.api_tokens = vec![token("ci", "tok1", &["lease:admin"])]);
    let response = next.send("GET", "/whoami", &[("cookie", &cookie)], "").await;
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    assert!(std::str::from_utf8(&body).unwrap().contains("[\"lease:write\"]"), "a session gains no rights");
}

#[tokio::test]
async fn a_sessions_file_that_cannot_be_used_is_ignored_and_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    let path = fixture.sessions_file();
    let good = std::fs::read(&path).unwrap();
    let half = &good[..good.len() / 2];
    let later = String::from_utf8(good.clone()).unwrap().replace("\"version\":1", "\"version\":2");
    let long = vec![b' '; 5 << 20];
    for damage in [&b""[..], b"\0\xff", half, later.as_bytes(), &long] {
        std::fs::write(&path, damage).unwrap();
        let next = fixture.restart(|_| {});
        assert!(!next.knows(&cookie).await);
        let again = next.cookie().await;
        assert!(next.restart(|_| {}).knows(&again).await, "the next login is kept again");
    }
    std::fs::write(&path, &good).unwrap();
    assert!(fixture.restart(|_| {}).knows(&cookie).await);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
    assert!(!fixture.restart(|_| {}).knows(&cookie).await, "others could have written it");
}

#[tokio::test]
async fn a_clock_that_was_set_back_does_not_lengthen_a_session() {
    let fixture = fixture(|_| {});
    fixture.control.advance(Duration::from_secs(1_000_000));
    let cookie = fixture.cookie().await;
    let (clock, control) = Clock::manual();
    let next = fixture_in(fixture.dir.clone(), clock, control, |_| {});
    assert!(next.knows(&cookie).await);
    next.control.advance(SESSION_LIFE);
    assert!(!next.knows(&cookie).await);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_leaves_no_ended_session_behind() {
    let fixture = fixture(|_| {});
    let cookie = fixture.cookie().await;
    // A folder in the draft's place: it can be neither removed nor written.
    std::fs::create_dir(fixture.dir.path().join(".sessions.draft")).unwrap();
    let other = fixture.cookie().await;
    assert!(fixture.knows(&other).await, "signing in still works");
    assert!(!fixture.sessions_file().exists());
    let next = fixture.restart(|_| {});
    assert!(!next.knows(&cookie).await && !next.knows(&other).await);
}
