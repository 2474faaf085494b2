//! When the work is told to stop and when it is killed. Pure: no clock, no process.

use std::time::Duration;

use lease::{Deadline, Tick, Ttl};

use super::line::Why;

/// What the command leaves behind in its group may go on this long to end by itself.
const LEFTOVERS: Duration = Duration::from_millis(500);

/// How often a group that is about to end is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The times by which work must be over, on the clock that counts suspend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    /// When it is asked to stop.
    pub(crate) stop: Tick,
    /// When it is killed.
    pub(crate) kill: Tick,
}

impl Times {
    /// The times that follow from a holder's deadline: asked to stop a sixth of the TTL before it, killed early
    /// enough for the kernel to be done with it.
    pub(crate) fn of(deadline: Deadline, ttl: Ttl) -> Self {
        let ttl = ttl.as_duration();
        let slack = Duration::from_millis(50).max(ttl / 50).min(ttl / 12);
        Self { stop: deadline.tick() - ttl / 6, kill: deadline.tick() - slack }
    }
}

/// What to do to the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Stop,
    Kill,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The command runs, and later times are welcome.
    Running,
    /// It was asked to stop: from here there is no way back.
    Stopping,
    /// The command ended; its group may have other members.
    Leftovers,
    /// Everything must be gone.
    Killing,
}

/// The life of one piece of work, as decided so far.
#[derive(Debug)]
pub(super) struct Plan {
    times: Times,
    stage: Stage,
    why: Why,
}

impl Plan {
    pub(super) fn new(times: Times) -> Self {
        Self { times, stage: Stage::Running, why: Why::Own }
    }

    /// What must be done at `now`. A kill is repeated at every look until nothing is left.
    pub(super) fn due(&mut self, now: Tick) -> Option<Act> {
        match self.stage {
            Stage::Killing => Some(Act::Kill),
            Stage::Leftovers if now >= self.times.kill => {
                self.stage = Stage::Killing;
                Some(Act::Kill)
            }
            Stage::Running | Stage::Stopping if now >= self.times.kill => {
                self.kill(Why::Deadline);
                Some(Act::Kill)
            }
            Stage::Running if now >= self.times.stop => {
                (self.stage, self.why) = (Stage::Stopping, Why::Deadline);
                Some(Act::Stop)
            }
            Stage::Running | Stage::Stopping | Stage::Leftovers => None,
        }
    }

    /// Later times, as long as nothing was done yet. Earlier ones are ignored.
    pub(super) fn extend(&mut self, times: Times) {
        if self.stage == Stage::Running && times.kill > self.times.kill {
            self.times = times;
        }
    }

    /// Everything must go now. The first reason counts.
    pub(super) fn kill(&mut self, why: Why) {
        if self.why == Why::Own && self.stage != Stage::Leftovers {
            self.why = why;
        }
        self.stage = Stage::Killing;
    }

    /// The command itself ended at `now`.
    pub(super) fn ended(&mut self, now: Tick) {
        if self.stage != Stage::Killing {
            self.times.kill = self.times.kill.min(now + LEFTOVERS);
            self.stage = Stage::Leftovers;
        }
    }

    /// When to look again at the latest.
    pub(super) fn wake(&self, now: Tick) -> Tick {
        match self.stage {
            Stage::Running => self.times.stop,
            Stage::Stopping => self.times.kill,
            Stage::Leftovers => self.times.kill.min(now + LOOK),
            Stage::Killing => now + LOOK,
        }
    }

    /// Why the work ended.
    pub(super) fn why(&self) -> Why {
        self.why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(ms * 1_000_000)
    }

    fn times(stop: u64, kill: u64) -> Times {
        Times { stop: at(stop), kill: at(kill) }
    }

    #[test]
    fn work_is_asked_to_stop_and_then_killed_before_the_deadline() {
        let deadline = at(100_000);
        for (ttl, stop, kill) in [(300, 50, 25), (600, 100, 50), (1_200, 200, 50), (15_000, 2_500, 300)] {
            let times = Times::of(Deadline::at(deadline), Ttl::from_millis(ttl).unwrap());
            let before = |tick: Tick| deadline.since(tick).as_millis();
            assert_eq!((before(times.stop), before(times.kill)), (stop, kill), "{ttl}");
        }
    }

    #[test]
    fn times_that_nobody_moves_lead_to_the_end() {
        let mut plan = Plan::new(times(10, 20));
        let acts: Vec<_> = [9, 10, 11, 19, 20, 21].map(|now| plan.due(at(now))).into();
        assert_eq!(acts, [None, Some(Act::Stop), None, None, Some(Act::Kill), Some(Act::Kill)]);
        assert_eq!(plan.why(), Why::Deadline);
    }

    #[test]
    fn a_later_time_counts_only_before_anything_was_done() {
        let mut plan = Plan::new(times(10, 20));
        plan.extend(times(30, 40));
        plan.extend(times(5, 15));
        assert_eq!(plan.due(at(29)), None);
        assert_eq!(plan.due(at(30)), Some(Act::Stop));
        plan.extend(times(50, 60));
        assert_eq!(plan.due(at(40)), Some(Act::Kill));
    }

    #[test]
    fn a_sleep_over_both_times_kills_at_once() {
        let mut plan = Plan::new(times(10, 20));
        assert_eq!(plan.due(at(1_000)), Some(Act::Kill));
    }

    #[test]
    fn what_the_command_leaves_behind_is_killed_and_the_command_keeps_its_code() {
        let mut plan = Plan::new(times(9_000, 9_500));
        plan.ended(at(100));
        assert_eq!(plan.due(at(599)), None);
        assert_eq!(plan.wake(at(100)), at(110));
        assert_eq!(plan.due(at(600)), Some(Act::Kill));
        assert_eq!(plan.why(), Why::Own);
    }

    #[test]
    fn an_orphan_is_killed_whatever_the_time() {
        let mut plan = Plan::new(times(9_000, 9_500));
        plan.kill(Why::Orphaned);
        assert_eq!((plan.due(at(0)), plan.why()), (Some(Act::Kill), Why::Orphaned));
    }
}
