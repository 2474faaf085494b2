//! The group commit: nothing is answered before it is durable, the writer holds nobody up, and its end is heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lease::{Acquired, Committed, Happened, Leases, Op, Records};
use shuttle::future::block_on;
use shuttle::thread;

use crate::world::{Platter, TRIES, World, acquire, begin, claim, explore, granted, key, patient, release};

#[test]
fn nothing_is_answered_before_it_is_durable() {
    explore(TRIES, || durable_when_answered(Platter::default()));
}

pub(crate) fn durable_when_answered(disk: Platter) {
    let world = World::on(disk);
    let callers: Vec<_> = (0..3)
        .map(|n| {
            let (store, disk) = (world.store.clone(), world.disk.clone());
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
fn callers_write_themselves_in_some_schedules() {
    let led = Arc::new(AtomicUsize::new(0));
    let count = led.clone();
    explore(40, move || {
        let world = World::embedded();
        acquire(&world.store, claim("k"));
        count.fetch_add(world.disk.led.load(Ordering::Relaxed), Ordering::Relaxed);
    });
    assert!(led.load(Ordering::Relaxed) > 0, "the other tests have not seen them");
}

#[test]
fn what_a_caller_decided_is_written_though_he_goes() {
    explore(TRIES, || {
        let world = World::embedded();
        let mine = claim("k").remote();
        let digest = *mine.token.digest();
        let store = world.store.clone();
        let mut asked = Box::pin(async move { store.acquire(mine).await });
        let _ = begin(&mut asked);
        drop(asked);
        // Nobody asks for anything more: whoever does not come back must have called.
        while world.disk.synced.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        assert!(world.disk.keeps(digest.as_bytes()));
    });
}

#[test]
fn callers_decide_while_a_sync_is_in_flight() {
    explore(TRIES, || {
        let world = World::embedded();
        world.disk.gate.close();
        let store = world.store.clone();
        let slow = thread::spawn(move || acquire(&store, claim("slow")));
        // Decided, and waiting for the disk: if the writer kept the table while it syncs, this would not come back.
        let store = world.store.clone();
        let mut next = Box::pin(async move { store.acquire(claim("next")).await });
        assert!(begin(&mut next).is_none(), "answered without the disk");
        let renewed = block_on(world.store.renew(&[])).unwrap();
        assert!(renewed.is_empty());
        world.disk.gate.open();
        slow.join().unwrap();
        granted(block_on(next));
    });
}

#[test]
fn a_record_that_is_durable_is_shown_while_others_are_not_and_none_before() {
    explore(TRIES, || {
        let world = World::embedded();
        let put = |name: &str, value: u8| Op::Put { key: key(name), value: vec![value].into(), ttl: None };
        block_on(world.store.commit(&[put("kept", 1), put("changed", 1), put("doomed", 1)])).unwrap();
        let look = |name: &'static str| {
            let store = world.store.clone();
            Box::pin(async move { store.get(&key(name)).await.unwrap().map(|record| record.value[0]) })
        };
        let change = |op: Op| {
            let store = world.store.clone();
            Box::pin(async move { store.commit(&[op]).await.unwrap() })
        };
        world.disk.gate.close();
        let mut changed = change(put("changed", 2));
        assert!(begin(&mut changed).is_none(), "answered without the disk");
        assert_eq!(begin(&mut look("kept")), Some(Some(1)));
        assert_eq!(begin(&mut look("never")), Some(None));
        let mut late = look("changed");
        assert_eq!(begin(&mut late), None, "a crash could take it back");
        let mut deleted = change(Op::Delete { key: key("doomed") });
        assert!(begin(&mut deleted).is_none(), "answered without the disk");
        let mut gone = look("doomed");
        assert_eq!(begin(&mut gone), None, "a crash could bring it back");
        world.disk.gate.open();
        assert_eq!((block_on(late), block_on(gone)), (Some(2), None));
        block_on(changed);
        block_on(deleted);
        assert_eq!(block_on(look("changed")), Some(2));
    });
}

#[test]
fn a_failed_sync_answers_everybody_and_grants_nothing_more() {
    explore(TRIES, || {
        let world = World::embedded();
        let held = claim("held");
        acquire(&world.store, held);
        *world.disk.fails_after.lock().unwrap() = Some(1);
        let callers: Vec<_> = (0..4)
            .map(|n| {
                let store = world.store.clone();
                thread::spawn(move || {
                    let mine = patient(["a", "held", "b", "a"][n]);
                    block_on(store.acquire(mine.clone())).map(|answer| (mine, answer))
                })
            })
            .collect();
        let mut kept = Vec::new();
        // One of the two on `a`, or both, may have been served before the disk went; the one on `held` never.
        let asked = ["x", "y", "z"].map(|name| block_on(world.store.acquire(claim(name))));
        assert!(asked[2].is_err(), "a third batch was answered on a disk that takes one");
        for caller in callers {
            match caller.join().unwrap() {
                Ok((mine, Acquired::Granted(_))) => kept.push(mine),
                Ok((_, Acquired::Busy(busy))) => panic!("time stands still, so no wait ends: {busy:?}"),
                Err(error) => assert!(matches!(error.happened(), Happened::Maybe | Happened::No)),
            }
        }
        assert!(block_on(world.store.acquire(claim("late"))).is_err());
        let disk = world.disk.crashed();
        drop(world);
        let next = World::on(disk);
        for mine in kept {
            // Held by this process, which is gone: its reign ended, and is remembered.
            let reigns = block_on(next.store.history(&mine.key)).unwrap();
            assert!(!reigns.is_empty(), "{} was acknowledged and is forgotten", mine.key);
        }
    });
}

#[test]
fn closing_waits_for_the_disk_and_leaves_nobody_waiting() {
    explore(TRIES, || {
        let world = World::embedded();
        let mine = claim("k").remote();
        let digest = *mine.token.digest();
        let store = Arc::downgrade(&world.store);
        let mut asked = Box::pin({
            let store = world.store.clone();
            async move { store.acquire(mine).await }
        });
        let early = begin(&mut asked);
        let disk = world.disk.clone();
        let closer = thread::spawn(move || drop(world));
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
        let world = World::embedded();
        let value: Arc<[u8]> = vec![7; 200 * 1024].into();
        let large = |round: usize| -> Vec<Op> {
            (0..12)
                .map(|n| Op::Put { key: key(&format!("r/{round}/{n}")), value: value.clone(), ttl: None })
                .collect()
        };
        let store = world.store.clone();
        let other = thread::spawn(move || {
            for name in ["a", "b", "c"] {
                acquire(&store, claim(name));
            }
        });
        // Each fills a turn, so the next is written while the checkpoint of that turn runs, or has to wait for it.
        for round in 0..3 {
            let written = block_on(world.store.commit(&large(round))).unwrap();
            assert!(matches!(written, Committed::Written { .. }));
        }
        other.join().unwrap();
        let disk = world.disk.crashed();
        drop(world);
        let next = World::on(disk);
        for round in 0..3 {
            let found = block_on(next.store.get(&key(&format!("r/{round}/11")))).unwrap();
            assert!(found.is_some(), "round {round} was acknowledged and is gone");
        }
    });
}
