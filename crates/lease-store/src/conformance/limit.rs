//! Everything is bounded, and a refusal changes nothing.

use std::sync::Arc;
use std::time::Duration;

use lease::{Error, Op, Phase, Query, Refusal, Renewal, Renewed, Ttl, limits};
use tokio::task::JoinSet;

use super::ask::{append, put};
use super::{World, refused, said};

#[track_caller]
fn assert_out_of_range(error: Error) {
    assert!(matches!(error, Error::Refused(Refusal::TtlOutOfRange { .. })), "{error}");
}

/// TTLs just outside of what the engine keeps.
fn strange_ttls(world: &World) -> Vec<Ttl> {
    let capabilities = world.capabilities();
    [capabilities.min_ttl.as_millis() - 1, capabilities.max_ttl.as_millis() + 1]
        .into_iter()
        .filter_map(|ms| Ttl::from_millis(ms).ok())
        .collect()
}

pub async fn a_ttl_that_the_engine_cannot_keep_is_refused(world: &World) {
    for ttl in strange_ttls(world) {
        let mut claim = world.claim(&world.key("k"), "ann");
        claim.ttl = ttl;
        assert_out_of_range(refused(world.store().acquire(claim.clone()).await));
        assert_eq!(world.inspect(&claim.key).await.phase, Phase::Free);
        // The token was not spent on it.
        claim.ttl = world.long_ttl();
        let held = world.grant(claim).await;
        world.give_back(&held).await;
    }
}

pub async fn a_renewal_with_a_ttl_that_the_engine_cannot_keep_is_refused(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    for ttl in strange_ttls(world) {
        assert_out_of_range(refused(world.store().renew(&[held.renewal(Some(ttl))]).await));
        world.assert_live(&held).await;
        world.ends(held.key()).await.assert_after(held.sent, held.lease.ttl.as_duration());
        world.ends(held.key()).await.assert_before(held.told, held.lease.ttl.as_duration());
    }
}

pub async fn a_batch_may_be_as_long_as_the_limit(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut items: Vec<_> = (1..limits::BATCH)
        .map(|number| Renewal { key: world.key(&format!("k{number}")), ..held.renewal(None) })
        .collect();
    items.push(held.renewal(None));
    let answers = said(world.store().renew(&items).await);
    assert_eq!(answers.len(), limits::BATCH);
    assert!(matches!(answers.last(), Some(Renewed::Renewed { .. })));
    assert!(answers[..limits::BATCH - 1].iter().all(|answer| matches!(answer, Renewed::Lost(_))));
}

pub async fn a_batch_beyond_the_limit_is_refused(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut shorter = vec![held.renewal(None); limits::BATCH];
    shorter.push(held.renewal(Some(world.ttl())));
    refused(world.store().renew(&shorter).await);
    world.ends(held.key()).await.assert_after(held.sent, held.lease.ttl.as_duration());
}

pub async fn a_commit_may_be_as_long_as_the_limit(world: &World) {
    let ops: Vec<_> =
        (0..limits::OPS).map(|number| put(&world.key(&format!("r{number:02}")), "1")).collect();
    world.write(&ops).await;
    let page = said(world.store().scan(&Query::new(world.prefix())).await);
    assert_eq!(page.items.len(), limits::OPS);
}

pub async fn a_commit_beyond_the_limit_is_refused(world: &World) {
    let ops: Vec<_> =
        (0..=limits::OPS).map(|number| put(&world.key(&format!("r{number:02}")), "1")).collect();
    refused(world.store().commit(&ops).await);
    let page = said(world.store().scan(&Query::new(world.prefix())).await);
    assert_eq!(page.items, []);
}

pub async fn an_empty_commit_is_refused(world: &World) {
    refused(world.store().commit(&[]).await);
    let held = world.hold(&world.key("k"), "ann").await;
    refused(world.store().write_fenced(&held.fence(lease::Mode::Strict), &[]).await);
}

pub async fn a_value_may_be_as_long_as_the_limit(world: &World) {
    let (key, most) = (world.key("r"), vec![b'x'; limits::VALUE]);
    world.write(&[Op::Put { key: key.clone(), value: Arc::from(&most[..]), ttl: None }]).await;
    assert_eq!(world.get(&key).await.map(|record| record.value.len()), Some(limits::VALUE));
}

pub async fn a_value_beyond_the_limit_is_refused(world: &World) {
    let (key, value) = (world.key("r"), Arc::<[u8]>::from(vec![b'x'; limits::VALUE + 1]));
    refused(world.store().commit(&[Op::Put { key: key.clone(), value: value.clone(), ttl: None }]).await);
    refused(world.store().commit(&[Op::Append { log: key.clone(), value, max_len: 10 }]).await);
    world.assert_record(&key, None).await;
}

pub async fn a_log_of_no_length_is_refused(world: &World) {
    let log = world.key("log");
    refused(world.store().commit(&[append(&log, "1", 0)]).await);
    refused(world.store().commit(&[append(&log, "1", limits::LOG + 1)]).await);
    assert_eq!(world.log(&log).await, []);
}

pub async fn a_page_of_no_length_or_beyond_the_limit_is_refused(world: &World) {
    for limit in [0, limits::BATCH + 1] {
        let query = Query { limit, ..Query::new(world.prefix()) };
        refused(world.store().list(&query).await);
        refused(world.store().scan(&query).await);
    }
}

pub async fn a_key_of_the_greatest_length_is_as_good_as_any(world: &World) {
    let short = world.key("");
    let key = world.key(&"k".repeat(limits::KEY - short.as_str().len()));
    let held = world.hold(&key, &"h".repeat(limits::HOLDER)).await;
    world.assert_live(&held).await;
    world.give_back(&held).await;
    world.put(&key, "1").await;
    world.assert_record(&key, Some("1")).await;
}

pub async fn a_meta_of_the_greatest_length_is_kept(world: &World) {
    let meta = said(lease::Meta::new("m".repeat(limits::META)));
    let held = world.grant(world.claim(&world.key("k"), "ann").meta(meta.clone())).await;
    assert_eq!(world.inspect(held.key()).await.meta, meta);
}

pub async fn a_full_queue_takes_nobody(world: &World) {
    if !world.virtual_time() {
        return; // A thousand parked claims are cheap in process only.
    }
    let held = world.hold(&world.key("k"), "ann").await;
    let mut queue = JoinSet::new();
    for number in 0..limits::WAITERS {
        let claim = world.claim(held.key(), &format!("w{number}")).waiting(Duration::from_secs(3_600));
        let store = world.store();
        queue.spawn(async move { store.acquire(claim).await });
    }
    world.until_parked(held.key(), limits::WAITERS as u32).await;
    let late = world.claim(held.key(), "late").waiting(Duration::from_secs(3_600));
    let error = refused(world.store().acquire(late).await);
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    world.assert_live(&held).await;
    queue.shutdown().await;
    world.until_parked(held.key(), 0).await;
}

pub async fn watchers_are_bounded(world: &World) {
    if !world.virtual_time() {
        return; // A thousand watchers are cheap in process only.
    }
    let mut watchers = Vec::new();
    let error = loop {
        match world.store().watch(&world.prefix(), None).await {
            Ok(watch) => watchers.push(watch),
            Err(error) => break error,
        }
        assert!(watchers.len() <= limits::WATCHERS, "{} watchers", watchers.len());
    };
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    // A watcher that is gone makes room.
    watchers.pop();
    world.until("a watcher has room", || async { world.store().watch(&world.prefix(), None).await.is_ok() }).await;
}
