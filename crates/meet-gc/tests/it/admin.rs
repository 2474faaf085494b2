//! What operators see and order.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tenure_lease::{Key, Op};
use tenure_meet_rpc::history::{DrainProgress, DrainState, MoveEntry, MoveKind, MoveReason, MoveResult};
use tenure_meet_wire::internal::RejectionReason;

use crate::nodes::{Mc, Verdict};
use crate::test_gc::{HOST, LIMIT, OTHER, TestGc, TestServer};

/// A token with `meet:admin`.
const ADMIN: &str = OTHER;

/// Calls the API for operators. Errors are problem details.
async fn call(server: &TestServer, token: &str, method: Method, path: &str, body: Value) -> (u16, Value) {
    let mut request = server.request(token, method.clone(), &format!("/admin{path}"));
    if !body.is_null() {
        request = request.json(&body);
    }
    let response = request.timeout(LIMIT).send().await.unwrap();
    let status = response.status();
    if !status.is_success() {
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{method} {path}");
    }
    assert_eq!(response.headers()["cache-control"], "no-store");
    (status.as_u16(), response.json().await.unwrap())
}

async fn get(server: &TestServer, path: &str) -> Value {
    let (status, body) = call(server, ADMIN, Method::GET, path, Value::Null).await;
    assert_eq!(status, 200, "{body}");
    body
}

async fn post(server: &TestServer, path: &str, body: Value) -> (u16, Value) {
    call(server, ADMIN, Method::POST, path, body).await
}

/// A meeting that runs on the only controller, with two seats of which one is connected.
async fn running(test_gc: &TestGc, mc: &Mc) -> String {
    let server = test_gc.first();
    let made = server.create().await;
    assert_eq!(server.join(HOST, made.text("meeting_code")).await.status, 200);
    let id = made.text("meeting_id").to_owned();
    mc.keep_row(&test_gc.store, &id, "mh-1").await;
    for (seat, row) in [("one", json!({"away_since_us": null})), ("two", json!({"away_since_us": 5}))] {
        let key = Key::new(format!("meeting:{id}:seat:{seat}")).unwrap();
        let value = Arc::from(row.to_string().into_bytes());
        test_gc.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
    }
    id
}

#[tokio::test]
async fn operators_need_the_scope_meet_admin() {
    let test_gc = TestGc::new().await;
    for path in ["/nodes", "/meetings", "/moves"] {
        let (status, body) = call(test_gc.first(), HOST, Method::GET, path, Value::Null).await;
        assert_eq!((status, &body["code"]), (403, &json!("FORBIDDEN")), "{path}");
    }
    let bare = test_gc.first().bare(Method::GET, "/admin/nodes").send().await.unwrap();
    assert_eq!(bare.status(), 401);
}

#[tokio::test]
async fn nodes_meetings_and_moves_are_listed() {
    let (test_gc, mc) = TestGc::furnished().await;
    let (server, id) = (test_gc.first(), running(&test_gc, &mc).await);
    let nodes = get(server, "/nodes").await;
    let ids: Vec<_> = nodes["items"].as_array().unwrap().iter().map(|node| &node["id"]).collect();
    assert_eq!(ids, ["mc-1", "mh-1", "mh-2"]);
    assert_eq!((&nodes["items"][0]["kind"], &nodes["items"][2]["zone"]), (&json!("controller"), &json!("b")));
    let list = get(server, "/meetings").await;
    let shown = &list["items"][0];
    assert_eq!((list["items"].as_array().unwrap().len(), &list["next"]), (1, &Value::Null));
    for (field, value) in [
        ("meeting_id", json!(id)),
        ("display_name", json!("Monday")),
        ("phase", json!("active")),
        ("owner", json!("mc-1")),
        ("people", json!(2)),
        ("connected", json!(1)),
        ("handlers", json!(["mh-1"])),
        ("closed", json!(false)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(get(server, &format!("/meetings/{id}")).await, *shown);
    mc.end_meetings().await;
    assert_eq!(get(server, "/meetings").await["items"], json!([]));
    assert_eq!(get(server, &format!("/meetings/{id}")).await["phase"], "idle");
    let (status, _) = call(server, ADMIN, Method::GET, "/meetings/absent", Value::Null).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn drains_and_moves_are_read_from_their_records() {
    let test_gc = TestGc::new().await;
    let drain = DrainProgress {
        mc_id: "mc-1".to_owned(),
        state: DrainState::Draining,
        reason: "maintenance".to_owned(),
        started_ms: 1,
        deadline_ms: 60_001,
        meetings: 5,
        migrated: 3,
        closed: 0,
    };
    let entry = MoveEntry {
        meeting_id: "m".to_owned(),
        kind: MoveKind::Failover,
        reason: MoveReason::ControllerLost,
        result: MoveResult::Completed,
        from_mc: "mc-1".to_owned(),
        to_mc: Some("mc-2".to_owned()),
        generation: 9_007_199_254_740_993,
        started_ms: 7,
        duration_ms: 1_500,
        freeze_ms: None,
    };
    test_gc.store.commit(&[drain.put().unwrap(), entry.append().unwrap()]).await.unwrap();
    let drains = get(test_gc.first(), "/nodes").await["drains"].clone();
    assert_eq!((&drains[0]["mc_id"], &drains[0]["left"]), (&json!("mc-1"), &json!(2)));
    let moves = get(test_gc.first(), "/moves").await["items"].clone();
    assert_eq!((&moves[0]["kind"], &moves[0]["reason"]), (&json!("failover"), &json!("controller_lost")));
    // A number of this size would lose digits in JavaScript.
    assert_eq!(moves[0]["generation"], "9007199254740993");
}

#[tokio::test]
async fn the_owner_is_ordered_to_move_a_meeting() {
    let (test_gc, mc) = TestGc::furnished().await;
    let (server, id) = (test_gc.first(), running(&test_gc, &mc).await);
    let path = format!("/meetings/{id}/move");
    let (status, body) = post(server, &path, json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("CONFLICT")), "there is no other controller: {body}");
    let _other = test_gc.mc("mc-2").await;
    let (status, body) = post(server, &path, json!({})).await;
    assert_eq!((status, &body["from_mc"], &body["to_mc"]), (200, &json!("mc-1"), &json!("mc-2")), "{body}");
    assert_eq!(*mc.fake.orders.lock(), ["move to mc-2 at inproc:mc-2"]);
    for (to, expected) in [("mc-1", 409), ("mc-9", 404)] {
        assert_eq!(post(server, &path, json!({ "to": to })).await.0, expected, "{to}");
    }
    mc.says(Verdict::Reject(RejectionReason::Draining));
    assert_eq!(post(server, &path, json!({ "to": "mc-2" })).await.0, 409, "it moves already");
    mc.says(Verdict::Fail);
    let (status, body) = post(server, &path, json!({ "to": "mc-2" })).await;
    assert_eq!((status, &body["code"]), (503, &json!("UNAVAILABLE")), "{body}");
}

#[tokio::test]
async fn a_controller_is_ordered_to_drain_and_to_stop_draining() {
    let (test_gc, mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let body = json!({ "reason": "version_upgrade", "deadline_ms": 5_000 });
    let (status, answer) = post(server, "/controllers/mc-1/drain", body).await;
    assert_eq!((status, &answer["draining"]), (200, &json!(true)), "{answer}");
    let (status, answer) = post(server, "/controllers/mc-1/undrain", Value::Null).await;
    assert_eq!((status, &answer["draining"]), (200, &json!(false)), "{answer}");
    assert_eq!(*mc.fake.orders.lock(), ["drain VersionUpgrade Some(5)", "undrain"]);
    for (path, body, expected) in [
        ("/controllers/mc-9/drain", json!({}), 404),
        ("/controllers/mc-1/drain", json!({ "deadline_ms": 1 }), 400),
        ("/controllers/mc-1/drain", json!({ "why": "x" }), 400),
    ] {
        assert_eq!(post(server, path, body).await.0, expected, "{path}");
    }
    mc.says(Verdict::Reject(RejectionReason::Draining));
    for path in ["/controllers/mc-1/drain", "/controllers/mc-1/undrain"] {
        assert_eq!(post(server, path, json!({})).await.0, 409, "{path}");
    }
}

#[tokio::test]
async fn a_meeting_that_an_operator_ended_is_closed_until_its_host_returns() {
    let (test_gc, mc) = TestGc::furnished().await;
    let (server, id) = (test_gc.first(), running(&test_gc, &mc).await);
    let path = format!("/meetings/{id}/end");
    mc.says(Verdict::Fail);
    assert_eq!(post(server, &path, Value::Null).await.0, 503);
    assert_eq!(get(server, &format!("/meetings/{id}")).await["closed"], false, "nothing changed");
    mc.says(Verdict::Take);
    assert_eq!(post(server, &path, Value::Null).await, (200, json!({ "meeting_id": id, "running": true })));
    assert_eq!(get(server, &format!("/meetings/{id}")).await["closed"], true);
    mc.end_meetings().await;
    assert_eq!(post(server, &path, Value::Null).await, (200, json!({ "meeting_id": id, "running": false })));
}
