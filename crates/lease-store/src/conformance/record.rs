//! Records: all or none.

use tenure_lease::{BusyReason, Committed, Error, Key, Op, Phase, Refusal, Revision, Ttl};

use super::verbs::{bytes, put, put_if_absent};
use super::{Harness, expect_ok, expect_refusal};

pub(super) fn put_for(key: &Key, value: &str, ttl: Ttl) -> Op {
    Op::Put { key: key.clone(), value: bytes(value), ttl: Some(ttl) }
}

fn put_over(key: &Key, value: &str, revision: Revision) -> Op {
    Op::PutIfRevision { key: key.clone(), value: bytes(value), ttl: None, revision }
}

pub async fn a_written_record_is_read(harness: &Harness) {
    let key = harness.key("r");
    harness.assert_record(&key, None).await;
    let revision = harness.put(&key, "one").await;
    let Some(record) = harness.get(&key).await else { panic!("it was written") };
    assert_eq!((&record.key, &record.value[..]), (&key, &b"one"[..]));
    assert_eq!((record.revision, record.remaining), (revision, None));
    assert_eq!(expect_ok(harness.second().get(&key).await), Some(record));
}

pub async fn any_bytes_may_be_written(harness: &Harness) {
    let (key, value) = (harness.key("r"), (0..=u8::MAX).collect::<Vec<_>>());
    harness.write(&[Op::Put { key: key.clone(), value: value.as_slice().into(), ttl: None }]).await;
    assert_eq!(harness.get(&key).await.map(|record| record.value.to_vec()), Some(value));
    harness.put(&key, "").await;
    harness.assert_record(&key, Some("")).await;
}

pub async fn every_write_has_a_greater_revision(harness: &Harness) {
    let key = harness.key("r");
    let first = harness.put(&key, "1").await;
    let second = harness.put(&key, "1").await;
    assert!(second > first);
    assert_eq!(harness.get(&key).await.map(|record| record.revision), Some(second));
    let third = harness.put(&harness.key("other"), "1").await;
    assert!(third > second);
}

pub async fn the_writes_of_a_commit_share_its_revision(harness: &Harness) {
    let (a, b) = (harness.key("a"), harness.key("b"));
    let revision = harness.write(&[put(&a, "1"), put(&b, "2")]).await;
    for key in [a, b] {
        assert_eq!(harness.get(&key).await.map(|record| record.revision), Some(revision));
    }
}

pub async fn put_if_absent_writes_an_absent_record(harness: &Harness) {
    let key = harness.key("r");
    let first = harness.write(&[put_if_absent(&key, "first")]).await;
    let again = expect_ok(harness.store().commit(&[put_if_absent(&key, "second")]).await);
    assert_eq!(again, Committed::Conflict { index: 0, found: Some(first) });
    harness.assert_record(&key, Some("first")).await;
    harness.write(&[Op::Delete { key: key.clone() }]).await;
    harness.write(&[put_if_absent(&key, "third")]).await;
    harness.assert_record(&key, Some("third")).await;
}

pub async fn two_put_if_absent_have_one_winner(harness: &Harness) {
    let (key, one, two) = (harness.key("r"), harness.store(), harness.second());
    let (a, b) = ([put_if_absent(&key, "a")], [put_if_absent(&key, "b")]);
    let answers = tokio::join!(one.commit(&a), two.commit(&b));
    let wins = [expect_ok(answers.0), expect_ok(answers.1)]
        .map(|answer| matches!(answer, Committed::Written { .. }));
    assert_eq!(wins.iter().filter(|won| **won).count(), 1);
    harness.assert_record(&key, Some(if wins[0] { "a" } else { "b" })).await;
}

pub async fn put_if_revision_replaces_exactly_that_revision(harness: &Harness) {
    let key = harness.key("r");
    let first = harness.put(&key, "1").await;
    let second = harness.write(&[put_over(&key, "2", first)]).await;
    assert!(second > first);
    let stale = expect_ok(harness.store().commit(&[put_over(&key, "3", first)]).await);
    assert_eq!(stale, Committed::Conflict { index: 0, found: Some(second) });
    harness.assert_record(&key, Some("2")).await;
}

pub async fn put_if_revision_refuses_an_absent_record(harness: &Harness) {
    let (key, other) = (harness.key("r"), harness.put(&harness.key("other"), "1").await);
    let answer = expect_ok(harness.store().commit(&[put_over(&key, "1", other)]).await);
    assert_eq!(answer, Committed::Conflict { index: 0, found: None });
    harness.assert_record(&key, None).await;
}

pub async fn a_delete_removes_the_record(harness: &Harness) {
    let key = harness.key("r");
    harness.put(&key, "1").await;
    harness.write(&[Op::Delete { key: key.clone() }]).await;
    harness.assert_record(&key, None).await;
    harness.write(&[Op::Delete { key: key.clone() }]).await;
}

pub async fn a_conflict_undoes_the_whole_commit(harness: &Harness) {
    let (a, b, c, log) = (harness.key("a"), harness.key("b"), harness.key("c"), harness.key("log"));
    let there = harness.write(&[put(&b, "there"), put(&c, "kept")]).await;
    let ops = [
        put(&a, "1"),
        super::verbs::append(&log, "1", 10),
        put_if_absent(&b, "2"),
        Op::Delete { key: c.clone() },
    ];
    let answer = expect_ok(harness.store().commit(&ops).await);
    assert_eq!(answer, Committed::Conflict { index: 2, found: Some(there) });
    harness.assert_record(&a, None).await;
    harness.assert_record(&b, Some("there")).await;
    harness.assert_record(&c, Some("kept")).await;
    assert_eq!(harness.log(&log).await, []);
}

pub async fn a_record_expires_after_its_ttl(harness: &Harness) {
    let key = harness.key("r");
    harness.write(&[put_for(&key, "1", harness.ttl())]).await;
    harness.outlive(harness.ttl()).await;
    harness.assert_record(&key, None).await;
    harness.write(&[put_if_absent(&key, "2")]).await;
    harness.assert_record(&key, Some("2")).await;
}

pub async fn a_record_shows_its_remaining_ttl(harness: &Harness) {
    let (key, sent) = (harness.key("r"), harness.now());
    harness.write(&[put_for(&key, "1", harness.long_ttl())]).await;
    let (answered, asked) = (harness.now(), harness.now());
    let Some(left) = harness.get(&key).await.and_then(|record| record.remaining) else {
        panic!("it has a ttl")
    };
    let ends = harness.span(asked, left);
    ends.assert_after(sent, harness.long_ttl().as_duration());
    ends.assert_before(answered, harness.long_ttl().as_duration());
}

pub async fn a_write_without_a_ttl_stays(harness: &Harness) {
    let key = harness.key("r");
    harness.write(&[put_for(&key, "1", harness.ttl())]).await;
    harness.put(&key, "2").await;
    harness.outlive(harness.ttl()).await;
    harness.assert_record(&key, Some("2")).await;
    assert_eq!(harness.get(&key).await.and_then(|record| record.remaining), None);
}

pub async fn an_expired_record_has_no_revision(harness: &Harness) {
    let key = harness.key("r");
    let revision = harness.write(&[put_for(&key, "1", harness.ttl())]).await;
    harness.outlive(harness.ttl()).await;
    let answer = expect_ok(harness.store().commit(&[put_over(&key, "2", revision)]).await);
    assert_eq!(answer, Committed::Conflict { index: 0, found: None });
}

pub async fn a_leased_key_is_not_written(harness: &Harness) {
    let (held, other) = (harness.hold(&harness.key("k"), "ann").await, harness.key("other"));
    let error = expect_refusal(harness.store().commit(&[put(&other, "1"), put(held.key(), "2")]).await);
    assert!(matches!(error, Error::Refused(Refusal::KeyIsLeased { .. })), "{error}");
    harness.assert_live(&held).await;
    harness.assert_record(&other, None).await;
    harness.release_held(&held).await;
    harness.put(held.key(), "3").await;
}

pub async fn a_key_with_a_record_is_not_leased(harness: &Harness) {
    let key = harness.key("r");
    harness.put(&key, "1").await;
    assert_eq!(harness.busy(harness.claim(&key, "ann")).await.reason, BusyReason::Foreign);
    harness.assert_record(&key, Some("1")).await;
    assert_eq!(harness.inspect(&key).await.waiters, 0);
    harness.write(&[Op::Delete { key: key.clone() }]).await;
    assert_eq!(harness.inspect(&key).await.phase, Phase::Free);
    harness.hold(&key, "ann").await;
}

pub async fn busy_gives_the_remaining_ttl_of_a_record(harness: &Harness) {
    let (key, sent) = (harness.key("r"), harness.now());
    harness.write(&[put_for(&key, "ann", harness.long_ttl())]).await;
    let (answered, asked) = (harness.now(), harness.now());
    let busy = harness.busy(harness.claim(&key, "bob")).await;
    assert_eq!((busy.reason, busy.holder), (BusyReason::Foreign, Some(harness.holder("ann"))));
    let Some(left) = busy.remaining else { panic!("it has a ttl") };
    let ends = harness.span(asked, left);
    ends.assert_after(sent, harness.long_ttl().as_duration());
    ends.assert_before(answered, harness.long_ttl().as_duration());
}

pub async fn a_key_written_twice_in_one_commit_is_refused(harness: &Harness) {
    let key = harness.key("r");
    for second in [put(&key, "2"), Op::Delete { key: key.clone() }, put_if_absent(&key, "2")] {
        let error = expect_refusal(harness.store().commit(&[put(&key, "1"), second]).await);
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    harness.assert_record(&key, None).await;
}

pub async fn a_record_put_if_absent_expires_after_its_ttl(harness: &Harness) {
    let (key, ttl) = (harness.key("r"), Some(harness.ttl()));
    let absent = |value: &str| Op::PutIfAbsent { key: key.clone(), value: bytes(value), ttl };
    let first = harness.write(&[absent("1")]).await;
    let second = expect_ok(harness.store().commit(&[absent("2")]).await);
    assert!(matches!(second, Committed::Conflict { found: Some(found), .. } if found == first), "{second:?}");
    assert!(harness.get(&key).await.is_some_and(|record| record.remaining.is_some()));
    harness.outlive(harness.ttl()).await;
    harness.assert_record(&key, None).await;
    harness.write(&[absent("3")]).await;
    let Some(there) = harness.get(&key).await else { panic!("it was written") };
    let next = Op::PutIfRevision { key: key.clone(), value: bytes("4"), ttl, revision: there.revision };
    harness.write(&[next]).await;
    harness.assert_record(&key, Some("4")).await;
    harness.outlive(harness.ttl()).await;
    harness.assert_record(&key, None).await;
}
