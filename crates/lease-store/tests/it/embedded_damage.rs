//! The embedded engine on a directory that is damaged or not complete: it refuses to open it, and says why.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tenure_lease::{Acquired, Claim, Holder, Key, Leases, Op, Phase, Records, Token, Ttl};
use tenure_store::{Local, Options, OsEntropy};

use crate::failing_base::{BaseFaults, FailingBase};

const JOURNALS: [&str; 2] = ["journal-a.log", "journal-b.log"];

fn options() -> Options {
    Options { segment: 8 << 20, ..Options::default() }
}

fn key(n: usize) -> Key {
    Key::new(format!("lease/{n:03}")).unwrap()
}

async fn acquire(store: &Local, keys: std::ops::Range<usize>) {
    for n in keys {
        let (holder, token) = (Holder::new("holder").unwrap(), Token::random(&OsEntropy));
        let claim = Claim::new(key(n), holder, token, Ttl::from_secs(600).unwrap()).remote();
        let answer = store.acquire(claim).await.unwrap();
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    }
}

/// Writes so much that the journal changes its segment.
async fn fill_an_epoch(store: &Local) {
    let value: Arc<[u8]> = vec![7; 200_000].into();
    for n in 0..12 {
        let key = Key::new(format!("filler/{}", n % 3)).unwrap();
        store.commit(&[Op::Put { key, value: value.clone(), ttl: None }]).await.unwrap();
    }
}

async fn held(store: &Local, keys: std::ops::Range<usize>) -> usize {
    let mut held = 0;
    for n in keys {
        held += usize::from(store.inspect(&key(n)).await.unwrap().phase == Phase::Held);
    }
    held
}

/// A copy of a directory, as a process that is killed now leaves it.
fn copy(directory: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

async fn refusal(directory: &Path) -> String {
    match Local::open(directory, options()).await {
        Err(error) => error.to_string(),
        Ok(store) => panic!("opened; {} of 60 leases are held", held(&store, 0..60).await),
    }
}

/// The journal file that ends with these bytes of a key.
fn journal_with(directory: &Path, key: &Key) -> (PathBuf, u64) {
    let wanted = key.as_str().as_bytes();
    for name in JOURNALS {
        let bytes = std::fs::read(directory.join(name)).unwrap();
        if let Some(at) = bytes.windows(wanted.len()).position(|window| window == wanted) {
            return (directory.join(name), at as u64);
        }
    }
    panic!("no journal has {key}");
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[tokio::test]
async fn one_damaged_bit_in_the_middle_of_the_journal_is_refused_with_its_file_and_offset() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), options()).await.unwrap();
    acquire(&store, 0..45).await;
    let killed = copy(directory.path());
    let (path, at) = journal_with(killed.path(), &key(10));
    flip(&path, at);
    let why = refusal(killed.path()).await;
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(why.contains(&format!("{name} is damaged at offset ")), "{why}");
    assert!(why.contains("--salvage"), "{why}");
    let offset: u64 =
        why.split("damaged at offset ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(offset < at && at - offset < 200, "{offset} is not the frame of {at}");
    // Nothing was changed: the same refusal again, and with the bit repaired all is there.
    assert_eq!(refusal(killed.path()).await, why);
    flip(&path, at);
    let store = Local::open(killed.path(), options()).await.unwrap();
    assert_eq!(held(&store, 0..45).await, 45);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_end_of_an_epoch_that_another_follows_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let faults = BaseFaults::default();
    let storage = FailingBase::new(directory.path(), &faults);
    let store = Local::open_on(Arc::new(storage), options(), None).await.unwrap();
    faults.fail_writes(true);
    fill_an_epoch(&store).await;
    // The frame that is damaged later is the last of its epoch or in the one after it.
    acquire(&store, 0..2).await;
    let killed = copy(directory.path());
    let value = vec![7; 1_000];
    let mut ends = Vec::new();
    for name in JOURNALS {
        let bytes = std::fs::read(killed.path().join(name)).unwrap();
        let end = bytes.windows(value.len()).rposition(|window| window == value);
        ends.extend(end.map(|end| (killed.path().join(name), end as u64)));
    }
    let whole = copy(killed.path());
    let mut refused = Vec::new();
    for (path, end) in ends {
        flip(&path, end);
        refused.push(refusal(killed.path()).await);
        flip(&path, end);
    }
    assert!(refused.iter().any(|why| why.contains("of them can be read")), "{refused:?}");
    let store = Local::open(whole.path(), options()).await.unwrap();
    assert_eq!(held(&store, 0..2).await, 2);
}

#[tokio::test]
async fn a_torn_end_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), options()).await.unwrap();
    acquire(&store, 0..20).await;
    let killed = copy(directory.path());
    let (path, at) = journal_with(killed.path(), &key(19));
    // As if the power had gone while the last frame was written.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0; 4_096], at).unwrap();
    let store = Local::open(killed.path(), options()).await.unwrap();
    assert_eq!(held(&store, 0..20).await, 19);
}

#[tokio::test]
async fn an_incomplete_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), options()).await.unwrap();
    acquire(&store, 0..20).await;
    drop(store);
    let older = copy(directory.path());
    let store = Local::open(directory.path(), options()).await.unwrap();
    acquire(&store, 20..40).await;
    drop(store);
    let store = Local::open(directory.path(), options()).await.unwrap();
    acquire(&store, 40..60).await;
    let whole = copy(directory.path());
    drop(store);
    let losses: [(&str, &[&str]); 4] = [
        ("base.redb", &["base.redb"]),
        ("both journals", &JOURNALS),
        ("journal a", &JOURNALS[..1]),
        ("journal b", &JOURNALS[1..]),
    ];
    let mut refused = Vec::new();
    for (what, files) in losses {
        let incomplete = copy(whole.path());
        for file in files {
            std::fs::remove_file(incomplete.path().join(file)).unwrap();
        }
        match Local::open(incomplete.path(), options()).await {
            Err(error) => refused.push((what, error.to_string())),
            // The journal that the base has already.
            Ok(store) => assert_eq!(held(&store, 0..60).await, 60, "{what}"),
        }
    }
    let named: Vec<_> = refused.iter().map(|(what, _)| *what).collect();
    assert!(named.starts_with(&["base.redb", "both journals"]) && named.len() == 3, "{refused:?}");
    let incomplete = copy(whole.path());
    std::fs::copy(older.path().join("base.redb"), incomplete.path().join("base.redb")).unwrap();
    let why = refusal(incomplete.path()).await;
    assert!(why.contains("base.redb") && why.contains("--salvage"), "{why}");
    let store = Local::open(whole.path(), options()).await.unwrap();
    assert_eq!(held(&store, 0..60).await, 60);
}

#[tokio::test]
async fn a_base_of_before_the_last_opening_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), options()).await.unwrap();
    acquire(&store, 0..5).await;
    drop(store);
    let older = copy(directory.path());
    let store = Local::open(directory.path(), options()).await.unwrap();
    acquire(&store, 5..10).await;
    drop(store);
    std::fs::copy(older.path().join("base.redb"), directory.path().join("base.redb")).unwrap();
    let why = refusal(directory.path()).await;
    assert!(why.contains("older than the journal"), "{why}");
}
