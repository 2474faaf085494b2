//! The settings of `[meet]`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tenure_lease::Ttl;
use tenure_meet_mc::RateLimit;
use tenure_meet_mh::RefuseMeetings;
use tenure_meet_wire::transport::quic::Congestion;
use tenure_service::config::{Kind, Spec};

use super::Role;
use super::requirements::Faults;

const HOUR_MS: i64 = 3_600_000;
const SECTION: &str = "meet";

const fn count(name: &'static str, least: i64, most: i64, default: &'static str) -> Spec {
    Spec::new(SECTION, name, Kind::Integer { least, most }).or(default)
}

const fn seconds(name: &'static str) -> Spec {
    Spec::new(SECTION, name, Kind::Integer { least: 1, most: 86_400 })
}

const fn text(name: &'static str) -> Spec {
    Spec::new(SECTION, name, Kind::Text)
}

/// The settings of `[meet]`. A variable `MC_NAME`, `MH_NAME` or `GC_NAME` sets `name` as well: see
/// [`Role::variable_prefixes`].
pub(crate) const SPECS: &[Spec] = &[
    text("id"),
    text("region").or("us-east-1"),
    text("zone").or("a"),
    count("max_meetings", 1, 1_000_000, "1000"),
    count("max_participants", 1, 10_000_000, "10000"),
    count("max_connections", 1, 1_000_000, "10000"),
    count("max_streams", 1, 1_000_000, "10000"),
    count("mh_bandwidth_mbit", 1, 1_000_000, "1000"),
    Spec::new(SECTION, "congestion", Kind::Word(&["cubic", "bbr"])).or("cubic"),
    count("max_waiting", 1, 1_000_000, "1024"),
    count("max_waiting_per_address", 1, 1_000_000, "256"),
    count("lease_ttl_ms", 250, HOUR_MS, "9000"),
    count("lease_renew_ms", 50, HOUR_MS, "3000"),
    count("binding_token_ttl_ms", 100, HOUR_MS, "30000"),
    count("disconnect_grace_ms", 100, HOUR_MS, "30000"),
    count("drain_deadline_ms", 0, HOUR_MS, "60000"),
    count("idle_timeout_ms", 1_000, HOUR_MS, "5000"),
    seconds("binding_token_ttl_seconds"),
    seconds("disconnect_grace_period_seconds"),
    count("join_rate_per_second", 1, 100_000, "5"),
    count("join_burst", 1, 100_000, "30"),
    count("request_rate_per_second", 1, 100_000, "20"),
    count("request_burst", 1, 100_000, "60"),
    text("binding_token_secret").secret(),
    text("binding_token_secret_previous").secret(),
    text("client_id"),
    text("client_secret").secret(),
    text("mc_client_secret").secret(),
    text("mh_client_secret").secret(),
    text("ac_endpoint").also(&["AC_ENDPOINT"]),
    text("ac_jwks_url").also(&["AC_JWKS_URL"]),
    text("gc_grpc_url").or("http://127.0.0.1:50051").also(&["GC_GRPC_URL"]),
    text("redis_url").also(&["REDIS_URL"]).secret(),
    Spec::new(SECTION, "webtransport_bind_address", Kind::Address),
    Spec::new(SECTION, "grpc_bind_address", Kind::Address),
    Spec::new(SECTION, "health_bind_address", Kind::Address),
    text("webtransport_advertise_address"),
    text("grpc_advertise_address"),
    text("tls_cert_path"),
    text("tls_key_path"),
    Spec::new(SECTION, "refuse", Kind::Word(&["nothing", "at_capacity", "draining"])).or("nothing"),
];

/// Parsed settings.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) id: Option<String>,
    pub(super) region: String,
    pub(super) zone: String,
    pub(super) max_meetings: usize,
    pub(super) max_participants: usize,
    pub(super) max_connections: usize,
    pub(super) max_streams: u32,
    /// In bits per second.
    pub(super) mh_bandwidth: u64,
    pub(super) congestion: Congestion,
    pub(super) max_waiting: usize,
    pub(super) max_waiting_per_address: usize,
    pub(super) lease_ttl: Ttl,
    pub(super) lease_renew: Duration,
    pub(super) binding_ttl: Duration,
    pub(super) grace: Duration,
    pub(super) drain: Duration,
    pub(super) idle: Duration,
    pub(super) join_rate: RateLimit,
    pub(super) request_rate: RateLimit,
    pub(super) secrets: Secrets,
    pub(super) client_id: Option<String>,
    pub(super) ac_endpoint: Option<String>,
    pub(super) ac_jwks_url: Option<String>,
    pub(super) gc_grpc_url: String,
    pub(super) webtransport_bind: Option<SocketAddr>,
    pub(super) grpc_bind: Option<SocketAddr>,
    pub(super) webtransport_advertise: Option<String>,
    pub(super) grpc_advertise: Option<String>,
    pub(super) tls: Option<(PathBuf, PathBuf)>,
    pub(super) refuse: RefuseMeetings,
}

/// Secrets, hidden in debug output.
#[derive(Clone)]
pub(super) struct Secrets {
    pub(super) binding: Option<String>,
    pub(super) binding_previous: Option<String>,
    pub(super) client: Option<String>,
    pub(super) mc_client: Option<String>,
    pub(super) mh_client: Option<String>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(hidden)")
    }
}

/// Typed access to the section, which was checked against [`SPECS`].
struct Reader<'a>(&'a toml::Table);

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).and_then(toml::Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn given(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(toml::Value::as_integer).and_then(|number| u64::try_from(number).ok())
    }

    fn number(&self, name: &str) -> u64 {
        let default = || SPECS.iter().find(|spec| spec.name == name)?.default?.parse().ok();
        self.given(name).or_else(default).unwrap_or_default()
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// Milliseconds, or the older setting in seconds.
    fn time(&self, name: &str, older: Option<&str>) -> Duration {
        let older = older.and_then(|older| self.given(older)).map(Duration::from_secs);
        older.unwrap_or_else(|| Duration::from_millis(self.number(name)))
    }

    fn rate(&self, burst: &str, per_second: &str) -> RateLimit {
        let number = |name| u32::try_from(self.number(name)).unwrap_or(u32::MAX);
        RateLimit { burst: number(burst), per_second: number(per_second) }
    }

    fn address(&self, name: &str) -> Option<SocketAddr> {
        let text = self.text(name)?;
        let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        numeric.unwrap_or(text).parse().ok()
    }
}

fn invalid(name: &str, why: impl std::fmt::Display) -> String {
    format!("meet.{name}: {why}")
}

impl Settings {
    /// Reads the section. Where a value is wrong, the result has a default, and the faults say what is wrong.
    pub(super) fn parse(section: Option<&toml::Table>, faults: &mut Faults) -> Self {
        let empty = toml::Table::new();
        let read = Reader(section.unwrap_or(&empty));
        let lease_ttl = Ttl::from_millis(read.number("lease_ttl_ms")).unwrap_or_else(|error| {
            faults.add(invalid("lease_ttl_ms", error));
            Ttl::MAX
        });
        let lease_renew = read.time("lease_renew_ms", None);
        if lease_renew * 3 > lease_ttl.as_duration() {
            faults.add(invalid("lease_renew_ms", "must be at most a third of lease_ttl_ms"));
        }
        let grace = read.time("disconnect_grace_ms", Some("disconnect_grace_period_seconds"));
        let binding_ttl = read.time("binding_token_ttl_ms", Some("binding_token_ttl_seconds"));
        if binding_ttl > grace {
            let why = "must be at most disconnect_grace_ms: after that there is no seat to resume";
            faults.add(invalid("binding_token_ttl_ms", why));
        }
        let tls = certificate(&read, faults);
        let mut checked = |text: Option<String>, check: fn(String) -> Result<String, String>| {
            text.and_then(|text| check(text).map_err(|fault| faults.add(fault)).ok())
        };
        let advertise = checked(read.text("webtransport_advertise_address"), authority);
        Self {
            id: checked(read.text("id"), checked_id),
            region: read.text("region").unwrap_or_default(),
            zone: read.text("zone").unwrap_or_default(),
            max_meetings: read.size("max_meetings"),
            max_participants: read.size("max_participants"),
            max_connections: read.size("max_connections"),
            max_streams: u32::try_from(read.number("max_streams")).unwrap_or(u32::MAX),
            mh_bandwidth: read.number("mh_bandwidth_mbit").saturating_mul(1_000_000),
            congestion: match read.text("congestion").as_deref() {
                Some("bbr") => Congestion::Bbr,
                _ => Congestion::Cubic,
            },
            max_waiting: read.size("max_waiting"),
            max_waiting_per_address: read.size("max_waiting_per_address"),
            lease_ttl,
            lease_renew,
            binding_ttl,
            grace,
            drain: read.time("drain_deadline_ms", None),
            idle: read.time("idle_timeout_ms", None),
            join_rate: read.rate("join_burst", "join_rate_per_second"),
            request_rate: read.rate("request_burst", "request_rate_per_second"),
            secrets: Secrets {
                binding: read.text("binding_token_secret"),
                binding_previous: read.text("binding_token_secret_previous"),
                client: read.text("client_secret"),
                mc_client: read.text("mc_client_secret"),
                mh_client: read.text("mh_client_secret"),
            },
            client_id: read.text("client_id"),
            ac_endpoint: read.text("ac_endpoint"),
            ac_jwks_url: read.text("ac_jwks_url"),
            gc_grpc_url: read.text("gc_grpc_url").unwrap_or_default(),
            webtransport_bind: read.address("webtransport_bind_address"),
            grpc_bind: read.address("grpc_bind_address"),
            webtransport_advertise: advertise,
            grpc_advertise: read.text("grpc_advertise_address"),
            tls,
            refuse: match read.text("refuse").as_deref() {
                Some("at_capacity") => RefuseMeetings::AtCapacity,
                Some("draining") => RefuseMeetings::Draining,
                _ => RefuseMeetings::Nothing,
            },
        }
    }
}

/// The files of the certificate for clients, if they are set.
fn certificate(read: &Reader<'_>, faults: &mut Faults) -> Option<(PathBuf, PathBuf)> {
    let files = (read.text("tls_cert_path"), read.text("tls_key_path"));
    if files.0.is_some() != files.1.is_some() {
        faults.add(invalid("tls_cert_path", "must be set together with tls_key_path"));
    }
    Some((files.0?.into(), files.1?.into()))
}

/// Node ids are part of keys and endpoints.
fn checked_id(id: String) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if id.len() <= 64 && id.bytes().all(plain) {
        return Ok(id);
    }
    Err(invalid("id", "must have at most 64 letters, digits, `-`, `_` and `.`"))
}

/// `HOST:PORT` of an address or of a whole URL. Never `localhost`: browsers try only one of its addresses.
fn authority(text: String) -> Result<String, String> {
    let name = "webtransport_advertise_address";
    let rest = text.strip_prefix("https://").unwrap_or(&text);
    let authority = rest.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() || authority.contains(['@', '?', '#']) {
        return Err(invalid(name, "must be HOST:PORT or https://HOST:PORT"));
    }
    Ok(authority.replace("localhost:", "127.0.0.1:"))
}

/// Default ports of a part that runs alone: health and REST, gRPC, WebTransport.
pub(super) fn ports(role: Role) -> (Option<u16>, u16, u16) {
    match role {
        Role::All | Role::Gc => (None, 50_051, 0),
        Role::Mc => (Some(8_081), 50_052, 4_433),
        Role::Mh => (Some(8_082), 50_053, 4_434),
    }
}

/// The health address and the store by their older names.
pub(super) fn legacy_settings(section: Option<&toml::Table>) -> (Option<SocketAddr>, Option<String>) {
    let empty = toml::Table::new();
    let read = Reader(section.unwrap_or(&empty));
    (read.address("health_bind_address"), read.text("redis_url"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(toml: &str) -> Result<Settings, String> {
        let mut faults = Faults::default();
        let settings = Settings::parse(Some(&toml::from_str(toml).unwrap()), &mut faults);
        faults.finish().map(|()| settings).map_err(|failure| failure.detail().to_owned())
    }

    #[test]
    fn defaults_match_the_protocol() {
        let settings = Settings::parse(None, &mut Faults::default());
        assert_eq!(settings.lease_ttl.as_duration(), Duration::from_secs(9));
        assert_eq!(
            (settings.grace, settings.binding_ttl),
            (Duration::from_secs(30), Duration::from_secs(30))
        );
        assert_eq!((settings.max_meetings, settings.max_participants), (1_000, 10_000));
    }

    #[test]
    fn settings_in_seconds_are_accepted() {
        let settings = parse("binding_token_ttl_seconds = 10\ndisconnect_grace_period_seconds = 20").unwrap();
        assert_eq!((settings.binding_ttl.as_secs(), settings.grace.as_secs()), (10, 20));
    }

    #[test]
    fn an_advertised_address_is_a_host_and_a_port_and_never_localhost() {
        for (given, taken) in [
            ("https://meet.example:4433/wt/mc", "meet.example:4433"),
            ("localhost:7400", "127.0.0.1:7400"),
            ("[::1]:7400", "[::1]:7400"),
        ] {
            assert_eq!(authority(given.to_owned()).as_deref(), Ok(taken));
        }
        for bad in ["", "meet.example", "https://meet.example", "a@b:1", "host:port"] {
            assert!(authority(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_the_setting_and_no_secret() {
        for (toml, message) in [
            ("lease_renew_ms = 4000", "meet.lease_renew_ms: must be at most a third"),
            ("binding_token_ttl_ms = 40000", "meet.binding_token_ttl_ms: must be at most"),
            ("tls_cert_path = 'x'", "meet.tls_cert_path: must be set together"),
            ("id = 'a:b'", "meet.id"),
        ] {
            let error = parse(toml).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let secret = parse("binding_token_secret = 'hunter2'").unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
