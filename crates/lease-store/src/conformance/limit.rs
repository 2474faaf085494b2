//! Everything is bounded, and a refusal changes nothing.

use std::sync::Arc;

use lease::{Error, Op, Phase, Query, Refusal, Renewal, Renewed, Ttl, limits};

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
    let ops: Vec<_> = (0..limits::OPS).map(|number| put(&world.key(&format!("r{number:02}")), "1")).collect();
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

pub async fn a_commit_of_more_bytes_than_the_limit_is_refused(world: &World) {
    let value = Arc::<[u8]>::from(vec![b'x'; limits::VALUE]);
    let most = limits::COMMIT / limits::VALUE;
    let ops: Vec<_> = (0..=most)
        .map(|number| world.key(&format!("r{number:02}")))
        .map(|key| Op::Put { key, value: value.clone(), ttl: None })
        .collect();
    refused(world.store().commit(&ops).await);
    world.assert_record(ops[0].key(), None).await;
    world.write(&ops[..most]).await;
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
        refused(world.store().read_log(&world.key("log"), 0, limit).await);
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
