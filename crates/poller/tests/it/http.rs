//! `/poll/v1/…` as a client sees it.

use axum::Router;
use axum::body::{Body, to_bytes};
use futures_util::StreamExt;
use http::{Request, StatusCode, header};
use serde_json::{Value, json};
use service::{Caller, Scope, Scopes};
use testkit::wait;
use tower::ServiceExt;

use crate::node::{LIMIT, Stage, polls, quick};

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

async fn ask(router: &Router, scope: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let answer = router.clone().oneshot(request(scope, method, path, body)).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test]
async fn targets_are_made_read_changed_and_deleted() {
    let stage = Stage::memory().await;
    let node = stage.start(quick());
    let (router, _) = poller::routes(&node);
    let write = "poll:write";
    let record =
        json!({ "id": "a", "address": stage.url(), "note": "kept", "bearer": "hush", "isPaused": true });
    let (status, made) = ask(&router, write, "POST", "/poll/v1/targets", Some(record.clone())).await;
    assert_eq!((status, &made["note"], &made["bearer"]), (201, &json!("kept"), &json!("***")));
    let (status, again) = ask(&router, write, "POST", "/poll/v1/targets", Some(record)).await;
    assert_eq!((status, &again["code"]), (409, &json!("CONFLICT")));
    let change = json!({ "intervalMs": 20, "note": null, "bearer": "***" });
    let (status, changed) = ask(&router, write, "PATCH", "/poll/v1/targets/a", Some(change)).await;
    assert_eq!((status, &changed["intervalMs"], &changed["note"]), (200, &json!(20), &Value::Null));
    assert_eq!(ask(&router, write, "POST", "/poll/v1/targets/a/resume", None).await.0, 200);
    wait::until_async("it is polled", LIMIT, async || polls(&node, "a") > 1).await.unwrap();
    let (_, list) = ask(&router, "poll:read", "GET", "/poll/v1/targets", None).await;
    assert_eq!((&list["items"][0]["id"], &list["items"][0]["state"]), (&json!("a"), &json!("owned")));
    let (status, unnamed) = ask(
        &router,
        write,
        "POST",
        "/poll/v1/targets",
        Some(json!({ "address": stage.url(), "isPaused": true })),
    )
    .await;
    assert_eq!((status, unnamed["id"].as_str().unwrap().len()), (201, 36));
    let (_, page) = ask(&router, "poll:read", "GET", "/poll/v1/targets?limit=1", None).await;
    assert!(page["next"].is_string(), "{page}");
    assert_eq!(ask(&router, write, "DELETE", "/poll/v1/targets/a", None).await.0, 204);
    assert_eq!(ask(&router, write, "DELETE", "/poll/v1/targets/a", None).await.0, 404);
    wait::until_async("it is let go", LIMIT, async || {
        let key = lease::Key::new("poll:lease:a").unwrap();
        stage.store.inspect(&key).await.unwrap().phase == lease::Phase::Free
    })
    .await
    .unwrap();
    node.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_name_and_changes_nothing() {
    let stage = Stage::memory().await;
    let node = stage.start(quick());
    let (router, _) = poller::routes(&node);
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
        let (found, problem) = ask(&router, scope, method, path, body).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{method} {path}: {problem}");
    }
    let (_, list) = ask(&router, "poll:read", "GET", "/poll/v1/targets", None).await;
    assert_eq!(list["items"], json!([]));
    node.stop().await;
}

#[tokio::test]
async fn the_stream_tells_of_moves_and_results_and_ends_with_the_node() {
    let stage = Stage::memory().await;
    let node = stage.start(quick());
    let (router, _) = poller::routes(&node);
    let answer = router.oneshot(request("poll:read", "GET", "/poll/v1/events", None)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut events = answer.into_body().into_data_stream();
    stage.target("a", 20).await;
    let mut heard = String::new();
    while !(heard.contains("event: moved") && heard.contains("event: result")) {
        heard.push_str(std::str::from_utf8(&events.next().await.unwrap().unwrap()).unwrap());
    }
    assert!(heard.contains("\"verb\":\"granted\"") && heard.contains(node.instance()), "{heard}");
    node.stop().await;
    while let Some(Ok(_)) = events.next().await {}
}

#[tokio::test]
async fn the_nodes_view_has_the_living_what_each_polls_and_what_nobody_has() {
    let stage = Stage::memory().await;
    let (node, other) = (stage.start(quick()), stage.start(quick()));
    for id in ["a", "b", "c", "d"] {
        stage.target(id, 20).await;
    }
    let (router, _) = poller::routes(&node);
    let paused = json!({ "id": "p", "address": stage.url(), "isPaused": true });
    assert_eq!(ask(&router, "poll:write", "POST", "/poll/v1/targets", Some(paused)).await.0, 201);
    let invalid =
        lease::Op::Put { key: lease::Key::new("session:x").unwrap(), value: b"{}"[..].into(), ttl: None };
    stage.store.commit(&[invalid]).await.unwrap();
    let view = async || ask(&router, "poll:read", "GET", "/poll/v1/nodes", None).await.1;
    wait::until_async("all is as it should be", LIMIT, async || {
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
