//! What other programs hear of results on Redis.

use std::sync::Arc;

use lease_store::Redis;
use serde_json::{Value, json};
use testkit::{RedisServer, Reply, RespClient};

use crate::node::{LIMIT, Stage, quick};

/// The next message of a subscription: its channel, and what was said.
fn heard(client: &mut RespClient) -> (String, Value) {
    let Reply::Array(Some(parts)) = client.receive().unwrap() else { panic!("no message") };
    let text = |i: usize| parts[i].text().unwrap().to_owned();
    assert_eq!(text(0), "message");
    (text(1), serde_json::from_str(&text(2)).unwrap())
}

// The subscriber blocks its thread, so the node has others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_of_a_target_s_channel_hears_its_results_and_no_other_s() {
    let redis = RedisServer::start().unwrap();
    let mut client = redis.client().unwrap();
    client.set_limit(LIMIT).unwrap();
    client.send(&["SUBSCRIBE", "poll:results:a"]).unwrap();
    client.receive().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let stage = Stage::on(Arc::new(Redis::open(&url).await.unwrap())).await;
    for id in ["a", "b"] {
        stage.target(id, 20).await;
    }
    let node = stage.start(quick());
    let mut last = 0;
    for _ in 0..5 {
        let (channel, result) = heard(&mut client);
        assert_eq!((channel.as_str(), &result["id"]), ("poll:results:a", &json!("a")));
        assert_eq!((&result["ok"], &result["value"]["n"]), (&json!(true), &json!(1)));
        assert_eq!(result["instance"], node.instance());
        let generation: u64 = result["generation"].as_str().unwrap().parse().unwrap();
        assert!(generation >= last, "never an older one after a newer one");
        last = generation;
    }
    assert_eq!(stage.latest("a").await["id"], "a");
    node.stop().await;
}
