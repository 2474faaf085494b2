//! Saving what can be read of a damaged directory.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tenure_lease::{Acquired, Claim, Error, Generation, Holder, Key, Leases, Op, Phase, Records, Token, Ttl};
use tenure_store::{BootClock, Local, Options, OsEntropy, Salvaged};

const JOURNALS: [&str; 2] = ["journal-a.log", "journal-b.log"];

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn claim(name: &str) -> Claim {
    let holder = Holder::new("holder").unwrap();
    Claim::new(key(name), holder, Token::random(&OsEntropy), Ttl::from_secs(600).unwrap()).remote()
}

async fn acquire(store: &Local, name: &str) -> Generation {
    match store.acquire(claim(name)).await.unwrap() {
        Acquired::Granted(grant) => grant.lease.generation,
        Acquired::Busy(busy) => panic!("{busy:?}"),
    }
}

async fn write(store: &Local, n: u8) {
    let value: Arc<[u8]> = vec![n; 100].into();
    let put = Op::Put { key: key(&format!("r/{n}")), value: value.clone(), ttl: None };
    store.commit(&[put, Op::Append { log: key("log"), value, max_len: 100 }]).await.unwrap();
}

/// A directory with ten leases and records in its base and ten more in its journal, as a killed process leaves it.
async fn killed() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for part in 0..2u8 {
        let store = Local::open(directory.path(), Options::default()).await.unwrap();
        for n in part * 10..part * 10 + 10 {
            acquire(&store, &format!("k/{n:02}")).await;
            write(&store, n).await;
        }
    }
    directory
}

fn salvage(from: &Path) -> (TempDir, Salvaged) {
    let to = tempfile::tempdir().unwrap();
    let salvaged = Local::salvage(from, to.path(), &BootClock).unwrap();
    (to, salvaged)
}

async fn held(store: &Local) -> Vec<usize> {
    let mut held = Vec::new();
    for n in 0..20 {
        let status = store.inspect(&key(&format!("k/{n:02}"))).await.unwrap();
        held.extend((status.phase == Phase::Held).then_some(n));
    }
    held
}

#[tokio::test]
async fn a_whole_directory_is_saved_whole() {
    let directory = killed().await;
    let (to, salvaged) = salvage(directory.path());
    assert_eq!(salvaged, Salvaged { keys: 20, records: 20, log_entries: 20, lost: Vec::new() });
    let store = Local::open(to.path(), Options::default()).await.unwrap();
    assert_eq!(held(&store).await, (0..20).collect::<Vec<_>>());
    // The old one was not changed.
    let store = Local::open(directory.path(), Options::default()).await.unwrap();
    assert_eq!(held(&store).await.len(), 20);
}

#[tokio::test]
async fn of_a_damaged_journal_all_other_frames_are_saved_and_the_damage_is_listed() {
    let directory = killed().await;
    let wanted = b"k/15";
    let damaged = JOURNALS.iter().find_map(|name| {
        let path = directory.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(wanted.len()).position(|window| window == wanted)?;
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"X", at as u64).unwrap();
        Some(*name)
    });
    let refused = Local::open(directory.path(), Options::default()).await.unwrap_err();
    assert!(refused.to_string().contains("is damaged at offset"), "{refused}");
    let (to, salvaged) = salvage(directory.path());
    assert_eq!((salvaged.keys, salvaged.records), (19, 20));
    let listed = salvaged.lost.join("\n");
    assert!(listed.contains(&format!("{}: bytes ", damaged.unwrap())), "{listed}");
    assert!(listed.contains("frames can be read"), "{listed}");
    let store = Local::open(to.path(), Options::default()).await.unwrap();
    assert_eq!(held(&store).await, (0..20).filter(|n| *n != 15).collect::<Vec<_>>());
    // Its next generation is above the one that was lost.
    let lost = acquire(&store, "k/15").await;
    assert!(lost > store.inspect(&key("k/14")).await.unwrap().generation.unwrap());
}

#[tokio::test]
async fn without_the_base_the_journal_is_saved_and_without_the_journal_the_base() {
    let directory = killed().await;
    std::fs::remove_file(directory.path().join("base.redb")).unwrap();
    let (to, salvaged) = salvage(directory.path());
    let listed = salvaged.lost.join("\n");
    assert!(listed.contains("everything that was only in base.redb"), "{listed}");
    let store = Local::open(to.path(), Options::default()).await.unwrap();
    assert!(held(&store).await.ends_with(&(10..20).collect::<Vec<_>>()));

    let directory = killed().await;
    for name in JOURNALS {
        std::fs::remove_file(directory.path().join(name)).unwrap();
    }
    let (to, salvaged) = salvage(directory.path());
    let listed = salvaged.lost.join("\n");
    assert!(listed.contains("nothing after epoch"), "{listed}");
    let store = Local::open(to.path(), Options::default()).await.unwrap();
    assert_eq!(held(&store).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_directory_in_use_and_a_target_that_is_not_empty_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), Options::default()).await.unwrap();
    let to = tempfile::tempdir().unwrap();
    let refused = Local::salvage(directory.path(), to.path(), &BootClock).unwrap_err();
    assert!(refused.to_string().contains("is open in"), "{refused}");
    drop(store);
    std::fs::write(to.path().join("file"), "").unwrap();
    let refused = Local::salvage(directory.path(), to.path(), &BootClock).unwrap_err();
    assert!(
        matches!(&refused, Error::Invalid { .. }) && refused.to_string().contains("not empty"),
        "{refused}"
    );
    let missing = Local::salvage(to.path().join("none"), directory.path(), &BootClock).unwrap_err();
    assert!(matches!(&missing, Error::Invalid { .. }), "{missing}");
}
