//! The key set and service tokens over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tenure_lease::Clock as _;
use tenure_meet_ac::routes;
use tenure_meet_wire::jwt::{Checker, Jwks, KeySet, ServiceClaims};
use tower::ServiceExt as _;

use crate::{Hand, in_folder};

async fn api() -> (Router, Arc<Hand>, TempDir) {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Hand::new());
    let authority = in_folder(dir.path(), clock.clone()).await.unwrap();
    (routes(Arc::new(authority)), clock, dir)
}

async fn ask(api: &Router, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let response = api.clone().oneshot(request).await.unwrap();
    (response.status(), response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

fn post(body: &str, basic: Option<&str>) -> Request<Body> {
    let mut request =
        Request::post("/oauth/token").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    if let Some(basic) = basic {
        request = request.header(header::AUTHORIZATION, format!("Basic {basic}"));
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

#[tokio::test]
async fn an_issued_token_verifies_with_the_published_keys() {
    let (api, clock, _dir) = api().await;
    let (status, body) = ask(&api, Request::get("/.well-known/jwks.json").body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK);
    let checker = Checker::new(KeySet::from(&Jwks::parse(&body).unwrap()));
    let form = "grant_type=client_credentials&client_id=mc-1&client_secret=hunter2-mc&scope=service.write.gc";
    // "mc-1:hunter2-mc"
    let basic = "bWMtMTpodW50ZXIyLW1j";
    for request in
        [post(form, None), post("grant_type=client_credentials&scope=service.write.gc", Some(basic))]
    {
        let (status, body) = ask(&api, request).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (answer["token_type"].as_str(), answer["expires_in"].as_u64()),
            (Some("Bearer"), Some(3_600))
        );
        let claims: ServiceClaims =
            checker.check(answer["access_token"].as_str().unwrap(), clock.wall()).unwrap();
        assert_eq!(claims.scope, "service.write.gc");
    }
}

#[tokio::test]
async fn invalid_requests_get_the_error_codes_of_the_standard() {
    let (api, _clock, _dir) = api().await;
    let with = |id: &str, secret: &str, rest: &str| {
        format!("grant_type=client_credentials&client_id={id}&client_secret={secret}{rest}")
    };
    let long = with("mc-1", &"x".repeat(5_000), "");
    let cases = [
        (post("", None), 400, "invalid_request"),
        (post("grant_type=password", None), 400, "unsupported_grant_type"),
        (post("grant_type=client_credentials", None), 401, "invalid_client"),
        (post(&with("mc-1", "wrong", ""), None), 401, "invalid_client"),
        (post(&with("unknown", "hunter2-mc", ""), None), 401, "invalid_client"),
        (post(&with("mc-1", "hunter2-mc", "&scope=service.write.mc"), None), 400, "invalid_scope"),
        (post(&with("mc-1", "hunter2-mc", ""), Some("bWMtMTpodW50ZXIyLW1j")), 400, "invalid_request"),
        (post(&long, None), 400, "invalid_request"),
    ];
    for (request, status, error) in cases {
        let (got, body) = ask(&api, request).await;
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((got.as_u16(), answer["error"].as_str()), (status, Some(error)));
    }
}
