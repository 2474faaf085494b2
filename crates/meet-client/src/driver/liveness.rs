//! Notices a controller that does not answer. Pure: the driver passes the time and performs what is due.

use tenure_lease::Tick;

use crate::limits;

/// When something was last received on a connection, and what was done about the silence since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Liveness {
    heard: Tick,
    pinged: Tick,
    suspected: bool,
}

/// What is due on a silent connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LivenessStep {
    /// Send a ping.
    Ping,
    /// Report the controller as suspect.
    Suspect,
    /// The connection is lost.
    Lost,
}

impl Liveness {
    pub(super) const fn new(now: Tick) -> Self {
        Self { heard: now, pinged: now, suspected: false }
    }

    /// A message was received.
    pub(super) fn heard(&mut self, now: Tick) {
        *self = Self::new(now);
    }

    /// When [`Liveness::step`] has something to do.
    pub(super) fn next(&self) -> Tick {
        let ping = self.pinged + limits::PING;
        let silence = if self.suspected { limits::SILENCE } else { limits::SUSPECT };
        ping.min(self.heard + silence)
    }

    /// What is due at `now`.
    pub(super) fn step(&mut self, now: Tick) -> Option<LivenessStep> {
        let due = self.next();
        if now < due {
            return None;
        }
        if now.since(due) > limits::PING {
            // This process stood still: what it did not receive meanwhile says nothing about the controller.
            self.heard(now);
            return Some(LivenessStep::Ping);
        }
        if now >= self.heard + limits::SILENCE {
            return Some(LivenessStep::Lost);
        }
        if !self.suspected && now >= self.heard + limits::SUSPECT {
            self.suspected = true;
            return Some(LivenessStep::Suspect);
        }
        self.pinged = now;
        Some(LivenessStep::Ping)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    /// Every step until the connection is lost, with its time.
    fn steps(mut liveness: Liveness) -> Vec<(u64, LivenessStep)> {
        let mut steps = Vec::new();
        loop {
            let now = liveness.next();
            let Some(step) = liveness.step(now) else { panic!("nothing was due at {now:?}") };
            steps.push((now.since(at(0)).as_millis() as u64, step));
            if step == LivenessStep::Lost {
                return steps;
            }
        }
    }

    #[test]
    fn a_silent_controller_is_suspect_after_one_second_and_lost_after_two() {
        use LivenessStep::{Lost, Ping, Suspect};
        let seen = steps(Liveness::new(at(0)));
        assert_eq!(
            seen,
            [(500, Ping), (1_000, Suspect), (1_000, Ping), (1_500, Ping), (2_000, Lost)],
            "pings continue meanwhile"
        );
    }

    #[test]
    fn every_message_starts_the_silence_again() {
        let mut liveness = Liveness::new(at(0));
        assert_eq!(liveness.step(at(499)), None);
        assert_eq!(liveness.step(at(500)), Some(LivenessStep::Ping));
        liveness.heard(at(900));
        assert_eq!(liveness.step(at(1_000)), None);
        assert_eq!(liveness.next(), at(1_400));
    }

    #[test]
    fn a_process_that_stood_still_pings_before_it_judges() {
        let mut liveness = Liveness::new(at(0));
        let late = at(0) + Duration::from_secs(30);
        assert_eq!(liveness.step(late), Some(LivenessStep::Ping));
        assert_eq!(liveness.next(), late + limits::PING);
    }
}
