//! The HTTP API under `/poll/v1`.

use axum::Router;
use axum::body::{Body, to_bytes};
use futures_util::StreamExt;
use http::{Request, StatusCode, header};
use serde_json::{Value, json};
use tenure_service::{Caller, Scope, Scopes};
use tenure_testkit::wait;
use tower::ServiceExt;

use crate::node::{Fixture, LIMIT, polls, quick};

fn caller(scope: &str) -> Caller {
    Caller::bearer("test", [scope.parse::<Scope>().unwrap()].into_iter().collect::<Scopes>())
}

fn request(scope: &str, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let mut request =
        request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string()))).unwrap();
    request.extensions_mut().insert(caller(scope));
    request
}

async fn send(router: &Router, scope: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let response = router.clone().oneshot(request(scope, method, path, body)).await.unwrap();
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test]
async fn targets_are_created_read_changed_and_deleted() {
    let fixture = Fixture::memory().await;
    let node = fixture.start(quick());
    let (router, _) = tenure_poller::routes(&node);
    let write = "poll:write";
    let record =
        json!({ "id": "a", "address": fixture.url(), "note": "kept", "bearer": "hush", "isPaused": true });
    let (status, created) = send(&router, write, "POST", "/poll/v1/targets", Some(record.clone())).await;
    assert_eq!((status, &created["note"], &created["bearer"]), (201, &json!("kept"), &json!("***")));
    let (status, again) = send(&router, write, "POST", "/poll/v1/targets", Some(record)).await;
    assert_eq!((status, &again["code"]), (409, &json!("CONFLICT")));
    let change = json!({ "intervalMs": 20, "note": null, "bearer": "***" });
    let (status, changed) = send(&router, write, "PATCH", "/poll/v1/targets/a", Some(change)).await;
    assert_eq!((status, &changed["intervalMs"], &changed["note"]), (200, &json!(20), &Value::Null));
    assert_eq!(send(&router, write, "POST", "/poll/v1/targets/a/resume", None).await.0, 200);
    wait::until_async("the target is polled", LIMIT, async || polls(&node, "a") > 1).await.unwrap();
    let (_, list) = send(&router, "poll:read", "GET", "/poll/v1/targets", None).await;
    assert_eq!((&list["items"][0]["id"], &list["items"][0]["state"]), (&json!("a"), &json!("owned")));
    let (status, unnamed) = send(
        &router,
        write,
        "POST",
        "/poll/v1/targets",
        Some(json!({ "address": fixture.url(), "isPaused": true })),
    )
    .await;
    assert_eq!((status, unnamed["id"].as_str().unwrap().len()), (201, 36));
    let (_, page) = send(&router, "poll:read", "GET", "/poll/v1/targets?limit=1", None).await;
    assert!(page["next"].is_string(), "{page}");
    assert_eq!(send(&router, write, "DELETE", "/poll/v1/targets/a", None).await.0, 204);
    assert_eq!(send(&router, write, "DELETE", "/poll/v1/targets/a", None).await.0, 404);
    wait::until_async("the target is released", LIMIT, async || {
        let key = tenure_lease::Key::new("poll:lease:a").unwrap();
        fixture.store.inspect(&key).await.unwrap().phase == tenure_lease::Phase::Free
    })
    .await
    .unwrap();
    node.stop().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_and_change_nothing() {
    let fixture = Fixture::memory().await;
    let node = fixture.start(quick());
    let (router, _) = tenure_poller::routes(&node);
    let table = [
        ("poll:write", "POST", "/poll/v1/targets", Some(json!({})), 400, "INVALID_REQUEST"),
        (
            "poll:write",
            "POST",
            "/poll/v1/targets",
            Some(json!({ "id": 7, "address": "http://h" })),
            400,
            "INVALID_REQUEST",
        ),
        (
            "poll:write",
            "POST",
            "/poll/v1/targets",
            Some(json!({ "id": "a b", "address": "http://h" })),
            400,
            "INVALID_REQUEST",
        ),
        ("poll:write", "PATCH", "/poll/v1/targets/none", Some(json!({})), 404, "NOT_FOUND"),
        ("poll:write", "POST", "/poll/v1/targets/none/pause", None, 404, "NOT_FOUND"),
        ("poll:read", "GET", "/poll/v1/targets/none", None, 404, "NOT_FOUND"),
        ("poll:read", "GET", "/poll/v1/targets?limit=0", None, 400, "INVALID_REQUEST"),
        ("poll:read", "GET", "/poll/v1/targets?what=1", None, 400, "INVALID_REQUEST"),
        ("poll:read", "POST", "/poll/v1/targets", Some(json!({ "address": "http://h" })), 403, "FORBIDDEN"),
        ("poll:read", "DELETE", "/poll/v1/targets/a", None, 403, "FORBIDDEN"),
        ("lease:admin", "GET", "/poll/v1/nodes", None, 403, "FORBIDDEN"),
        ("lease:admin", "GET", "/poll/v1/events", None, 403, "FORBIDDEN"),
    ];
    for (scope, method, path, body, status, code) in table {
        let (found, problem) = send(&router, scope, method, path, body).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{method} {path}: {problem}");
    }
    let (_, list) = send(&router, "poll:read", "GET", "/poll/v1/targets", None).await;
    assert_eq!(list["items"], json!([]));
    node.stop().await;
}

#[tokio::test]
async fn the_event_stream_carries_moves_and_results_and_ends_with_the_node() {
    let fixture = Fixture::memory().await;
    let node = fixture.start(quick());
    let (router, _) = tenure_poller::routes(&node);
    let response = router.oneshot(request("poll:read", "GET", "/poll/v1/events", None)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut events = response.into_body().into_data_stream();
    fixture.target("a", 20).await;
    let mut received = String::new();
    while !(received.contains("event: moved") && received.contains("event: result")) {
        received.push_str(std::str::from_utf8(&events.next().await.unwrap().unwrap()).unwrap());
    }
    assert!(received.contains("\"verb\":\"granted\"") && received.contains(node.instance()), "{received}");
    node.stop().await;
    while let Some(Ok(_)) = events.next().await {}
}

#[tokio::test]
async fn the_nodes_view_lists_live_nodes_their_targets_and_unowned_targets() {
    let fixture = Fixture::memory().await;
    let (node, other) = (fixture.start(quick()), fixture.start(quick()));
    for id in ["a", "b", "c", "d"] {
        fixture.target(id, 20).await;
    }
    let (router, _) = tenure_poller::routes(&node);
    let paused = json!({ "id": "p", "address": fixture.url(), "isPaused": true });
    assert_eq!(send(&router, "poll:write", "POST", "/poll/v1/targets", Some(paused)).await.0, 201);
    let invalid = tenure_lease::Op::Put {
        key: tenure_lease::Key::new("session:x").unwrap(),
        value: b"{}"[..].into(),
        ttl: None,
    };
    fixture.store.commit(&[invalid]).await.unwrap();
    let view = async || send(&router, "poll:read", "GET", "/poll/v1/nodes", None).await.1;
    wait::until_async("the view is complete", LIMIT, async || {
        let view = view().await;
        let nodes = view["nodes"].as_array().unwrap();
        nodes.len() == 2
            && view["unowned"].as_array().unwrap().len() == 2
            && nodes.iter().all(|node| {
                let targets = node["targets"].as_array().unwrap();
                let settled = |target: &Value| {
                    (&target["owner"], &target["preferred"], &target["state"])
                        == (&node["instance"], &node["instance"], &json!("owned"))
                };
                node["status"] == "online" && targets.len() == 2 && targets.iter().all(settled)
            })
    })
    .await
    .unwrap();
    let view = view().await;
    assert_eq!((&view["instance"], &view["placement"]), (&json!(node.instance()), &json!("balanced")));
    let this: Vec<_> = view["nodes"].as_array().unwrap().iter().map(|node| &node["isThisInstance"]).collect();
    assert!(this.contains(&&json!(true)) && this.contains(&&json!(false)), "{view}");
    let states: Vec<_> =
        view["unowned"].as_array().unwrap().iter().map(|one| (&one["id"], &one["state"])).collect();
    assert_eq!(states, [(&json!("p"), &json!("paused")), (&json!("x"), &json!("invalid"))]);
    assert!(view["unowned"][1]["error"].as_str().unwrap().contains("address"), "{view}");
    node.stop().await;
    other.stop().await;
}
