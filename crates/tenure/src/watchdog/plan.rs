//! When the work is stopped and when it is killed. Pure: no clock, no process.

use std::time::Duration;

use tenure_lease::Tick;
use tenure_session_worker::StopTimes;

use super::message::EndReason;

/// How long processes that the command leaves behind may take to end by themselves.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// How often a group that is about to end is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// What to do to the process group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Stop,
    Kill,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The command runs; later times are accepted.
    Running,
    /// It was asked to stop; later times are ignored.
    Stopping,
    /// The command ended; its group may have other processes.
    Leftovers,
    /// Everything is being killed.
    Killing,
}

/// The decisions about one piece of work.
#[derive(Debug)]
pub(super) struct Plan {
    times: StopTimes,
    stage: Stage,
    reason: EndReason,
}

impl Plan {
    pub(super) fn new(times: StopTimes) -> Self {
        Self { times, stage: Stage::Running, reason: EndReason::Own }
    }

    /// What to do at `now`. A kill is repeated until no process is left.
    pub(super) fn due(&mut self, now: Tick) -> Option<Action> {
        match self.stage {
            Stage::Killing => Some(Action::Kill),
            Stage::Leftovers if now >= self.times.kill => {
                self.stage = Stage::Killing;
                Some(Action::Kill)
            }
            Stage::Running | Stage::Stopping if now >= self.times.kill => {
                self.kill(EndReason::Deadline);
                Some(Action::Kill)
            }
            Stage::Running if now >= self.times.stop => {
                (self.stage, self.reason) = (Stage::Stopping, EndReason::Deadline);
                Some(Action::Stop)
            }
            Stage::Running | Stage::Stopping | Stage::Leftovers => None,
        }
    }

    /// Takes new times, as long as nothing was done yet. They may be earlier, if the store shortened the lease.
    pub(super) fn set_times(&mut self, times: StopTimes) {
        if self.stage == Stage::Running {
            self.times = times;
        }
    }

    /// Kills everything now. The first reason counts.
    pub(super) fn kill(&mut self, reason: EndReason) {
        if self.reason == EndReason::Own && self.stage != Stage::Leftovers {
            self.reason = reason;
        }
        self.stage = Stage::Killing;
    }

    /// The command itself ended at `now`.
    pub(super) fn ended(&mut self, now: Tick) {
        if self.stage != Stage::Killing {
            self.times.kill = self.times.kill.min(now + LEFTOVER_GRACE);
            self.stage = Stage::Leftovers;
        }
    }

    /// When to check again at the latest.
    pub(super) fn next_check(&self, now: Tick) -> Tick {
        match self.stage {
            Stage::Running => self.times.stop,
            Stage::Stopping => self.times.kill,
            Stage::Leftovers => self.times.kill.min(now + CHECK_INTERVAL),
            Stage::Killing => now + CHECK_INTERVAL,
        }
    }

    /// EndReason the work ended.
    pub(super) fn reason(&self) -> EndReason {
        self.reason
    }
}

#[cfg(test)]
mod tests {
    use tenure_lease::{Deadline, Ttl};

    use super::*;

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(ms * 1_000_000)
    }

    fn times(stop: u64, kill: u64) -> StopTimes {
        StopTimes { stop: at(stop), kill: at(kill) }
    }

    #[test]
    fn work_is_asked_to_stop_and_then_killed_before_the_deadline() {
        let deadline = at(100_000);
        for (ttl, stop, kill) in [(300, 50, 25), (600, 100, 50), (1_200, 200, 50), (15_000, 2_500, 300)] {
            let times = StopTimes::of(Deadline::at(deadline), Ttl::from_millis(ttl).unwrap());
            let before = |tick: Tick| deadline.since(tick).as_millis();
            assert_eq!((before(times.stop), before(times.kill)), (stop, kill), "{ttl}");
        }
    }

    #[test]
    fn times_that_are_not_extended_end_the_work() {
        let mut plan = Plan::new(times(10, 20));
        let actions: Vec<_> = [9, 10, 11, 19, 20, 21].map(|now| plan.due(at(now))).into();
        assert_eq!(actions, [None, Some(Action::Stop), None, None, Some(Action::Kill), Some(Action::Kill)]);
        assert_eq!(plan.reason(), EndReason::Deadline);
    }

    #[test]
    fn new_times_are_accepted_only_before_the_stop() {
        let mut plan = Plan::new(times(10, 20));
        plan.set_times(times(30, 40));
        assert_eq!(plan.due(at(29)), None);
        assert_eq!(plan.due(at(30)), Some(Action::Stop));
        plan.set_times(times(50, 60));
        assert_eq!(plan.due(at(40)), Some(Action::Kill));
    }

    #[test]
    fn a_shortened_lease_stops_the_work_earlier() {
        let mut plan = Plan::new(times(30, 40));
        plan.set_times(times(10, 20));
        assert_eq!(plan.next_check(at(0)), at(10));
        assert_eq!(plan.due(at(20)), Some(Action::Kill));
    }

    #[test]
    fn a_suspend_over_both_times_kills_at_once() {
        let mut plan = Plan::new(times(10, 20));
        assert_eq!(plan.due(at(1_000)), Some(Action::Kill));
    }

    #[test]
    fn leftover_processes_are_killed_and_the_command_keeps_its_code() {
        let mut plan = Plan::new(times(9_000, 9_500));
        plan.ended(at(100));
        assert_eq!(plan.due(at(599)), None);
        assert_eq!(plan.next_check(at(100)), at(110));
        assert_eq!(plan.due(at(600)), Some(Action::Kill));
        assert_eq!(plan.reason(), EndReason::Own);
    }

    #[test]
    fn an_orphan_is_killed_at_any_time() {
        let mut plan = Plan::new(times(9_000, 9_500));
        plan.kill(EndReason::Orphaned);
        assert_eq!((plan.due(at(0)), plan.reason()), (Some(Action::Kill), EndReason::Orphaned));
    }
}
