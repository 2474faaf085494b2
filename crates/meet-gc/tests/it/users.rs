//! Authentication of users.

use reqwest::Method;
use serde_json::json;
use tenure_meet_wire::jwt::MeetingClaims;

use crate::test_gc::{Answer, HOST, OTHER, READER, TestGc, answer};

fn is_refused(refused: &Answer) {
    assert_eq!(refused.code(), (401, "INVALID_TOKEN"), "{refused:?}");
    let ask = refused.headers["www-authenticate"].to_str().unwrap();
    assert_eq!(ask, "Bearer realm=\"tenure\", error=\"invalid_token\"");
    assert_eq!(refused.body["error"]["message"], "The access token is invalid or expired");
}

#[tokio::test]
async fn creating_and_joining_need_a_valid_token() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let code = made.text("meeting_code");
    let path = format!("/meetings/{code}");
    let request_body = json!({"display_name": "Monday"});
    let joined = server.join(HOST, code).await;
    for token in ["wrong", "a.b.c", joined.text("token")] {
        is_refused(&answer(server.request(token, Method::POST, "/meetings").json(&request_body)).await);
        is_refused(&server.join(token, code).await);
        is_refused(&answer(server.request(token, Method::GET, "/me")).await);
        is_refused(&server.change(token, made.text("meeting_id"), json!({})).await);
    }
    is_refused(&answer(server.bare(Method::POST, "/meetings").json(&request_body)).await);
    is_refused(&answer(server.bare(Method::GET, &path)).await);
    let basic = server.bare(Method::GET, &path).header("authorization", "Basic YTpi");
    is_refused(&answer(basic).await);
    assert_eq!(server.join(READER, code).await.code(), (403, "FORBIDDEN"));
    let reader = answer(server.request(READER, Method::POST, "/meetings").json(&request_body)).await;
    assert_eq!(reader.code(), (403, "FORBIDDEN"));
}

#[tokio::test]
async fn a_user_token_of_the_authority_authenticates_a_user() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let roles = ["member".to_owned()];
    let ada = test_gc.authority.user("ada", "org-1", "ada@example.com", &roles).unwrap();
    let bob = test_gc.authority.user("bob", "org-2", "", &[]).unwrap();
    let request_body = json!({"display_name": "Ada's"});
    let made = answer(server.request(&ada, Method::POST, "/meetings").json(&request_body)).await;
    assert_eq!(made.text("host_user_id"), "ada");
    let claims: MeetingClaims = test_gc.claims(&server.join(&bob, made.text("meeting_code")).await);
    let (sub, home) = (claims.sub.as_str(), claims.home_org_id.as_deref());
    assert_eq!((sub, home, claims.meeting_org_id.as_str()), ("bob", Some("org-2"), "org-1"));
    assert_eq!(claims.participant_type, tenure_meet_wire::jwt::ParticipantType::External);
    let me = answer(server.request(&ada, Method::GET, "/me")).await;
    let expected = json!({"user_id": "ada", "display_name": "ada@example.com", "roles": ["member"]});
    assert_eq!(me.body, expected);
    let me = answer(server.request(&bob, Method::GET, "/me")).await;
    assert_eq!(me.body, json!({"user_id": "bob", "roles": []}));
}

#[tokio::test]
async fn a_bearer_has_a_stable_user_id_that_hides_its_token() {
    let test_gc = TestGc::new().await;
    let server = test_gc.first();
    let mut users = Vec::new();
    for token in [HOST, HOST, OTHER] {
        let me = answer(server.request(token, Method::GET, "/me")).await;
        assert_eq!(me.status, 200, "{me:?}");
        users.push(me.text("user_id").to_owned());
    }
    assert_eq!(users[0], users[1]);
    assert_ne!(users[0], users[2]);
    let (mark, hex) = users[0].split_at(2);
    assert!(mark == "u_" && hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{users:?}");
}

#[tokio::test]
async fn a_console_session_is_a_user_on_its_own_origin_only() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let http = reqwest::Client::new();
    let login = http.post(format!("{}/login", server.url)).header("origin", &server.url);
    let login = login.json(&json!({"code": server.auth.login_code()})).send().await.unwrap();
    assert!(login.status().is_success(), "{login:?}");
    let cookie = login.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let request_body = json!({"display_name": "Monday"});
    let post = || server.bare(Method::POST, "/meetings").header("cookie", &cookie).json(&request_body);
    let made = answer(post().header("origin", &server.url)).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(answer(post().header("origin", "https://evil.example")).await.code(), (403, "FORBIDDEN"));
    let path = format!("/meetings/{}", made.text("meeting_code"));
    let joined = answer(server.bare(Method::GET, &path).header("cookie", &cookie)).await;
    assert_eq!(joined.text("role"), "host");
}
