//! A node that cannot reach the store: what it reports, and that it sends no requests.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Ttl};
use tenure_poller::{Node, Settings, TargetView};
use tenure_store::{BootClock, Redis};
use tenure_testkit::{Proxy, RedisServer, wait};

use crate::node::{Fixture, LIMIT, polls, quick};

fn view(node: &Node, id: &str) -> TargetView {
    let snapshot = node.snapshot();
    let all = snapshot.nodes.into_iter().flat_map(|node| node.targets).chain(snapshot.unowned);
    all.into_iter().find(|target| target.id == id).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncertain_node_reports_since_when_and_sends_no_requests_until_it_is_certain() {
    let redis = RedisServer::start().unwrap();
    let proxy = Proxy::start(redis.addr()).unwrap();
    let url = format!("{}?quarantine_ms=0&max_ttl_ms=120000", proxy.url_for_redis());
    let fixture = Fixture::on(Arc::new(Redis::open(&url).await.unwrap())).await;
    fixture.target("a", 20).await;
    // A TTL longer than the test: the lease becomes uncertain and is not lost.
    let node = fixture.start(Settings { lease_ttl: Ttl::from_secs(120).unwrap(), ..quick() });
    wait::until_async("the target is polled", LIMIT, async || polls(&node, "a") > 2).await.unwrap();
    let (certain, generation) = (view(&node, "a"), fixture.generation("a").await);
    assert_eq!((certain.state, certain.uncertain_since), ("owned", None));
    assert_eq!(
        (certain.owner.as_deref(), certain.preferred.as_deref()),
        (Some(node.instance()), Some(node.instance()))
    );
    let before = BootClock.wall().as_millis();
    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    wait::until_async("ownership is uncertain", LIMIT, async || view(&node, "a").state == "uncertain")
        .await
        .unwrap();
    let since = view(&node, "a").uncertain_since.unwrap();
    assert!((before..=BootClock.wall().as_millis()).contains(&since), "{since}");
    // The request in flight may end. No more follow, although fifty would be due in a second.
    let mut requests = fixture.request_count();
    wait::until_async("requests have stopped", LIMIT, async || {
        BootClock.sleep_until(BootClock.now() + Duration::from_secs(1)).await;
        let now = fixture.request_count();
        std::mem::replace(&mut requests, now) == now
    })
    .await
    .unwrap();
    proxy.accept().unwrap();
    wait::until_async("ownership is certain again", LIMIT, async || view(&node, "a").state == "owned")
        .await
        .unwrap();
    assert_eq!(view(&node, "a").uncertain_since, None);
    wait::until_async("the target is polled again", LIMIT, async || fixture.request_count() > requests + 2)
        .await
        .unwrap();
    assert_eq!(fixture.generation("a").await, generation, "the lease is the same");
    node.stop().await;
}
