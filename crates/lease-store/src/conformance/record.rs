//! Records: all or none.

use lease::{Committed, Error, Key, Op, Phase, Reason, Refusal, Revision, Ttl};

use super::ask::{bytes, put, put_if_absent};
use super::{World, refused, said};

pub(super) fn put_for(key: &Key, value: &str, ttl: Ttl) -> Op {
    Op::Put { key: key.clone(), value: bytes(value), ttl: Some(ttl) }
}

fn put_over(key: &Key, value: &str, revision: Revision) -> Op {
    Op::PutIfRevision { key: key.clone(), value: bytes(value), ttl: None, revision }
}

pub async fn what_was_written_is_read(world: &World) {
    let key = world.key("r");
    world.assert_record(&key, None).await;
    let revision = world.put(&key, "one").await;
    let Some(record) = world.get(&key).await else { panic!("it was written") };
    assert_eq!((&record.key, &record.value[..]), (&key, &b"one"[..]));
    assert_eq!((record.revision, record.remaining), (revision, None));
    assert_eq!(said(world.second().get(&key).await), Some(record));
}

pub async fn any_bytes_may_be_written(world: &World) {
    let (key, value) = (world.key("r"), (0..=u8::MAX).collect::<Vec<_>>());
    world.write(&[Op::Put { key: key.clone(), value: value.as_slice().into(), ttl: None }]).await;
    assert_eq!(world.get(&key).await.map(|record| record.value.to_vec()), Some(value));
    world.put(&key, "").await;
    world.assert_record(&key, Some("")).await;
}

pub async fn every_write_has_a_greater_revision(world: &World) {
    let key = world.key("r");
    let first = world.put(&key, "1").await;
    let second = world.put(&key, "1").await;
    assert!(second > first);
    assert_eq!(world.get(&key).await.map(|record| record.revision), Some(second));
    let third = world.put(&world.key("other"), "1").await;
    assert!(third > second);
}

pub async fn the_writes_of_a_commit_share_its_revision(world: &World) {
    let (a, b) = (world.key("a"), world.key("b"));
    let revision = world.write(&[put(&a, "1"), put(&b, "2")]).await;
    for key in [a, b] {
        assert_eq!(world.get(&key).await.map(|record| record.revision), Some(revision));
    }
}

pub async fn put_if_absent_writes_where_nothing_is(world: &World) {
    let key = world.key("r");
    let first = world.write(&[put_if_absent(&key, "first")]).await;
    let again = said(world.store().commit(&[put_if_absent(&key, "second")]).await);
    assert_eq!(again, Committed::Conflict { index: 0, found: Some(first) });
    world.assert_record(&key, Some("first")).await;
    world.write(&[Op::Delete { key: key.clone() }]).await;
    world.write(&[put_if_absent(&key, "third")]).await;
    world.assert_record(&key, Some("third")).await;
}

pub async fn two_put_if_absent_have_one_winner(world: &World) {
    let (key, one, two) = (world.key("r"), world.store(), world.second());
    let (a, b) = ([put_if_absent(&key, "a")], [put_if_absent(&key, "b")]);
    let answers = tokio::join!(one.commit(&a), two.commit(&b));
    let wins = [said(answers.0), said(answers.1)].map(|answer| matches!(answer, Committed::Written { .. }));
    assert_eq!(wins.iter().filter(|won| **won).count(), 1);
    world.assert_record(&key, Some(if wins[0] { "a" } else { "b" })).await;
}

pub async fn put_if_revision_writes_over_exactly_that_one(world: &World) {
    let key = world.key("r");
    let first = world.put(&key, "1").await;
    let second = world.write(&[put_over(&key, "2", first)]).await;
    assert!(second > first);
    let stale = said(world.store().commit(&[put_over(&key, "3", first)]).await);
    assert_eq!(stale, Committed::Conflict { index: 0, found: Some(second) });
    world.assert_record(&key, Some("2")).await;
}

pub async fn put_if_revision_finds_nothing_where_nothing_is(world: &World) {
    let (key, other) = (world.key("r"), world.put(&world.key("other"), "1").await);
    let answer = said(world.store().commit(&[put_over(&key, "1", other)]).await);
    assert_eq!(answer, Committed::Conflict { index: 0, found: None });
    world.assert_record(&key, None).await;
}

pub async fn a_delete_removes_what_is_there(world: &World) {
    let key = world.key("r");
    world.put(&key, "1").await;
    world.write(&[Op::Delete { key: key.clone() }]).await;
    world.assert_record(&key, None).await;
    world.write(&[Op::Delete { key: key.clone() }]).await;
}

pub async fn a_conflict_undoes_the_whole_commit(world: &World) {
    let (a, b, c, log) = (world.key("a"), world.key("b"), world.key("c"), world.key("log"));
    let there = world.write(&[put(&b, "there"), put(&c, "kept")]).await;
    let ops = [
        put(&a, "1"),
        super::ask::append(&log, "1", 10),
        put_if_absent(&b, "2"),
        Op::Delete { key: c.clone() },
    ];
    let answer = said(world.store().commit(&ops).await);
    assert_eq!(answer, Committed::Conflict { index: 2, found: Some(there) });
    world.assert_record(&a, None).await;
    world.assert_record(&b, Some("there")).await;
    world.assert_record(&c, Some("kept")).await;
    assert_eq!(world.log(&log).await, []);
}

pub async fn a_record_is_forgotten_after_its_ttl(world: &World) {
    let key = world.key("r");
    world.write(&[put_for(&key, "1", world.ttl())]).await;
    world.outlive(world.ttl()).await;
    world.assert_record(&key, None).await;
    world.write(&[put_if_absent(&key, "2")]).await;
    world.assert_record(&key, Some("2")).await;
}

pub async fn a_record_tells_what_is_left_of_its_ttl(world: &World) {
    let (key, sent) = (world.key("r"), world.now());
    world.write(&[put_for(&key, "1", world.long_ttl())]).await;
    let (told, asked) = (world.now(), world.now());
    let Some(left) = world.get(&key).await.and_then(|record| record.remaining) else {
        panic!("it has a ttl")
    };
    let ends = world.span(asked, left);
    ends.assert_after(sent, world.long_ttl().as_duration());
    ends.assert_before(told, world.long_ttl().as_duration());
}

pub async fn a_write_without_a_ttl_stays(world: &World) {
    let key = world.key("r");
    world.write(&[put_for(&key, "1", world.ttl())]).await;
    world.put(&key, "2").await;
    world.outlive(world.ttl()).await;
    world.assert_record(&key, Some("2")).await;
    assert_eq!(world.get(&key).await.and_then(|record| record.remaining), None);
}

pub async fn a_forgotten_record_has_no_revision_to_write_over(world: &World) {
    let key = world.key("r");
    let revision = world.write(&[put_for(&key, "1", world.ttl())]).await;
    world.outlive(world.ttl()).await;
    let answer = said(world.store().commit(&[put_over(&key, "2", revision)]).await);
    assert_eq!(answer, Committed::Conflict { index: 0, found: None });
}

pub async fn a_leased_key_is_not_written(world: &World) {
    let (held, other) = (world.hold(&world.key("k"), "ann").await, world.key("other"));
    let error = refused(world.store().commit(&[put(&other, "1"), put(held.key(), "2")]).await);
    assert!(matches!(error, Error::Refused(Refusal::KeyIsLeased { .. })), "{error}");
    world.assert_live(&held).await;
    world.assert_record(&other, None).await;
    world.give_back(&held).await;
    world.put(held.key(), "3").await;
}

pub async fn a_key_with_a_record_is_not_leased(world: &World) {
    let key = world.key("r");
    world.put(&key, "1").await;
    assert_eq!(world.busy(world.claim(&key, "ann")).await.reason, Reason::Foreign);
    world.assert_record(&key, Some("1")).await;
    assert_eq!(world.inspect(&key).await.waiters, 0);
    world.write(&[Op::Delete { key: key.clone() }]).await;
    assert_eq!(world.inspect(&key).await.phase, Phase::Free);
    world.hold(&key, "ann").await;
}

pub async fn a_key_with_a_record_tells_what_is_left_of_its_ttl(world: &World) {
    let (key, sent) = (world.key("r"), world.now());
    world.write(&[put_for(&key, "ann", world.long_ttl())]).await;
    let (told, asked) = (world.now(), world.now());
    let busy = world.busy(world.claim(&key, "bob")).await;
    assert_eq!((busy.reason, busy.holder), (Reason::Foreign, Some(world.holder("ann"))));
    let Some(left) = busy.remaining else { panic!("it has a ttl") };
    let ends = world.span(asked, left);
    ends.assert_after(sent, world.long_ttl().as_duration());
    ends.assert_before(told, world.long_ttl().as_duration());
}

pub async fn a_key_written_twice_in_one_commit_is_refused(world: &World) {
    let key = world.key("r");
    for second in [put(&key, "2"), Op::Delete { key: key.clone() }, put_if_absent(&key, "2")] {
        let error = refused(world.store().commit(&[put(&key, "1"), second]).await);
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    world.assert_record(&key, None).await;
}

pub async fn a_record_put_where_nothing_is_is_forgotten_after_its_ttl(world: &World) {
    let (key, ttl) = (world.key("r"), Some(world.ttl()));
    let absent = |value: &str| Op::PutIfAbsent { key: key.clone(), value: bytes(value), ttl };
    let first = world.write(&[absent("1")]).await;
    let second = said(world.store().commit(&[absent("2")]).await);
    assert!(matches!(second, Committed::Conflict { found: Some(found), .. } if found == first), "{second:?}");
    assert!(world.get(&key).await.is_some_and(|record| record.remaining.is_some()));
    world.outlive(world.ttl()).await;
    world.assert_record(&key, None).await;
    world.write(&[absent("3")]).await;
    let Some(there) = world.get(&key).await else { panic!("it was written") };
    let next = Op::PutIfRevision { key: key.clone(), value: bytes("4"), ttl, revision: there.revision };
    world.write(&[next]).await;
    world.assert_record(&key, Some("4")).await;
    world.outlive(world.ttl()).await;
    world.assert_record(&key, None).await;
}
