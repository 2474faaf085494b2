//! One handle for every engine.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use lease::{Error, Result};

use crate::{Local, Options};

/// An open store, whichever engine is behind it. Clones share it.
#[derive(Clone)]
pub struct Store(Arc<dyn lease::Store>);

impl Store {
    /// Opens the store that a URL names: `memory:`, `embedded:FOLDER` or `redis://HOST:PORT/DB`.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, Options::default()).await
    }

    /// The same, and says how an embedded store is opened, should it be one.
    pub async fn open_with(url: &str, embedded: Options) -> Result<Self> {
        if url == "memory:" {
            return Ok(Self::new(Local::memory()));
        }
        if let Some(folder) = url.strip_prefix("embedded:").filter(|folder| !folder.is_empty()) {
            return Local::open(folder, embedded).await.map(Self::new);
        }
        if url.starts_with("redis://") {
            return crate::Redis::open(url).await.map(Self::new);
        }
        Err(Error::invalid(
            "store",
            format!("{url:?} is none of memory:, embedded:FOLDER, redis://HOST:PORT"),
        ))
    }

    /// Wraps an engine.
    pub fn new(engine: impl lease::Store) -> Self {
        Self(Arc::new(engine))
    }
}

impl Deref for Store {
    type Target = dyn lease::Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl From<Store> for Arc<dyn lease::Store> {
    fn from(store: Store) -> Self {
        store.0
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.0.capabilities().engine)
    }
}
