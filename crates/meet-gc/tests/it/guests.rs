//! People without an account.

use meet_gc::Rules;
use meet_wire::jwt::{GuestClaims, Role};
use reqwest::Method;
use serde_json::json;

use crate::house::{HOST, House, answer};

#[tokio::test]
async fn a_guest_joins_with_its_token_and_stays_the_same_guest() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let code = made.text("meeting_code");
    let guest = door.guest(code, "Ada", None).await;
    assert_eq!(guest.status, 200, "{guest:?}");
    assert_eq!((guest.text("display_name"), &guest.body["expires_in"]), ("Ada", &json!(900)));
    let first: GuestClaims = house.claims(&guest);
    assert_eq!((first.role, first.meeting_id.as_str()), (Role::Guest, made.text("meeting_id")));

    let joined = door.join(guest.text("token"), code).await;
    assert_eq!(
        (joined.text("role"), joined.body["mc_assignment"]["mc_id"].as_str()),
        ("guest", Some("mc-1"))
    );
    let seated: GuestClaims = house.claims(&joined);
    assert_eq!((&seated.sub, seated.display_name.as_str()), (&first.sub, "Ada"));

    let again: GuestClaims = house.claims(&door.guest(code, "Ada L.", Some(joined.text("token"))).await);
    assert_eq!((&again.sub, again.display_name.as_str()), (&first.sub, "Ada L."));
    let stranger: GuestClaims = house.claims(&door.guest(code, "Ada", None).await);
    let liar: GuestClaims = house.claims(&door.guest(code, "Ada", Some("nonsense")).await);
    assert_ne!(stranger.sub, first.sub);
    assert_ne!(liar.sub, first.sub);

    let me = answer(door.request(guest.text("token"), Method::GET, "/me")).await;
    assert_eq!(me.body, json!({"user_id": first.sub, "display_name": "Ada", "roles": ["guest"]}));
    let wish = json!({"display_name": "Mine"});
    let create = door.request(guest.text("token"), Method::POST, "/meetings").json(&wish);
    assert_eq!(answer(create).await.code(), (401, "INVALID_TOKEN"));
}

#[tokio::test]
async fn a_meeting_without_guests_lets_none_in_not_even_those_who_have_a_token() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let guest = door.guest(code, "Ada", None).await;
    door.change(HOST, id, json!({"allow_guests": false})).await;
    assert_eq!(door.guest(code, "Bob", None).await.code(), (403, "FORBIDDEN"));
    assert_eq!(door.join(guest.text("token"), code).await.code(), (403, "FORBIDDEN"));
    door.change(HOST, id, json!({"allow_guests": true})).await;
    assert_eq!(door.join(guest.text("token"), code).await.status, 200);
    let other = door.create().await;
    let elsewhere = door.join(guest.text("token"), other.text("meeting_code")).await;
    assert_eq!(elsewhere.code(), (403, "FORBIDDEN"));
}

#[tokio::test]
async fn the_name_of_a_guest_is_checked() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let code = made.text("meeting_code");
    for bad in ["", "A", "   ", "a\nb", &"x".repeat(101), &"é".repeat(100)] {
        assert_eq!(door.guest(code, bad, None).await.code(), (400, "BAD_REQUEST"), "{bad:?}");
    }
    for good in ["Al", &"x".repeat(100)] {
        assert_eq!(door.guest(code, good, None).await.status, 200, "{good}");
    }
    let path = format!("/meetings/{code}/guest-token");
    let extra = json!({"display_name": "Ada", "captcha_token": "x"});
    assert_eq!(answer(door.bare(Method::POST, &path).json(&extra)).await.code(), (400, "BAD_REQUEST"));
}

#[tokio::test]
async fn an_address_makes_only_so_many_guests() {
    let refill = std::time::Duration::from_secs(3_600);
    let house = House::with(Rules { guest_burst: 3, guest_refill: refill, ..Rules::default() }).await;
    let door = house.first();
    let made = door.create().await;
    let code = made.text("meeting_code");
    for _ in 0..3 {
        assert_eq!(door.guest(code, "Ada", None).await.status, 200);
    }
    let refused = door.guest(code, "Ada", None).await;
    assert_eq!(refused.code(), (429, "RATE_LIMIT_EXCEEDED"));
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((3_000..=3_600).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn a_user_joins_only_so_often_and_others_are_not_held_up() {
    let refill = std::time::Duration::from_secs(3_600);
    let mut house = House::with(Rules { join_burst: 2, join_refill: refill, ..Rules::default() }).await;
    house.handlers().await;
    let _mc = house.mc("mc-1").await;
    let door = house.first();
    let made = door.create().await;
    let code = made.text("meeting_code");
    let guest = door.guest(code, "Ada", None).await;
    for token in [HOST, guest.text("token")] {
        for _ in 0..2 {
            assert_eq!(door.join(token, code).await.status, 200);
        }
        let refused = door.join(token, code).await;
        assert_eq!(refused.code(), (429, "RATE_LIMIT_EXCEEDED"));
        assert!(refused.headers.contains_key("retry-after"));
    }
    // A new token of the same guest is the same guest.
    let renewed = door.guest(code, "Ada", Some(guest.text("token"))).await;
    assert_eq!(door.join(renewed.text("token"), code).await.code(), (429, "RATE_LIMIT_EXCEEDED"));
    assert_eq!(door.join(crate::house::OTHER, code).await.status, 200);
}
