//! Attacks on the fences of others: none of them keeps a holder from writing.

use serde_json::json;
use tenure_client::Client;
use tenure_lease::{Committed, Error, Fence, Generation, Key, Leases, Mode, Op, Records, Release, Token};
use tenure_store::OsEntropy;

use crate::client::{claim, key, take};
use crate::http::grant;
use crate::server::{ADMIN, Server, WRITE};

/// The greatest generation.
const GREATEST: u64 = (1 << 53) - 1;

fn put(record: &str) -> [Op; 1] {
    [Op::Put { key: key(record), value: b"1"[..].into(), ttl: None }]
}

fn fence(key: &Key, generation: Generation, token: &Token, mode: Mode) -> Fence {
    Fence { key: key.clone(), generation, token: token.clone(), mode }
}

/// Takes `k` and returns the fence of its holder.
async fn hold(client: &Client) -> Fence {
    let claim = claim("k", "victim");
    let token = claim.token.clone();
    let lease = take(client, claim).await.lease;
    fence(&lease.key, lease.generation, &token, Mode::Monotonic)
}

async fn write(client: &Client, fence: &Fence) -> Committed {
    client.write_fenced(fence, &put("r")).await.unwrap()
}

#[tokio::test]
async fn a_generation_that_was_never_granted_raises_no_mark() {
    let server = Server::start().await;
    let (victim, attacker) = (server.client_as(WRITE).await, server.client_as(WRITE).await);
    let held = hold(&victim).await;
    let greatest = Generation::new(GREATEST).unwrap();
    let next = Generation::new(held.generation.get() + 1).unwrap();
    for mode in [Mode::Monotonic, Mode::Strict] {
        for generation in [next, greatest] {
            let forged = fence(&held.key, generation, &Token::random(&OsEntropy), mode);
            let refused = write(&attacker, &forged).await;
            assert_eq!(
                refused,
                Committed::FencedOut { current: Some(held.generation) },
                "{generation} {mode:?}"
            );
            assert!(
                matches!(write(&victim, &held).await, Committed::Written { .. }),
                "{generation} {mode:?}"
            );
        }
    }
    // Nor on a key that nothing was granted for yet.
    let forged = fence(&key("new"), greatest, &Token::random(&OsEntropy), Mode::Monotonic);
    assert_eq!(write(&attacker, &forged).await, Committed::FencedOut { current: None });
}

#[tokio::test]
async fn the_generation_of_a_live_reign_is_of_no_use_with_another_token() {
    let server = Server::start().await;
    let (victim, attacker) = (server.client_as(WRITE).await, server.client_as(WRITE).await);
    let held = hold(&victim).await;
    // A token that was given up on the key counts as ended, which is not live either.
    let given_up = Token::random(&OsEntropy);
    attacker.release(Release::new(held.key.clone(), given_up.clone())).await.unwrap();
    for token in [Token::random(&OsEntropy), given_up] {
        let forged = fence(&held.key, held.generation, &token, Mode::Monotonic);
        let refused = write(&attacker, &forged).await;
        assert_eq!(refused, Committed::FencedOut { current: Some(held.generation) });
        assert!(matches!(write(&victim, &held).await, Committed::Written { .. }));
    }
}

#[tokio::test]
async fn a_former_holder_writes_under_a_monotonic_fence_until_the_next_one_has() {
    let server = Server::start().await;
    let client = server.client_as(WRITE).await;
    let first = hold(&client).await;
    client.release(Release::new(first.key.clone(), first.token.clone())).await.unwrap();
    assert!(matches!(write(&client, &first).await, Committed::Written { .. }));
    let second = hold(&client).await;
    assert!(matches!(write(&client, &first).await, Committed::Written { .. }));
    assert!(matches!(write(&client, &second).await, Committed::Written { .. }));
    assert_eq!(write(&client, &first).await, Committed::FencedOut { current: Some(second.generation) });
}

#[tokio::test]
async fn the_fence_of_a_reserved_key_is_refused() {
    let server = Server::start().await;
    let service = server.client_as(ADMIN).await;
    let reserved = claim("poll:target", "service");
    let token = reserved.token.clone();
    let lease = take(&service, reserved).await.lease;
    let attacker = server.client_as(WRITE).await;
    for mode in [Mode::Monotonic, Mode::Strict] {
        let held = fence(&lease.key, lease.generation, &token, mode);
        let error = attacker.write_fenced(&held, &put("r")).await.unwrap_err();
        assert!(
            matches!(&error, Error::Invalid { .. }) && error.to_string().contains("reserved"),
            "{error:?}"
        );
        assert!(matches!(write(&service, &held).await, Committed::Written { .. }));
    }
    let fence = json!({"key": "poll:target", "token": token.reveal(),
        "generation": lease.generation.to_string()});
    let (status, body) = server.put("/v1/records?key=r", json!({"value": 1, "fence": fence})).await;
    assert_eq!((status.as_u16(), &body["code"]), (403, &json!("RESERVED_KEY")));
}

#[tokio::test]
async fn forged_fences_over_http_change_nothing() {
    let server = Server::start().await;
    let lease = grant(&server, "k", "victim").await;
    let greatest = GREATEST.to_string();
    for generation in [json!(greatest), lease["generation"].clone()] {
        let token = Token::random(&OsEntropy);
        let forged = json!({"key": "k", "token": token.reveal(), "generation": generation});
        let (status, body) = server.put("/v1/records?key=r", json!({"value": 1, "fence": forged})).await;
        assert_eq!((status.as_u16(), &body["code"]), (409, &json!("FENCED_OUT")));
        let own = json!({"key": "k", "token": lease["token"], "generation": lease["generation"]});
        assert_eq!(server.put("/v1/records?key=r", json!({"value": 2, "fence": own})).await.0, 200);
    }
}
