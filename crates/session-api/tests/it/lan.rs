//! Sessions are for the house.

use reqwest::Method;
use serde_json::json;

use crate::house::{ADMIN, CHANNEL, House, Plan, WRITE, answer};

fn proxied(house: &House, forwarded: &str) -> reqwest::RequestBuilder {
    let wish = json!({"serviceRef": CHANNEL});
    house.request(WRITE, Method::POST, "/intents").header("x-forwarded-for", forwarded).json(&wish)
}

#[tokio::test]
async fn who_is_not_of_an_allowed_network_is_refused_whatever_token_it_has() {
    let house =
        Plan::new().with(|options| options.lan.allow = vec!["10.0.0.0/8".parse().unwrap()]).build().await;
    for path in
        ["/channels", "/sessions", "/sessions/s-1", "/sessions/s-1/events", "/sessions/s-1/hls/index.m3u8"]
    {
        assert_eq!(answer(house.request(ADMIN, Method::GET, path)).await.code(), (403, "LAN_ONLY"), "{path}");
    }
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (403, "LAN_ONLY"));
    assert_eq!(house.beat("s-1").await.code(), (403, "LAN_ONLY"));
    assert_eq!(house.traces(), [0; 5]);
    assert!(
        house.metrics().await.contains("http_requests_total"),
        "what is not below /api/v3 is not guarded"
    );
}

#[tokio::test]
async fn a_proxy_speaks_for_others_only_when_it_is_trusted() {
    let house = House::new().await;
    assert_eq!(answer(proxied(&house, "8.8.8.8")).await.status, 202, "nobody reads what it says");
    let trusting =
        |options: &mut session_api::Options| options.lan.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let house = Plan::new().with(trusting).build().await;
    assert_eq!(answer(proxied(&house, "8.8.8.8")).await.code(), (403, "LAN_ONLY"));
    assert_eq!(answer(proxied(&house, "192.168.1.20, 8.8.8.8")).await.code(), (403, "LAN_ONLY"));
    assert_eq!(answer(proxied(&house, "who knows")).await.code(), (403, "LAN_ONLY"));
    assert_eq!(house.traces(), [0; 5]);
    assert_eq!(answer(proxied(&house, "8.8.8.8, 192.168.1.20, 127.0.0.9")).await.status, 202);
}
