//! The settings of a process, and checks across settings.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::error::Fault;
use super::spec::{OWN, address};
use super::table::Table;
use super::{Source, effective, tokens};
use crate::auth::ApiToken;
use crate::net::{Cidr, TrustedProxies};

/// The settings of a process.
#[derive(Clone, PartialEq)]
pub struct Settings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The URL of the store; the embedded one by default.
    pub store: Option<String>,
    /// The services to run; all if empty.
    pub only: Vec<String>,
    /// Whether to serve plain HTTP to other machines.
    pub insecure_http: bool,
    /// The certificate.
    pub tls: Option<Tls>,
    /// Allowed origins of pages that use a session, besides the origins of the listener.
    pub allowed_origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: TrustedProxies,
    /// Bounds on what clients may use.
    pub limits: Limits,
    /// Logs and traces.
    pub log: Log,
    /// Tokens that replace the generated one.
    pub api_tokens: Vec<ApiToken>,
    /// The secret that encrypts signing keys in a shared store.
    pub seal_key: Option<String>,
    /// The sections of the services, which they read themselves.
    pub sections: BTreeMap<String, toml::Table>,
}

/// The files of the certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// The certificate chain, leaf first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Bounds on what clients may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Connections at once.
    pub max_connections: usize,
    /// Bytes of a request's body.
    pub max_body_bytes: u64,
    /// Bytes of a request's headers.
    pub max_header_bytes: usize,
    /// How long a request's headers may take.
    pub header_timeout_ms: u64,
    /// How long a request's body may take.
    pub body_timeout_ms: u64,
    /// How long a connection may be idle, or not read its responses.
    pub idle_timeout_ms: u64,
    /// How long requests may take to finish after the shutdown started.
    pub drain_timeout_ms: u64,
    /// Requests per second and token; 0 for no limit.
    pub rate_per_second: u32,
    /// Requests a token may make at once.
    pub rate_burst: u32,
    /// Watches at once.
    pub max_watchers: usize,
}

/// How to log.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// The format of log lines.
    pub format: LogFormat,
    /// What to log, such as `info,tenure::access=warn`.
    pub filter: String,
    /// The gRPC address of the OTLP collector for traces.
    pub otlp_endpoint: Option<String>,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Human-readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Limits {
    /// [`Limits::header_timeout_ms`] as a duration.
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    /// [`Limits::body_timeout_ms`] as a duration.
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// [`Limits::idle_timeout_ms`] as a duration.
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }

    /// [`Limits::drain_timeout_ms`] as a duration.
    pub fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }
}

/// Hides secrets: keys, passwords in URLs, and the values of sections.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("listen", &self.listen)
            .field("data_dir", &self.data_dir)
            .field("store", &self.store.as_deref().map(effective::without_password))
            .field("only", &self.only)
            .field("insecure_http", &self.insecure_http)
            .field("tls", &self.tls)
            .field("allowed_origins", &self.allowed_origins)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("limits", &self.limits)
            .field("log", &self.log)
            .field("api_tokens", &self.api_tokens)
            .field("seal_key", &self.seal_key.as_ref().map(|_| "(hidden)"))
            .field("sections", &self.sections.keys())
            .finish()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::from_table(&mut Table::new(&[]))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Settings::default().limits
    }
}

impl Default for Log {
    fn default() -> Self {
        Settings::default().log
    }
}

impl Settings {
    /// Reads the table; conflicts between settings are added to its faults.
    pub(super) fn from_table(table: &mut Table) -> Self {
        let read = Reader(table);
        let settings = Self {
            listen: read
                .text("", "listen")
                .as_deref()
                .and_then(address)
                .unwrap_or(([127, 0, 0, 1], 7400).into()),
            data_dir: read.text("", "data_dir").unwrap_or_default().into(),
            store: read.text("", "store"),
            only: read.list("", "only"),
            insecure_http: read.boolean("", "insecure_http"),
            tls: read
                .text("tls", "cert")
                .zip(read.text("tls", "key"))
                .map(|(cert, key)| Tls { cert: cert.into(), key: key.into() }),
            allowed_origins: read.list("", "allowed_origins"),
            trusted_proxies: read.ranges("", "trusted_proxies").into(),
            limits: read.limits(),
            log: Log {
                format: match read.text("log", "format").as_deref() {
                    Some("json") => LogFormat::Json,
                    _ => LogFormat::Text,
                },
                filter: read.text("log", "filter").unwrap_or_default(),
                otlp_endpoint: read.text("log", "otlp_endpoint"),
            },
            api_tokens: Vec::new(),
            seal_key: read.text("", "seal_key"),
            sections: read.sections(),
        };
        let tokens = read_tokens(table);
        settings.check_relations(table);
        Self { api_tokens: tokens, ..settings }
    }

    fn check_relations(&self, table: &mut Table) {
        let source =
            |section, name| table.get(section, name).map_or(Source::Default, |entry| entry.source.clone());
        let mut faults = Vec::new();
        for (given, missing) in [("cert", "key"), ("key", "cert")] {
            if table.get("tls", given).is_some() && table.get("tls", missing).is_none() {
                let message = format!("[tls] also needs `{missing}`: cert and key go together");
                faults.push(Fault::new(format!("tls.{given}"), &source("tls", given), message));
            }
        }
        let tls = self.tls.is_some() || !faults.is_empty();
        if !self.listen.ip().is_loopback() && !tls && !self.insecure_http {
            let message = format!(
                "{} is reachable from other machines, and without TLS their tokens would be sent in plain text; \
                 set [tls] cert and key (TENURE_TLS__CERT, TENURE_TLS__KEY), or set insecure_http = true \
                 (TENURE_INSECURE_HTTP=true) if the network is trusted, or listen on 127.0.0.1",
                self.listen
            );
            faults.push(Fault::new("listen", &source("", "listen"), message));
        }
        table.faults.extend(faults);
    }
}

fn read_tokens(table: &mut Table) -> Vec<ApiToken> {
    let Some(entry) = table.get("", "api_tokens").cloned() else { return Vec::new() };
    tokens::parse(&entry.value).unwrap_or_else(|message| {
        table.faults.push(Fault::new("api_tokens", &entry.source, message));
        Vec::new()
    })
}

/// Typed access to a valid table.
struct Reader<'a>(&'a Table);

impl Reader<'_> {
    fn value(&self, section: &str, name: &str) -> Option<&Value> {
        self.0.get(section, name).map(|entry| &entry.value)
    }

    fn text(&self, section: &str, name: &str) -> Option<String> {
        self.value(section, name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn boolean(&self, section: &str, name: &str) -> bool {
        self.value(section, name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, section: &str, name: &str) -> Vec<String> {
        let list = self.value(section, name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn ranges(&self, section: &str, name: &str) -> Vec<Cidr> {
        self.list(section, name).iter().filter_map(|range| range.parse().ok()).collect()
    }

    fn number<T: TryFrom<i64> + Default>(&self, section: &str, name: &str) -> T {
        let number = self.value(section, name).and_then(Value::as_integer);
        number.and_then(|number| T::try_from(number).ok()).unwrap_or_default()
    }

    fn limits(&self) -> Limits {
        Limits {
            max_connections: self.number("limits", "max_connections"),
            max_body_bytes: self.number("limits", "max_body_bytes"),
            max_header_bytes: self.number("limits", "max_header_bytes"),
            header_timeout_ms: self.number("limits", "header_timeout_ms"),
            body_timeout_ms: self.number("limits", "body_timeout_ms"),
            idle_timeout_ms: self.number("limits", "idle_timeout_ms"),
            drain_timeout_ms: self.number("limits", "drain_timeout_ms"),
            rate_per_second: self.number("limits", "rate_per_second"),
            rate_burst: self.number("limits", "rate_burst"),
            max_watchers: self.number("limits", "max_watchers"),
        }
    }

    /// The values of sections that are not this crate's.
    fn sections(&self) -> BTreeMap<String, toml::Table> {
        let mut sections: BTreeMap<String, toml::Table> = BTreeMap::new();
        for (section, name, entry) in self.0.iter() {
            if !OWN.iter().any(|spec| spec.section == section) {
                sections.entry(section.to_owned()).or_default().insert(name.to_owned(), entry.value.clone());
            }
        }
        sections
    }
}
