//! Fenced records over HTTP.

use serde_json::{Value, json};

use crate::http::grant;
use crate::server::Server;

fn fence(lease: &Value) -> Value {
    json!({"key": lease["key"], "token": lease["token"], "generation": lease["generation"]})
}

#[tokio::test]
async fn a_holder_writes_and_other_callers_read() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    for value in [json!("text"), json!({"a": [1, null]}), json!(12.5), json!(null)] {
        let write = json!({"value": value, "fence": fence(&lease)});
        let (status, written) = server.put("/v1/records?key=r", write).await;
        assert_eq!((status.as_u16(), &written["key"], &written["value"]), (200, &json!("r"), &value));
        let (status, read) = server.get("/v1/records?key=r").await;
        assert_eq!((status.as_u16(), &read), (200, &written));
    }
}

#[tokio::test]
async fn a_number_beyond_doubles_keeps_all_digits() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let body = format!("{{\"value\": 123456789012345678901234567890, \"fence\": {}}}", fence(&lease));
    let request = server.request(crate::server::WRITE, reqwest::Method::PUT, "/v1/records?key=r");
    let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
    assert!(response.text().await.unwrap().contains("123456789012345678901234567890"));
    let request = server.request(crate::server::READ, reqwest::Method::GET, "/v1/records?key=r");
    assert!(request.send().await.unwrap().text().await.unwrap().contains("123456789012345678901234567890"));
}

#[tokio::test]
async fn a_former_holder_is_fenced_out_with_the_current_generation() {
    let server = Server::start().await;
    let old = grant(&server, "k", "a").await;
    server.post("/v1/leases/release", json!({"key": "k", "token": old["token"]})).await;
    let (status, body) = server.put("/v1/records?key=r", json!({"value": 1, "fence": fence(&old)})).await;
    assert_eq!((status.as_u16(), &body["code"]), (409, &json!("FENCED_OUT")));
    let new = grant(&server, "k", "b").await;
    let (status, body) = server.put("/v1/records?key=r", json!({"value": 1, "fence": fence(&old)})).await;
    assert_eq!((status.as_u16(), &body["code"]), (409, &json!("FENCED_OUT")));
    assert_eq!(body["generation"], new["generation"]);
    assert_eq!(server.get("/v1/records?key=r").await.0, 404);
}

#[tokio::test]
async fn missing_and_reserved_records_are_not_found() {
    let server = Server::start().await;
    let put = |key: &str| tenure_lease::Op::Put {
        key: tenure_lease::Key::new(key).unwrap(),
        value: b"1"[..].into(),
        ttl: None,
    };
    server.store.commit(&[put("system:secret"), put("plain")]).await.unwrap();
    assert_eq!(server.get("/v1/records?key=plain").await.0, 200);
    for key in ["nothing", "system:secret"] {
        let (status, body) = server.get(&format!("/v1/records?key={key}")).await;
        assert_eq!((status.as_u16(), &body["code"]), (404, &json!("NOT_FOUND")), "{key}");
    }
}

#[tokio::test]
async fn a_lease_cannot_be_overwritten_as_a_record() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let (status, body) = server.put("/v1/records?key=k", json!({"value": 1, "fence": fence(&lease)})).await;
    assert_eq!((status.as_u16(), &body["code"]), (409, &json!("KEY_IS_LEASED")));
}

#[tokio::test]
async fn values_that_are_too_large_are_refused() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let value = "v".repeat(256 * 1024);
    let (status, body) =
        server.put("/v1/records?key=r", json!({"value": value, "fence": fence(&lease)})).await;
    assert_eq!((status.as_u16(), &body["field"]), (400, &json!("value")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_services_in_redis_are_not_returned_as_holders() {
    let redis = tenure_testkit::RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let store: std::sync::Arc<dyn tenure_lease::Store> =
        tenure_store::Store::open(&url).await.unwrap().into();
    let server = Server::with(store, tenure_lease_api::Options::default()).await;
    let lease = grant(&server, "k", "holder-1").await;
    let secret = tenure_lease::Op::Put {
        key: tenure_lease::Key::new("session:one").unwrap(),
        value: b"bearer-of-a-target"[..].into(),
        ttl: None,
    };
    server.store.commit(&[secret]).await.unwrap();
    // Written by another program, so that nothing marks it as a record; and a companion key with the digest of a token.
    redis.command(&["SET", "poll:two", "bearer-of-another"]).unwrap();
    let reader = server.client_as(crate::server::READ).await;
    for key in ["session:one", "poll:two", "tenure:o:k", "tenure:l:k"] {
        let (status, body) = server.get(&format!("/v1/leases/one?key={key}")).await;
        assert_eq!((status.as_u16(), &body["holder"]), (200, &Value::Null), "{key}: {body}");
        let seen =
            tenure_lease::Leases::inspect(&reader, &tenure_lease::Key::new(key).unwrap()).await.unwrap();
        assert_eq!(seen.holder, None, "{key}");
    }
    // The holder of a lease is not a secret.
    let (_, body) = server.get("/v1/leases/one?key=k").await;
    assert_eq!(body["holder"], lease["holder"]);
}
