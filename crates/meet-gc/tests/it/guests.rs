//! Guests.

use reqwest::Method;
use serde_json::json;
use tenure_meet_gc::Rules;
use tenure_meet_wire::jwt::{GuestClaims, Role};

use crate::test_gc::{HOST, TestGc, answer};

#[tokio::test]
async fn a_guest_joins_with_its_token_and_keeps_its_id() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let code = made.text("meeting_code");
    let guest = server.guest(code, "Ada", None).await;
    assert_eq!(guest.status, 200, "{guest:?}");
    assert_eq!((guest.text("display_name"), &guest.body["expires_in"]), ("Ada", &json!(900)));
    let first: GuestClaims = test_gc.claims(&guest);
    assert_eq!((first.role, first.meeting_id.as_str()), (Role::Guest, made.text("meeting_id")));

    let joined = server.join(guest.text("token"), code).await;
    assert_eq!(
        (joined.text("role"), joined.body["mc_assignment"]["mc_id"].as_str()),
        ("guest", Some("mc-1"))
    );
    let claims: GuestClaims = test_gc.claims(&joined);
    assert_eq!((&claims.sub, claims.display_name.as_str()), (&first.sub, "Ada"));

    let again: GuestClaims = test_gc.claims(&server.guest(code, "Ada L.", Some(joined.text("token"))).await);
    assert_eq!((&again.sub, again.display_name.as_str()), (&first.sub, "Ada L."));
    let stranger: GuestClaims = test_gc.claims(&server.guest(code, "Ada", None).await);
    let liar: GuestClaims = test_gc.claims(&server.guest(code, "Ada", Some("nonsense")).await);
    assert_ne!(stranger.sub, first.sub);
    assert_ne!(liar.sub, first.sub);

    let me = answer(server.request(guest.text("token"), Method::GET, "/me")).await;
    assert_eq!(me.body, json!({"user_id": first.sub, "display_name": "Ada", "roles": ["guest"]}));
    let request_body = json!({"display_name": "Mine"});
    let create = server.request(guest.text("token"), Method::POST, "/meetings").json(&request_body);
    assert_eq!(answer(create).await.code(), (401, "INVALID_TOKEN"));
}

#[tokio::test]
async fn a_meeting_without_guests_rejects_existing_guest_tokens() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let guest = server.guest(code, "Ada", None).await;
    server.change(HOST, id, json!({"allow_guests": false})).await;
    assert_eq!(server.guest(code, "Bob", None).await.code(), (403, "FORBIDDEN"));
    assert_eq!(server.join(guest.text("token"), code).await.code(), (403, "FORBIDDEN"));
    server.change(HOST, id, json!({"allow_guests": true})).await;
    assert_eq!(server.join(guest.text("token"), code).await.status, 200);
    let other = server.create().await;
    let elsewhere = server.join(guest.text("token"), other.text("meeting_code")).await;
    assert_eq!(elsewhere.code(), (403, "FORBIDDEN"));
}

#[tokio::test]
async fn guest_names_are_validated() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let code = made.text("meeting_code");
    for bad in ["", "A", "   ", "a\nb", &"x".repeat(101), &"é".repeat(100)] {
        assert_eq!(server.guest(code, bad, None).await.code(), (400, "BAD_REQUEST"), "{bad:?}");
    }
    for good in ["Al", &"x".repeat(100)] {
        assert_eq!(server.guest(code, good, None).await.status, 200, "{good}");
    }
    let path = format!("/meetings/{code}/guest-token");
    let extra = json!({"display_name": "Ada", "captcha_token": "x"});
    assert_eq!(answer(server.bare(Method::POST, &path).json(&extra)).await.code(), (400, "BAD_REQUEST"));
}

#[tokio::test]
async fn guest_tokens_are_rate_limited_by_address() {
    let refill = std::time::Duration::from_secs(3_600);
    let test_gc = TestGc::with(Rules { guest_burst: 3, guest_refill: refill, ..Rules::default() }).await;
    let server = test_gc.first();
    let made = server.create().await;
    let code = made.text("meeting_code");
    for _ in 0..3 {
        assert_eq!(server.guest(code, "Ada", None).await.status, 200);
    }
    let refused = server.guest(code, "Ada", None).await;
    assert_eq!(refused.code(), (429, "RATE_LIMIT_EXCEEDED"));
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((3_000..=3_600).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn joins_are_rate_limited_by_user() {
    let refill = std::time::Duration::from_secs(3_600);
    let mut test_gc = TestGc::with(Rules { join_burst: 2, join_refill: refill, ..Rules::default() }).await;
    test_gc.handlers().await;
    let _mc = test_gc.mc("mc-1").await;
    let server = test_gc.first();
    let made = server.create().await;
    let code = made.text("meeting_code");
    let guest = server.guest(code, "Ada", None).await;
    for token in [HOST, guest.text("token")] {
        for _ in 0..2 {
            assert_eq!(server.join(token, code).await.status, 200);
        }
        let refused = server.join(token, code).await;
        assert_eq!(refused.code(), (429, "RATE_LIMIT_EXCEEDED"));
        assert!(refused.headers.contains_key("retry-after"));
    }
    // A renewed token of the same guest counts as the same guest.
    let renewed = server.guest(code, "Ada", Some(guest.text("token"))).await;
    assert_eq!(server.join(renewed.text("token"), code).await.code(), (429, "RATE_LIMIT_EXCEEDED"));
    assert_eq!(server.join(crate::test_gc::OTHER, code).await.status, 200);
}
