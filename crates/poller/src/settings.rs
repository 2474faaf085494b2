//! The `[poll]` section and the constraints between its settings.

use std::path::PathBuf;
use std::time::Duration;

use tenure_lease::{Placement, Ttl};
use tenure_service::config::{Kind, Spec};
use tenure_service::net::{Cidr, ParseCidrError};

use crate::AddressFilter;

const HOUR_MS: i64 = 3_600_000;

const fn count(name: &'static str, least: i64, most: i64, default: &'static str) -> Spec {
    Spec::new("poll", name, Kind::Integer { least, most }).or(default)
}

/// The settings of `[poll]`.
pub const SPECS: &[Spec] = &[
    count("lease_ttl_ms", 250, 24 * HOUR_MS, "30000"),
    count("renew_interval_ms", 1, 24 * HOUR_MS, "10000"),
    count("heartbeat_ttl_ms", 100, 24 * HOUR_MS, "30000"),
    count("heartbeat_interval_ms", 1, 24 * HOUR_MS, "10000"),
    count("discovery_interval_ms", 10, 24 * HOUR_MS, "10000"),
    count("sync_interval_ms", 10, 24 * HOUR_MS, "5000"),
    Spec::new("poll", "placement", Kind::Word(&["balanced", "seed"])).or("balanced"),
    Spec::new("poll", "node_name", Kind::Text),
    count("timeout_ms", 1, HOUR_MS, "10000"),
    count("max_body_bytes", 1, 1 << 30, "1048576"),
    count("max_redirects", 0, 20, "5"),
    count("max_in_flight", 1, 1_000_000, "1024"),
    count("down_after", 1, 1_000_000, "5"),
    count("backoff_max_ms", 1, 24 * HOUR_MS, "60000"),
    count("history", 1, 1_000, "50"),
    count("keep_results_ms", 1_000, 24 * HOUR_MS, "86400000"),
    Spec::new("poll", "publish", Kind::Word(&["all", "changes"])).or("all"),
    count("refresh_ms", 1, 24 * HOUR_MS, "30000"),
    Spec::new("poll", "webhook", Kind::Text).secret(),
    Spec::new("poll", "ca", Kind::Text),
    Spec::new("poll", "deny_private", Kind::Boolean).or("false"),
    Spec::new("poll", "allow_cidrs", Kind::Words(&[])),
    Spec::new("poll", "deny_cidrs", Kind::Words(&[])),
];

/// Settings of a polling node.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How long a target stays owned without renewal.
    pub lease_ttl: Ttl,
    /// How often leases are renewed.
    pub renew_interval: Duration,
    /// How long a node counts as alive without a heartbeat.
    pub heartbeat_ttl: Ttl,
    /// How often a node writes its heartbeat.
    pub heartbeat_interval: Duration,
    /// How often the live nodes are read.
    pub discovery_interval: Duration,
    /// How often the targets are read.
    pub sync_interval: Duration,
    /// How preferred owners are chosen.
    pub placement: Placement,
    /// The node's name for placement; defaults to its instance id.
    pub node_name: Option<String>,
    /// How long one poll may take.
    pub timeout: Duration,
    /// Maximum size of a response body.
    pub max_body: usize,
    /// Maximum number of redirects followed.
    pub max_redirects: usize,
    /// Maximum number of requests in flight.
    pub max_in_flight: usize,
    /// Consecutive failures after which a target is down.
    pub down_after: u32,
    /// Longest delay between polls of a failing target.
    pub backoff_max: Duration,
    /// Results kept per target.
    pub history: usize,
    /// How long results are kept.
    pub keep_results: Ttl,
    /// Whether unchanged results are omitted from the store.
    pub only_changes: bool,
    /// How often an unchanged result is published nevertheless.
    pub refresh: Duration,
    /// URL to which results are posted.
    pub webhook: Option<String>,
    /// CA certificates (PEM) to trust in addition to the machine's.
    pub ca: Option<PathBuf>,
    /// The addresses to which polls and webhooks may connect.
    pub addresses: AddressFilter,
}

/// An invalid or inconsistent setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("poll.{name}: {reason}")]
pub struct SettingsError {
    /// The name of the setting.
    pub name: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl Default for Settings {
    fn default() -> Self {
        let (ttl, third) = (ttl(30_000), Duration::from_secs(10));
        Self {
            lease_ttl: ttl,
            renew_interval: third,
            heartbeat_ttl: ttl,
            heartbeat_interval: third,
            discovery_interval: third,
            sync_interval: Duration::from_secs(5),
            placement: Placement::Balanced,
            node_name: None,
            timeout: third,
            max_body: 1 << 20,
            max_redirects: 5,
            max_in_flight: 1_024,
            down_after: 5,
            backoff_max: Duration::from_secs(60),
            history: 50,
            keep_results: Ttl::MAX,
            only_changes: false,
            refresh: Duration::from_secs(30),
            webhook: None,
            ca: None,
            addresses: AddressFilter::default(),
        }
    }
}

fn ttl(ms: u64) -> Ttl {
    Ttl::from_millis(ms).unwrap_or(Ttl::MAX)
}

fn parse_addresses(section: &toml::Table) -> Result<AddressFilter, SettingsError> {
    let ranges = |name: &'static str| -> Result<Vec<Cidr>, SettingsError> {
        let texts = section.get(name).and_then(toml::Value::as_array).into_iter().flatten();
        let parse = |text: &str| {
            text.parse().map_err(|error: ParseCidrError| SettingsError { name, reason: error.to_string() })
        };
        texts.filter_map(toml::Value::as_str).map(parse).collect()
    };
    Ok(AddressFilter {
        allow: ranges("allow_cidrs")?,
        deny: ranges("deny_cidrs")?,
        deny_private: section.get("deny_private").and_then(toml::Value::as_bool).unwrap_or(false),
    })
}

impl Settings {
    /// Reads the section. Absent settings have their defaults.
    pub fn parse(section: Option<&toml::Table>) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        let Some(section) = section else { return Ok(settings) };
        let number =
            |name| section.get(name).and_then(toml::Value::as_integer).and_then(|n| u64::try_from(n).ok());
        let time = |name, or: Duration| number(name).map_or(or, Duration::from_millis);
        let life = |name, or: Ttl| number(name).map_or(or, ttl);
        let size = |name, or: usize| number(name).map_or(or, |n| n as usize);
        let word = |name| section.get(name).and_then(toml::Value::as_str).filter(|text| !text.is_empty());
        settings = Self {
            lease_ttl: life("lease_ttl_ms", settings.lease_ttl),
            renew_interval: time("renew_interval_ms", settings.renew_interval),
            heartbeat_ttl: life("heartbeat_ttl_ms", settings.heartbeat_ttl),
            heartbeat_interval: time("heartbeat_interval_ms", settings.heartbeat_interval),
            discovery_interval: time("discovery_interval_ms", settings.discovery_interval),
            sync_interval: time("sync_interval_ms", settings.sync_interval),
            placement: if word("placement") == Some("seed") { Placement::Seed } else { Placement::Balanced },
            node_name: word("node_name").map(str::to_owned),
            timeout: time("timeout_ms", settings.timeout),
            max_body: size("max_body_bytes", settings.max_body),
            max_redirects: size("max_redirects", settings.max_redirects),
            max_in_flight: size("max_in_flight", settings.max_in_flight),
            down_after: number("down_after").map_or(settings.down_after, |n| n as u32),
            backoff_max: time("backoff_max_ms", settings.backoff_max),
            history: size("history", settings.history),
            keep_results: life("keep_results_ms", settings.keep_results),
            only_changes: word("publish") == Some("changes"),
            refresh: time("refresh_ms", settings.refresh),
            webhook: word("webhook").map(str::to_owned),
            ca: word("ca").map(PathBuf::from),
            addresses: parse_addresses(section)?,
        };
        settings.check()?;
        Ok(settings)
    }

    /// Checks the constraints between the settings.
    pub fn check(&self) -> Result<(), SettingsError> {
        let ms = |time: Duration| time.as_millis();
        let ttl = self.lease_ttl.as_duration();
        let bounds = [
            ("renew_interval_ms", self.renew_interval, ttl / 3, "a third of lease_ttl_ms"),
            (
                "heartbeat_interval_ms",
                self.heartbeat_interval,
                self.heartbeat_ttl.as_duration() / 2,
                "half of heartbeat_ttl_ms",
            ),
            ("discovery_interval_ms", self.discovery_interval, ttl, "lease_ttl_ms"),
            ("sync_interval_ms", self.sync_interval, ttl, "lease_ttl_ms"),
        ];
        for (name, time, most, bound) in bounds {
            if time.is_zero() || time > most {
                let reason = format!("{} ms exceeds {bound} ({} ms)", ms(time), ms(most));
                return Err(SettingsError { name, reason });
            }
        }
        if let Some(url) = &self.webhook
            && !reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        {
            return Err(SettingsError { name: "webhook", reason: "must be an http or https URL".into() });
        }
        Ok(())
    }

    /// How long other nodes leave a free target to its preferred owner. Keeps the worst-case failover within FR-017.
    pub(crate) fn fallback(&self) -> Duration {
        self.discovery_interval.min(self.lease_ttl.as_duration() / 3)
    }

    /// How long a new node waits before it acquires targets, and before other nodes hand targets to it.
    pub(crate) fn settle_time(&self) -> Duration {
        self.discovery_interval / 4
    }

    /// How often the number of allowed moves is refilled.
    pub(crate) fn refill_interval(&self) -> Duration {
        (self.discovery_interval / 8).max(Duration::from_millis(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(Some(&text.parse::<toml::Table>().unwrap()))
    }

    #[test]
    fn defaults_match_the_seed_and_the_settings_table() {
        let defaults: String = SPECS
            .iter()
            .filter_map(|spec| Some((spec, spec.default?)))
            .map(|(spec, value)| match spec.kind {
                Kind::Integer { .. } | Kind::Boolean => format!("{} = {value}\n", spec.name),
                _ => format!("{} = {value:?}\n", spec.name),
            })
            .collect();
        assert_eq!(parse(&defaults).unwrap(), Settings::default());
        let settings = Settings::parse(None).unwrap();
        assert_eq!(settings.lease_ttl.as_millis(), 30_000);
        assert_eq!(settings.renew_interval.as_secs(), 10);
        assert_eq!(settings.discovery_interval.as_secs(), 10);
    }

    #[test]
    fn constraints_between_settings_are_checked() {
        for good in [
            "lease_ttl_ms = 600\nrenew_interval_ms = 200\ndiscovery_interval_ms = 100\nsync_interval_ms = 50\n\
             heartbeat_ttl_ms = 400\nheartbeat_interval_ms = 100",
            "lease_ttl_ms = 3600000",
            "placement = \"seed\"",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good));
        }
        for (bad, name) in [
            ("renew_interval_ms = 10001", "renew_interval_ms"),
            ("lease_ttl_ms = 29999", "renew_interval_ms"),
            ("heartbeat_interval_ms = 15001", "heartbeat_interval_ms"),
            ("discovery_interval_ms = 30001", "discovery_interval_ms"),
            ("sync_interval_ms = 30001", "sync_interval_ms"),
            ("webhook = \"ftp://x\"", "webhook"),
            ("allow_cidrs = [\"10.0.0.0/33\"]", "allow_cidrs"),
            ("deny_cidrs = [\"lan\"]", "deny_cidrs"),
        ] {
            assert_eq!(parse(bad).unwrap_err().name, name, "{bad}");
        }
    }
}
