//! Tokens that were spent or given up stay refused on the embedded engine after its process was killed.

use std::path::Path;

use tenure_lease::{
    Acquired, Claim, Error, Holder, Key, Leases, Refusal, Release, Released, Token, Ttl, limits,
};
use tenure_store::{Local, Options, OsEntropy};

fn options(boot: &str) -> Options {
    Options { segment: 8 << 20, boot: Some(boot.into()), ..Options::default() }
}

fn claim(name: &str) -> Claim {
    let (key, holder) = (Key::new(name).unwrap(), Holder::new("holder").unwrap());
    Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(60).unwrap()).remote()
}

async fn release(store: &Local, claim: &Claim) -> Released {
    store.release(Release::new(claim.key.clone(), claim.token.clone())).await.unwrap()
}

async fn reign(store: &Local, claim: &Claim) {
    let answer = store.acquire(claim.clone()).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    assert_eq!(release(store, claim).await, Released::Released);
}

async fn is_refused(store: &Local, claim: &Claim) -> bool {
    matches!(store.acquire(claim.clone()).await, Err(Error::Refused(Refusal::TokenSpent)))
}

/// What a process that is killed now leaves behind.
fn killed(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[tokio::test]
async fn a_token_that_was_given_up_stays_refused_after_kill_9_and_a_reboot() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), options("one")).await.unwrap();
    let (never, held) = (claim("never"), claim("held"));
    let given_up = claim("held");
    reign(&store, &held).await;
    assert_eq!(release(&store, &never).await, Released::NotHeld);
    assert_eq!(release(&store, &given_up).await, Released::NotHeld);
    for boot in ["one", "two"] {
        let left = killed(directory.path());
        let store = Local::open(left.path(), options(boot)).await.unwrap();
        assert!(is_refused(&store, &never).await && is_refused(&store, &given_up).await, "boot {boot}");
        assert!(is_refused(&store, &held).await, "boot {boot}");
        reign(&store, &claim("never")).await;
    }
}

#[tokio::test]
async fn a_spent_token_stays_refused_after_kill_9_and_more_reigns_than_the_history_shows() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), options("one")).await.unwrap();
    let spent = claim("k");
    reign(&store, &spent).await;
    for _ in 0..limits::REIGNS + 1 {
        reign(&store, &claim("k")).await;
    }
    assert!(is_refused(&store, &spent).await);
    let left = killed(directory.path());
    let store = Local::open(left.path(), options("one")).await.unwrap();
    assert!(is_refused(&store, &spent).await);
}
