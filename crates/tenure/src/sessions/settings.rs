//! The configuration section `[sessions]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_service::config::{Kind, Spec};
use tenure_service::net::Cidr;
use tenure_session::{ProfileId, ServiceRef};
use tenure_session_api::{Channel, LanPolicy};
use tenure_session_worker::default_profiles;

use super::m3u;

const HOUR_MS: i64 = 3_600_000;
const SECTION: &str = "sessions";

const fn count(name: &'static str, least: i64, most: i64, default: &'static str) -> Spec {
    Spec::new(SECTION, name, Kind::Integer { least, most }).or(default)
}

const fn text(name: &'static str) -> Spec {
    Spec::new(SECTION, name, Kind::Text)
}

/// The settings of `[sessions]`. The environment variable `XG2G_NAME` of an older installation sets `name` too.
pub(crate) const SPECS: &[Spec] = &[
    Spec::new(SECTION, "pipeline", Kind::Word(&["auto", "ffmpeg", "pattern"])).or("auto"),
    text("receiver_url"),
    text("recordings_dir"),
    text("ffmpeg").or("ffmpeg"),
    text("output_dir"),
    text("tuner_slots").or("0,1").also(&["XG2G_V3_TUNER_SLOTS"]),
    Spec::new(SECTION, "channels", Kind::Tables),
    text("channels_m3u"),
    Spec::new(SECTION, "profiles", Kind::Pairs),
    text("idem_secret").secret(),
    text("idem_secret_previous").secret().also(&["XG2G_IDEM_SECRET_PREV"]),
    Spec::new(SECTION, "api_leases", Kind::Boolean).or("false").also(&["XG2G_V3_API_LEASES"]),
    count("lease_ttl_ms", 250, 24 * HOUR_MS, "30000"),
    count("heartbeat_ms", 1, 24 * HOUR_MS, "10000"),
    count("guard_ttl_ms", 250, 24 * HOUR_MS, "15000"),
    count("guard_heartbeat_ms", 1, 24 * HOUR_MS, "5000"),
    count("session_lease_ttl_ms", 100, 24 * HOUR_MS, "120000"),
    count("session_heartbeat_ms", 10, 24 * HOUR_MS, "30000"),
    count("idle_timeout_ms", 100, 24 * HOUR_MS, "300000"),
    count("stall_timeout_ms", 100, HOUR_MS, "12000"),
    count("first_segment_timeout_ms", 100, HOUR_MS, "30000"),
    count("stop_timeout_ms", 100, HOUR_MS, "5000"),
    count("drain_timeout_ms", 100, 24 * HOUR_MS, "600000"),
    count("reconcile_ms", 50, HOUR_MS, "5000"),
    count("retention_ms", 1_000, 24 * HOUR_MS, "86400000"),
    count("max_records", 1, 10_000_000, "100000"),
    count("max_output_bytes", 1 << 20, 1 << 40, "8589934592"),
    Spec::new(SECTION, "lan_allow_cidrs", Kind::Words(&[])),
    Spec::new(SECTION, "trusted_proxies", Kind::Words(&[])),
];

/// The highest slot number. Receivers have a handful.
const HIGHEST_SLOT: u32 = 1_023;
/// Most configured channels.
const MOST_CHANNELS: usize = 10_000;

/// The profile of an intent that names none.
pub(super) const DEFAULT_PROFILE: &str = "high";

/// The pipeline that produces the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Pipeline {
    /// ffmpeg, from a receiver and recordings.
    Ffmpeg,
    /// The built-in test pattern.
    Pattern,
}

/// The configured secrets of idempotency keys.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ConfiguredSecrets {
    pub(super) current: Option<String>,
    pub(super) previous: Option<String>,
}

impl fmt::Debug for ConfiguredSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The parsed section.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) pipeline: Pipeline,
    pub(super) receiver_url: Option<String>,
    pub(super) recordings_dir: Option<PathBuf>,
    pub(super) ffmpeg: PathBuf,
    pub(super) output_dir: PathBuf,
    pub(super) slots: BTreeSet<u32>,
    pub(super) channels: Vec<Channel>,
    pub(super) profiles: BTreeMap<String, Vec<String>>,
    pub(super) secrets: ConfiguredSecrets,
    pub(super) phase_one: bool,
    pub(super) lease_ttl: Duration,
    pub(super) heartbeat: Duration,
    pub(super) guard_ttl: Duration,
    pub(super) guard_heartbeat: Duration,
    pub(super) session_lease_ttl: Duration,
    pub(super) session_heartbeat: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) stall_timeout: Duration,
    pub(super) first_segment_timeout: Duration,
    pub(super) stop_timeout: Duration,
    pub(super) drain_timeout: Duration,
    pub(super) reconcile: Duration,
    pub(super) retention: Duration,
    pub(super) max_records: usize,
    pub(super) max_output_bytes: u64,
    pub(super) lan: LanPolicy,
}

/// Typed access to the section, which was validated against [`SPECS`].
struct Reader<'a>(&'a toml::Table);

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(toml::Value::as_str).filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> u64 {
        let given = self.0.get(name).and_then(toml::Value::as_integer);
        let default = || SPECS.iter().find(|spec| spec.name == name)?.default?.parse().ok();
        given.or_else(default).and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
    }

    fn time(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    fn strings(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(toml::Value::as_array).into_iter().flatten();
        list.filter_map(toml::Value::as_str).map(str::to_owned).collect()
    }
}

fn wrong(name: &str, why: impl fmt::Display) -> String {
    format!("sessions.{name}: {why}")
}

impl Settings {
    /// Parses the section. Paths that it does not set are in `data_dir`.
    pub(super) fn parse(section: Option<&toml::Table>, data_dir: &Path) -> Result<Self, String> {
        let empty = toml::Table::new();
        let read = Reader(section.unwrap_or(&empty));
        let receiver_url = read.text("receiver_url").map(check_template).transpose()?;
        let recordings_dir = read.text("recordings_dir").map(PathBuf::from);
        let pipeline = match read.text("pipeline") {
            Some("ffmpeg") if receiver_url.is_none() => {
                let why = "ffmpeg requires receiver_url, for example \
                           http://192.168.1.20:8001/{serviceRef}";
                return Err(wrong("pipeline", why));
            }
            Some("ffmpeg") => Pipeline::Ffmpeg,
            Some("pattern") => Pipeline::Pattern,
            _ if receiver_url.is_some() => Pipeline::Ffmpeg,
            _ => Pipeline::Pattern,
        };
        let mut channels = parse_channels(&read)?;
        if channels.is_empty() && pipeline == Pipeline::Pattern {
            channels = sample_channels();
        }
        Ok(Self {
            pipeline,
            receiver_url,
            recordings_dir,
            ffmpeg: read.text("ffmpeg").unwrap_or("ffmpeg").into(),
            output_dir: read.text("output_dir").map_or_else(|| data_dir.join("hls"), PathBuf::from),
            slots: parse_slots(read.text("tuner_slots").unwrap_or_default())
                .map_err(|why| wrong("tuner_slots", why))?,
            channels,
            profiles: parse_profiles(&read)?,
            secrets: ConfiguredSecrets {
                current: read.text("idem_secret").map(str::to_owned),
                previous: read.text("idem_secret_previous").map(str::to_owned),
            },
            phase_one: read.0.get("api_leases").and_then(toml::Value::as_bool).unwrap_or_default(),
            lease_ttl: read.time("lease_ttl_ms"),
            heartbeat: read.time("heartbeat_ms"),
            guard_ttl: read.time("guard_ttl_ms"),
            guard_heartbeat: read.time("guard_heartbeat_ms"),
            session_lease_ttl: read.time("session_lease_ttl_ms"),
            session_heartbeat: read.time("session_heartbeat_ms"),
            idle_timeout: read.time("idle_timeout_ms"),
            stall_timeout: read.time("stall_timeout_ms"),
            first_segment_timeout: read.time("first_segment_timeout_ms"),
            stop_timeout: read.time("stop_timeout_ms"),
            drain_timeout: read.time("drain_timeout_ms"),
            reconcile: read.time("reconcile_ms"),
            retention: read.time("retention_ms"),
            max_records: usize::try_from(read.number("max_records")).unwrap_or(usize::MAX),
            max_output_bytes: read.number("max_output_bytes"),
            lan: parse_lan(&read)?,
        })
    }
}

/// Parses `0,1`, `0-3`, `0..3` (inclusive) and combinations. An empty text means no tuner.
fn parse_slots(text: &str) -> Result<BTreeSet<u32>, String> {
    let mut slots = BTreeSet::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(slot) if slot <= HIGHEST_SLOT => Ok(slot),
            _ => Err(format!(
                "invalid slot {part:?}; expected numbers from 0 to {HIGHEST_SLOT}, for example 0,1 or 0-3"
            )),
        };
        let (first, last) = match part.split_once("..").or_else(|| part.split_once('-')) {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!("invalid range {part:?}: the first slot is greater than the last"));
        }
        slots.extend(first..=last);
    }
    Ok(slots)
}

fn parse_lan(read: &Reader<'_>) -> Result<LanPolicy, String> {
    let networks = |name: &str| -> Result<Vec<Cidr>, String> {
        let parse = |text: &String| text.parse().map_err(|error| wrong(name, error));
        read.strings(name).iter().map(parse).collect()
    };
    let (allow, trusted_proxies) = (networks("lan_allow_cidrs")?, networks("trusted_proxies")?);
    let allow = if allow.is_empty() { LanPolicy::default().allow } else { allow };
    Ok(LanPolicy { allow, trusted_proxies: trusted_proxies.into() })
}

fn check_template(url: &str) -> Result<String, String> {
    let why = match () {
        () if !url.starts_with("http://") && !url.starts_with("https://") => {
            "must start with http:// or https://"
        }
        () if !url.contains("{serviceRef}") => "must contain {serviceRef}",
        () => return Ok(url.to_owned()),
    };
    Err(wrong("receiver_url", why))
}

fn parse_profiles(read: &Reader<'_>) -> Result<BTreeMap<String, Vec<String>>, String> {
    let given = read.0.get("profiles").and_then(toml::Value::as_table);
    let mut profiles = default_profiles();
    for (name, arguments) in given.into_iter().flatten() {
        ProfileId::new(name).map_err(|error| wrong("profiles", error))?;
        let arguments = arguments.as_str().unwrap_or_default().split_whitespace();
        profiles.insert(name.clone(), arguments.map(str::to_owned).collect());
    }
    Ok(profiles)
}

fn parse_channels(read: &Reader<'_>) -> Result<Vec<Channel>, String> {
    let mut channels = Vec::new();
    let given = read.0.get("channels").and_then(toml::Value::as_array);
    for (index, table) in given.into_iter().flatten().filter_map(toml::Value::as_table).enumerate() {
        let bad = |why: String| wrong("channels", format!("channel {}: {why}", index + 1));
        let known = ["service_ref", "name", "logo"];
        if let Some(other) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(bad(format!("unknown field `{other}`; a channel has service_ref, name and logo")));
        }
        let text = |name: &str| table.get(name).and_then(toml::Value::as_str).map(str::to_owned);
        let reference = text("service_ref").ok_or_else(|| bad("`service_ref` is missing".into()))?;
        let service_ref = ServiceRef::new(&reference).map_err(|error| bad(error.to_string()))?;
        let name = text("name").unwrap_or(reference);
        channels.push(Channel { service_ref, name, logo: text("logo") });
    }
    if let Some(path) = read.text("channels_m3u") {
        channels.extend(read_m3u_file(Path::new(path)).map_err(|why| wrong("channels_m3u", why))?);
    }
    let mut seen = BTreeSet::new();
    channels.retain(|channel| seen.insert(channel.service_ref.clone()));
    if channels.len() > MOST_CHANNELS {
        return Err(wrong("channels", format!("at most {MOST_CHANNELS} channels are allowed")));
    }
    Ok(channels)
}

fn read_m3u_file(path: &Path) -> Result<Vec<Channel>, String> {
    let size = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    if size > m3u::MOST_BYTES {
        return Err(format!("{} is larger than {} bytes", path.display(), m3u::MOST_BYTES));
    }
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let playlist = m3u::parse(&String::from_utf8_lossy(&text));
    if playlist.skipped > 0 {
        tracing::warn!(file = %path.display(), skipped = playlist.skipped, "skipped entries of the M3U file that are not channels");
    }
    let channel =
        |entry: m3u::Entry| Channel { service_ref: entry.service_ref, name: entry.name, logo: entry.logo };
    Ok(playlist.entries.into_iter().map(channel).collect())
}

/// Sample channels for an unconfigured test pattern. All show the same stream, so that tuners can be tried out.
fn sample_channels() -> Vec<Channel> {
    let names = ["Test card", "Colour bars", "Clock", "Tone"];
    let channel = |(index, name): (usize, &&str)| {
        let service_ref = ServiceRef::new(format!("1:0:1:{:X}:1:1:C00000:0:0:0:", index + 1)).ok()?;
        Some(Channel { service_ref, name: (*name).to_owned(), logo: None })
    };
    names.iter().enumerate().filter_map(channel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(toml: &str) -> Result<Settings, String> {
        let table: toml::Table = toml::from_str(toml).unwrap();
        Settings::parse(Some(&table), Path::new("data"))
    }

    #[test]
    fn slots_are_lists_and_ranges_without_duplicates() {
        for (text, expected) in [
            ("0,1", vec![0, 1]),
            ("0-3", vec![0, 1, 2, 3]),
            ("0..3", vec![0, 1, 2, 3]),
            (" 3, 1-2 ,2,3 ", vec![1, 2, 3]),
            ("", vec![]),
        ] {
            assert_eq!(parse_slots(text), Ok(expected.into_iter().collect()), "{text}");
        }
        for bad in ["-1", "0,-1", "a", "1.5", "3-1", "0-", "99999", "0-4294967295"] {
            assert!(parse_slots(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_default_is_the_test_pattern_on_sample_channels() {
        let settings = Settings::parse(None, Path::new("data")).unwrap();
        assert_eq!(settings.pipeline, Pipeline::Pattern);
        assert!(settings.channels.len() > 2 && settings.secrets.current.is_none() && !settings.phase_one);
        assert_eq!(settings.slots.len(), 0, "the loader applies the default");
        assert_eq!(settings.guard_ttl, Duration::from_secs(15));
        assert_eq!(settings.output_dir, Path::new("data/hls"));
    }

    #[test]
    fn a_receiver_url_selects_ffmpeg_without_sample_channels() {
        let settings = parse("receiver_url = 'http://box:8001/{serviceRef}'").unwrap();
        assert_eq!((settings.pipeline, settings.channels.len()), (Pipeline::Ffmpeg, 0));
        let profile = |name: &str| settings.profiles[name].join(" ");
        assert!(profile("high").contains("libx264") && profile("copy").contains("-c:v copy"));
    }

    #[test]
    fn configured_profiles_extend_the_built_in_ones() {
        let settings = parse("[profiles]\ntiny = '-vf scale=160:-2'\nlow = '-c copy'").unwrap();
        let names: Vec<_> = settings.profiles.keys().map(String::as_str).collect();
        assert_eq!(names, ["copy", "high", "low", "tiny"]);
        assert_eq!(settings.profiles["low"], ["-c", "copy"]);
    }

    #[test]
    fn channels_come_from_settings_and_an_m3u_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channels.m3u");
        std::fs::write(
            &path,
            "#EXTINF:-1,Two\nhttp://box/1:0:1:2:0\n#EXTINF:-1,One again\nhttp://box/1:0:1:1:0\n",
        )
        .unwrap();
        let inline = "channels = [{ service_ref = '1:0:1:1:0', name = 'One' }]";
        let settings = parse(&format!("{inline}\nchannels_m3u = '{}'", path.display())).unwrap();
        let names: Vec<_> = settings.channels.iter().map(|channel| channel.name.as_str()).collect();
        assert_eq!(names, ["One", "Two"]);
    }

    #[test]
    fn errors_name_the_setting_and_reveal_no_secret() {
        for (toml, words) in [
            ("tuner_slots = '0,x'", "sessions.tuner_slots: invalid slot \"x\""),
            ("receiver_url = 'box'", "sessions.receiver_url: must start with http://"),
            ("receiver_url = 'http://box/'", "{serviceRef}"),
            ("pipeline = 'ffmpeg'", "sessions.pipeline: ffmpeg requires receiver_url"),
            ("channels = [{ name = 'x' }]", "channel 1: `service_ref` is missing"),
            ("channels = [{ service_ref = '1|2' }]", "channel 1"),
            ("channels = [{ service_ref = '1', nme = 'x' }]", "unknown field `nme`"),
            ("channels_m3u = '/nonexistent.m3u'", "sessions.channels_m3u: /nonexistent.m3u"),
            ("[profiles]\n'a b' = ''", "sessions.profiles"),
            (
                "lan_allow_cidrs = ['10.0.0.0/99']",
                "sessions.lan_allow_cidrs: invalid address range `10.0.0.0/99`",
            ),
        ] {
            let error = parse(toml).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let secret = parse("idem_secret = 'hunter2'").unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
