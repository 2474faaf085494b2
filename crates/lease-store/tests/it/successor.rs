//! The order of wake-ups at a hand-over in the engines in process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Holder, Key, Leases, Release, Released, Token, Transfer, Transferred, Ttl,
};
use tenure_store::{Local, Options, OsEntropy};
use tokio::task::JoinSet;

/// A claim of `k`, parked for up to `wait`.
fn claim(holder: &str, wait: Option<Duration>) -> Claim {
    let (key, holder) = (Key::new("k").unwrap(), Holder::new(holder).unwrap());
    let claim = Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(30).unwrap());
    wait.into_iter().fold(claim, Claim::waiting)
}

/// The order in which both callers continue when `give` hands `k` from ann to bob, who is parked. All run on one thread, so
/// that they continue in the order of their wake-ups.
async fn wakeup_order<F, G>(store: Arc<Local>, give: F) -> Vec<&'static str>
where
    F: FnOnce(Arc<Local>, tenure_lease::Lease, Token) -> G,
    G: Future<Output = ()> + Send + 'static,
{
    let first = claim("ann", None);
    let token = first.token.clone();
    let Acquired::Granted(held) = store.acquire(first).await.unwrap() else { panic!("busy") };
    let (order, mut tasks) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    let (queue, seen) = (store.clone(), order.clone());
    tasks.spawn(async move {
        let answer = queue.acquire(claim("bob", Some(Duration::from_secs(60)))).await.unwrap();
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
        seen.lock().unwrap().push("successor");
    });
    until_parked(&store, 1).await;
    let (giving, seen) = (give(store, held.lease, token), order.clone());
    tasks.spawn(async move {
        giving.await;
        seen.lock().unwrap().push("predecessor");
    });
    tasks.join_all().await;
    Arc::into_inner(order).unwrap().into_inner().unwrap()
}

/// Waits until `count` claims are parked.
async fn until_parked(store: &Local, count: u32) {
    while store.inspect(&Key::new("k").unwrap()).await.unwrap().waiters != count {
        tokio::task::yield_now().await;
    }
}

async fn release(store: Arc<Local>, lease: tenure_lease::Lease, token: Token) {
    let answer = store.release(Release::new(lease.key, token)).await.unwrap();
    assert_eq!(answer, Released::Released);
}

async fn transfer(store: Arc<Local>, lease: tenure_lease::Lease, token: Token) {
    let to = Holder::new("bob").unwrap();
    let transfer = Transfer { key: lease.key, token, generation: lease.generation, to };
    let answer = store.transfer(transfer).await.unwrap();
    assert!(matches!(answer, Transferred::Transferred(_)), "{answer:?}");
}

const SUCCESSOR_FIRST: [&str; 2] = ["successor", "predecessor"];

#[tokio::test]
async fn in_memory_the_successor_is_woken_before_the_predecessor() {
    assert_eq!(wakeup_order(Arc::new(Local::memory()), release).await, SUCCESSOR_FIRST);
    assert_eq!(wakeup_order(Arc::new(Local::memory()), transfer).await, SUCCESSOR_FIRST);
}

#[tokio::test]
async fn on_disk_the_successor_is_woken_before_the_predecessor() {
    for by_release in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { segment: 8 << 20, ..Options::default() };
        let store = Arc::new(Local::open(directory.path(), options).await.unwrap());
        let order = match by_release {
            true => wakeup_order(store, release).await,
            false => wakeup_order(store, transfer).await,
        };
        assert_eq!(order, SUCCESSOR_FIRST);
    }
}
