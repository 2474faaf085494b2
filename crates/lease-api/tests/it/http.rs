//! Every verb over HTTP: statuses and bodies of the contract.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{ADMIN, READ, Server, WRITE, answer};

/// Acquires a key that is free.
pub(crate) async fn grant(server: &Server, key: &str, holder: &str) -> Value {
    let body = json!({"key": key, "holder": holder, "ttl_ms": 10_000});
    let (status, body) = server.post("/v1/leases/acquire", body).await;
    assert_eq!(status, 200, "{body}");
    body
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap_or_else(|| panic!("{value} is no string")).parse().unwrap()
}

#[tokio::test]
async fn a_grant_has_all_its_fields_and_a_token_made_by_the_server() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    assert_eq!(lease["key"], "k");
    assert_eq!(lease["holder"], "a");
    assert_eq!(lease["ttl_ms"], 10_000);
    assert_eq!(lease["token"].as_str().unwrap().len(), 22);
    assert!(lease["lease_id"].as_str().unwrap().starts_with("cl_"));
    assert!(number(&lease["generation"]) > 0);
    assert_eq!(lease.as_object().unwrap().len(), 6, "{lease}");
}

#[tokio::test]
async fn the_same_token_again_is_the_same_lease() {
    let server = Server::start().await;
    let body =
        json!({"key": "k", "holder": "a", "ttl_ms": 10_000, "token": "abcdefghijklmnopqrstuv", "meta": "m"});
    let (status, first) = server.post("/v1/leases/acquire", body.clone()).await;
    let (again, second) = server.post("/v1/leases/acquire", body).await;
    assert_eq!((status, again), (StatusCode::OK, StatusCode::OK));
    assert_eq!(first, second);
    assert_eq!(first["token"], "abcdefghijklmnopqrstuv");
}

#[tokio::test]
async fn a_busy_key_reports_its_holder_and_remaining_time() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let (status, busy) =
        server.post("/v1/leases/acquire", json!({"key": "k", "holder": "b", "ttl_ms": 1_000})).await;
    assert_eq!(status, 409);
    assert_eq!(busy["code"], "BUSY");
    assert_eq!(busy["holder"], "a");
    assert_eq!(busy["generation"], lease["generation"]);
    assert_eq!(busy["position"], 1);
    assert_eq!(busy["reason"], "held");
    assert!(busy["reserved"].is_null());
    assert!((1..=10_000).contains(&busy["remaining_ms"].as_u64().unwrap()));
}

#[tokio::test]
async fn a_release_to_an_absent_successor_reserves_the_key() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let release = json!({
        "key": "k", "token": lease["token"], "generation": lease["generation"], "to": "successor"
    });
    assert_eq!(server.post("/v1/leases/release", release).await.1, json!({"outcome": "released"}));
    let (status, busy) =
        server.post("/v1/leases/acquire", json!({"key": "k", "holder": "b", "ttl_ms": 1_000})).await;
    assert_eq!(status, 409);
    assert_eq!(
        (&busy["reserved"], &busy["reason"], &busy["holder"]),
        (&json!(true), &json!("reserved"), &json!("successor"))
    );
    let (_, one) = server.get("/v1/leases/one?key=k").await;
    assert_eq!((&one["state"], &one["holder"]), (&json!("reserved"), &json!("successor")));
    grant(&server, "k", "successor").await;
}

#[tokio::test]
async fn renewals_have_one_result_each_in_order() {
    let server = Server::start().await;
    let (one, two) = (grant(&server, "one", "a").await, grant(&server, "two", "a").await);
    let item = |lease: &Value| json!({"key": lease["key"], "token": lease["token"], "generation": lease["generation"]});
    let release = json!({"key": "two", "token": two["token"]});
    assert_eq!(server.post("/v1/leases/release", release.clone()).await.1["outcome"], "released");
    let (status, body) =
        server.post("/v1/leases/renew", json!({"items": [item(&one), item(&two)], "ttl_ms": 5_000})).await;
    assert_eq!(status, 200);
    let results = body["results"].as_array().unwrap();
    assert_eq!(results[0]["key"], "one");
    assert_eq!(results[0]["outcome"], "renewed");
    assert!((1..=5_000).contains(&results[0]["remaining_ms"].as_u64().unwrap()), "{body}");
    assert_eq!(results[1], json!({"key": "two", "outcome": "lost", "reason": "released"}));
    assert_eq!(server.post("/v1/leases/release", release).await.1, json!({"outcome": "not_held"}));
}

#[tokio::test]
async fn a_spent_token_is_refused() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    server.post("/v1/leases/release", json!({"key": "k", "token": lease["token"]})).await;
    let again = json!({"key": "k", "holder": "a", "token": lease["token"], "ttl_ms": 1_000});
    let (status, body) = server.post("/v1/leases/acquire", again).await;
    assert_eq!((status.as_u16(), &body["code"]), (409, &json!("TOKEN_SPENT")));
}

#[tokio::test]
async fn a_transfer_needs_the_lease_and_a_waiting_successor() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let body =
        |token: &Value| json!({"key": "k", "token": token, "generation": lease["generation"], "to": "b"});
    let (status, refused) = server.post("/v1/leases/transfer", body(&lease["token"])).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("NO_SUCCESSOR")));
    let (status, refused) = server.post("/v1/leases/transfer", body(&json!("abcdefghijklmnopqrstuv"))).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("NOT_HELD")));
    let claim = json!({"key": "k", "holder": "b", "ttl_ms": 10_000, "wait_ms": 20_000});
    let waiting = server.post("/v1/leases/acquire", claim);
    let transfer = async {
        server.parked("k", 1).await;
        server.post("/v1/leases/transfer", body(&lease["token"])).await
    };
    let ((granted, successor), (moved, transferred)) = tokio::join!(waiting, transfer);
    assert_eq!((granted.as_u16(), moved.as_u16()), (200, 200), "{successor} {transferred}");
    assert_eq!(transferred, json!({"holder": "b", "generation": successor["generation"]}));
    assert_eq!(successor["parked"], true);
    assert!(number(&successor["generation"]) > number(&lease["generation"]));
}

#[tokio::test]
async fn a_revocation_needs_the_live_generation_and_delays_the_next() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let stale = json!({"key": "k", "generation": "1", "reason": "test"});
    let (status, body) = server.post_as(ADMIN, "/v1/leases/revoke", stale).await;
    assert_eq!((status.as_u16(), &body["code"]), (409, &json!("STALE_GENERATION")));
    assert_eq!(body["generation"], lease["generation"]);
    let revoke = json!({"key": "k", "generation": lease["generation"], "reason": "test", "delay_ms": 60_000});
    let (status, body) = server.post_as(ADMIN, "/v1/leases/revoke", revoke).await;
    assert_eq!((status.as_u16(), body), (200, json!({"delay_ms": 60_000})));
    let (_, one) = server.get("/v1/leases/one?key=k").await;
    assert_eq!(one["state"], "delayed");
    let (status, busy) =
        server.post("/v1/leases/acquire", json!({"key": "k", "holder": "b", "ttl_ms": 1_000})).await;
    assert_eq!((status.as_u16(), &busy["reason"]), (409, &json!("delayed")));
}

#[tokio::test]
async fn a_revocation_without_a_delay_takes_what_was_left() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "a").await;
    let revoke = json!({"key": "k", "generation": lease["generation"], "reason": "test"});
    let (status, body) = server.post_as(ADMIN, "/v1/leases/revoke", revoke).await;
    assert_eq!(status, 200);
    assert!((1..=10_000).contains(&body["delay_ms"].as_u64().unwrap()), "{body}");
}

#[tokio::test]
async fn a_key_that_nobody_ever_had_is_free_and_never_missing() {
    let server = Server::start().await;
    let (status, body) = server.get("/v1/leases/one?key=never").await;
    assert_eq!((status.as_u16(), body), (200, json!({"key": "never", "state": "free", "waiters": 0})));
    let (status, body) = server.get("/v1/leases/history?key=never").await;
    assert_eq!((status.as_u16(), body), (200, json!({"reigns": []})));
}

#[tokio::test]
async fn lists_come_in_pages() {
    let server = Server::start().await;
    for key in ["p/a", "p/b", "p/c", "q"] {
        grant(&server, key, "h").await;
    }
    let (status, page) = server.get("/v1/leases?prefix=p/&limit=2").await;
    assert_eq!(status, 200);
    let keys = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&page), ["p/a", "p/b"]);
    assert_eq!(page["items"][0]["state"], "held");
    let after = page["next"].as_str().unwrap();
    let (_, page) = server.get(&format!("/v1/leases?prefix=p/&limit=2&after={after}")).await;
    assert_eq!(keys(&page), ["p/c"]);
    assert!(page["next"].is_null() && page["revision"].is_string(), "{page}");
    let (_, all) = server.get("/v1/leases?prefix=&after=").await;
    assert_eq!(keys(&all).len(), 4);
}

#[tokio::test]
async fn history_tells_every_reign_oldest_first() {
    let server = Server::start().await;
    for holder in ["a", "b"] {
        let lease = grant(&server, "k", holder).await;
        server.post("/v1/leases/release", json!({"key": "k", "token": lease["token"]})).await;
    }
    grant(&server, "k", "c").await;
    let (_, body) = server.get("/v1/leases/history?key=k").await;
    let reigns = body["reigns"].as_array().unwrap();
    let told: Vec<_> =
        reigns.iter().map(|reign| (reign["holder"].as_str().unwrap(), reign["end"].as_str())).collect();
    assert_eq!(told, [("a", Some("released")), ("b", Some("released")), ("c", None)]);
    assert!(reigns[0]["until"].as_str().unwrap() >= reigns[0]["from"].as_str().unwrap());
    assert!(reigns[2]["until"].is_null());
}

#[tokio::test]
async fn every_verb_needs_its_scope() {
    let server = Server::start().await;
    let table = [
        (Method::POST, "/v1/leases/acquire", READ),
        (Method::POST, "/v1/leases/renew", READ),
        (Method::POST, "/v1/leases/release", READ),
        (Method::POST, "/v1/leases/transfer", READ),
        (Method::POST, "/v1/leases/revoke", WRITE),
        (Method::PUT, "/v1/records?key=k", READ),
    ];
    for (method, path, token) in table {
        // The scope is checked before the body is looked at.
        let (status, body) = answer(server.request(token, method.clone(), path).body("nonsense")).await;
        assert_eq!((status.as_u16(), &body["code"]), (403, &json!("FORBIDDEN")), "{path}");
        let (status, body) = answer(server.request("wrong", method, path).body("nonsense")).await;
        assert_eq!((status.as_u16(), &body["code"]), (401, &json!("UNAUTHENTICATED")), "{path}");
    }
    for path in [
        "/v1/leases",
        "/v1/leases/one?key=k",
        "/v1/leases/history?key=k",
        "/v1/leases/watch",
        "/v1/records?key=k",
    ] {
        let (status, _) = answer(server.request("wrong", Method::GET, path)).await;
        assert_eq!(status, 401, "{path}");
    }
}

#[tokio::test]
async fn keys_of_services_can_be_looked_at_and_revoked_but_not_used() {
    let server = Server::start().await;
    let key = tenure_lease::Key::new("control:device").unwrap();
    let token = tenure_lease::Token::random(&tenure_store::OsEntropy);
    let ttl = tenure_lease::Ttl::from_secs(10).unwrap();
    let claim = tenure_lease::Claim::new(key, tenure_lease::Holder::new("svc").unwrap(), token.clone(), ttl);
    let tenure_lease::Acquired::Granted(grant) = server.store.acquire(claim).await.unwrap() else {
        panic!("busy")
    };
    let (token, generation) = (token.reveal(), grant.lease.generation.to_string());
    let item = json!({"key": "control:device", "token": token, "generation": generation});
    let fence = json!({"key": "control:device", "token": token, "generation": generation});
    let attempts = [
        ("/v1/leases/acquire", json!({"key": "control:device", "holder": "x", "ttl_ms": 1_000})),
        ("/v1/leases/renew", json!({"items": [item]})),
        ("/v1/leases/release", json!({"key": "control:device", "token": token})),
        (
            "/v1/leases/transfer",
            json!({"key": "control:device", "token": token, "generation": generation, "to": "x"}),
        ),
    ];
    for (path, body) in attempts {
        for caller in [WRITE, ADMIN] {
            let (status, body) = server.post_as(caller, path, body.clone()).await;
            assert_eq!((status.as_u16(), &body["code"]), (403, &json!("RESERVED_KEY")), "{path}");
        }
    }
    let (status, body) = server.put("/v1/records?key=v3:secret", json!({"value": 1, "fence": fence})).await;
    assert_eq!((status.as_u16(), &body["code"]), (403, &json!("RESERVED_KEY")));
    let (_, one) = server.get("/v1/leases/one?key=control:device").await;
    assert_eq!(one["holder"], "svc");
    assert!(!one.to_string().contains(token));
    let revoke = json!({"key": "control:device", "generation": generation, "reason": "test"});
    assert_eq!(server.post_as(ADMIN, "/v1/leases/revoke", revoke).await.0, 200);
}
