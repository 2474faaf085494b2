//! Who hears first of a hand-over in the engines in process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease::{Acquired, Claim, Holder, Key, Leases, Release, Released, Token, Transfer, Transferred, Ttl};
use lease_store::{Local, Options, OsEntropy, TokioClock};
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
    standing(&store, 1).await;
    let (giving, ears) = (give(store, held.lease, token), heard.clone());
    tasks.spawn(async move {
        giving.await;
        ears.lock().unwrap().push("the giver");
    });
    tasks.join_all().await;
    Arc::into_inner(heard).unwrap().into_inner().unwrap()
}

/// Ends when so many stand in line.
async fn standing(store: &Local, count: u32) {
    while store.inspect(&Key::new("k").unwrap()).await.unwrap().waiters != count {
        tokio::task::yield_now().await;
    }
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

/// How many turns others have while `first`, who held `k` for `reign`, gives it to the first of `line`. A turn takes
/// `turn`.
async fn turns_of_others(first: Claim, line: usize, reign: Duration, turn: Duration) -> usize {
    let store = Arc::new(Local::memory_on(Arc::new(TokioClock::default())));
    let token = first.token.clone();
    let Acquired::Granted(held) = store.acquire(first).await.unwrap() else { panic!("busy") };
    let (turns, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for _ in 0..line {
        let store = store.clone();
        tasks.spawn(async move { store.acquire(claim("bob", Some(Duration::from_secs(60))).remote()).await });
    }
    standing(&store, line as u32).await;
    tokio::time::advance(reign).await;
    let count = turns.clone();
    tasks.spawn(async move {
        loop {
            tokio::task::yield_now().await;
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::advance(turn).await;
        }
    });
    release(store, held.lease, token).await;
    turns.load(Ordering::Relaxed)
}

fn remote() -> Claim {
    claim("ann", None).remote()
}

const NO_TIME: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn where_a_key_goes_from_hand_to_hand_the_giver_is_answered_a_moment_later() {
    let others = turns_of_others(remote(), 2, NO_TIME, NO_TIME).await;
    // Whoever counts them lets the giver go first twice in each.
    assert!((9..=11).contains(&others), "{others} turns");
}

#[tokio::test(start_paused = true)]
async fn a_giver_in_the_same_process_is_answered_at_once() {
    let others = turns_of_others(claim("ann", None), 2, NO_TIME, NO_TIME).await;
    assert!(others <= 1, "{others} turns");
}

#[tokio::test(start_paused = true)]
async fn a_giver_is_answered_at_once_if_the_heir_was_the_last_in_line() {
    let others = turns_of_others(remote(), 1, NO_TIME, NO_TIME).await;
    assert!(others <= 1, "{others} turns");
}

#[tokio::test(start_paused = true)]
async fn a_giver_who_kept_the_key_for_a_while_is_answered_at_once() {
    let others = turns_of_others(remote(), 2, Duration::from_micros(250), NO_TIME).await;
    assert!(others <= 1, "{others} turns");
}

#[tokio::test(start_paused = true)]
async fn a_giver_does_not_wait_for_the_turns_of_others_who_take_long() {
    let others = turns_of_others(remote(), 2, NO_TIME, Duration::from_micros(50)).await;
    assert!(others <= 3, "{others} turns");
}
