//! ProofResult of ownership over HTTP.

use axum::routing::{get, post};
use http::Method;
use serde_json::json;
use tenure_control::{Class, RouteClasses};

use crate::fixture::{Fixture, OTHER, READER, WRITER, long_ttl};

const SET: &str = "/api/v1/effects/set";
/// The lease headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

const WRONG: &str = "AAAAAAAAAAAAAAAAAAAAAA";

#[tokio::test]
async fn requests_are_checked_by_token_and_id() {
    let fixture = Fixture::start(long_ttl()).await;
    let effect = |id: u8| json!({ "effectId": id });
    assert_eq!(fixture.post(SET, effect(1), &[]).await.0, 200, "no lease is active");
    let mut owner = fixture.socket().await;
    let owned = owner.acquire("phone").await;
    let token = ("x-control-lease", owned.token.as_str());
    let id = ("x-control-lease-id", owned.id.as_str());
    let other_id = ("x-control-lease-id", "cl_000000000000");
    let wrong = ("x-control-lease", WRONG);
    let table: [(Headers<'_>, u16, &str); 8] = [
        (&[], 428, "LEASE_REQUIRED"),
        (&[id], 428, "LEASE_REQUIRED"),
        (&[token], 200, ""),
        (&[token, id], 200, ""),
        (&[wrong, id], 403, "LEASE_INVALID"),
        (&[wrong], 409, "CONTROL_LOCKED"),
        (&[wrong, other_id], 409, "CONTROL_LOCKED"),
        (&[token, other_id], 409, "CONTROL_LOCKED"),
    ];
    let mut blocked = 0;
    for (headers, status, code) in table {
        let (given, body) = fixture.post(SET, effect(2), headers).await;
        assert_eq!(given, status, "{headers:?}: {body}");
        assert!(body["timestamp"].is_u64() && body["version"] == "2.0", "{body}");
        if status != 200 {
            blocked += 1;
            let error = &body["error"];
            assert_eq!((&body["success"], &error["code"]), (&json!(false), &json!(code)), "{body}");
            assert_eq!(
                (&error["requiredHeader"], &error["scope"]),
                (&json!("X-Control-Lease"), &json!("global"))
            );
            assert_eq!(error["ownerClientName"], "phone");
        }
    }
    assert_eq!(fixture.status().await["controlCounters"]["blockedRestRequests"], blocked);
    // The token is the proof, whichever principal sends it.
    assert_eq!(fixture.ask(OTHER, "POST", SET, Some(effect(3)), &[token]).await.0, 200);
    for path in ["/api/v1/effects", "/api/v1/control/status", "/api/v1/device/status", "/api/v1/presets"] {
        assert_eq!(fixture.get(path).await.0, 200, "{path}");
    }
    for path in ["/api/v1/firmware/update", "/update", "/api/v1/auth/rotate", "/api/v1/device/ota-token"] {
        let (code, body) = fixture.post(path, json!({}), &[]).await;
        assert_eq!((code, &body["error"]["code"]), (501, &json!("FEATURE_DISABLED")), "{path}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn unknown_paths_and_methods_are_blocked_by_the_lease() {
    let fixture = Fixture::start(long_ttl()).await;
    for path in ["/api/v1/effects/explode", "/api/v1/control/acquire", "/api/v1/zones", "/api/v1/control"] {
        let expected = 404;
        let (code, _) = fixture.post(path, json!({}), &[]).await;
        assert_eq!(code, expected, "{path}");
    }
    assert_eq!(fixture.ask(WRITER, "DELETE", "/api/v1/effects/current", None, &[]).await.0, 405);
    let mut owner = fixture.socket().await;
    owner.acquire("phone").await;
    for (method, path) in [
        ("POST", "/api/v1/effects/explode"),
        ("POST", "/api/v1/control/acquire"),
        ("PUT", "/api/v1/presets/1/steal"),
        ("DELETE", "/api/v1/effects/current"),
        ("PATCH", "/api/v1/device/status"),
        ("BREW", "/api/v1/effects/set"),
    ] {
        let (code, body) = fixture.ask(WRITER, method, path, None, &[]).await;
        assert_eq!(
            (code, &body["error"]["code"]),
            (428, &json!("LEASE_REQUIRED")),
            "{method} {path}: {body}"
        );
    }
    assert_eq!(fixture.get("/api/v1/effects/explode").await.1["error"]["code"], "NOT_FOUND");
    fixture.stop().await;
}

#[tokio::test]
async fn preflight_requests_depend_on_the_origin_and_not_on_the_lease() {
    let fixture = Fixture::start(long_ttl()).await;
    let mut owner = fixture.socket().await;
    owner.acquire("phone").await;
    let ask = async |origin: &str| {
        let headers = [("origin", origin), ("access-control-request-method", "POST")];
        fixture.send("", "OPTIONS", SET, None, &headers).await
    };
    let own = format!("http://{}", fixture.address);
    for origin in ["https://composer.example", own.as_str()] {
        let response = ask(origin).await;
        assert_eq!(response.status(), 204);
        let headers = response.headers();
        assert_eq!(headers["access-control-allow-origin"], origin);
        let allowed = headers["access-control-allow-headers"].to_str().unwrap();
        for name in ["X-API-Key", "X-Control-Lease", "X-Control-Lease-Id", "X-OTA-Token"] {
            assert!(allowed.split(", ").any(|header| header == name), "{allowed}");
        }
    }
    for origin in ["https://evil.example", "null"] {
        let response = ask(origin).await;
        assert_eq!(response.status(), 403, "{origin}");
        assert!(!response.headers().contains_key("access-control-allow-origin"));
    }
    let answer = fixture
        .send(WRITER, "GET", "/api/v1/control/status", None, &[("origin", "https://composer.example")])
        .await;
    assert_eq!(answer.headers()["access-control-allow-origin"], "https://composer.example");
    fixture.stop().await;
}

#[tokio::test]
async fn another_api_can_use_the_same_gate() {
    let store = tenure_store::Store::open("memory:").await.unwrap().into();
    let fixture = Fixture::on(store, long_ttl(), |router, control| {
        let classes = RouteClasses::by_method().route(Method::POST, "/lamp/{id}/identify", Class::Exempt);
        let api = axum::Router::new()
            .route("/lamp/{id}", get(async || "on").put(async || "set"))
            .route("/lamp/{id}/identify", post(async || "blink"))
            .layer(control.gate(classes));
        router.merge(api)
    })
    .await;
    assert_eq!(fixture.ask(WRITER, "PUT", "/lamp/1", None, &[]).await, (200, json!("set")));
    let mut owner = fixture.socket().await;
    let owned = owner.acquire("phone").await;
    assert_eq!(fixture.get("/lamp/1").await, (200, json!("on")));
    assert_eq!(fixture.ask(WRITER, "POST", "/lamp/1/identify", None, &[]).await, (200, json!("blink")));
    let (code, body) = fixture.ask(WRITER, "PUT", "/lamp/1", None, &[]).await;
    assert_eq!((code, &body["error"]["code"]), (428, &json!("LEASE_REQUIRED")));
    assert_eq!(fixture.ask(READER, "PUT", "/lamp/1", None, &owned.headers()).await, (200, json!("set")));
    fixture.stop().await;
}

#[tokio::test]
async fn a_slow_request_is_checked_again_when_it_takes_effect() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let fixture = Fixture::start(long_ttl()).await;
    let mut slow = tokio::net::TcpStream::connect(fixture.address).await.unwrap();
    let head = format!(
        "POST {SET} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {WRITER}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 15\r\nexpect: 100-continue\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    // 100 Continue: the request passed the gate and its handler waits for the body.
    let mut go_on = [0; 12];
    slow.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100");
    let before = fixture.status().await["state"]["effectId"].clone();
    let mut owner = fixture.socket().await;
    owner.acquire("phone").await;
    slow.write_all(b"{\"effectId\": 3}").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains(" 428 ") && answer.contains("LEASE_REQUIRED"), "{answer}");
    assert_eq!(fixture.status().await["state"]["effectId"], before);
    fixture.stop().await;
}
