//! Many at once: one holder at a time, and no write goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tenure_lease::{Acquired, Claim, Fence, Generation, Key, Mode, Query, Release, Renewal, Renewed};
use tokio::task::JoinSet;

use super::verbs::{append, put, written};
use super::{Harness, expect_ok, expect_renewals};
use crate::Store;

const RACERS: usize = 32;

async fn finish(harness: &Harness, mut tasks: JoinSet<()>) {
    while let Some(done) = harness.within("a racer", tasks.join_next()).await {
        if let Err(error) = done {
            panic!("a racer failed: {error}");
        }
    }
}

/// Asks until granted; a parked grant counts once a renewal confirmed it.
async fn win(store: &Store, claim: &Claim) -> Generation {
    let Acquired::Granted(grant) = expect_ok(store.acquire(claim.clone()).await) else {
        panic!("{} waited in vain", claim.holder)
    };
    let generation = grant.lease.generation;
    let (key, token) = (claim.key.clone(), claim.token.clone());
    let answers = expect_renewals(store.renew(&[Renewal { key, token, generation, ttl: None }]).await);
    assert!(matches!(answers[..], [Renewed::Renewed { .. }]), "{answers:?}");
    generation
}

pub async fn there_is_one_holder_at_a_time(harness: &Harness) {
    let (key, record) = (harness.key("k"), harness.key("r"));
    let inside = Arc::new(AtomicBool::new(false));
    let reigns = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { harness.store() } else { harness.second() };
        let claims = [(); 3].map(|()| {
            harness.claim(&key, &format!("r{racer}")).waiting(harness.long_ttl().as_duration() * 4)
        });
        let (inside, reigns, record) = (Arc::clone(&inside), Arc::clone(&reigns), record.clone());
        tasks.spawn(async move {
            for claim in claims {
                let generation = win(&store, &claim).await;
                assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
                reigns.lock().push(generation);
                let (key, token) = (claim.key.clone(), claim.token.clone());
                let fence = Fence { key, token, generation, mode: Mode::Strict };
                let ops = [put(&record, &generation.to_string())];
                written(expect_ok(store.write_fenced(&fence, &ops).await));
                inside.store(false, Ordering::SeqCst);
                expect_ok(store.release(Release::new(claim.key, claim.token)).await);
            }
        });
    }
    finish(harness, tasks).await;
    let reigns = std::mem::take(&mut *reigns.lock());
    assert_eq!(reigns.len(), RACERS * 3);
    assert!(reigns.windows(2).all(|pair| pair[0] < pair[1]), "{reigns:?}");
    let last = reigns.last().map(ToString::to_string);
    harness.assert_record(&record, last.as_deref()).await;
}

/// Takes the key once, writes under a monotonic fence, and gives back or lets go.
async fn reign(store: Store, claim: Claim, log: Key, lets_go: bool) {
    let Acquired::Granted(grant) = expect_ok(store.acquire(claim.clone()).await) else {
        panic!("{} waited in vain", claim.holder)
    };
    let generation = grant.lease.generation;
    let (key, token) = (claim.key.clone(), claim.token.clone());
    let fence = Fence { key, token, generation, mode: Mode::Monotonic };
    for _ in 0..2 {
        // Refused is fine: a greater generation was faster.
        expect_ok(store.write_fenced(&fence, &[append(&log, &generation.to_string(), 1_000)]).await);
        tokio::task::yield_now().await;
    }
    if !lets_go {
        expect_ok(store.release(Release::new(claim.key, claim.token)).await);
    }
}

pub async fn fenced_writes_never_go_back(harness: &Harness) {
    let (key, log) = (harness.key("k"), harness.key("log"));
    let mut tasks = JoinSet::new();
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { harness.store() } else { harness.second() };
        let wait = harness.long_ttl().as_duration() * 4;
        let claim = harness.brief_claim(&key, &format!("r{racer}")).waiting(wait);
        tasks.spawn(reign(store, claim, log.clone(), racer % 8 == 0));
    }
    finish(harness, tasks).await;
    let entries = harness.log(&log).await;
    let generations: Vec<u64> =
        entries.iter().filter_map(|entry| std::str::from_utf8(&entry.value).ok()?.parse().ok()).collect();
    assert_eq!(generations.len(), entries.len());
    assert!(!generations.is_empty());
    assert!(generations.windows(2).all(|pair| pair[0] <= pair[1]), "{generations:?}");
}

pub async fn a_free_key_has_one_winner(harness: &Harness) {
    let (key, mut tasks) = (harness.key("k"), JoinSet::new());
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { harness.store() } else { harness.second() };
        let claim = harness.claim(&key, &format!("r{racer}"));
        tasks.spawn(async move { matches!(expect_ok(store.acquire(claim).await), Acquired::Granted(_)) });
    }
    let won = harness.within("the race", tasks.join_all()).await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}

pub async fn many_keys_go_in_parallel(harness: &Harness) {
    let (keys, mut tasks) = (64, JoinSet::new());
    for number in 0..keys {
        let store = if number % 2 == 0 { harness.store() } else { harness.second() };
        let claim = harness.claim(&harness.key(&format!("k{number:02}")), "ann");
        tasks.spawn(async move {
            let Acquired::Granted(grant) = expect_ok(store.acquire(claim.clone()).await) else {
                panic!("it is free")
            };
            Renewal { key: claim.key, token: claim.token, generation: grant.lease.generation, ttl: None }
        });
    }
    let items = harness.within("the grants", tasks.join_all()).await;
    let answers = expect_renewals(harness.store().renew(&items).await);
    assert!(answers.iter().all(|answer| matches!(answer, Renewed::Renewed { .. })), "{answers:?}");
    let page = expect_ok(harness.store().list(&Query::new(harness.prefix())).await);
    assert_eq!(page.items.len(), keys);
}

pub async fn concurrent_appends_lose_nothing(harness: &Harness) {
    let (log, mut tasks) = (harness.key("log"), JoinSet::new());
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { harness.store() } else { harness.second() };
        let ops = [append(&log, &racer.to_string(), 1_000)];
        tasks.spawn(async move { written(expect_ok(store.commit(&ops).await)) });
    }
    let mut revisions = harness.within("the appends", tasks.join_all()).await;
    revisions.sort();
    revisions.dedup();
    assert_eq!(revisions.len(), RACERS, "every commit has a revision of its own");
    let entries = harness.log(&log).await;
    assert!(entries.iter().map(|entry| entry.seq).eq(1..=RACERS as u64), "{entries:?}");
}
