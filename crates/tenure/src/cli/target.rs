//! The store that a command uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Store};
use tenure_store::BootClock;

use super::{Failure, Result, remote};

/// How long opening a store may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The store that a command uses. By default the running server, from TENURE_URL or the data directory.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// Open this store directly: memory:, embedded:DIR, redis://HOST:PORT/DB or tenure://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) server: Server,
}

/// How to reach the running server.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Server {
    /// URL of the running server, such as http://127.0.0.1:7400
    #[arg(long, value_name = "URL", env = "TENURE_URL")]
    url: Option<String>,
    /// API token for the server
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TENURE_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    api_token: Option<String>,
    /// Data directory of `tenure up`, with the address and token of the server
    #[arg(long, value_name = "DIR", env = "TENURE_DATA_DIR", default_value = "tenure-data")]
    data_dir: PathBuf,
    /// CA certificates (PEM) for TLS, instead of those of the system
    #[arg(long, value_name = "FILE", env = "TENURE_CA")]
    ca: Option<PathBuf>,
}

/// A store that is located but not opened.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreLocation {
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

    /// Locates the store: from the command line, then TENURE_URL, then the address file of `tenure up`.
    pub(crate) fn locate(&self) -> Result<StoreLocation> {
        match &self.store {
            Some(store) if remote::is_server(store) => Ok(self.server.at(store.clone())),
            Some(store) => Ok(StoreLocation::Engine(store.clone())),
            None => self.server.locate(),
        }
    }

    /// The argument that selects the same store in another command.
    pub(crate) fn store_argument(&self) -> String {
        match &self.store {
            Some(store) => format!(" --store {}", without_password(store)),
            None => String::new(),
        }
    }
}

impl Server {
    /// Locates the running server.
    pub(crate) fn locate(&self) -> Result<StoreLocation> {
        if let Some(url) = self.url.as_ref().filter(|url| !url.is_empty()) {
            return Ok(self.at(url.clone()));
        }
        match read_line(&self.data_dir.join("address"))? {
            Some(url) => Ok(self.at(url)),
            None => Err(Failure::unavailable(format!(
                "no server found: TENURE_URL is not set and {} has no address file",
                self.data_dir.display()
            ))
            .hint(
                "start one with `tenure up`, or run this command in the directory where it was started;\n\
                 or name a store: --store redis://127.0.0.1:6379, --store embedded:DIR",
            )),
        }
    }

    /// The server at `url`, with the given token, or with the one in the data directory if it belongs to this server: a
    /// token is not sent to other servers.
    fn at(&self, url: String) -> StoreLocation {
        let given = self.api_token.clone().filter(|token| !token.is_empty());
        let own = || {
            let address = read_line(&self.data_dir.join("address")).ok().flatten()?;
            if remote::host(&address) != remote::host(&url) {
                return None;
            }
            read_line(&self.data_dir.join("token")).ok().flatten()
        };
        StoreLocation::Server { token: given.or_else(own), url, ca: self.ca.clone() }
    }
}

/// The content of a file of one line, if it exists.
fn read_line(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::unavailable(format!("cannot read {}: {error}", path.display()))
            .hint("if another user started the server, set TENURE_URL and TENURE_TOKEN")),
    }
}

impl StoreLocation {
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

    /// Its URL without the password.
    pub(crate) fn display_url(&self) -> String {
        match self {
            Self::Engine(url) | Self::Server { url, .. } => without_password(url),
        }
    }

    /// The directory of a store that lives in the process that opens it, if it is on disk.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Engine(url) if tenure_store::Store::dies_with_process(url) => {
                let (_, path) = url.split_once(':')?;
                (!path.is_empty()).then(|| Path::new(path))
            }
            Self::Engine(_) | Self::Server { .. } => None,
        }
    }

    /// Opens it.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>> {
        let opening = async {
            match self {
                Self::Engine(url) => Ok(tenure_store::Store::open(url).await?.into()),
                Self::Server { url, token, .. } => {
                    remote::connect(url, token.as_deref(), self.read_ca()?).await
                }
            }
        };
        let opened = tokio::select! {
            opened = opening => opened.map_err(|failure| self.add_hint(failure)),
            () = BootClock.sleep_until(BootClock.now() + CONNECT_TIMEOUT) => {
                Err(self.add_hint(Failure::unavailable("timed out")))
            }
        };
        opened.map_err(|failure| failure.during(&format!("cannot open {}", self.display_url())))
    }

    /// The CA certificates to trust, if any were named.
    pub(crate) fn read_ca(&self) -> Result<Option<Vec<u8>>> {
        let Self::Server { ca: Some(path), .. } = self else { return Ok(None) };
        let pem = fs::read(path)
            .map_err(|error| Failure::usage(format!("--ca: cannot read {}: {error}", path.display())))?;
        Ok(Some(pem))
    }

    fn add_hint(&self, failure: Failure) -> Failure {
        if !failure.is_unavailable() {
            return failure;
        }
        match self {
            Self::Engine(_) if self.directory().is_some() => failure.hint(
                "only one process can open an embedded store: while `tenure up` has it open, use that\n\
                 server by omitting --store",
            ),
            Self::Engine(url) if tenure_store::Store::dies_with_process(url) => failure,
            Self::Engine(_) => failure.hint(
                "check that the store's server is running; for Redis, `redis-cli -u URL ping` must print PONG",
            ),
            Self::Server { .. } => failure.hint("start a server on this machine with `tenure up`"),
        }
    }
}

/// Opens the store that a command uses.
pub(crate) async fn connect(target: &Target) -> Result<Arc<dyn Store>> {
    target.locate()?.open().await
}

/// A URL without its password.
fn without_password(url: &str) -> String {
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

    fn at(url: &str, token: Option<&str>) -> StoreLocation {
        StoreLocation::Server { url: url.into(), token: token.map(Into::into), ca: None }
    }

    #[test]
    fn a_named_store_comes_before_a_named_server_before_the_one_on_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("address"), "http://127.0.0.1:7400\n").unwrap();
        fs::write(dir.path().join("token"), "local\n").unwrap();
        let locate = |store: Option<&str>, url, token| {
            Target { store: store.map(Into::into), server: server(dir.path(), url, token) }.locate().unwrap()
        };
        let table = [
            (locate(None, None, None), at("http://127.0.0.1:7400", Some("local"))),
            (locate(None, None, Some("mine")), at("http://127.0.0.1:7400", Some("mine"))),
            (locate(None, Some("http://far:1"), None), at("http://far:1", None)),
            (locate(Some("memory:"), Some("http://far:1"), None), StoreLocation::Engine("memory:".into())),
            (
                locate(Some("tenure://127.0.0.1:7400"), None, None),
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
        let failure = server(dir.path(), None, None).locate().err().unwrap();
        assert!(failure.remedy().unwrap().contains("tenure up"));
    }

    #[test]
    fn only_a_store_on_a_local_disk_has_a_directory() {
        for (url, directory) in [
            ("embedded:data/store", Some("data/store")),
            ("embedded:/a:b", Some("/a:b")),
            ("memory:", None),
            ("redis://h:1/0", None),
            ("tenure://h:1", None),
        ] {
            assert_eq!(StoreLocation::new(url).directory(), directory.map(Path::new), "{url}");
        }
    }

    #[test]
    fn an_unavailable_store_gets_the_hint_for_where_it_runs() {
        for (url, hint) in [
            ("embedded:data", Some("only one process")),
            ("redis://h:1", Some("redis-cli")),
            ("memory:", None),
            ("tenure://h:1", Some("tenure up")),
        ] {
            let failure = StoreLocation::new(url).add_hint(Failure::unavailable("x"));
            assert_eq!(failure.remedy().is_some(), hint.is_some(), "{url}");
            assert!(hint.is_none_or(|hint| failure.remedy().unwrap().contains(hint)), "{url}");
        }
    }

    #[test]
    fn passwords_are_hidden() {
        assert_eq!(without_password("redis://me:secret@h:1/2?x=1"), "redis://***@h:1/2?x=1");
        assert_eq!(without_password("redis://h:1"), "redis://h:1");
        assert_eq!(without_password("embedded:a@b"), "embedded:a@b");
    }
}
