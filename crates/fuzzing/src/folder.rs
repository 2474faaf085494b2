//! The directory of the embedded store, as another process, another version or a faulty disk may have left it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Clock, Holder, Key, Leases, Op, Outcome, Prefix, Query, Records, Release, Revoke, Sleep,
    Tick, Token, Ttl, Wall,
};
use tenure_store::{Local, Options, Storage, StorageFile};

/// A stopped clock.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Tick {
        Tick::from_nanos(3_600_000_000_000)
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(1_700_000_000_000_000)
    }

    fn sleep_until(&self, _at: Tick) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// A directory in memory.
#[derive(Clone, Debug, Default)]
struct MemoryDir(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

#[derive(Debug)]
struct File(MemoryDir, String);

impl File {
    fn with<T>(&self, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        work(self.0.0.lock().unwrap().entry(self.1.clone()).or_default())
    }
}

impl Storage for MemoryDir {
    fn open(&self, name: &str, _size: u64) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(File(self.clone(), name.to_owned())))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        Ok(Box::new(File(self.clone(), "base".to_owned())))
    }
}

impl StorageFile for File {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.with(|bytes| bytes.clone()))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        redb::StorageBackend::write(self, at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl redb::StorageBackend for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|bytes| bytes.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|bytes| {
            let part = bytes.get(offset as usize..offset as usize + out.len());
            out.copy_from_slice(part.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|bytes| bytes.resize(len as usize, 0));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (start, end) = (offset as usize, offset as usize + data.len());
        self.with(|bytes| {
            let len = bytes.len().max(end);
            bytes.resize(len, 0);
            bytes[start..end].copy_from_slice(data);
        });
        Ok(())
    }
}

/// The visible state of a store, without values that depend on time or restarts.
async fn seen(store: &Local) -> Vec<String> {
    let mut lines = Vec::new();
    let query = Query::new(Prefix::default());
    for status in store.list(&query).await.expect("a store that opened can be listed").items {
        lines.push(format!("{status:?}"));
        for reign in store.history(&status.key).await.expect("and its histories read") {
            lines.push(format!("{} {reign:?}", status.key));
        }
    }
    for record in store.scan(&query).await.expect("and its records").items {
        lines.push(format!("{record:?}"));
    }
    for log in ["log", "a"] {
        for entry in store.read_log(&Key::new(log).unwrap(), 0, 100).await.expect("and its logs") {
            lines.push(format!("{log} {entry:?}"));
        }
    }
    lines
}

async fn open(dir: &MemoryDir) -> tenure_lease::Result<Local> {
    let options = Options { clock: Arc::new(StoppedClock), segment: 8 << 20, boot: Some("boot".into()) };
    Local::open_on(Arc::new(dir.clone()), options, None).await
}

/// A journal is loaded or refused, never misread: a store that opened can be read and written, and opens again with the
/// same state.
pub(crate) fn folder(data: &[u8]) {
    let (kind, rest) = data.split_first().map_or((0, data), |(kind, rest)| (*kind, rest));
    let dir = MemoryDir::default();
    let mut journal = rest.to_vec();
    if kind % 4 != 0 {
        journal = frame(1, 0, rest);
    }
    let name = if kind % 4 == 3 { "alive" } else { "journal-a.log" };
    dir.0.lock().unwrap().insert(name.into(), journal);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("the runtime starts");
    runtime.block_on(async {
        let store = match open(&dir).await {
            Ok(store) => store,
            Err(error) => return assert_eq!(error.outcome(), Outcome::NotApplied, "{error}"),
        };
        let before = seen(&store).await;
        let claim = claim("fresh", Ttl::from_secs(30).unwrap());
        match store.acquire(claim.clone()).await {
            Ok(Acquired::Granted(_)) => {
                store
                    .release(Release::new(claim.key, claim.token))
                    .await
                    .expect("a granted lease can be released");
            }
            Ok(Acquired::Busy(_)) => assert!(before.iter().any(|line| line.contains("fresh"))),
            // All generations of this key are used.
            Err(error) => assert_eq!(error.outcome(), Outcome::NotApplied, "{error}"),
        }
        drop(store);
        let again = open(&dir).await.expect("a store that opened once opens again");
        let after: Vec<String> = seen(&again).await;
        let old = |lines: &[String]| -> Vec<String> {
            lines.iter().filter(|line| !line.contains("fresh")).cloned().collect()
        };
        assert_eq!(old(&before), old(&after));
    });
}

fn frame(turn: u64, number: u64, rows: &[u8]) -> Vec<u8> {
    let mut body = [turn.to_le_bytes(), number.to_le_bytes()].concat();
    body.extend_from_slice(rows);
    let mut frame = (rows.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    frame.extend(body);
    frame
}

fn claim(key: &str, ttl: Ttl) -> Claim {
    struct Fixed;
    impl tenure_lease::Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }
    Claim::new(Key::new(key).unwrap(), Holder::new("h").unwrap(), Token::random(&Fixed), ttl)
}

/// Rows with numbers beyond any valid counter.
fn beyond() -> Vec<Vec<u8>> {
    let most = [&[0xff; 9][..], &[1]].concat();
    let row = |key: &[u8], value: &[u8]| {
        let mut row = vec![1, 1];
        row.extend_from_slice(&(key.len() as u16).to_le_bytes());
        row.extend_from_slice(key);
        row.extend_from_slice(&(value.len() as u32).to_le_bytes());
        row.extend_from_slice(value);
        row
    };
    vec![
        row(b"ofloor", &most),
        row(b"rr", &[b"\x01v".as_slice(), &most, &[0, 0]].concat()),
        row(b"llog\0\0\0\0\0\0\0\0\0", b"\x01v"),
        row(b"llog\0\xff\xff\xff\xff\xff\xff\xff\xff", b"\x01v"),
        row(b"sa", &[b"\x05".as_slice(), &most, &[0]].concat()),
        row(b"sa", &[&most[..], &[0, 0]].concat()),
        row(b"ha\0\xff\xff\xff\xff\xff\xff\xff\xff", b""),
    ]
}

/// The rows of a store after one of each operation, with the prefix byte that selects a journal.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let dir = MemoryDir::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("the runtime starts");
    runtime.block_on(async {
        let store = open(&dir).await.expect("an empty directory opens");
        let ttl = Ttl::from_secs(60).unwrap();
        for key in ["a", "b", "c"] {
            store.acquire(claim(key, ttl).remote()).await.expect("granted");
        }
        let released = claim("b", ttl);
        store.release(Release::new(released.key, released.token)).await.expect("released");
        let status = store.inspect(&Key::new("c").unwrap()).await.expect("seen");
        let revoke = Revoke {
            key: status.key,
            generation: status.generation.unwrap(),
            delay: Some(Duration::from_secs(9)),
            reason: tenure_lease::RevokeReason::default(),
        };
        store.revoke(revoke).await.expect("revoked");
        let log = Key::new("log").unwrap();
        let ops = [
            Op::Put { key: Key::new("r").unwrap(), value: b"v".as_slice().into(), ttl: Some(ttl) },
            Op::Append { log: log.clone(), value: b"one".as_slice().into(), max_len: 2 },
            Op::Append { log, value: b"two".as_slice().into(), max_len: 2 },
        ];
        store.commit(&ops).await.expect("written");
    });
    let journal = dir.0.lock().unwrap().get("journal-a.log").cloned().unwrap_or_default();
    let mut seeds = vec![[&[0], &journal[..]].concat()];
    seeds.extend(beyond());
    let mut rest = &journal[..];
    while let Some(len) = rest.first_chunk::<4>().map(|len| u32::from_le_bytes(*len) as usize) {
        let Some(rows) = rest.get(24..24 + len).filter(|rows| !rows.is_empty()) else { break };
        seeds.push([&[1], rows].concat());
        rest = &rest[24 + len..];
    }
    seeds
}
