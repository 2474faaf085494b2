//! Durations and times for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_lease::Wall;

/// Parses `15s`, `500ms`, `1m 30s`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = humantime::parse_duration(text);
    parsed.map_err(|error| format!("{error}; write it as 500ms, 15s or 1m30s"))
}

/// A duration in at most two units: `250ms`, `12.3s`, `4m10s`, `2h5m`, `3d4h`.
pub(crate) fn format_duration(time: Duration) -> String {
    let (millis, secs) = (time.as_millis(), time.as_secs());
    let two = |big: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{small_unit}"),
    };
    match secs {
        0 => format!("{millis}ms"),
        1..60 if millis % 1_000 < 50 => format!("{secs}s"),
        1..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3_600 => two(secs / 60, "m", secs % 60, "s"),
        3_600..86_400 => two(secs / 3_600, "h", secs % 3_600 / 60, "m"),
        _ => two(secs / 86_400, "d", secs % 86_400 / 3_600, "h"),
    }
}

/// A latency with the significant digits: `87µs`, `1.24ms`, `2.1s`.
pub(crate) fn format_latency(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros}µs"),
        1_000..10_000 => format!("{:.2}ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.1}ms", micros as f64 / 1e3),
        _ => format!("{:.2}s", time.as_secs_f64()),
    }
}

/// A time to the second, in UTC: `2026-01-31T12:00:00Z`.
pub(crate) fn format_time(wall: Wall) -> String {
    humantime::format_rfc3339_seconds(system_time(wall)).to_string()
}

/// A time to the millisecond, in UTC, for programs.
pub(crate) fn format_time_ms(wall: Wall) -> String {
    humantime::format_rfc3339_millis(system_time(wall)).to_string()
}

/// The formatter accepts no time after the year 9999.
fn system_time(wall: Wall) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(wall.as_micros().min(253_402_300_799_000_000))
}

/// `1 lease`, `2 leases`.
pub(crate) fn pluralize(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        let table = [
            (0, "0ms"),
            (250, "250ms"),
            (1_000, "1s"),
            (12_345, "12.3s"),
            (60_000, "1m"),
            (250_000, "4m10s"),
            (7_500_000, "2h5m"),
            (86_400_000 * 3 + 3_600_000 * 4, "3d4h"),
        ];
        for (ms, text) in table {
            assert_eq!(format_duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_an_example() {
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("15").unwrap_err().contains("15s"));
    }

    #[test]
    fn times_are_in_utc() {
        let wall = Wall::from_micros(1_700_000_000_123_456);
        assert_eq!(format_time(wall), "2023-11-14T22:13:20Z");
        assert_eq!(format_time_ms(wall), "2023-11-14T22:13:20.123Z");
        assert_eq!(format_time(Wall::from_micros(u64::MAX)), "9999-12-31T23:59:59Z");
    }
}
