//! Who is a user.

use meet_wire::jwt::MeetingClaims;
use reqwest::Method;
use serde_json::json;

use crate::house::{Answer, HOST, House, OTHER, READER, answer};

fn is_refused(refused: &Answer) {
    assert_eq!(refused.code(), (401, "INVALID_TOKEN"), "{refused:?}");
    let ask = refused.headers["www-authenticate"].to_str().unwrap();
    assert_eq!(ask, "Bearer realm=\"tenure\", error=\"invalid_token\"");
    assert_eq!(refused.body["error"]["message"], "The access token is invalid or expired");
}

#[tokio::test]
async fn nobody_makes_or_joins_a_meeting_without_a_good_token() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let code = made.text("meeting_code");
    let path = format!("/meetings/{code}");
    let wish = json!({"display_name": "Monday"});
    let seat = door.join(HOST, code).await;
    for token in ["wrong", "a.b.c", seat.text("token")] {
        is_refused(&answer(door.request(token, Method::POST, "/meetings").json(&wish)).await);
        is_refused(&door.join(token, code).await);
        is_refused(&answer(door.request(token, Method::GET, "/me")).await);
        is_refused(&door.change(token, made.text("meeting_id"), json!({})).await);
    }
    is_refused(&answer(door.bare(Method::POST, "/meetings").json(&wish)).await);
    is_refused(&answer(door.bare(Method::GET, &path)).await);
    let basic = door.bare(Method::GET, &path).header("authorization", "Basic YTpi");
    is_refused(&answer(basic).await);
    assert_eq!(door.join(READER, code).await.code(), (403, "FORBIDDEN"));
    let reader = answer(door.request(READER, Method::POST, "/meetings").json(&wish)).await;
    assert_eq!(reader.code(), (403, "FORBIDDEN"));
}

#[tokio::test]
async fn a_user_token_of_the_authority_is_a_user() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let roles = ["member".to_owned()];
    let ada = house.authority.user("ada", "org-1", "ada@example.com", &roles).unwrap();
    let bob = house.authority.user("bob", "org-2", "", &[]).unwrap();
    let wish = json!({"display_name": "Ada's"});
    let made = answer(door.request(&ada, Method::POST, "/meetings").json(&wish)).await;
    assert_eq!(made.text("host_user_id"), "ada");
    let claims: MeetingClaims = house.claims(&door.join(&bob, made.text("meeting_code")).await);
    let (sub, home) = (claims.sub.as_str(), claims.home_org_id.as_deref());
    assert_eq!((sub, home, claims.meeting_org_id.as_str()), ("bob", Some("org-2"), "org-1"));
    assert_eq!(claims.participant_type, meet_wire::jwt::ParticipantType::External);
    let me = answer(door.request(&ada, Method::GET, "/me")).await;
    let expected = json!({"user_id": "ada", "display_name": "ada@example.com", "roles": ["member"]});
    assert_eq!(me.body, expected);
    let me = answer(door.request(&bob, Method::GET, "/me")).await;
    assert_eq!(me.body, json!({"user_id": "bob", "roles": []}));
}

#[tokio::test]
async fn a_bearer_is_the_same_user_every_time_and_shows_nothing_of_its_token() {
    let house = House::new().await;
    let door = house.first();
    let mut users = Vec::new();
    for token in [HOST, HOST, OTHER] {
        let me = answer(door.request(token, Method::GET, "/me")).await;
        assert_eq!(me.status, 200, "{me:?}");
        users.push(me.text("user_id").to_owned());
    }
    assert_eq!(users[0], users[1]);
    assert_ne!(users[0], users[2]);
    let (mark, hex) = users[0].split_at(2);
    assert!(mark == "u_" && hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{users:?}");
}

#[tokio::test]
async fn a_console_session_is_a_user_but_only_from_its_own_pages() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let http = reqwest::Client::new();
    let login = http.post(format!("{}/login", door.url)).header("origin", &door.url);
    let login = login.json(&json!({"code": door.auth.login_code()})).send().await.unwrap();
    assert!(login.status().is_success(), "{login:?}");
    let cookie = login.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let wish = json!({"display_name": "Monday"});
    let post = || door.bare(Method::POST, "/meetings").header("cookie", &cookie).json(&wish);
    let made = answer(post().header("origin", &door.url)).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(answer(post().header("origin", "https://evil.example")).await.code(), (403, "FORBIDDEN"));
    let path = format!("/meetings/{}", made.text("meeting_code"));
    let joined = answer(door.bare(Method::GET, &path).header("cookie", &cookie)).await;
    assert_eq!(joined.text("role"), "host");
}
