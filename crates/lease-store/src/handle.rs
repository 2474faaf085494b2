//! One handle for all engines.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

#[cfg(doc)]
use tenure_lease::Capabilities;
use tenure_lease::{Error, Result};

use crate::Local;

/// The URLs that this build opens.
const SCHEMES: &[&str] = &[
    "memory:",
    #[cfg(feature = "embedded")]
    "embedded:DIRECTORY",
    #[cfg(feature = "redis")]
    "redis://HOST:PORT",
    #[cfg(feature = "remote")]
    "tenure://HOST:PORT",
];

/// An open store on any engine. Clones share it.
#[derive(Clone)]
pub struct Store(Arc<dyn tenure_lease::Store>);

/// How to open a store, beyond what its URL says.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// For `tenure://`: the token, trusted certificates and time limits.
    #[cfg(feature = "remote")]
    pub remote: tenure_client::ClientOptions,
}

impl Store {
    /// Opens the store at a URL: `memory:`, `embedded:DIRECTORY`, `redis://HOST:PORT/DB` or `tenure://HOST:PORT`
    /// (`tenures://HOST:PORT` with TLS), as far as the features of this build include them.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, OpenOptions::default()).await
    }

    /// Opens the store at a URL with these options.
    #[cfg_attr(not(feature = "remote"), expect(unused_variables, reason = "only remote stores have options"))]
    pub async fn open_with(url: &str, options: OpenOptions) -> Result<Self> {
        match url.split_once(':').unwrap_or((url, "")) {
            ("memory", "") => Ok(Self::new(Local::memory())),
            #[cfg(feature = "embedded")]
            ("embedded", directory) if !directory.is_empty() => {
                Local::open(directory, crate::Options::default()).await.map(Self::new)
            }
            #[cfg(feature = "redis")]
            ("redis", _) => crate::Redis::open(url).await.map(Self::new),
            #[cfg(feature = "remote")]
            ("tenure" | "tenures", _) => {
                tenure_client::Client::connect(url, options.remote).await.map(Self::new)
            }
            _ => Err(Error::invalid("store", format!("{url:?} is not one of {}", SCHEMES.join(", ")))),
        }
    }

    /// Whether the store at a URL would live in this process; see [`Capabilities::dies_with_process`].
    pub fn dies_with_process(url: &str) -> bool {
        url.starts_with("memory:") || url.starts_with("embedded:")
    }

    /// Wraps an engine.
    pub fn new(engine: impl tenure_lease::Store) -> Self {
        Self(Arc::new(engine))
    }
}

impl Deref for Store {
    type Target = dyn tenure_lease::Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl From<Store> for Arc<dyn tenure_lease::Store> {
    fn from(store: Store) -> Self {
        store.0
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.0.capabilities().engine)
    }
}
