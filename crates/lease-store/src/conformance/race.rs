//! Many at once: one holder at a time, and no write goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease::{Acquired, Claim, Fence, Generation, Key, Mode, Query, Release, Renewal, Renewed};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::ask::{append, put, written};
use super::{World, said};
use crate::Store;

const RACERS: usize = 32;

async fn finish(world: &World, mut tasks: JoinSet<()>) {
    while let Some(done) = world.within("a racer", tasks.join_next()).await {
        if let Err(error) = done {
            panic!("a racer failed: {error}");
        }
    }
}

/// Asks until granted; a parked grant counts once a renewal confirmed it.
async fn win(store: &Store, claim: &Claim) -> Generation {
    let Acquired::Granted(grant) = said(store.acquire(claim.clone()).await) else {
        panic!("{} waited in vain", claim.holder)
    };
    let generation = grant.lease.generation;
    let (key, token) = (claim.key.clone(), claim.token.clone());
    let answers = said(store.renew(&[Renewal { key, token, generation, ttl: None }]).await);
    assert!(matches!(answers[..], [Renewed::Renewed { .. }]), "{answers:?}");
    generation
}

pub async fn there_is_one_holder_at_a_time(world: &World) {
    let (key, record) = (world.key("k"), world.key("r"));
    let inside = Arc::new(AtomicBool::new(false));
    let reigns = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { world.store() } else { world.second() };
        let claims = [(); 3].map(|()| world.claim(&key, &format!("r{racer}")).waiting(world.long_ttl().as_duration() * 4));
        let (inside, reigns, record) = (Arc::clone(&inside), Arc::clone(&reigns), record.clone());
        tasks.spawn(async move {
            for claim in claims {
                let generation = win(&store, &claim).await;
                assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
                reigns.lock().push(generation);
                let (key, token) = (claim.key.clone(), claim.token.clone());
                let fence = Fence { key, token, generation, mode: Mode::Strict };
                let ops = [put(&record, &generation.to_string())];
                written(said(store.write_fenced(&fence, &ops).await));
                inside.store(false, Ordering::SeqCst);
                said(store.release(Release::new(claim.key, claim.token)).await);
            }
        });
    }
    finish(world, tasks).await;
    let reigns = std::mem::take(&mut *reigns.lock());
    assert_eq!(reigns.len(), RACERS * 3);
    assert!(reigns.windows(2).all(|pair| pair[0] < pair[1]), "{reigns:?}");
    let last = reigns.last().map(ToString::to_string);
    world.assert_record(&record, last.as_deref()).await;
}

/// Takes the key once, writes under a monotonic fence, and gives back or lets go.
async fn reign(store: Store, claim: Claim, log: Key, lets_go: bool) {
    let Acquired::Granted(grant) = said(store.acquire(claim.clone()).await) else {
        panic!("{} waited in vain", claim.holder)
    };
    let generation = grant.lease.generation;
    let (key, token) = (claim.key.clone(), claim.token.clone());
    let fence = Fence { key, token, generation, mode: Mode::Monotonic };
    for _ in 0..2 {
        // Refused is fine: somebody with a greater generation was faster.
        said(store.write_fenced(&fence, &[append(&log, &generation.to_string(), 1_000)]).await);
        tokio::task::yield_now().await;
    }
    if !lets_go {
        said(store.release(Release::new(claim.key, claim.token)).await);
    }
}

pub async fn fenced_writes_never_go_back(world: &World) {
    let (key, log) = (world.key("k"), world.key("log"));
    let mut tasks = JoinSet::new();
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { world.store() } else { world.second() };
        let wait = world.long_ttl().as_duration() * 4;
        let claim = world.brief_claim(&key, &format!("r{racer}")).waiting(wait);
        tasks.spawn(reign(store, claim, log.clone(), racer % 8 == 0));
    }
    finish(world, tasks).await;
    let entries = world.log(&log).await;
    let generations: Vec<u64> =
        entries.iter().filter_map(|entry| std::str::from_utf8(&entry.value).ok()?.parse().ok()).collect();
    assert_eq!(generations.len(), entries.len());
    assert!(!generations.is_empty());
    assert!(generations.windows(2).all(|pair| pair[0] <= pair[1]), "{generations:?}");
}

pub async fn a_free_key_has_one_winner(world: &World) {
    let (key, mut tasks) = (world.key("k"), JoinSet::new());
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { world.store() } else { world.second() };
        let claim = world.claim(&key, &format!("r{racer}"));
        tasks.spawn(async move { matches!(said(store.acquire(claim).await), Acquired::Granted(_)) });
    }
    let won = world.within("the race", tasks.join_all()).await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}

pub async fn many_keys_go_in_parallel(world: &World) {
    let (keys, mut tasks) = (64, JoinSet::new());
    for number in 0..keys {
        let store = if number % 2 == 0 { world.store() } else { world.second() };
        let claim = world.claim(&world.key(&format!("k{number:02}")), "ann");
        tasks.spawn(async move {
            let Acquired::Granted(grant) = said(store.acquire(claim.clone()).await) else { panic!("it is free") };
            Renewal { key: claim.key, token: claim.token, generation: grant.lease.generation, ttl: None }
        });
    }
    let items = world.within("the grants", tasks.join_all()).await;
    let answers = said(world.store().renew(&items).await);
    assert!(answers.iter().all(|answer| matches!(answer, Renewed::Renewed { .. })), "{answers:?}");
    let page = said(world.store().list(&Query::new(world.prefix())).await);
    assert_eq!(page.items.len(), keys);
}

pub async fn concurrent_appends_lose_nothing(world: &World) {
    let (log, mut tasks) = (world.key("log"), JoinSet::new());
    for racer in 0..RACERS {
        let store = if racer % 2 == 0 { world.store() } else { world.second() };
        let ops = [append(&log, &racer.to_string(), 1_000)];
        tasks.spawn(async move { written(said(store.commit(&ops).await)) });
    }
    let mut revisions = world.within("the appends", tasks.join_all()).await;
    revisions.sort();
    revisions.dedup();
    assert_eq!(revisions.len(), RACERS, "every commit has a revision of its own");
    let entries = world.log(&log).await;
    assert!(entries.iter().map(|entry| entry.seq).eq(1..=RACERS as u64), "{entries:?}");
}
