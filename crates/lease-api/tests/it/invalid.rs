//! Invalid input.

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{ADMIN, Server, WRITE, answer};

async fn invalid(server: &Server, path: &str, body: Value) -> Value {
    let (status, answer) = server.post_as(ADMIN, path, body.clone()).await;
    assert_eq!(
        (status.as_u16(), &answer["code"]),
        (400, &json!("INVALID_REQUEST")),
        "{path} {body}: {answer}"
    );
    answer
}

#[tokio::test]
async fn unknown_fields_and_wrong_types_are_named() {
    let server = Server::start().await;
    let fine = json!({"key": "k", "holder": "h", "ttl_ms": 1_000});
    for (field, value) in [
        ("tll_ms", json!(1)),
        ("key", json!(7)),
        ("key", json!(null)),
        ("ttl_ms", json!("1000")),
        ("ttl_ms", json!(-1)),
        ("ttl_ms", json!(1.5)),
        ("wait_ms", json!("soon")),
        ("meta", json!({"a": 1})),
        ("token", json!(12)),
    ] {
        let mut body = fine.clone();
        body[field] = value;
        invalid(&server, "/v1/leases/acquire", body).await;
    }
    let (_, one) = server.get("/v1/leases/one?key=k").await;
    assert_eq!(one["state"], "free");
}

#[tokio::test]
async fn generations_are_strings_both_ways() {
    let server = Server::start().await;
    let token = "abcdefghijklmnopqrstuv";
    for generation in
        [json!(42), json!("042"), json!("0"), json!("-1"), json!("9007199254740992"), json!(""), json!("g")]
    {
        invalid(
            &server,
            "/v1/leases/renew",
            json!({"items": [{"key": "k", "token": token, "generation": generation}]}),
        )
        .await;
        invalid(&server, "/v1/leases/release", json!({"key": "k", "token": token, "generation": generation}))
            .await;
        invalid(&server, "/v1/leases/revoke", json!({"key": "k", "generation": generation, "reason": "r"}))
            .await;
        let transfer = json!({"key": "k", "token": token, "generation": generation, "to": "b"});
        invalid(&server, "/v1/leases/transfer", transfer).await;
        let write = json!({"value": 1, "fence": {"key": "k", "token": token, "generation": generation}});
        let (status, body) = server.put("/v1/records?key=r", write).await;
        assert_eq!((status.as_u16(), &body["code"]), (400, &json!("INVALID_REQUEST")));
    }
}

#[tokio::test]
async fn names_and_times_out_of_bounds_are_refused() {
    let server = Server::start().await;
    let fine = json!({"key": "k", "holder": "h", "ttl_ms": 1_000});
    for (field, value, named) in [
        ("key", json!(""), "key"),
        ("key", json!("two words"), "key"),
        ("key", json!("ä"), "key"),
        ("key", json!("k".repeat(257)), "key"),
        ("holder", json!(""), "holder"),
        ("holder", json!("h".repeat(129)), "holder"),
        ("token", json!("short"), "token"),
        ("token", json!("has spaces in it, many of them"), "token"),
        ("meta", json!("m".repeat(1_025)), "meta"),
        ("wait_ms", json!(3_600_001), "wait_ms"),
    ] {
        let mut body = fine.clone();
        body[field] = value;
        assert_eq!(invalid(&server, "/v1/leases/acquire", body).await["field"], named);
    }
    for ttl in [0_u64, 249, 86_400_001, u64::MAX] {
        let body = json!({"key": "k", "holder": "h", "ttl_ms": ttl});
        let (status, body) = server.post("/v1/leases/acquire", body).await;
        assert_eq!((status.as_u16(), &body["code"]), (400, &json!("TTL_OUT_OF_RANGE")), "{ttl}");
        assert_eq!(body["min_ttl_ms"], 250);
    }
    let delay = json!({"key": "k", "generation": "1", "reason": "r", "delay_ms": 86_400_001});
    assert_eq!(invalid(&server, "/v1/leases/revoke", delay).await["field"], "delay_ms");
}

#[tokio::test]
async fn more_than_a_thousand_renewals_are_too_many() {
    let server = Server::start().await;
    let item = json!({"key": "k", "token": "abcdefghijklmnopqrstuv", "generation": "1"});
    let (status, body) = server.post("/v1/leases/renew", json!({"items": vec![item.clone(); 1_001]})).await;
    assert_eq!((status.as_u16(), &body["code"], &body["limit"]), (429, &json!("TOO_MANY"), &json!(1_000)));
    let (status, body) = server.post("/v1/leases/renew", json!({"items": vec![item; 1_000]})).await;
    assert_eq!((status.as_u16(), body["results"].as_array().unwrap().len()), (200, 1_000));
    assert_eq!(server.post("/v1/leases/renew", json!({"items": []})).await.1, json!({"results": []}));
}

#[tokio::test]
async fn bodies_that_are_not_json_are_refused() {
    let server = Server::start().await;
    for (kind, body, status) in [
        ("application/json", "", 400),
        ("application/json", "{", 400),
        ("application/json", "[]", 400),
        ("application/json", "{\"key\":\"k\",\"key\":\"k\"}", 400),
        ("text/plain", "{}", 415),
    ] {
        let request = server.request(WRITE, Method::POST, "/v1/leases/acquire").header("content-type", kind);
        assert_eq!(answer(request.body(body)).await.0, status, "{kind} {body}");
    }
}

#[tokio::test]
async fn queries_are_as_strict_as_bodies() {
    let server = Server::start().await;
    for path in [
        "/v1/leases?limit=0",
        "/v1/leases?limit=1001",
        "/v1/leases?limit=x",
        "/v1/leases?prefix=a%20b",
        "/v1/leases?perfix=a",
        "/v1/leases/one",
        "/v1/leases/one?key=",
        "/v1/leases/one?key=k&x=1",
        "/v1/leases/history?key=%0A",
        "/v1/leases/watch?from=-1",
        "/v1/leases/watch?form=1",
        "/v1/records",
    ] {
        let (status, body) = server.get(path).await;
        assert_eq!((status.as_u16(), &body["code"]), (400, &json!("INVALID_REQUEST")), "{path}: {body}");
    }
}
