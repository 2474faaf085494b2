//! The `[control]` section.

use std::net::SocketAddr;
use std::time::Duration;

use tenure_service::config::{Kind, Spec};

/// Options of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long a heartbeat extends the lease.
    pub ttl_ms: u32,
    /// The heartbeat interval.
    pub heartbeat_ms: u32,
    /// Number of LEDs.
    pub leds: u16,
    /// Frames per second of the renderer.
    pub fps: u16,
    /// LED controllers that receive every frame over DDP.
    pub ddp: Vec<SocketAddr>,
    /// Serial ports to read commands from.
    pub serial: Vec<SerialPort>,
    /// Input devices of rotary encoders.
    pub encoder: Vec<String>,
    /// Maximum number of WebSocket connections.
    pub max_clients: usize,
    /// The TTL of the gate `control:device`.
    pub gate_ttl: Duration,
    /// The start of device time; nonzero only in tests of the wrap.
    pub uptime_offset: u32,
}

/// A serial port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialPort {
    /// The path of the device file.
    pub path: String,
    /// Bits per second.
    pub baud: u32,
}

const fn count(name: &'static str, least: i64, most: i64, default: &'static str) -> Spec {
    Spec::new("control", name, Kind::Integer { least, most }).or(default)
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl_ms: 5_000,
            heartbeat_ms: 1_000,
            leds: 320,
            fps: 60,
            ddp: Vec::new(),
            serial: Vec::new(),
            encoder: Vec::new(),
            max_clients: 2_048,
            gate_ttl: Duration::from_secs(6),
            uptime_offset: 0,
        }
    }
}

impl Options {
    /// The settings of the section.
    pub const SPECS: &'static [Spec] = &[
        count("ttl_ms", 500, 600_000, "5000"),
        count("heartbeat_ms", 50, 60_000, "1000"),
        count("leds", 1, 4_096, "320"),
        count("fps", 1, 240, "60"),
        Spec::new("control", "outputs", Kind::Words(&[])).or("preview"),
        Spec::new("control", "serial", Kind::Words(&[])).or(""),
        Spec::new("control", "encoder", Kind::Words(&[])).or(""),
        count("max_clients", 1, 100_000, "2048"),
        count("gate_ttl_ms", 2_000, 600_000, "6000"),
    ];

    /// Reads the section. An error names the setting and the problem.
    pub fn parse(section: Option<&toml::Table>) -> Result<Self, String> {
        let Some(section) = section else { return Ok(Self::default()) };
        let number = |name: &str, default: u32| {
            let value = section.get(name).and_then(toml::Value::as_integer);
            value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default)
        };
        let list = |name: &str| -> Vec<String> {
            let list = section.get(name).and_then(toml::Value::as_array).into_iter().flatten();
            list.filter_map(toml::Value::as_str).map(str::to_owned).collect()
        };
        let mut options = Self {
            ttl_ms: number("ttl_ms", 5_000),
            heartbeat_ms: number("heartbeat_ms", 1_000),
            leds: number("leds", 320) as u16,
            fps: number("fps", 60) as u16,
            max_clients: number("max_clients", 2_048) as usize,
            gate_ttl: Duration::from_millis(u64::from(number("gate_ttl_ms", 6_000))),
            ..Self::default()
        };
        if options.heartbeat_ms.saturating_mul(2) > options.ttl_ms {
            return Err(format!(
                "control.heartbeat_ms: {} exceeds half of control.ttl_ms ({}); one late heartbeat would end the lease",
                options.heartbeat_ms, options.ttl_ms
            ));
        }
        for output in list("outputs") {
            match output.strip_prefix("ddp://") {
                Some(address) => options.ddp.push(parse_ddp(address)?),
                None if output == "preview" => {}
                None => {
                    return Err(format!(
                        "control.outputs: invalid output `{output}`; use preview or ddp://ADDRESS[:PORT]"
                    ));
                }
            }
        }
        options.serial = list("serial").iter().map(|port| parse_serial(port)).collect::<Result<_, _>>()?;
        options.encoder =
            list("encoder").iter().map(|path| parse_device("encoder", path)).collect::<Result<_, _>>()?;
        Ok(options)
    }
}

/// The default DDP port.
const DDP_PORT: u16 = 4048;

fn parse_ddp(address: &str) -> Result<SocketAddr, String> {
    let parsed = address.parse().or_else(|_| address.parse().map(|ip| SocketAddr::new(ip, DDP_PORT)));
    parsed.map_err(|_| {
        format!("control.outputs: invalid address in ddp://{address}; use an IP address and an optional port")
    })
}

fn parse_serial(text: &str) -> Result<SerialPort, String> {
    let rest = text.strip_prefix("serial://").unwrap_or(text);
    let (path, baud) = match rest.split_once("?baud=") {
        Some((path, baud)) => {
            (path, baud.parse().map_err(|_| format!("control.serial: invalid baud rate `{baud}`"))?)
        }
        None => (rest, 115_200),
    };
    Ok(SerialPort { path: parse_device("serial", path)?, baud })
}

fn parse_device(setting: &str, text: &str) -> Result<String, String> {
    let path = text.strip_prefix("evdev://").unwrap_or(text);
    if path.starts_with('/') {
        return Ok(path.to_owned());
    }
    Err(format!("control.{setting}: invalid device `{text}`; use an absolute path such as /dev/ttyUSB0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(Some(&text.parse::<toml::Table>().unwrap()))
    }

    #[test]
    fn an_empty_section_has_the_defaults() {
        assert_eq!(Options::parse(None), Ok(Options::default()));
        assert_eq!(parse(""), Ok(Options::default()));
    }

    #[test]
    fn outputs_and_inputs_are_parsed() {
        let options = parse(
            "outputs = [\"preview\", \"ddp://10.0.0.9\", \"ddp://127.0.0.1:5000\"]\n\
             serial = [\"serial:///dev/ttyUSB0\", \"/dev/ttyACM0?baud=9600\"]\nencoder = [\"/dev/input/event3\"]",
        )
        .unwrap();
        assert_eq!(options.ddp, ["10.0.0.9:4048".parse().unwrap(), "127.0.0.1:5000".parse().unwrap()]);
        assert_eq!(options.serial[0], SerialPort { path: "/dev/ttyUSB0".into(), baud: 115_200 });
        assert_eq!(options.serial[1], SerialPort { path: "/dev/ttyACM0".into(), baud: 9_600 });
        assert_eq!(options.encoder, ["/dev/input/event3"]);
    }

    #[test]
    fn invalid_settings_are_named() {
        for (text, word) in [
            ("ttl_ms = 1000\nheartbeat_ms = 600", "heartbeat_ms"),
            ("outputs = [\"artnet://x\"]", "artnet"),
            ("outputs = [\"ddp://strip.local\"]", "strip.local"),
            ("serial = [\"ttyUSB0\"]", "ttyUSB0"),
            ("serial = [\"/dev/ttyUSB0?baud=fast\"]", "fast"),
        ] {
            assert!(parse(text).unwrap_err().contains(word), "{text}");
        }
    }
}
