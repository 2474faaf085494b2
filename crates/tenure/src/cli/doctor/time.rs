//! Is the clock one to hold leases by?

use std::time::Duration;

use lease::{Clock, Tick, Wall};
use lease_store::BootClock;

use super::report::Report;
use crate::cli::human;

/// How long a timer is set when its lateness is measured.
const NAP: Duration = Duration::from_millis(20);

/// How many times.
const NAPS: usize = 5;

/// The stop slack of the shortest TTLs: a timer that is later eats what protects them.
const LATE: Duration = Duration::from_millis(50);

/// More than this apart, the wall clock was stepped rather than slewed.
const STEP: Duration = Duration::from_millis(50);

/// A wall clock this far from the store's confuses people, and nothing else.
pub(super) const SKEW: Duration = Duration::from_secs(5);

/// The clocks as they were at the start.
pub(super) struct Times {
    boot: Tick,
    wall: Wall,
}

impl Times {
    pub(super) fn begin() -> Self {
        Self { boot: BootClock.now(), wall: BootClock.wall() }
    }

    /// Compares with the clocks as they are at the end.
    pub(super) async fn end(self, report: &mut Report) {
        suspend(crate::clock::suspended(), report);
        let mut late = Duration::ZERO;
        for _ in 0..NAPS {
            let at = BootClock.now() + NAP;
            BootClock.sleep_until(at).await;
            late = late.max(BootClock.now().since(at));
        }
        timers(late, report);
        let passed = BootClock.now().since(self.boot).as_micros() as i128;
        let walled = i128::from(BootClock.wall().as_micros()) - i128::from(self.wall.as_micros());
        wall(walled - passed, report);
    }
}

fn suspend(suspended: Duration, report: &mut Report) {
    let detail = match suspended.as_secs() {
        0 => "leases are held by CLOCK_BOOTTIME; this machine was never suspended".to_owned(),
        _ => format!(
            "leases are held by CLOCK_BOOTTIME, which counts the {} this machine was suspended",
            human::duration(suspended)
        ),
    };
    report.ok("clock", detail);
}

fn timers(late: Duration, report: &mut Report) {
    let detail = format!("up to {} late", human::latency(late));
    if late <= LATE {
        return report.ok("timers", detail);
    }
    report.warn(
        "timers",
        detail,
        "the machine is overloaded or its processors are throttled: give leases longer ttls here",
    );
}

/// `apart`: by how many microseconds the wall clock went further than the one that cannot be set.
fn wall(apart: i128, report: &mut Report) {
    let step = Duration::from_micros(apart.unsigned_abs() as u64);
    if step <= STEP {
        return report.ok("wall clock", "steady");
    }
    let way = if apart > 0 { "forward" } else { "back" };
    report.warn(
        "wall clock",
        format!("was set {way} by {} while this ran", human::duration(step)),
        "leases do not use it; times shown to people do: let a daemon slew it (chrony, systemd-timesyncd)",
    );
}

/// Compares our wall clock with the store's: `stamped` by the store between our `before` and `after`.
pub(super) fn skew(before: Wall, stamped: Wall, after: Wall, report: &mut Report) {
    let far = |from: Wall, to: Wall| Duration::from_micros(to.as_micros().saturating_sub(from.as_micros()));
    // Zero anywhere between: the request was on its way for that long.
    let apart = far(stamped, before).max(far(after, stamped));
    if apart <= SKEW {
        return report
            .ok("store clock", format!("within {} of ours", human::latency(far(before, after) + apart)));
    }
    report.warn(
        "store clock",
        format!("{} away from ours", human::duration(apart)),
        "leases do not mind; times shown to people are off: synchronise both machines (NTP)",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(judge: impl FnOnce(&mut Report)) -> String {
        let mut report = Report::default();
        judge(&mut report);
        serde_json::to_string(&report).unwrap()
    }

    #[test]
    fn a_step_of_the_wall_clock_is_seen_in_both_directions() {
        assert!(words(|r| wall(1_000, r)).contains("steady"));
        assert!(words(|r| wall(3_600_000_000, r)).contains("forward by 1h"));
        assert!(words(|r| wall(-90_000_000, r)).contains("back by 1m30s"));
    }

    #[test]
    fn a_store_with_another_time_is_a_warning() {
        let at = |secs: u64| Wall::from_micros(secs * 1_000_000);
        assert!(words(|r| skew(at(100), at(100), at(101), r)).contains("\"ok\""));
        assert!(words(|r| skew(at(100), at(40), at(101), r)).contains("1m away"));
        assert!(words(|r| skew(at(100), at(200), at(101), r)).contains("1m39s away"));
    }

    #[test]
    fn a_late_timer_is_a_warning() {
        assert!(words(|r| timers(Duration::from_millis(1), r)).contains("\"ok\""));
        assert!(words(|r| timers(Duration::from_millis(80), r)).contains("\"warn\""));
    }
}
