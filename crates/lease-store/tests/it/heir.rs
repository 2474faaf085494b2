//! Who hears first of a hand-over in the engines in process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease::{Acquired, Claim, Holder, Key, Leases, Release, Released, Token, Transfer, Transferred, Ttl};
use lease_store::{Local, Options, OsEntropy};
use tokio::task::JoinSet;

/// A claim of `k`, which waits in line if it is told how long.
fn claim(holder: &str, wait: Option<Duration>) -> Claim {
    let (key, holder) = (Key::new("k").unwrap(), Holder::new(holder).unwrap());
    let claim = Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(30).unwrap());
    wait.into_iter().fold(claim, Claim::waiting)
}

/// Who heard what, in order, when `give` hands `k` from ann to bob, who waits in line. All on one thread, so that the
/// order in which they are woken is the order in which they run.
async fn heard<F, G>(store: Arc<Local>, give: F) -> Vec<&'static str>
where
    F: FnOnce(Arc<Local>, lease::Lease, Token) -> G,
    G: Future<Output = ()> + Send + 'static,
{
    let first = claim("ann", None);
    let token = first.token.clone();
    let Acquired::Granted(held) = store.acquire(first).await.unwrap() else { panic!("busy") };
    let (heard, mut tasks) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    let (line, ears) = (store.clone(), heard.clone());
    tasks.spawn(async move {
        let answer = line.acquire(claim("bob", Some(Duration::from_secs(60)))).await.unwrap();
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
        ears.lock().unwrap().push("the heir");
    });
    // The claim is in line once it was looked at.
    while store.inspect(&held.lease.key).await.unwrap().waiters == 0 {
        tokio::task::yield_now().await;
    }
    let (giving, ears) = (give(store, held.lease, token), heard.clone());
    tasks.spawn(async move {
        giving.await;
        ears.lock().unwrap().push("the giver");
    });
    tasks.join_all().await;
    Arc::into_inner(heard).unwrap().into_inner().unwrap()
}

async fn release(store: Arc<Local>, lease: lease::Lease, token: Token) {
    let answer = store.release(Release::new(lease.key, token)).await.unwrap();
    assert_eq!(answer, Released::Released);
}

async fn transfer(store: Arc<Local>, lease: lease::Lease, token: Token) {
    let to = Holder::new("bob").unwrap();
    let transfer = Transfer { key: lease.key, token, generation: lease.generation, to };
    let answer = store.transfer(transfer).await.unwrap();
    assert!(matches!(answer, Transferred::Transferred(_)), "{answer:?}");
}

const HEIR_FIRST: [&str; 2] = ["the heir", "the giver"];

#[tokio::test]
async fn in_memory_the_heir_hears_before_the_giver() {
    assert_eq!(heard(Arc::new(Local::memory()), release).await, HEIR_FIRST);
    assert_eq!(heard(Arc::new(Local::memory()), transfer).await, HEIR_FIRST);
}

#[tokio::test]
async fn on_disk_the_heir_hears_before_the_giver() {
    for by_release in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { segment: 8 << 20, ..Options::default() };
        let store = Arc::new(Local::open(folder.path(), options).await.unwrap());
        let order = match by_release {
            true => heard(store, release).await,
            false => heard(store, transfer).await,
        };
        assert_eq!(order, HEIR_FIRST);
    }
}
