//! Records of other programs: the surveyor finds them, and the other nodes read them as soon as the survey changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tenure_lease::{Key, Op, Records, Ttl};
use tenure_poller::{Node, Settings};
use tenure_store::Redis;
use tenure_testkit::{RedisServer, wait};

use crate::node::{Fixture, LIMIT, polls, quick};

async fn open_store(redis: &RedisServer) -> Arc<Redis> {
    let url = format!("{}?quarantine_ms=0&max_ttl_ms=600000", redis.url());
    Arc::new(Redis::open(&url).await.unwrap())
}

/// The nodes that a node knows, and whether each is foreign.
fn known_nodes(node: &Node) -> Vec<(String, bool)> {
    node.snapshot().nodes.into_iter().map(|node| (node.instance, node.foreign)).collect()
}

fn run_command(redis: &RedisServer, args: &[&str]) {
    assert!(!redis.command(args).unwrap().is_error(), "{args:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_follows_the_nodes_and_targets_of_another_program() {
    let redis = RedisServer::start().unwrap();
    let fixture = Fixture::on(open_store(&redis).await).await;
    let (one, two) = (fixture.start(quick()), Node::start(open_store(&redis).await, quick()).unwrap());
    let both = |check: &dyn Fn(&Node) -> bool| check(&one) && check(&two);
    let foreign = |node: &Node| known_nodes(node).contains(&("seed-node".to_owned(), true));
    wait::until_async("the nodes know each other", LIMIT, async || {
        both(&|node| known_nodes(node).len() == 2)
    })
    .await
    .unwrap();
    run_command(&redis, &["SET", "poll:node:seed-node", "1", "PX", "600000"]);
    wait::until_async("both know the foreign node", LIMIT, async || both(&foreign)).await.unwrap();
    let record = json!({ "address": fixture.url(), "intervalMs": 20 }).to_string();
    run_command(&redis, &["SET", "session:theirs", &record]);
    let polled = async || polls(&one, "theirs") + polls(&two, "theirs") > 2;
    wait::until_async("a node polls the foreign target", LIMIT, polled).await.unwrap();
    run_command(&redis, &["DEL", "session:theirs"]);
    let gone = |node: &Node| node.snapshot().nodes.iter().all(|node| node.targets.is_empty());
    wait::until_async("the target is released", LIMIT, async || both(&gone)).await.unwrap();
    run_command(&redis, &["PEXPIRE", "poll:node:seed-node", "1"]);
    wait::until_async("both have removed the foreign node", LIMIT, async || both(&|node| !foreign(node)))
        .await
        .unwrap();
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_survey_is_read_at_once_and_not_at_the_next_sync() {
    let redis = RedisServer::start().unwrap();
    let store = open_store(&redis).await;
    let put = async |name: &str, value: &str| {
        let (key, ttl) = (Key::new(name).unwrap(), Ttl::from_secs(600).ok());
        let put = Op::Put { key, value: value.as_bytes().into(), ttl };
        store.commit(&[put]).await.unwrap();
    };
    // The smallest instance id makes it the surveyor; it never surveys by itself.
    put("poll:node:0", "1").await;
    let fixture = Fixture::on(store.clone()).await;
    fixture.target("known", 20).await;
    let (lease_ttl, sync_interval) = (Ttl::from_secs(600).unwrap(), Duration::from_secs(600));
    let node = fixture.start(Settings { lease_ttl, sync_interval, ..quick() });
    wait::until_async("the known target is polled", LIMIT, async || polls(&node, "known") > 0).await.unwrap();
    let record = json!({ "address": fixture.url(), "intervalMs": 20 }).to_string();
    run_command(&redis, &["SET", "session:new", &record]);
    assert_eq!(polls(&node, "new"), 0);
    put("poll:survey", &json!({ "by": "0", "digest": "another", "foreign": ["seed-node"] }).to_string())
        .await;
    wait::until_async("it polls the new one", LIMIT, async || polls(&node, "new") > 0).await.unwrap();
    let foreign = async || known_nodes(&node).contains(&("seed-node".to_owned(), true));
    wait::until_async("the foreign node is known", LIMIT, foreign).await.unwrap();
    node.stop().await;
}
