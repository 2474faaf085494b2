//! Waiting claims over HTTP.

use serde_json::{Value, json};

use crate::http::grant;
use crate::server::Server;

fn claim(holder: &str) -> Value {
    json!({"key": "k", "holder": holder, "ttl_ms": 10_000, "wait_ms": 20_000})
}

async fn release(server: &Server, lease: &Value) {
    let (_, body) = server.post("/v1/leases/release", json!({"key": "k", "token": lease["token"]})).await;
    assert_eq!(body["outcome"], "released");
}

#[tokio::test]
async fn waiting_claims_are_granted_in_order() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "first").await;
    let (second, third, ()) = tokio::join!(
        async {
            let (status, lease) = server.post("/v1/leases/acquire", claim("second")).await;
            assert_eq!(status, 200, "{lease}");
            let (_, one) = server.get("/v1/leases/one?key=k").await;
            assert_eq!((&one["holder"], &one["waiters"]), (&json!("second"), &json!(1)));
            release(&server, &lease).await;
            lease
        },
        async {
            server.parked("k", 1).await;
            let (status, lease) = server.post("/v1/leases/acquire", claim("third")).await;
            assert_eq!(status, 200, "{lease}");
            lease
        },
        async {
            server.parked("k", 2).await;
            release(&server, &lease).await;
        },
    );
    assert_eq!((&second["parked"], &third["parked"]), (&json!(true), &json!(true)));
    let generation = |lease: &Value| lease["generation"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(generation(&lease) < generation(&second) && generation(&second) < generation(&third));
}

#[tokio::test]
async fn a_wait_that_ends_reports_busy_with_the_queue_position() {
    let server = Server::start().await;
    grant(&server, "k", "a").await;
    let body = json!({"key": "k", "holder": "b", "ttl_ms": 10_000, "wait_ms": 30});
    let (status, busy) = server.post("/v1/leases/acquire", body).await;
    assert_eq!((status.as_u16(), &busy["code"], &busy["position"]), (409, &json!("BUSY"), &json!(1)));
    server.parked("k", 0).await;
}

#[tokio::test]
async fn a_client_that_disconnects_leaves_the_queue() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    tokio::select! {
        answer = server.post("/v1/leases/acquire", claim("gone")) => panic!("answered: {answer:?}"),
        () = server.parked("k", 1) => {}
    }
    server.parked("k", 0).await;
    release(&server, &lease).await;
    grant(&server, "k", "b").await;
}

#[tokio::test]
async fn a_shutdown_ends_the_wait_and_leaves_the_queue() {
    let server = Server::start().await;
    grant(&server, "k", "a").await;
    let (answer, ()) = tokio::join!(server.post("/v1/leases/acquire", claim("b")), async {
        server.parked("k", 1).await;
        server.shutdown.trigger();
    });
    assert_eq!((answer.0.as_u16(), &answer.1["code"]), (503, &json!("SHUTTING_DOWN")));
    server.parked("k", 0).await;
}
