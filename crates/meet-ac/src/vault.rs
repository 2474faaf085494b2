//! Storage of the keys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_lease::{Committed, Entropy, Key, Op, Revision, Store};

use crate::{Error, Keys, Seal, limits};

/// The file in the data directory.
const FILE: &str = "meet-keys";
/// The record in a shared store.
const RECORD: &str = "system:meet:keys";

/// Storage for the keys.
pub enum Vault {
    /// A directory of this process.
    Folder(DirectoryVault),
    /// A store shared by several authorities.
    Store(StoreVault),
}

/// The stored keys and their version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VaultContents {
    pub(crate) keys: Keys,
    revision: Option<Revision>,
}

impl Vault {
    pub(crate) async fn load(&self) -> Result<VaultContents, Error> {
        match self {
            Self::Folder(folder) => folder.load(),
            Self::Store(store) => store.load().await,
        }
    }

    /// Replaces `found` with `keys` and returns what is stored afterwards: the keys of another authority if it was faster.
    pub(crate) async fn keep(
        &self,
        found: &VaultContents,
        keys: Keys,
        entropy: &dyn Entropy,
    ) -> Result<VaultContents, Error> {
        match self {
            Self::Folder(folder) => folder.keep(keys),
            Self::Store(store) => store.keep(found, keys, entropy).await,
        }
    }
}

/// A file that only its owner can access.
#[derive(Clone, Debug)]
pub struct DirectoryVault {
    dir: PathBuf,
}

impl DirectoryVault {
    /// Stores the keys in this directory.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn load(&self) -> Result<VaultContents, Error> {
        let content = read(&self.path()).map_err(|error| self.failed(&error))?;
        let keys = match content {
            Some(content) => parsed(&content).ok_or_else(|| self.failed(&"malformed keys"))?,
            None => Keys::default(),
        };
        Ok(VaultContents { keys, revision: None })
    }

    fn keep(&self, keys: Keys) -> Result<VaultContents, Error> {
        let content = serde_json::to_vec(&keys).map_err(|error| self.failed(&error))?;
        self.write(&content).map_err(|error| self.failed(&error))?;
        Ok(VaultContents { keys, revision: None })
    }

    /// Writes a temporary file and renames it: readers never see a partial file, and a crash leaves the old one.
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

/// Reads the file, or `None` if there is none. A file that other users can access is rejected: its keys are no longer secret.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        let why = "others can read it, so its keys are not secret; remove it to create new ones";
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
    /// Stores the keys in this store under this seal.
    pub fn new(store: Arc<dyn Store>, seal: Seal) -> Self {
        Self { store, seal }
    }

    async fn load(&self) -> Result<VaultContents, Error> {
        let key = record()?;
        let Some(record) = self.store.get(&key).await.map_err(failed)? else {
            return Ok(VaultContents { keys: Keys::default(), revision: None });
        };
        let text = std::str::from_utf8(&record.value).ok();
        let content = text.and_then(|text| self.seal.open(RECORD, text));
        let keys = content.and_then(|content| parsed(&content)).ok_or_else(|| {
            failed("cannot open the record: TENURE_SEAL_KEY is not the one that sealed it, or the record was modified")
        })?;
        Ok(VaultContents { keys, revision: Some(record.revision) })
    }

    /// The first writer wins. The others use its keys.
    async fn keep(
        &self,
        found: &VaultContents,
        keys: Keys,
        entropy: &dyn Entropy,
    ) -> Result<VaultContents, Error> {
        let content = serde_json::to_vec(&keys).map_err(failed)?;
        let sealed = self.seal.seal(RECORD, &content, entropy).ok_or_else(|| failed("sealing failed"))?;
        let (key, value) = (record()?, Arc::<[u8]>::from(sealed.into_bytes()));
        let op = match found.revision {
            Some(revision) => Op::PutIfRevision { key, value, ttl: None, revision },
            None => Op::PutIfAbsent { key, value, ttl: None },
        };
        match self.store.commit(&[op]).await.map_err(failed)? {
            Committed::Written { revision } => Ok(VaultContents { keys, revision: Some(revision) }),
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
