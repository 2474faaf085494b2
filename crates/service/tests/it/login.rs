//! From the printed code to the cookie, over the wire.

use axum::Router;
use axum::routing::post;
use tenure_service::{ApiToken, Area, Auth, Caller, Level, Problem, Scopes};

use crate::support::start_with_auth;

async fn write(caller: Caller) -> Result<&'static str, Problem> {
    caller.require(Area::Lease, Level::Write)?;
    Ok("written")
}

fn router() -> Router {
    Router::new().route("/write", post(write))
}

const JSON: &str = "content-type: application/json";

#[tokio::test]
async fn a_code_becomes_a_session_that_only_its_own_origin_may_use() {
    let (server, auth) = start_with_auth(|_| {}, router()).await;
    let code = auth.login_code();
    let port = server.address.port();
    assert_eq!(auth.login_url(&code), format!("http://127.0.0.1:{port}/#login={code}"));
    let head = format!("POST /login HTTP/1.1\r\n{JSON}\r\norigin: {}", server.url);
    let reply = server.send(&head, &format!("{{\"code\":\"{code}\"}}")).await;
    assert_eq!(reply.status, 204);
    let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with(&format!("tenure_{port}=")), "{cookie}");
    let act = format!("POST /write HTTP/1.1\r\ncookie: {cookie}");
    let reply = server.send(&format!("{act}\r\norigin: {}", server.url), "").await;
    assert_eq!(reply.body, "written");
    for origin in ["", "\r\norigin: http://evil.example", "\r\norigin: http://127.0.0.1:1"] {
        let reply = server.send(&format!("{act}{origin}"), "").await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "ORIGIN_REFUSED"), "{origin}");
    }
    let reply = server.send(&format!("GET /whoami HTTP/1.1\r\ncookie: {cookie}"), "").await;
    let who: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((who["name"].as_str(), who["via"].as_str()), (Some("admin"), Some("cookie")));
}

#[tokio::test]
async fn the_token_in_the_data_directory_is_accepted() {
    let (server, _) = start_with_auth(|_| {}, router()).await;
    let token = Auth::local_token(&server.dir.path().join("data")).unwrap().unwrap();
    let reply = server.send(&format!("POST /write HTTP/1.1\r\nauthorization: Bearer {token}"), "").await;
    assert_eq!(reply.body, "written");
    let reply = server.send("POST /write HTTP/1.1", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (401, "UNAUTHENTICATED"));
    assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    let read: Scopes = ["lease:read".parse().unwrap()].into_iter().collect();
    let tokens = vec![ApiToken::new("reader", "tok1", read)];
    let (server, _) = start_with_auth(|settings| settings.api_tokens = tokens, router()).await;
    let reply = server.send("POST /write HTTP/1.1\r\nauthorization: Bearer tok1", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "FORBIDDEN"));
    assert_eq!(reply.problem()["requiredScope"], "lease:write");
}

#[tokio::test]
async fn too_many_requests_with_a_token_are_refused_in_the_format_of_the_client() {
    let change = |settings: &mut tenure_service::Settings| {
        settings.api_tokens = vec![ApiToken::new("ci", "tok1", Scopes::all_admin())];
        settings.limits.rate_per_second = 1;
        settings.limits.rate_burst = 1;
    };
    let (server, _) = start_with_auth(change, router()).await;
    let head = "POST /write HTTP/1.1\r\nauthorization: Bearer tok1";
    assert_eq!(server.send(head, "").await.status, 200);
    let replies = [server.send(head, "").await, server.send(head, "").await];
    let limited = replies.iter().find(|reply| reply.status == 429).unwrap();
    assert_eq!(limited.code(), "RATE_LIMITED");
    assert_eq!(limited.header("retry-after"), Some("1"));
    let grpc = format!("{head}\r\ncontent-type: application/grpc");
    let replies = [server.send(&grpc, "").await, server.send(&grpc, "").await];
    assert!(replies.iter().any(|reply| reply.header("grpc-status") == Some("8")), "{replies:?}");
}

#[tokio::test]
async fn a_login_is_small_and_is_refused_before_its_body_is_read() {
    let (server, _) = start_with_auth(|_| {}, router()).await;
    let head = format!("POST /login HTTP/1.1\r\n{JSON}");
    let large = format!("{{\"code\":\"{}\"}}", "x".repeat(5_000));
    assert_eq!(server.send(&head, &large).await.status, 413);
    for _ in 0..10 {
        assert_eq!(server.send(&head, "{\"code\":\"wrong\"}").await.code(), "LOGIN_FAILED");
    }
    // The body never arrives: the limit answers without it.
    let mut wire = server.connect().await;
    wire.write(&format!("{head}\r\nhost: t\r\ncontent-length: 4000\r\n\r\n")).await;
    assert_eq!(wire.reply().await.code(), "RATE_LIMITED");
}

#[tokio::test]
async fn clients_behind_a_trusted_proxy_have_limits_of_their_own() {
    let proxies = |settings: &mut tenure_service::Settings| {
        settings.trusted_proxies = vec!["127.0.0.1".parse().unwrap()].into();
    };
    let (server, _) = start_with_auth(proxies, router()).await;
    let login = async |client: &str| {
        let head = format!("POST /login HTTP/1.1\r\n{JSON}\r\nx-forwarded-for: {client}");
        server.send(&head, "{\"code\":\"wrong\"}").await.code()
    };
    for _ in 0..10 {
        assert_eq!(login("192.0.2.1").await, "LOGIN_FAILED");
    }
    assert_eq!(login("192.0.2.1").await, "RATE_LIMITED");
    assert_eq!(login("192.0.2.2").await, "LOGIN_FAILED");
    let (direct, _) = start_with_auth(|_| {}, router()).await;
    for client in 0..11 {
        let head = format!("POST /login HTTP/1.1\r\n{JSON}\r\nx-forwarded-for: 192.0.2.{client}");
        let code = direct.send(&head, "{\"code\":\"wrong\"}").await.code();
        assert_eq!(code == "RATE_LIMITED", client == 10, "without a trusted proxy the header is ignored");
    }
}

#[tokio::test]
async fn invalid_tokens_are_limited_per_address_and_valid_ones_are_not() {
    let (server, _) = start_with_auth(|_| {}, router()).await;
    let token = Auth::local_token(&server.dir.path().join("data")).unwrap().unwrap();
    let guess = "POST /write HTTP/1.1\r\nauthorization: Bearer guess";
    let mut statuses = Vec::new();
    for _ in 0..70 {
        statuses.push(server.send(guess, "").await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 401).count() / 10, 6, "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    let reply = server.send(&format!("POST /write HTTP/1.1\r\nauthorization: Bearer {token}"), "").await;
    assert_eq!(reply.body, "written");
}
