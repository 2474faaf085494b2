//! Results on Redis channels.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_store::Redis;
use tenure_testkit::{RedisServer, Reply, RespClient};

use crate::node::{Fixture, LIMIT, quick};

/// The next message of a subscription: its channel and its content.
fn next_message(client: &mut RespClient) -> (String, Value) {
    let Reply::Array(Some(parts)) = client.receive().unwrap() else { panic!("no message") };
    let text = |i: usize| parts[i].text().unwrap().to_owned();
    assert_eq!(text(0), "message");
    (text(1), serde_json::from_str(&text(2)).unwrap())
}

// The subscriber blocks its thread, so the node needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_receives_only_the_results_of_its_target() {
    let redis = RedisServer::start().unwrap();
    let mut client = redis.client().unwrap();
    client.set_limit(LIMIT).unwrap();
    client.send(&["SUBSCRIBE", "poll:results:a"]).unwrap();
    client.receive().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let fixture = Fixture::on(Arc::new(Redis::open(&url).await.unwrap())).await;
    for id in ["a", "b"] {
        fixture.target(id, 20).await;
    }
    let node = fixture.start(quick());
    let mut last = 0;
    for _ in 0..5 {
        let (channel, result) = next_message(&mut client);
        assert_eq!((channel.as_str(), &result["id"]), ("poll:results:a", &json!("a")));
        assert_eq!((&result["ok"], &result["value"]["n"]), (&json!(true), &json!(1)));
        assert_eq!(result["instance"], node.instance());
        let generation: u64 = result["generation"].as_str().unwrap().parse().unwrap();
        assert!(generation >= last, "generations never decrease");
        last = generation;
    }
    assert_eq!(fixture.latest("a").await["id"], "a");
    node.stop().await;
}
