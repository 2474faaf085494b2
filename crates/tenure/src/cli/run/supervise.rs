//! The loop around a running command.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use lease::{Deadline, Tick};
use lease_keeper::{Guard, Keeper, Lost};
use rustix::io::Errno;

use super::Signals;
use crate::cli::{Failure, Result, exit};
use crate::watchdog::{Desk, Leash, Report, Times, Why};

/// How a command under a lease ended. Nothing of it is left, in every case.
pub(super) enum Outcome {
    /// By itself, or by a signal.
    Ended { code: u8 },
    /// It never ran.
    NotStarted(Failure),
    /// Because the lease was lost.
    Lost { lost: Lost },
}

/// Runs `command` under `guard` and returns when nothing of it is left.
pub(super) async fn supervise(
    guard: &Guard,
    command: &[OsString],
    keeper: &Keeper,
    signals: &mut Signals,
) -> Result<Outcome> {
    let variables = [
        ("TENURE_KEY", guard.key().to_string()),
        ("TENURE_GENERATION", guard.generation().to_string()),
        ("TENURE_HOLDER", guard.holder().to_string()),
    ];
    let deadline = guard.deadline();
    let times = Times::of(deadline, guard.lease().ttl);
    let leash = Leash::start(command, &variables, times, Desk::Shared)
        .map_err(|error| Failure::internal(format!("cannot start the watchdog: {error}")))?;
    let mut watch = Watch { guard, keeper, leash, deadline, times, lost: None };
    let ended = watch.run(signals, command).await;
    if ended.is_err() {
        watch.make_sure().await;
    }
    let Watch { leash, .. } = watch;
    leash.reap().await;
    ended
}

struct Watch<'a> {
    guard: &'a Guard,
    keeper: &'a Keeper,
    leash: Leash,
    /// The deadline that the watchdog knows.
    deadline: Deadline,
    times: Times,
    /// Set once the work was told to go.
    lost: Option<Lost>,
}

impl Watch<'_> {
    async fn run(&mut self, signals: &mut Signals, command: &[OsString]) -> Result<Outcome> {
        let mut states = self.guard.states();
        let clock = self.keeper.clock().clone();
        loop {
            let next = self.next_look(clock.now());
            tokio::select! {
                biased;
                report = self.leash.report() => {
                    let report = report.map_err(broken)?;
                    if let Some(outcome) = self.heard(report, command)? {
                        return Ok(outcome);
                    }
                }
                number = signals.next() => drop(self.leash.signal(number).await),
                _ = states.changed() => {}
                () = clock.sleep_until(next) => {}
            }
            // A watchdog that does not answer is done or dead, and then its reports end; or it is stopped.
            self.look().await;
            if self.deadline.passed(clock.now()) && self.leash.is_gone() {
                return Ok(Outcome::Lost { lost: self.lost.unwrap_or(Lost::Unconfirmed) });
            }
        }
    }

    /// Tells the watchdog what the keeper has learned.
    async fn look(&mut self) {
        let now = self.keeper.clock().now();
        if self.lost.is_none()
            && let Some(lost) = self.guard.state().lost()
        {
            self.lost = Some(lost);
            drop(self.leash.kill().await);
        }
        let deadline = self.guard.deadline();
        if self.lost.is_none() && deadline > self.deadline {
            self.deadline = deadline;
            self.times = Times::of(deadline, self.guard.lease().ttl);
            drop(self.leash.extend(self.times).await);
        }
        if now >= self.last_line() {
            self.leash.kill_past();
        }
    }

    /// There is no watchdog any more: what it had to do is ours. Whoever comes next must not meet the work.
    async fn make_sure(&self) {
        let clock = self.keeper.clock();
        while !self.leash.is_gone() && !self.deadline.passed(clock.now()) {
            self.leash.kill_past();
            clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
        }
    }

    /// When the watchdog must have killed: then we do it ourselves. It may be stopped.
    fn last_line(&self) -> Tick {
        self.times.kill + self.deadline.left(self.times.kill) / 2
    }

    /// The keeper says nothing when a renewal only moves the deadline, so it is asked often enough that a later
    /// deadline arrives long before the earlier one asks the work to stop.
    fn next_look(&self, now: Tick) -> Tick {
        let often = (self.guard.lease().ttl.as_duration() / 30).min(Duration::from_millis(250));
        let last = self.last_line();
        if now < last { last.min(now + often) } else { now + often }
    }

    fn heard(&mut self, report: Option<Report>, command: &[OsString]) -> Result<Option<Outcome>> {
        Ok(match report {
            Some(Report::Started(_)) => None,
            Some(Report::Failed(errno)) => Some(Outcome::NotStarted(not_started(command, errno))),
            Some(Report::Ended { code, why }) => Some(match (why, self.lost) {
                (Why::Own, None) => Outcome::Ended { code },
                (_, lost) => Outcome::Lost { lost: lost.unwrap_or(Lost::Unconfirmed) },
            }),
            None => return Err(Failure::internal("the watchdog ended; the command was killed")),
        })
    }
}

fn broken(error: io::Error) -> Failure {
    Failure::internal(format!("the watchdog cannot be reached: {error}; the command was killed"))
}

/// The codes that shells use for a command that is not there or cannot be run.
fn not_started(command: &[OsString], errno: i32) -> Failure {
    let error = io::Error::from_raw_os_error(errno);
    let code = if errno == Errno::NOENT.raw_os_error() { 127 } else { 126 };
    let words = format!("cannot run {}: {error}", command[0].to_string_lossy());
    Failure::new(exit::INTERNAL, "NOT_STARTED", words).exiting(code)
}
