//! Checks of the clocks.

use std::time::Duration;

use tenure_lease::{Clock, Tick, Wall};
use tenure_store::BootClock;

use super::report::Report;
use crate::cli::human;

/// The timer duration for measuring lateness.
const TIMER: Duration = Duration::from_millis(20);

/// Number of timer measurements.
const TIMER_RUNS: usize = 5;

/// The stop slack of the shortest TTLs, which a timer must not exceed.
const MAX_LATENESS: Duration = Duration::from_millis(50);

/// A larger difference means that the wall clock was stepped rather than slewed.
const MAX_STEP: Duration = Duration::from_millis(50);

/// The largest acceptable difference to the wall clock of the store. It affects displayed times only.
pub(super) const MAX_SKEW: Duration = Duration::from_secs(5);

/// The clocks at the start of the checks.
pub(super) struct ClockCheck {
    boot: Tick,
    wall: Wall,
}

impl ClockCheck {
    pub(super) fn begin() -> Self {
        Self { boot: BootClock.now(), wall: BootClock.wall() }
    }

    /// Compares with the clocks at the end of the checks.
    pub(super) async fn end(self, report: &mut Report) {
        check_suspend(crate::clock::suspended(), report);
        let mut late = Duration::ZERO;
        for _ in 0..TIMER_RUNS {
            let at = BootClock.now() + TIMER;
            BootClock.sleep_until(at).await;
            late = late.max(BootClock.now().since(at));
        }
        check_timers(late, report);
        let passed = BootClock.now().since(self.boot).as_micros() as i128;
        let wall_passed = i128::from(BootClock.wall().as_micros()) - i128::from(self.wall.as_micros());
        check_wall_clock(wall_passed - passed, report);
    }
}

fn check_suspend(suspended: Duration, report: &mut Report) {
    let detail = match suspended.as_secs() {
        0 => "deadlines use CLOCK_BOOTTIME; this machine was not suspended since boot".to_owned(),
        _ => format!(
            "deadlines use CLOCK_BOOTTIME, which includes the {} this machine was suspended",
            human::format_duration(suspended)
        ),
    };
    report.ok("clock", detail);
}

fn check_timers(late: Duration, report: &mut Report) {
    let detail = format!("up to {} late", human::format_latency(late));
    if late <= MAX_LATENESS {
        return report.ok("timers", detail);
    }
    report.warn("timers", detail, "the machine is overloaded or throttled: use longer TTLs on it");
}

/// `apart`: by how many microseconds the wall clock advanced more than the boot clock.
fn check_wall_clock(apart: i128, report: &mut Report) {
    let step = Duration::from_micros(apart.unsigned_abs() as u64);
    if step <= MAX_STEP {
        return report.ok("wall clock", "steady");
    }
    let way = if apart > 0 { "forward" } else { "back" };
    report.warn(
        "wall clock",
        format!("was set {way} by {} during this check", human::format_duration(step)),
        "leases do not use it, but displayed times do: let a daemon slew it (chrony, systemd-timesyncd)",
    );
}

/// Compares the local wall clock with that of the store, which set `stamped` between `before` and `after`.
pub(super) fn check_skew(before: Wall, stamped: Wall, after: Wall, report: &mut Report) {
    let far = |from: Wall, to: Wall| Duration::from_micros(to.as_micros().saturating_sub(from.as_micros()));
    // Zero anywhere in between, because the duration of the request is unknown.
    let apart = far(stamped, before).max(far(after, stamped));
    if apart <= MAX_SKEW {
        return report.ok(
            "store clock",
            format!("within {} of the local clock", human::format_latency(far(before, after) + apart)),
        );
    }
    report.warn(
        "store clock",
        format!("{} away from the local clock", human::format_duration(apart)),
        "leases are not affected, but displayed times are: synchronize both machines (NTP)",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(check: impl FnOnce(&mut Report)) -> String {
        let mut report = Report::default();
        check(&mut report);
        serde_json::to_string(&report).unwrap()
    }

    #[test]
    fn a_step_of_the_wall_clock_is_detected_in_both_directions() {
        assert!(describe(|r| check_wall_clock(1_000, r)).contains("steady"));
        assert!(describe(|r| check_wall_clock(3_600_000_000, r)).contains("forward by 1h"));
        assert!(describe(|r| check_wall_clock(-90_000_000, r)).contains("back by 1m30s"));
    }

    #[test]
    fn clock_skew_of_the_store_is_a_warning() {
        let at = |secs: u64| Wall::from_micros(secs * 1_000_000);
        assert!(describe(|r| check_skew(at(100), at(100), at(101), r)).contains("\"ok\""));
        assert!(describe(|r| check_skew(at(100), at(40), at(101), r)).contains("1m away"));
        assert!(describe(|r| check_skew(at(100), at(200), at(101), r)).contains("1m39s away"));
    }

    #[test]
    fn a_late_timer_is_a_warning() {
        assert!(describe(|r| check_timers(Duration::from_millis(1), r)).contains("\"ok\""));
        assert!(describe(|r| check_timers(Duration::from_millis(80), r)).contains("\"warn\""));
    }
}
