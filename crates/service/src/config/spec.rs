//! The table of settings: name, kind and default, for the file, the variables and the flags.

use std::net::SocketAddr;

use toml::Value;

use crate::net::Cidr;

/// The sections of the services. A section without declared settings is kept as it is.
pub const SECTIONS: [&str; 5] = ["lease", "sessions", "control", "poll", "meet"];

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number within these bounds.
    Integer {
        /// The minimum.
        least: i64,
        /// The maximum.
        most: i64,
    },
    /// `address:port`.
    Address,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of these words; of any words if empty.
    Words(&'static [&'static str]),
    /// A list of `scheme://host[:port]`.
    Origins,
    /// A list of address ranges, such as `10.0.0.0/8`.
    Ranges,
    /// API tokens: `token=scope,scope;token=scope`, or in the file a list of tables.
    Tokens,
    /// In the file a table of texts by name.
    Pairs,
    /// In the file a list of tables.
    Tables,
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// The section; empty for the top of the file.
    pub section: &'static str,
    /// The name in its section.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// The default, in the format of a variable.
    pub default: Option<&'static str>,
    /// Whether its value is hidden.
    pub secret: bool,
    /// Variables of older installations that also set it.
    pub also: &'static [&'static str],
}

impl Spec {
    /// A setting without a default.
    pub const fn new(section: &'static str, name: &'static str, kind: Kind) -> Self {
        Self { section, name, kind, default: None, secret: false, also: &[] }
    }

    /// With a default.
    pub const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// Hides its value.
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Also set by these variables of older installations.
    pub const fn also(mut self, variables: &'static [&'static str]) -> Self {
        self.also = variables;
        self
    }

    /// `section.name`, or the name alone at the top.
    pub fn path(&self) -> String {
        path(self.section, self.name)
    }
}

pub(super) fn path(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// The variable of a setting.
pub(super) fn variable(section: &str, name: &str) -> String {
    let text = if section.is_empty() { name.to_owned() } else { format!("{section}__{name}") };
    format!("TENURE_{}", text.to_uppercase())
}

const fn count(
    section: &'static str,
    name: &'static str,
    least: i64,
    most: i64,
    default: &'static str,
) -> Spec {
    Spec::new(section, name, Kind::Integer { least, most }).or(default)
}

const HOUR_MS: i64 = 3_600_000;

/// The settings of this crate.
pub(super) const OWN: &[Spec] = &[
    Spec::new("", "listen", Kind::Address).or("127.0.0.1:7400"),
    Spec::new("", "data_dir", Kind::Text).or("./tenure-data"),
    Spec::new("", "store", Kind::Text),
    Spec::new("", "only", Kind::Words(&SECTIONS)).or(""),
    Spec::new("", "insecure_http", Kind::Boolean).or("false"),
    Spec::new("", "allowed_origins", Kind::Origins).or(""),
    Spec::new("", "trusted_proxies", Kind::Ranges).or(""),
    Spec::new("", "api_tokens", Kind::Tokens).secret(),
    Spec::new("", "seal_key", Kind::Text).secret(),
    Spec::new("tls", "cert", Kind::Text),
    Spec::new("tls", "key", Kind::Text),
    count("limits", "max_connections", 1, 1_000_000, "4096"),
    count("limits", "max_body_bytes", 1_024, 1 << 30, "2097152"),
    count("limits", "max_header_bytes", 8_192, 1 << 20, "16384"),
    count("limits", "header_timeout_ms", 1, HOUR_MS, "10000"),
    count("limits", "body_timeout_ms", 1, HOUR_MS, "30000"),
    count("limits", "idle_timeout_ms", 1, 24 * HOUR_MS, "60000"),
    count("limits", "drain_timeout_ms", 0, HOUR_MS, "10000"),
    count("limits", "rate_per_second", 0, 1_000_000, "0"),
    count("limits", "rate_burst", 1, 1_000_000, "1000"),
    count("limits", "max_watchers", 1, 1_000_000, "1024"),
    Spec::new("log", "format", Kind::Word(&["text", "json"])).or("text"),
    Spec::new("log", "filter", Kind::Text).or("info"),
    Spec::new("log", "otlp_endpoint", Kind::Text),
];

impl Kind {
    /// Describes the allowed values.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Text => "a string".into(),
            Self::Boolean => "true or false".into(),
            Self::Integer { least, most } => format!("a whole number from {least} to {most}"),
            Self::Address => "an address and a port, such as 127.0.0.1:7400 or [::1]:7400".into(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Words([]) => "a list of strings".into(),
            Self::Words(words) => format!("a list of {}", words.join(", ")),
            Self::Origins => "a list of origins, such as https://console.example:8443".into(),
            Self::Ranges => "a list of address ranges, such as 10.0.0.0/8".into(),
            Self::Tokens => {
                "token=scope,scope;token=scope, or in the file a list of tables with name, token or sha256, \
                             and scopes"
                    .into()
            }
            Self::Pairs => "a table of names and strings in the file".into(),
            Self::Tables => "a list of tables in the file".into(),
        }
    }

    /// Parses the value of a variable or a flag.
    pub(super) fn parse(&self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Boolean => Value::Boolean(text.parse().ok()?),
            Self::Integer { .. } => Value::Integer(text.parse().ok()?),
            Self::Words(_) | Self::Origins | Self::Ranges => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                Value::Array(words.map(|word| Value::String(word.to_owned())).collect())
            }
            Self::Text | Self::Address | Self::Word(_) | Self::Tokens | Self::Pairs | Self::Tables => {
                Value::String(text.to_owned())
            }
        };
        self.check(value)
    }

    /// The value in canonical form, if it is valid.
    pub(super) fn check(&self, value: Value) -> Option<Value> {
        let valid = match (self, &value) {
            (Self::Text | Self::Tokens, Value::String(_)) | (Self::Boolean, Value::Boolean(_)) => true,
            (Self::Tokens | Self::Tables, Value::Array(list)) => list.iter().all(Value::is_table),
            (Self::Pairs, Value::Table(pairs)) => pairs.values().all(Value::is_str),
            (Self::Integer { least, most }, Value::Integer(number)) => (*least..=*most).contains(number),
            (Self::Address, Value::String(text)) => address(text).is_some(),
            (Self::Word(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::Words(words), Value::Array(list)) => list
                .iter()
                .all(|word| word.as_str().is_some_and(|word| words.is_empty() || words.contains(&word))),
            (Self::Origins, Value::Array(list)) => {
                list.iter().all(|origin| origin.as_str().is_some_and(is_origin))
            }
            (Self::Ranges, Value::Array(list)) => {
                list.iter().all(|range| range.as_str().is_some_and(|text| text.parse::<Cidr>().is_ok()))
            }
            // A list of one may be written without brackets.
            (Self::Words(_) | Self::Origins | Self::Ranges, Value::String(text)) => return self.parse(text),
            _ => false,
        };
        valid.then_some(value)
    }
}

/// An address, where `localhost` may stand for 127.0.0.1.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().ok()
}

/// As a browser writes it: lower case, no path, no trailing slash.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._:[]".contains(c);
    rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain))
}
