//! The group commit: nothing is answered before it is durable, and the writer blocks no caller's decision.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shuttle::future::block_on;
use shuttle::thread;
use tenure_lease::{Acquired, Committed, Leases, Op, Outcome, Records};

use crate::fixture::{
    Fixture, MemoryStorage, TRIES, acquire, begin, claim, explore, granted, key, patient, release,
};

#[test]
fn nothing_is_answered_before_it_is_durable() {
    explore(TRIES, || durable_when_answered(MemoryStorage::default()));
}

pub(crate) fn durable_when_answered(disk: MemoryStorage) {
    let fixture = Fixture::on(disk);
    let callers: Vec<_> = (0..3)
        .map(|n| {
            let (store, disk) = (fixture.store.clone(), fixture.disk.clone());
            thread::spawn(move || {
                let mine = patient(["a", "b", "a"][n]);
                let digest = *mine.token.digest();
                acquire(&store, mine.clone());
                assert!(disk.keeps(digest.as_bytes()), "a grant was answered and would be lost");
                release(&store, &mine);
                let ended = [b"released".as_slice(), &digest.short()].concat();
                assert!(disk.keeps(&ended), "a release was answered and would be lost");
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

#[test]
fn a_decided_change_is_written_although_its_caller_was_dropped() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        let mine = claim("k").remote();
        let digest = *mine.token.digest();
        let store = fixture.store.clone();
        // Opening begins an epoch.
        let opened = fixture.disk.synced.load(Ordering::Relaxed);
        let mut asked = Box::pin(async move { store.acquire(mine).await });
        let _ = begin(&mut asked);
        drop(asked);
        // No other call follows: the dropped one must have woken the writer.
        while fixture.disk.synced.load(Ordering::Relaxed) == opened {
            thread::yield_now();
        }
        assert!(fixture.disk.keeps(digest.as_bytes()));
    });
}

#[test]
fn callers_decide_while_a_sync_is_in_flight() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        fixture.disk.gate.close();
        let store = fixture.store.clone();
        let slow = thread::spawn(move || acquire(&store, claim("slow")));
        // Decided, and waiting for the disk: this would block if the writer held the table while it syncs.
        let store = fixture.store.clone();
        let mut next = Box::pin(async move { store.acquire(claim("next")).await });
        assert!(begin(&mut next).is_none(), "answered without the disk");
        let renewed = block_on(fixture.store.renew(&[])).unwrap();
        assert!(renewed.is_empty());
        fixture.disk.gate.open();
        slow.join().unwrap();
        granted(block_on(next));
    });
}

#[test]
fn a_durable_record_is_read_while_others_are_not_and_none_before() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        let put = |name: &str, value: u8| Op::Put { key: key(name), value: vec![value].into(), ttl: None };
        block_on(fixture.store.commit(&[put("kept", 1), put("changed", 1), put("doomed", 1)])).unwrap();
        let read = |name: &'static str| {
            let store = fixture.store.clone();
            Box::pin(async move { store.get(&key(name)).await.unwrap().map(|record| record.value[0]) })
        };
        let change = |op: Op| {
            let store = fixture.store.clone();
            Box::pin(async move { store.commit(&[op]).await.unwrap() })
        };
        fixture.disk.gate.close();
        let mut changed = change(put("changed", 2));
        assert!(begin(&mut changed).is_none(), "answered without the disk");
        assert_eq!(begin(&mut read("kept")), Some(Some(1)));
        assert_eq!(begin(&mut read("never")), Some(None));
        let mut late = read("changed");
        assert_eq!(begin(&mut late), None, "a crash could take it back");
        let mut deleted = change(Op::Delete { key: key("doomed") });
        assert!(begin(&mut deleted).is_none(), "answered without the disk");
        let mut gone = read("doomed");
        assert_eq!(begin(&mut gone), None, "a crash could bring it back");
        fixture.disk.gate.open();
        assert_eq!((block_on(late), block_on(gone)), (Some(2), None));
        block_on(changed);
        block_on(deleted);
        assert_eq!(block_on(read("changed")), Some(2));
    });
}

#[test]
fn a_failed_sync_fails_every_caller_and_stops_granting() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        let held = claim("held");
        acquire(&fixture.store, held);
        *fixture.disk.fails_after.lock().unwrap() = Some(1);
        let callers: Vec<_> = (0..4)
            .map(|n| {
                let store = fixture.store.clone();
                thread::spawn(move || {
                    let mine = patient(["a", "held", "b", "a"][n]);
                    block_on(store.acquire(mine.clone())).map(|answer| (mine, answer))
                })
            })
            .collect();
        let mut kept = Vec::new();
        // One of the two on `a`, or both, may have been served before the disk went; the one on `held` never.
        let asked = ["x", "y", "z"].map(|name| block_on(fixture.store.acquire(claim(name))));
        assert!(asked[2].is_err(), "a third batch was answered on a disk that takes one");
        for caller in callers {
            match caller.join().unwrap() {
                Ok((mine, Acquired::Granted(_))) => kept.push(mine),
                Ok((_, Acquired::Busy(busy))) => panic!("time stands still, so no wait ends: {busy:?}"),
                Err(error) => {
                    assert!(matches!(error.outcome(), Outcome::Indeterminate | Outcome::NotApplied))
                }
            }
        }
        assert!(block_on(fixture.store.acquire(claim("late"))).is_err());
        let disk = fixture.disk.crashed();
        drop(fixture);
        let next = Fixture::on(disk);
        for mine in kept {
            // Held by this process, which is gone: its reign ended, and is remembered.
            let reigns = block_on(next.store.history(&mine.key)).unwrap();
            assert!(!reigns.is_empty(), "{} was acknowledged and is forgotten", mine.key);
        }
    });
}

#[test]
fn closing_waits_for_the_disk_and_answers_every_caller() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        let mine = claim("k").remote();
        let digest = *mine.token.digest();
        let store = Arc::downgrade(&fixture.store);
        let mut asked = Box::pin({
            let store = fixture.store.clone();
            async move { store.acquire(mine).await }
        });
        let early = begin(&mut asked);
        let disk = fixture.disk.clone();
        let closer = thread::spawn(move || drop(fixture));
        let answer = early.unwrap_or_else(|| block_on(asked));
        closer.join().unwrap();
        assert!(store.upgrade().is_none());
        assert!(disk.keeps(digest.as_bytes()), "decided before the close, and lost by it");
        granted(answer);
    });
}

#[test]
fn a_checkpoint_under_way_stops_no_write_and_loses_none() {
    explore(4, || {
        let fixture = Fixture::embedded();
        let value: Arc<[u8]> = vec![7; 200 * 1024].into();
        let large = |round: usize| -> Vec<Op> {
            (0..12)
                .map(|n| Op::Put { key: key(&format!("r/{round}/{n}")), value: value.clone(), ttl: None })
                .collect()
        };
        let store = fixture.store.clone();
        let other = thread::spawn(move || {
            for name in ["a", "b", "c"] {
                acquire(&store, claim(name));
            }
        });
        // Each fills a turn, so the next is written while the checkpoint of that turn runs, or has to wait for it.
        for round in 0..3 {
            let written = block_on(fixture.store.commit(&large(round))).unwrap();
            assert!(matches!(written, Committed::Written { .. }));
        }
        other.join().unwrap();
        let disk = fixture.disk.crashed();
        drop(fixture);
        let next = Fixture::on(disk);
        for round in 0..3 {
            let found = block_on(next.store.get(&key(&format!("r/{round}/11")))).unwrap();
            assert!(found.is_some(), "round {round} was acknowledged and is gone");
        }
    });
}
