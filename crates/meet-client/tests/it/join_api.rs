//! The REST join API against a scripted server.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tenure_meet_client::join_api::{RestJoinApi, UnreachableReason, UnreachableReport, create};
use tenure_meet_client::{JoinApi, JoinApiError};
use tenure_store::BootClock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<(String, String, Value)>>>);

fn bearer(headers: &HeaderMap) -> String {
    headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

async fn server(tasks: &mut JoinSet<()>, expires_in: u64) -> (String, Said) {
    let said = Said::default();
    let note = |said: &Said, what: &str, headers: &HeaderMap, body: Value| {
        said.0.lock().push((what.to_owned(), bearer(headers), body));
    };
    let join = async move |State(said): State<Said>, Path(code): Path<String>, headers: HeaderMap| {
        note(&said, "join", &headers, Value::Null);
        if code == "gone" {
            let body = json!({ "error": { "code": "NOT_FOUND", "message": "no such meeting" } });
            return (StatusCode::NOT_FOUND, Json(body));
        }
        let assignment = json!({
            "mc_id": "mc-1", "webtransport_endpoint": "https://127.0.0.1:1/wt/mc", "grpc_endpoint": "", "certificate_hashes": ["AQID"],
        });
        let body = json!({ "token": "meeting-token", "expires_in": 900, "meeting_id": "m1", "meeting_name": "n", "role": "host", "mc_assignment": assignment });
        (StatusCode::OK, Json(body))
    };
    let guest = async move |State(said): State<Said>, headers: HeaderMap, Json(body): Json<Value>| {
        note(&said, "guest", &headers, body);
        let number = said.0.lock().len();
        Json(
            json!({ "token": format!("guest-{number}"), "expires_in": expires_in, "meeting_id": "m1", "display_name": "Eve" }),
        )
    };
    let made = async move |State(said): State<Said>, headers: HeaderMap, Json(body): Json<Value>| {
        note(&said, "create", &headers, body);
        let body = json!({ "meeting_id": "m1", "meeting_code": "abc-def", "display_name": "Tea" });
        (StatusCode::CREATED, Json(body))
    };
    let report = async move |State(said): State<Said>, headers: HeaderMap, Json(body): Json<Value>| {
        note(&said, "unreachable", &headers, body);
        let home = json!({ "mc_id": "mc-2", "webtransport_endpoint": "https://127.0.0.1:2/wt/mc", "grpc_endpoint": "",
            "certificate_hashes": ["BAUG"], "generation": "8" });
        Json(json!({ "reports": 1, "quorum": 1, "failover_started": true, "mc_assignment": home }))
    };
    let router = Router::new()
        .route("/api/v1/meetings", post(made))
        .route("/api/v1/meetings/{code}", get(join))
        .route("/api/v1/meetings/{code}/guest-token", post(guest))
        .route("/api/v1/meetings/{code}/unreachable", post(report))
        .with_state(said.clone());
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (base, said)
}

fn words(said: &Said) -> Vec<(String, String)> {
    said.0.lock().iter().map(|(what, bearer, _)| (what.clone(), bearer.clone())).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test]
async fn a_user_joins_with_its_token_and_reports_with_the_meeting_token() {
    let mut tasks = JoinSet::new();
    let (base, said) = server(&mut tasks, 900).await;
    assert_eq!(create(&base, "mine", "Tea", &BootClock).await.unwrap().meeting_code, "abc-def");
    let join_api = RestJoinApi::user(&base, "abc-def", "mine", Arc::new(BootClock)).unwrap();
    let admission = join_api.admit().await.unwrap();
    assert_eq!((admission.token.as_str(), admission.mc_id.as_str()), ("meeting-token", "mc-1"));
    assert_eq!(admission.place.hashes, [vec![1, 2, 3]]);
    assert!(!format!("{admission:?}").contains("meeting-token"), "debug output hides the token");
    let report = UnreachableReport { reason: UnreachableReason::Timeout, suspect: true };
    let home = join_api.unreachable(&admission, report).await.unwrap().unwrap();
    assert_eq!((home.mc_id.as_str(), home.generation), ("mc-2", 8));
    assert_eq!(
        (home.place.url.as_str(), home.place.hashes),
        ("https://127.0.0.1:2/wt/mc", vec![vec![4, 5, 6]])
    );
    let sent = said.0.lock().last().unwrap().2.clone();
    assert_eq!(sent, json!({ "mc_id": "mc-1", "reason": "TIMEOUT", "suspect": true }));
    assert_eq!(
        words(&said),
        pairs(&[("create", "Bearer mine"), ("join", "Bearer mine"), ("unreachable", "Bearer meeting-token")])
    );
    let gone = RestJoinApi::user(&base, "gone", "mine", Arc::new(BootClock)).unwrap().admit().await;
    assert_eq!(gone, Err(JoinApiError::NotFound("no such meeting".to_owned())));
    tasks.shutdown().await;
    assert!(matches!(join_api.admit().await, Err(JoinApiError::Unavailable(_))));
}

#[tokio::test]
async fn a_guest_keeps_its_id_and_renews_its_token_only_when_it_expires() {
    let mut tasks = JoinSet::new();
    for (expires_in, expected) in [
        (900, vec![("guest", ""), ("join", "Bearer guest-1"), ("join", "Bearer guest-1")]),
        (
            30,
            vec![
                ("guest", ""),
                ("join", "Bearer guest-1"),
                ("guest", "Bearer guest-1"),
                ("join", "Bearer guest-3"),
            ],
        ),
    ] {
        let (base, said) = server(&mut tasks, expires_in).await;
        let join_api = RestJoinApi::guest(&base, "abc-def", "Eve", Arc::new(BootClock)).unwrap();
        join_api.admit().await.unwrap();
        join_api.admit().await.unwrap();
        assert_eq!(words(&said), pairs(&expected));
        assert_eq!(said.0.lock()[0].2, json!({ "display_name": "Eve" }));
    }
    tasks.shutdown().await;
}
