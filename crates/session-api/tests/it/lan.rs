//! The LAN guard.

use reqwest::Method;
use serde_json::json;

use crate::api::{ADMIN, CHANNEL, TestApi, TestApiBuilder, WRITE, send};

fn proxied(api: &TestApi, forwarded: &str) -> reqwest::RequestBuilder {
    let intent = json!({"serviceRef": CHANNEL});
    api.request(WRITE, Method::POST, "/intents").header("x-forwarded-for", forwarded).json(&intent)
}

#[tokio::test]
async fn clients_outside_the_allowed_networks_are_rejected_with_any_token() {
    let api = TestApiBuilder::new()
        .with(|options| options.lan.allow = vec!["10.0.0.0/8".parse().unwrap()])
        .build()
        .await;
    for path in
        ["/channels", "/sessions", "/sessions/s-1", "/sessions/s-1/events", "/sessions/s-1/hls/index.m3u8"]
    {
        assert_eq!(send(api.request(ADMIN, Method::GET, path)).await.code(), (403, "LAN_ONLY"), "{path}");
    }
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (403, "LAN_ONLY"));
    assert_eq!(api.heartbeat("s-1").await.code(), (403, "LAN_ONLY"));
    assert_eq!(api.port_calls(), [0; 4]);
    assert!(
        api.metrics().await.contains("tenure_http_requests_total"),
        "what is not below /api/v3 is not guarded"
    );
}

#[tokio::test]
async fn forwarded_addresses_are_used_only_from_trusted_proxies() {
    let api = TestApi::new().await;
    assert_eq!(send(proxied(&api, "8.8.8.8")).await.status, 202, "the header is ignored");
    let trusting = |options: &mut tenure_session_api::Options| {
        options.lan.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()].into()
    };
    let api = TestApiBuilder::new().with(trusting).build().await;
    assert_eq!(send(proxied(&api, "8.8.8.8")).await.code(), (403, "LAN_ONLY"));
    assert_eq!(send(proxied(&api, "192.168.1.20, 8.8.8.8")).await.code(), (403, "LAN_ONLY"));
    assert_eq!(send(proxied(&api, "garbage")).await.code(), (403, "LAN_ONLY"));
    assert_eq!(api.port_calls(), [0; 4]);
    assert_eq!(send(proxied(&api, "8.8.8.8, 192.168.1.20, 127.0.0.9")).await.status, 202);
}
