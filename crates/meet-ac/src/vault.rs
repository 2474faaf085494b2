//! Where the keys are kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lease::{Committed, Entropy, Key, Op, Revision, Store};

use crate::{Error, Keys, Seal, limits};

/// The file in the data directory.
const FILE: &str = "meet-keys";
/// The record in a shared store.
const RECORD: &str = "system:meet:keys";

/// A place for keys.
pub enum Vault {
    /// A folder of this process.
    Folder(FolderVault),
    /// A store that several share.
    Store(StoreVault),
}

/// What a vault holds, and how to say that it has not changed since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) keys: Keys,
    revision: Option<Revision>,
}

impl Vault {
    pub(crate) async fn load(&self) -> Result<Found, Error> {
        match self {
            Self::Folder(folder) => folder.load(),
            Self::Store(store) => store.load().await,
        }
    }

    /// Keeps `keys` where `found` was, and says what is there afterwards: somebody else's, if they were faster.
    pub(crate) async fn keep(
        &self,
        found: &Found,
        keys: Keys,
        entropy: &dyn Entropy,
    ) -> Result<Found, Error> {
        match self {
            Self::Folder(folder) => folder.keep(keys),
            Self::Store(store) => store.keep(found, keys, entropy).await,
        }
    }
}

/// A file that only its owner can touch.
#[derive(Clone, Debug)]
pub struct FolderVault {
    dir: PathBuf,
}

impl FolderVault {
    /// In this folder.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn load(&self) -> Result<Found, Error> {
        let content = read(&self.path()).map_err(|error| self.failed(&error))?;
        let keys = match content {
            Some(content) => parsed(&content).ok_or_else(|| self.failed(&"it does not hold keys"))?,
            None => Keys::default(),
        };
        Ok(Found { keys, revision: None })
    }

    fn keep(&self, keys: Keys) -> Result<Found, Error> {
        let content = serde_json::to_vec(&keys).map_err(|error| self.failed(&error))?;
        self.write(&content).map_err(|error| self.failed(&error))?;
        Ok(Found { keys, revision: None })
    }

    /// Written aside and renamed: nobody ever reads half of it, and a crash leaves the old one.
    fn write(&self, content: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let draft = self.dir.join(format!(".{FILE}.draft"));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, self.path())?;
        File::open(&self.dir)?.sync_all()
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Error {
        Error::Vault(format!("{}: {why}", self.path().display()))
    }
}

/// The file; nothing if there is none. One that others can read or write is not taken: its keys are not secret any more.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        let why = "others can read it, so the keys in it are not secret; remove it and a new one is made";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut content = Vec::new();
    file.take(limits::KEPT).read_to_end(&mut content)?;
    Ok(Some(content))
}

fn parsed(content: &[u8]) -> Option<Keys> {
    serde_json::from_slice::<Keys>(content).ok().filter(Keys::whole)
}

/// A sealed record.
pub struct StoreVault {
    store: Arc<dyn Store>,
    seal: Seal,
}

impl StoreVault {
    /// In this store, under this seal.
    pub fn new(store: Arc<dyn Store>, seal: Seal) -> Self {
        Self { store, seal }
    }

    async fn load(&self) -> Result<Found, Error> {
        let key = record()?;
        let Some(record) = self.store.get(&key).await.map_err(failed)? else {
            return Ok(Found { keys: Keys::default(), revision: None });
        };
        let text = std::str::from_utf8(&record.value).ok();
        let content = text.and_then(|text| self.seal.open(RECORD, text));
        let keys = content.and_then(|content| parsed(&content)).ok_or_else(|| {
            failed("the record does not open: TENURE_SEAL_KEY is not the one that it was sealed with, or it was changed")
        })?;
        Ok(Found { keys, revision: Some(record.revision) })
    }

    /// Whoever is first decides; the others take what is there.
    async fn keep(&self, found: &Found, keys: Keys, entropy: &dyn Entropy) -> Result<Found, Error> {
        let content = serde_json::to_vec(&keys).map_err(failed)?;
        let sealed = self.seal.seal(RECORD, &content, entropy).ok_or_else(|| failed("sealing failed"))?;
        let (key, value) = (record()?, Arc::<[u8]>::from(sealed.into_bytes()));
        let op = match found.revision {
            Some(revision) => Op::PutIfRevision { key, value, ttl: None, revision },
            None => Op::PutIfAbsent { key, value, ttl: None },
        };
        match self.store.commit(&[op]).await.map_err(failed)? {
            Committed::Written { revision } => Ok(Found { keys, revision: Some(revision) }),
            _ => self.load().await,
        }
    }
}

fn record() -> Result<Key, Error> {
    Key::new(RECORD).map_err(failed)
}

fn failed(why: impl std::fmt::Display) -> Error {
    Error::Vault(format!("{RECORD}: {why}"))
}
