//! A node that cannot reach the store: what it shows, and what it does not ask.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Ttl};
use lease_store::{BootClock, Redis};
use poller::{Node, Settings, TargetView};
use testkit::{Proxy, RedisServer, wait};

use crate::node::{LIMIT, Stage, polls, quick};

fn view(node: &Node, id: &str) -> TargetView {
    let picture = node.picture();
    let all = picture.nodes.into_iter().flat_map(|node| node.targets).chain(picture.unowned);
    all.into_iter().find(|target| target.id == id).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_in_doubt_says_since_when_and_asks_nothing_until_it_is_sure_again() {
    let redis = RedisServer::start().unwrap();
    let proxy = Proxy::start(redis.addr()).unwrap();
    let url = format!("{}?quarantine_ms=0&max_ttl_ms=120000", proxy.url_for_redis());
    let stage = Stage::on(Arc::new(Redis::open(&url).await.unwrap())).await;
    stage.target("a", 20).await;
    // A TTL that the test does not outlive: the lease is in doubt and not lost.
    let node = stage.start(Settings { lease_ttl: Ttl::from_secs(120).unwrap(), ..quick() });
    wait::until_async("it is polled", LIMIT, async || polls(&node, "a") > 2).await.unwrap();
    let (sure, generation) = (view(&node, "a"), stage.generation("a").await);
    assert_eq!((sure.state, sure.uncertain_since), ("owned", None));
    assert_eq!(
        (sure.owner.as_deref(), sure.preferred.as_deref()),
        (Some(node.instance()), Some(node.instance()))
    );
    let before = BootClock.wall().as_millis();
    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    wait::until_async("it is in doubt", LIMIT, async || view(&node, "a").state == "uncertain").await.unwrap();
    let since = view(&node, "a").uncertain_since.unwrap();
    assert!((before..=BootClock.wall().as_millis()).contains(&since), "{since}");
    // The one under way may end; then there are no more, though fifty would be due in a second.
    let mut asked = stage.asked();
    wait::until_async("nothing more is asked", LIMIT, async || {
        BootClock.sleep_until(BootClock.now() + Duration::from_secs(1)).await;
        let now = stage.asked();
        std::mem::replace(&mut asked, now) == now
    })
    .await
    .unwrap();
    proxy.accept().unwrap();
    wait::until_async("it is sure again", LIMIT, async || view(&node, "a").state == "owned").await.unwrap();
    assert_eq!(view(&node, "a").uncertain_since, None);
    wait::until_async("it is polled again", LIMIT, async || stage.asked() > asked + 2).await.unwrap();
    assert_eq!(stage.generation("a").await, generation, "under the same lease");
    node.stop().await;
}
