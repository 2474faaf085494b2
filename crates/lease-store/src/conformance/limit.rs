//! Everything is bounded, and a refusal changes nothing.

use std::sync::Arc;

use tenure_lease::{Error, Op, Phase, Query, Refusal, Renewal, Renewed, Ttl, limits};

use super::verbs::{append, put};
use super::{Harness, expect_ok, expect_refusal, expect_renewals};

#[track_caller]
fn assert_out_of_range(error: Error) {
    assert!(matches!(error, Error::Refused(Refusal::TtlOutOfRange { .. })), "{error}");
}

/// TTLs just outside of what the engine keeps.
fn strange_ttls(harness: &Harness) -> Vec<Ttl> {
    let capabilities = harness.capabilities();
    [capabilities.min_ttl.as_millis() - 1, capabilities.max_ttl.as_millis() + 1]
        .into_iter()
        .filter_map(|ms| Ttl::from_millis(ms).ok())
        .collect()
}

pub async fn a_ttl_out_of_range_is_refused(harness: &Harness) {
    for ttl in strange_ttls(harness) {
        let mut claim = harness.claim(&harness.key("k"), "ann");
        claim.ttl = ttl;
        assert_out_of_range(expect_refusal(harness.store().acquire(claim.clone()).await));
        assert_eq!(harness.inspect(&claim.key).await.phase, Phase::Free);
        // The token was not spent on it.
        claim.ttl = harness.long_ttl();
        let held = harness.grant(claim).await;
        harness.release_held(&held).await;
    }
}

pub async fn a_renewal_with_a_ttl_out_of_range_is_refused(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    for ttl in strange_ttls(harness) {
        assert_out_of_range(expect_refusal(harness.store().renew(&[held.renewal(Some(ttl))]).await));
        harness.assert_live(&held).await;
        harness.ends(held.key()).await.assert_after(held.sent, held.lease.ttl.as_duration());
        harness.ends(held.key()).await.assert_before(held.answered, held.lease.ttl.as_duration());
    }
}

pub async fn a_batch_may_be_as_long_as_the_limit(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut items: Vec<_> = (1..limits::BATCH)
        .map(|number| Renewal { key: harness.key(&format!("k{number}")), ..held.renewal(None) })
        .collect();
    items.push(held.renewal(None));
    let answers = expect_renewals(harness.store().renew(&items).await);
    assert_eq!(answers.len(), limits::BATCH);
    assert!(matches!(answers.last(), Some(Renewed::Renewed { .. })));
    assert!(answers[..limits::BATCH - 1].iter().all(|answer| matches!(answer, Renewed::Lost(_))));
}

pub async fn a_batch_beyond_the_limit_is_refused(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut shorter = vec![held.renewal(None); limits::BATCH];
    shorter.push(held.renewal(Some(harness.ttl())));
    expect_refusal(harness.store().renew(&shorter).await);
    harness.ends(held.key()).await.assert_after(held.sent, held.lease.ttl.as_duration());
}

pub async fn a_commit_may_be_as_long_as_the_limit(harness: &Harness) {
    let ops: Vec<_> =
        (0..limits::OPS).map(|number| put(&harness.key(&format!("r{number:02}")), "1")).collect();
    harness.write(&ops).await;
    let page = expect_ok(harness.store().scan(&Query::new(harness.prefix())).await);
    assert_eq!(page.items.len(), limits::OPS);
}

pub async fn a_commit_beyond_the_limit_is_refused(harness: &Harness) {
    let ops: Vec<_> =
        (0..=limits::OPS).map(|number| put(&harness.key(&format!("r{number:02}")), "1")).collect();
    expect_refusal(harness.store().commit(&ops).await);
    let page = expect_ok(harness.store().scan(&Query::new(harness.prefix())).await);
    assert_eq!(page.items, []);
}

pub async fn an_empty_commit_is_refused(harness: &Harness) {
    expect_refusal(harness.store().commit(&[]).await);
    let held = harness.hold(&harness.key("k"), "ann").await;
    expect_refusal(harness.store().write_fenced(&held.fence(tenure_lease::Mode::Strict), &[]).await);
}

pub async fn a_value_may_be_as_long_as_the_limit(harness: &Harness) {
    let (key, most) = (harness.key("r"), vec![b'x'; limits::VALUE]);
    harness.write(&[Op::Put { key: key.clone(), value: Arc::from(&most[..]), ttl: None }]).await;
    assert_eq!(harness.get(&key).await.map(|record| record.value.len()), Some(limits::VALUE));
}

pub async fn a_value_beyond_the_limit_is_refused(harness: &Harness) {
    let (key, value) = (harness.key("r"), Arc::<[u8]>::from(vec![b'x'; limits::VALUE + 1]));
    expect_refusal(
        harness.store().commit(&[Op::Put { key: key.clone(), value: value.clone(), ttl: None }]).await,
    );
    expect_refusal(harness.store().commit(&[Op::Append { log: key.clone(), value, max_len: 10 }]).await);
    harness.assert_record(&key, None).await;
}

pub async fn a_commit_of_more_bytes_than_the_limit_is_refused(harness: &Harness) {
    let value = Arc::<[u8]>::from(vec![b'x'; limits::VALUE]);
    let most = limits::COMMIT / limits::VALUE;
    let ops: Vec<_> = (0..=most)
        .map(|number| harness.key(&format!("r{number:02}")))
        .map(|key| Op::Put { key, value: value.clone(), ttl: None })
        .collect();
    expect_refusal(harness.store().commit(&ops).await);
    harness.assert_record(ops[0].key(), None).await;
    harness.write(&ops[..most]).await;
}

pub async fn a_log_of_no_length_is_refused(harness: &Harness) {
    let log = harness.key("log");
    expect_refusal(harness.store().commit(&[append(&log, "1", 0)]).await);
    expect_refusal(harness.store().commit(&[append(&log, "1", limits::LOG + 1)]).await);
    assert_eq!(harness.log(&log).await, []);
}

pub async fn a_page_of_no_length_or_beyond_the_limit_is_refused(harness: &Harness) {
    for limit in [0, limits::BATCH + 1] {
        let query = Query { limit, ..Query::new(harness.prefix()) };
        expect_refusal(harness.store().list(&query).await);
        expect_refusal(harness.store().scan(&query).await);
        expect_refusal(harness.store().read_log(&harness.key("log"), 0, limit).await);
    }
}

pub async fn a_key_of_the_greatest_length_works(harness: &Harness) {
    let short = harness.key("");
    let key = harness.key(&"k".repeat(limits::KEY - short.as_str().len()));
    let held = harness.hold(&key, &"h".repeat(limits::HOLDER)).await;
    harness.assert_live(&held).await;
    harness.release_held(&held).await;
    harness.put(&key, "1").await;
    harness.assert_record(&key, Some("1")).await;
}

pub async fn a_meta_of_the_greatest_length_is_kept(harness: &Harness) {
    let meta = expect_ok(tenure_lease::Meta::new("m".repeat(limits::META)));
    let held = harness.grant(harness.claim(&harness.key("k"), "ann").meta(meta.clone())).await;
    assert_eq!(harness.inspect(held.key()).await.meta, meta);
}
