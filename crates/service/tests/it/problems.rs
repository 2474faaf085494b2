//! Errors between the socket and the handler are problems with stable codes.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde::Deserialize;
use tenure_service::{Code, Json, Problem, Query};

use crate::support::{Running, start};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    ttl_ms: u64,
}

fn router() -> Router {
    Router::new()
        .route("/claim", post(|Json(claim): Json<Claim>| async move { claim.ttl_ms.to_string() }))
        .route("/query", get(|Query(claim): Query<Claim>| async move { claim.ttl_ms.to_string() }))
        .route("/axum", post(|axum::Json(claim): axum::Json<Claim>| async move { claim.ttl_ms.to_string() }))
        .route("/panic", get(panics))
        .route(
            "/busy",
            get(|| async { Problem::new(Code::BUSY, "held").with("holder", "a").into_response() }),
        )
        .route(
            "/own",
            get(|| async { (http::StatusCode::CONFLICT, axum::Json(serde_json::json!({"mine": 1}))) }),
        )
}

async fn panics() -> &'static str {
    panic!("the secret of the handler");
}

async fn server() -> Running {
    start(|settings| settings.limits.max_body_bytes = 1_024, router()).await
}

const JSON: &str = "content-type: application/json";

#[tokio::test]
async fn a_problem_carries_the_id_of_the_request() {
    let server = server().await;
    let reply = server.send("GET /busy HTTP/1.1\r\nx-request-id: abc-1", "").await;
    assert_eq!(reply.status, 409);
    assert_eq!(reply.header("x-request-id"), Some("abc-1"));
    let problem = reply.problem();
    assert_eq!((problem["requestId"].as_str(), problem["holder"].as_str()), (Some("abc-1"), Some("a")));
}

#[tokio::test]
async fn a_request_without_an_id_gets_one_and_a_bad_one_is_replaced() {
    let server = server().await;
    for head in ["GET /busy HTTP/1.1", "GET /busy HTTP/1.1\r\nx-request-id: a b"] {
        let reply = server.send(head, "").await;
        let id = reply.header("x-request-id").unwrap().to_owned();
        assert_eq!(id.len(), 32);
        assert_eq!(reply.problem()["requestId"], id);
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_problems() {
    let server = server().await;
    let reply = server.send("GET /nowhere HTTP/1.1", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (404, "NOT_FOUND"));
    let reply = server.send("DELETE /claim HTTP/1.1", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (405, "METHOD_NOT_ALLOWED"));
    assert_eq!(reply.header("allow"), Some("POST"));
}

#[tokio::test]
async fn bad_bodies_and_queries_are_problems() {
    let server = server().await;
    let post = |path: &str, kind: &str| format!("POST {path} HTTP/1.1\r\n{kind}");
    for (body, words) in [("{", "EOF"), ("{\"ttl_ms\":\"x\"}", "u64"), ("{\"a\":1}", "unknown field `a`")] {
        let reply = server.send(&post("/claim", JSON), body).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "INVALID_REQUEST"), "{body}");
        assert!(reply.problem()["detail"].as_str().unwrap().contains(words), "{reply:?}");
    }
    let reply = server.send(&post("/claim", "content-type: text/plain"), "{}").await;
    assert_eq!((reply.status, reply.code().as_str()), (415, "UNSUPPORTED_MEDIA_TYPE"));
    let reply = server.send("GET /query?ttl_ms=x HTTP/1.1", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "INVALID_REQUEST"));
    let reply = server.send(&post("/claim", JSON), "{\"ttl_ms\":7}").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "7"));
}

#[tokio::test]
async fn rejections_of_plain_extractors_become_problems() {
    let server = server().await;
    let reply =
        server.send("POST /axum HTTP/1.1\r\ncontent-type: application/json", "{\"ttl_ms\":\"x\"}").await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "INVALID_REQUEST"));
    assert!(reply.problem()["detail"].as_str().unwrap().contains("ttl_ms"), "{reply:?}");
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_announced_or_not() {
    let server = server().await;
    let large = format!("{{\"ttl_ms\":{}7}}", " ".repeat(2_000));
    let reply = server.send(&format!("POST /claim HTTP/1.1\r\n{JSON}"), &large).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "BODY_TOO_LARGE"));
    assert_eq!(reply.problem()["limitBytes"], 1_024);
    let mut wire = server.connect().await;
    wire.write(&format!(
        "POST /claim HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\n"
    ))
    .await;
    wire.write(&format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len())).await;
    let reply = wire.reply().await;
    assert_eq!(reply.status, 413, "{reply:?}");
}

#[tokio::test]
async fn a_panic_is_a_500_without_details_and_the_server_continues() {
    let server = server().await;
    let reply = server.send("GET /panic HTTP/1.1", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (500, "INTERNAL"));
    assert!(!reply.body.contains("secret"), "{}", reply.body);
    assert_eq!(server.send("GET /query?ttl_ms=1 HTTP/1.1", "").await.status, 200);
}

#[tokio::test]
async fn an_error_with_an_envelope_of_its_own_is_left_alone() {
    let reply = server().await.send("GET /own HTTP/1.1", "").await;
    assert_eq!((reply.status, reply.body.as_str()), (409, "{\"mine\":1}"));
}

#[tokio::test]
async fn a_grpc_client_gets_a_grpc_status() {
    let server = server().await;
    for (path, status, word) in
        [("/panic", "13", "INTERNAL"), ("/busy", "9", "BUSY"), ("/nowhere", "5", "NOT_FOUND")]
    {
        let reply = server.send(&format!("GET {path} HTTP/1.1\r\ncontent-type: application/grpc"), "").await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("grpc-status"), Some(status), "{path}");
        assert_eq!(reply.header("tenure-code"), Some(word), "{path}");
    }
}
