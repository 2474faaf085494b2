//! The embedded engine under the faults it must survive.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Clock, Committed, End, Error, Generation, Grant, Holder, Key, Leases, Op, Outcome,
    Phase, Records, Release, Renewal, Renewed, Token, Ttl,
};
use tenure_store::{BootClock, Directory, Local, Options, OsEntropy, Storage, StorageFile};
use tenure_testkit::{Process, SmallDisk};

use crate::renewals;

const LIMIT: Duration = Duration::from_secs(30);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn claim(name: &str, ttl_ms: u64) -> Claim {
    let holder = Holder::new("holder").unwrap();
    Claim::new(key(name), holder, Token::random(&OsEntropy), Ttl::from_millis(ttl_ms).unwrap())
}

fn granted(answer: Acquired) -> Grant {
    match answer {
        Acquired::Granted(grant) => grant,
        Acquired::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

fn small() -> Options {
    Options { segment: 8 << 20, ..Options::default() }
}

/// What a killed process had acknowledged: per key the last grant and whether its release was acknowledged.
fn acknowledged(process: &Process, lines: usize) -> BTreeMap<String, (Generation, bool)> {
    let mut seen = BTreeMap::new();
    for _ in 0..lines {
        let line = process.wait_for_line(|_| true, LIMIT).unwrap();
        note(&mut seen, &line);
    }
    process.kill9().unwrap();
    while let Ok(line) = process.wait_for_line(|_| true, Duration::from_millis(200)) {
        note(&mut seen, &line);
    }
    seen
}

fn note(seen: &mut BTreeMap<String, (Generation, bool)>, line: &str) {
    let parts: Vec<&str> = line.split(' ').collect();
    if let [sign, key, generation] = parts[..] {
        let generation = Generation::parse(generation).unwrap();
        let before = seen.insert(key.to_owned(), (generation, sign == "-"));
        assert!(before.is_none_or(|(g, _)| generation >= g), "{key} fell to {generation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_during_grants_loses_nothing_acknowledged_and_generations_never_fall() {
    let directory = tempfile::tempdir().unwrap();
    let mut highest: BTreeMap<String, Generation> = BTreeMap::new();
    for round in 0..5 {
        let mut command = Command::new(tenure_testkit::helper_bin("torture").unwrap());
        command.arg(directory.path());
        let process = Process::spawn(command).unwrap();
        process.wait_for_line(|line| line == "open", LIMIT).unwrap();
        let seen = acknowledged(&process, 500 + 700 * round);
        drop(process);
        let store = Local::open(directory.path(), small()).await.unwrap();
        for (name, (generation, released)) in seen {
            let before = highest.insert(name.clone(), generation);
            assert!(before.is_none_or(|g| generation > g), "{name} fell to {generation} after a crash");
            let status = store.inspect(&key(&name)).await.unwrap();
            assert!(status.generation >= Some(generation), "{name}: {generation} is forgotten");
            if released && status.generation == Some(generation) {
                assert_eq!(status.phase, Phase::Free, "{name}: the release of {generation} is forgotten");
            }
            if !released && status.generation == Some(generation) {
                // Its release may have been on its way and unanswered; then history knows it.
                let history = store.history(&key(&name)).await.unwrap();
                let end = history.last().unwrap().end;
                assert!(end.is_none() || end == Some(End::Released), "{name}: {end:?}");
            }
            if status.phase == Phase::Held {
                let revoke = tenure_lease::Revoke {
                    key: key(&name),
                    generation: status.generation.unwrap(),
                    delay: Some(Duration::ZERO),
                    reason: tenure_lease::RevokeReason::default(),
                };
                store.revoke(revoke).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn two_processes_cannot_open_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(tenure_testkit::helper_bin("torture").unwrap());
    command.arg(directory.path()).arg("0");
    let store = Local::open(directory.path(), small()).await.unwrap();
    let refused = command.output().unwrap();
    assert!(!refused.status.success());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains(&format!("is open in process {}", std::process::id())), "{message}");
    // The owner is not affected.
    granted(store.acquire(claim("k", 1_000)).await.unwrap());
}

#[tokio::test]
async fn a_directory_can_be_opened_after_its_process_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(tenure_testkit::helper_bin("torture").unwrap());
    command.arg(directory.path());
    let process = Process::spawn(command).unwrap();
    process.wait_for_line(|line| line == "open", LIMIT).unwrap();
    assert!(Local::open(directory.path(), small()).await.is_err());
    process.kill9().unwrap();
    Local::open(directory.path(), small()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_a_clear_error_and_loses_nothing() {
    let disk = SmallDisk::mount(48 << 20).unwrap();
    let store = Local::open(disk.path(), small()).await.unwrap();
    let first = claim("first", 60_000).remote();
    let generation = granted(store.acquire(first.clone()).await.unwrap()).lease.generation;
    disk.fill().unwrap();
    let mut written = Vec::new();
    let error = loop {
        let name = format!("filler/{}", written.len());
        let value: Arc<[u8]> = vec![7; 100_000].into();
        match store.commit(&[Op::Put { key: key(&name), value, ttl: None }]).await {
            Ok(_) => written.push(name),
            Err(error) => break error,
        }
    };
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.to_string().contains("the disk is full"), "{error}");
    // Grants are refused and change nothing; renewals, which need no disk, go on.
    let mut grants = 0;
    let refused = loop {
        match store.acquire(claim(&format!("small/{grants}"), 60_000).remote()).await {
            Ok(_) => grants += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.outcome(), Outcome::NotApplied, "{refused}");
    assert_eq!(store.inspect(&key(&format!("small/{grants}"))).await.unwrap().phase, Phase::Free);
    let renewal = Renewal { key: key("first"), token: first.token.clone(), generation, ttl: None };
    assert!(matches!(renewals(store.renew(&[renewal]).await)[0], Renewed::Renewed { .. }));
    disk.free().unwrap();
    tenure_testkit::wait::until_async("grants after space was freed", LIMIT, async || {
        store.acquire(claim("third", 60_000).remote()).await.is_ok_and(|a| matches!(a, Acquired::Granted(_)))
    })
    .await
    .unwrap();
    drop(store);
    let store = Local::open(disk.path(), small()).await.unwrap();
    for name in written {
        assert!(store.get(&key(&name)).await.unwrap().is_some(), "{name} is lost");
    }
    assert_eq!(store.inspect(&key("first")).await.unwrap().generation, Some(generation));
    assert_eq!(store.inspect(&key("third")).await.unwrap().phase, Phase::Held);
    for n in 0..grants {
        assert_eq!(store.inspect(&key(&format!("small/{n}"))).await.unwrap().phase, Phase::Held);
    }
}

/// A directory whose syncs fail on demand.
struct FailingStorage {
    directory: Directory,
    broken: Arc<AtomicBool>,
}

struct FailingFile(Box<dyn StorageFile>, Arc<AtomicBool>);

impl Storage for FailingStorage {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(FailingFile(self.directory.open(name, size)?, self.broken.clone())))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.directory.base()
    }
}

impl StorageFile for FailingFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.0.read()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.1.load(Ordering::SeqCst) {
            true => Err(io::Error::other("the device did not sync")),
            false => self.0.sync(),
        }
    }
}

#[tokio::test]
async fn a_failed_sync_stops_granting_until_the_store_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let broken = Arc::new(AtomicBool::new(false));
    let disk = FailingStorage { directory: Directory::new(directory.path()), broken: broken.clone() };
    let store = Local::open_on(Arc::new(disk), small(), None).await.unwrap();
    let kept = granted(store.acquire(claim("kept", 60_000).remote()).await.unwrap()).lease;
    broken.store(true, Ordering::SeqCst);
    let unknown = store.acquire(claim("lost", 60_000).remote()).await.unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate, "{unknown}");
    broken.store(false, Ordering::SeqCst);
    let refused = store.acquire(claim("other", 60_000)).await.unwrap_err();
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("did not sync"), "{refused}");
    drop(store);
    let store = Local::open(directory.path(), small()).await.unwrap();
    assert_eq!(store.inspect(&key("kept")).await.unwrap().generation, Some(kept.generation));
    granted(store.acquire(claim("other", 60_000)).await.unwrap());
}

#[tokio::test]
async fn local_leases_end_with_their_process_and_remote_ones_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), small()).await.unwrap();
    let local = granted(store.acquire(claim("local", 60_000)).await.unwrap()).lease;
    let claim_remote = claim("remote", 60_000).remote();
    let remote = granted(store.acquire(claim_remote.clone()).await.unwrap()).lease;
    drop(store);
    let store = Local::open(directory.path(), small()).await.unwrap();
    let status = store.inspect(&key("local")).await.unwrap();
    assert_eq!((status.phase, status.generation), (Phase::Free, Some(local.generation)));
    assert_eq!(store.history(&key("local")).await.unwrap()[0].end, Some(End::HolderDied));
    let renewal = Renewal {
        key: key("remote"),
        token: claim_remote.token.clone(),
        generation: remote.generation,
        ttl: None,
    };
    assert!(matches!(renewals(store.renew(&[renewal]).await)[0], Renewed::Renewed { .. }));
    let again = granted(store.acquire(claim_remote).await.unwrap()).lease;
    assert_eq!(again.generation, remote.generation);
}

#[tokio::test]
async fn after_a_restart_of_the_machine_a_remote_lease_has_its_full_ttl() {
    let directory = tempfile::tempdir().unwrap();
    let booted = |boot: &str| Options { boot: Some(boot.into()), ..small() };
    let store = Local::open(directory.path(), booted("one")).await.unwrap();
    granted(store.acquire(claim("k", 600_000).remote()).await.unwrap());
    drop(store);
    let before = BootClock.now();
    let store = Local::open(directory.path(), booted("two")).await.unwrap();
    let left = store.inspect(&key("k")).await.unwrap().remaining.unwrap();
    assert!(left + BootClock.now().since(before) >= Duration::from_secs(600), "{left:?}");
}

#[tokio::test]
async fn a_longer_ttl_is_on_disk_before_the_renewal_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let booted = |boot: &str| Options { boot: Some(boot.into()), ..small() };
    let store = Local::open(directory.path(), booted("one")).await.unwrap();
    let claim = claim("k", 1_000).remote();
    let generation = granted(store.acquire(claim.clone()).await.unwrap()).lease.generation;
    let ttl = Some(Ttl::from_secs(3_600).unwrap());
    let renewal = Renewal { key: key("k"), token: claim.token.clone(), generation, ttl };
    assert!(matches!(renewals(store.renew(&[renewal]).await)[0], Renewed::Renewed { .. }));
    drop(store);
    let store = Local::open(directory.path(), booted("two")).await.unwrap();
    let left = store.inspect(&key("k")).await.unwrap().remaining.unwrap();
    assert!(left > Duration::from_secs(3_000), "{left:?}");
}

#[tokio::test]
async fn records_logs_marks_history_and_spent_tokens_survive_many_checkpoints_and_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = Local::open(directory.path(), small()).await.unwrap();
    let spent = claim("k", 60_000).remote();
    granted(store.acquire(spent.clone()).await.unwrap());
    store.release(Release::new(key("k"), spent.token.clone())).await.unwrap();
    // Many megabytes through segments of eight: both are used again and again.
    for round in 0..200u32 {
        let value: Arc<[u8]> = vec![round as u8; 100_000].into();
        let ops = [
            Op::Put { key: key(&format!("r/{}", round % 10)), value: value.clone(), ttl: None },
            Op::Append { log: key("log"), value, max_len: 5 },
        ];
        assert!(matches!(store.commit(&ops).await.unwrap(), Committed::Written { .. }));
    }
    store.commit(&[Op::Delete { key: key("r/0") }]).await.unwrap();
    drop(store);
    let store = Local::open(directory.path(), small()).await.unwrap();
    assert!(store.get(&key("r/0")).await.unwrap().is_none());
    for n in 1..10u8 {
        assert_eq!(store.get(&key(&format!("r/{n}"))).await.unwrap().unwrap().value[0], 190 + n);
    }
    let log = store.read_log(&key("log"), 0, 100).await.unwrap();
    assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [196, 197, 198, 199, 200]);
    assert_eq!(store.history(&key("k")).await.unwrap()[0].end, Some(End::Released));
    let again = store.acquire(spent).await.unwrap_err();
    assert!(again.to_string().contains("spent"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_orphans_than_fit_the_journal_end_with_their_process() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Local::open(directory.path(), small()).await.unwrap());
    let meta = tenure_lease::Meta::new("m".repeat(1_000)).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let (store, meta) = (store.clone(), meta.clone());
        tasks.spawn(async move {
            for m in 0..100 {
                let claim = claim(&format!("orphan/{n:03}/{m:03}/{}", "x".repeat(200)), 60_000);
                granted(store.acquire(claim.meta(meta.clone())).await.unwrap());
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    drop(store);
    let store = Local::open(directory.path(), small()).await.unwrap();
    let held =
        store.list(&tenure_lease::Query::new(tenure_lease::Prefix::new("orphan/").unwrap())).await.unwrap();
    assert!(held.items.is_empty());
    let name = format!("orphan/042/042/{}", "x".repeat(200));
    assert_eq!(store.history(&key(&name)).await.unwrap()[0].end, Some(End::HolderDied));
}
