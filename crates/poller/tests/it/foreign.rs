//! What other programs write: found by one node, told to the others, and read by them at once.

use std::sync::Arc;
use std::time::Duration;

use lease::{Key, Op, Records, Ttl};
use lease_store::Redis;
use poller::{Node, Settings};
use serde_json::json;
use testkit::{RedisServer, wait};

use crate::node::{LIMIT, Stage, polls, quick};

async fn engine(redis: &RedisServer) -> Arc<Redis> {
    let url = format!("{}?quarantine_ms=0&max_ttl_ms=600000", redis.url());
    Arc::new(Redis::open(&url).await.unwrap())
}

/// The nodes that a node knows of: who they are, and whether they are foreign.
fn living(node: &Node) -> Vec<(String, bool)> {
    node.picture().nodes.into_iter().map(|node| (node.instance, node.foreign)).collect()
}

fn plain(redis: &RedisServer, args: &[&str]) {
    assert!(!redis.command(args).unwrap().is_error(), "{args:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_sees_the_nodes_and_targets_of_another_program_come_and_go() {
    let redis = RedisServer::start().unwrap();
    let stage = Stage::on(engine(&redis).await).await;
    let (one, two) = (stage.start(quick()), Node::start(engine(&redis).await, quick()).unwrap());
    let both = |seen: &dyn Fn(&Node) -> bool| seen(&one) && seen(&two);
    let foreign = |node: &Node| living(node).contains(&("seed-node".to_owned(), true));
    wait::until_async("they know each other", LIMIT, async || both(&|node| living(node).len() == 2))
        .await
        .unwrap();
    plain(&redis, &["SET", "poll:node:seed-node", "1", "PX", "600000"]);
    wait::until_async("both see it", LIMIT, async || both(&foreign)).await.unwrap();
    let record = json!({ "address": stage.url(), "intervalMs": 20 }).to_string();
    plain(&redis, &["SET", "session:theirs", &record]);
    let polled = async || polls(&one, "theirs") + polls(&two, "theirs") > 2;
    wait::until_async("one of ours polls it", LIMIT, polled).await.unwrap();
    plain(&redis, &["DEL", "session:theirs"]);
    let gone = |node: &Node| node.picture().nodes.iter().all(|node| node.targets.is_empty());
    wait::until_async("it is let go", LIMIT, async || both(&gone)).await.unwrap();
    plain(&redis, &["PEXPIRE", "poll:node:seed-node", "1"]);
    wait::until_async("both see that it is gone", LIMIT, async || both(&|node| !foreign(node)))
        .await
        .unwrap();
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_surveyor_found_is_read_at_once_and_not_at_the_next_sync() {
    let redis = RedisServer::start().unwrap();
    let store = engine(&redis).await;
    let put = async |name: &str, value: &str| {
        let (key, ttl) = (Key::new(name).unwrap(), Ttl::from_secs(600).ok());
        let put = Op::Put { key, value: value.as_bytes().into(), ttl };
        store.commit(&[put]).await.unwrap();
    };
    // First by its name, so it is the one that looks for all; it never does.
    put("poll:node:0", "1").await;
    let stage = Stage::on(store.clone()).await;
    stage.target("known", 20).await;
    let (lease_ttl, sync_interval) = (Ttl::from_secs(600).unwrap(), Duration::from_secs(600));
    let node = stage.start(Settings { lease_ttl, sync_interval, ..quick() });
    wait::until_async("it polls", LIMIT, async || polls(&node, "known") > 0).await.unwrap();
    let record = json!({ "address": stage.url(), "intervalMs": 20 }).to_string();
    plain(&redis, &["SET", "session:new", &record]);
    assert_eq!(polls(&node, "new"), 0);
    put("poll:survey", &json!({ "by": "0", "digest": "another", "foreign": ["seed-node"] }).to_string())
        .await;
    wait::until_async("it polls the new one", LIMIT, async || polls(&node, "new") > 0).await.unwrap();
    let foreign = async || living(&node).contains(&("seed-node".to_owned(), true));
    wait::until_async("it knows of the other program's node", LIMIT, foreign).await.unwrap();
    node.stop().await;
}
