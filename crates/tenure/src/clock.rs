//! The only file of the binary that reads a clock: `tenure doctor` compares clocks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long this machine was suspended since it started: what the clock that counts suspend has more than the one
/// that does not.
pub(crate) fn suspended() -> Duration {
    // In this order the difference cannot come out negative by the time between the two reads.
    let monotonic = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(monotonic)
}

fn read(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_suspended_is_less_than_the_time_since_the_start() {
        assert!(super::suspended() < super::read(rustix::time::ClockId::Boottime));
    }
}
