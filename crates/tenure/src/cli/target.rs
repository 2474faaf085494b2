//! Which store a command works on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Store};
use lease_store::{BootClock, Options};

use super::{Failure, Result, remote};

/// How long a store may take to answer for the first time.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Where the leases are. By default the running server: its address is in TENURE_URL, or in the data directory.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// Open a store directly: memory:, embedded:FOLDER, redis://HOST:PORT/DB or tenure://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) server: Server,
}

/// How the running server is found.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Server {
    /// The running server, such as http://127.0.0.1:7400
    #[arg(long, value_name = "URL", env = "TENURE_URL")]
    url: Option<String>,
    /// The token that the server knows you by
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TENURE_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    api_token: Option<String>,
    /// Where `tenure up` keeps its data, its address and its token
    #[arg(long, value_name = "FOLDER", env = "TENURE_DATA_DIR", default_value = "tenure-data")]
    data_dir: PathBuf,
    /// Certificates (PEM) to trust instead of the machine's, for a server with TLS
    #[arg(long, value_name = "FILE", env = "TENURE_CA")]
    ca: Option<PathBuf>,
}

/// A store, found but not opened.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// An engine opened in this process.
    Engine(String),
    /// A running server.
    Server { url: String, token: Option<String>, ca: Option<PathBuf> },
}

impl Target {
    /// A target that names a store and nothing else.
    pub(crate) fn of(store: &str, server: &Server) -> Self {
        Self { store: Some(store.to_owned()), server: server.clone() }
    }

    /// Where the store is: what was said on the command line, then TENURE_URL, then what `tenure up` wrote.
    pub(crate) fn place(&self) -> Result<Place> {
        match &self.store {
            Some(store) if remote::is_server(store) => Ok(self.server.at(store.clone())),
            Some(store) => Ok(Place::Engine(store.clone())),
            None => self.server.place(),
        }
    }

    /// The arguments that lead another command to the same store.
    pub(crate) fn again(&self) -> String {
        match &self.store {
            Some(store) => format!(" --store {}", shown(store)),
            None => String::new(),
        }
    }
}

impl Server {
    /// The running server.
    pub(crate) fn place(&self) -> Result<Place> {
        if let Some(url) = self.url.as_ref().filter(|url| !url.is_empty()) {
            return Ok(self.at(url.clone()));
        }
        match read(&self.data_dir.join("address"))? {
            Some(url) => Ok(self.at(url)),
            None => Err(Failure::unavailable(format!(
                "no server is known: TENURE_URL is not set and {} has no address",
                self.data_dir.display()
            ))
            .hint(
                "start one with `tenure up`, or run this in the folder where it was started;\n\
                 or name a store: --store redis://127.0.0.1:6379, --store embedded:FOLDER",
            )),
        }
    }

    /// The server at `url` with the token that was given, or with the one in the data directory if that is the
    /// data directory of this very server: a token is shown to nobody else.
    fn at(&self, url: String) -> Place {
        let given = self.api_token.clone().filter(|token| !token.is_empty());
        let own = || {
            let address = read(&self.data_dir.join("address")).ok().flatten()?;
            if remote::host(&address) != remote::host(&url) {
                return None;
            }
            read(&self.data_dir.join("token")).ok().flatten()
        };
        Place::Server { token: given.or_else(own), url, ca: self.ca.clone() }
    }
}

/// A file of one line, if it is there.
fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::unavailable(format!("cannot read {}: {error}", path.display()))
            .hint("the server was started by another user: set TENURE_URL and TENURE_TOKEN")),
    }
}

impl Place {
    /// The store at `url`, without a token.
    pub(crate) fn new(url: &str) -> Self {
        match remote::is_server(url) {
            true => Self::Server { url: url.to_owned(), token: None, ca: None },
            false => Self::Engine(url.to_owned()),
        }
    }

    /// The same with a token, if it is a server.
    pub(crate) fn with_token(self, token: Option<&str>) -> Self {
        match self {
            Self::Server { url, ca, .. } => Self::Server { url, token: token.map(str::to_owned), ca },
            engine => engine,
        }
    }

    /// What to call it in words: passwords hidden.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Engine(url) | Self::Server { url, .. } => shown(url),
        }
    }

    /// The folder of an embedded store.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Engine(url) => url.strip_prefix("embedded:").map(Path::new),
            Self::Server { .. } => None,
        }
    }

    /// Opens it.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>> {
        let opening = async {
            match self {
                Self::Engine(url) => {
                    // This process has nothing to do that a sync could hold up, but what asks for one.
                    let embedded = Options { callers_sync: true, ..Options::default() };
                    Ok(lease_store::Store::open_with(url, embedded).await?.into())
                }
                Self::Server { url, token, .. } => {
                    remote::connect(url, token.as_deref(), self.trust()?).await
                }
            }
        };
        let opened = tokio::select! {
            opened = opening => opened.map_err(|failure| self.explain(failure)),
            () = BootClock.sleep_until(BootClock.now() + CONNECT_LIMIT) => {
                Err(self.explain(Failure::unavailable("no answer")))
            }
        };
        opened.map_err(|failure| failure.during(&format!("cannot open {}", self.shown())))
    }

    /// The certificates to trust, if they were named.
    pub(crate) fn trust(&self) -> Result<Option<Vec<u8>>> {
        let Self::Server { ca: Some(path), .. } = self else { return Ok(None) };
        let pem = fs::read(path)
            .map_err(|error| Failure::usage(format!("--ca: cannot read {}: {error}", path.display())))?;
        Ok(Some(pem))
    }

    fn explain(&self, failure: Failure) -> Failure {
        if !failure.is_unavailable() {
            return failure;
        }
        match self {
            Self::Engine(url) if url.starts_with("redis:") => {
                failure.hint("is Redis running there? `redis-cli -u URL ping` must answer PONG")
            }
            Self::Engine(url) if url.starts_with("embedded:") => failure.hint(
                "one process opens a folder at a time: while `tenure up` runs on it, talk to that\n\
                 server instead, by leaving --store out",
            ),
            Self::Engine(_) => failure,
            Self::Server { .. } => failure.hint("`tenure up` starts one on this machine"),
        }
    }
}

/// Opens the store that a command works on.
pub(crate) async fn connect(target: &Target) -> Result<Arc<dyn Store>> {
    target.place()?.open().await
}

/// An address without its password.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://***@{host}{}", &rest[authority.len()..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(dir: &Path, url: Option<&str>, token: Option<&str>) -> Server {
        Server {
            url: url.map(Into::into),
            api_token: token.map(Into::into),
            data_dir: dir.to_owned(),
            ca: None,
        }
    }

    fn at(url: &str, token: Option<&str>) -> Place {
        Place::Server { url: url.into(), token: token.map(Into::into), ca: None }
    }

    #[test]
    fn a_named_store_comes_before_a_named_server_before_the_one_on_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("address"), "http://127.0.0.1:7400\n").unwrap();
        fs::write(dir.path().join("token"), "local\n").unwrap();
        let place = |store: Option<&str>, url, token| {
            Target { store: store.map(Into::into), server: server(dir.path(), url, token) }.place().unwrap()
        };
        let table = [
            (place(None, None, None), at("http://127.0.0.1:7400", Some("local"))),
            (place(None, None, Some("mine")), at("http://127.0.0.1:7400", Some("mine"))),
            (place(None, Some("http://far:1"), None), at("http://far:1", None)),
            (place(Some("memory:"), Some("http://far:1"), None), Place::Engine("memory:".into())),
            (
                place(Some("tenure://127.0.0.1:7400"), None, None),
                at("tenure://127.0.0.1:7400", Some("local")),
            ),
        ];
        for (i, (found, expected)) in table.into_iter().enumerate() {
            assert!(found == expected, "row {i}");
        }
    }

    #[test]
    fn without_any_server_the_error_says_how_to_start_one() {
        let dir = tempfile::tempdir().unwrap();
        let failure = server(dir.path(), None, None).place().err().unwrap();
        assert!(failure.remedy().unwrap().contains("tenure up"));
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("redis://me:secret@h:1/2?x=1"), "redis://***@h:1/2?x=1");
        assert_eq!(shown("redis://h:1"), "redis://h:1");
        assert_eq!(shown("embedded:a@b"), "embedded:a@b");
    }
}
