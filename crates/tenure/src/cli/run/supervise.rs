//! The loop around a running command.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use tenure_keeper::{Guard, Keeper, Lost};
use tenure_lease::{Deadline, Tick};

use super::Signals;
use crate::cli::{Failure, Result, exit};
use tenure_session_worker::StopTimes;

use crate::watchdog::{EndReason, WatchdogHandle, WorkIo, WorkReport};

/// How a command under a lease ended. No process of it is left in any case.
pub(super) enum Outcome {
    /// By itself, or by a signal.
    Ended { code: u8 },
    /// It never ran.
    NotStarted(Failure),
    /// Because the lease was lost.
    Lost { lost: Lost },
}

/// Runs `command` under `guard` until no process of it is left.
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
    let times = StopTimes::of(deadline, guard.lease().ttl);
    let watchdog = WatchdogHandle::start(command, &variables, times, WorkIo::Shared)
        .map_err(|error| Failure::internal(format!("cannot start the watchdog: {error}")))?;
    let mut supervisor = Supervisor { guard, keeper, watchdog, deadline, times, lost: None };
    let ended = supervisor.run(signals, command).await;
    if ended.is_err() {
        supervisor.kill_leftovers().await;
    }
    let Supervisor { watchdog, .. } = supervisor;
    watchdog.reap().await;
    ended
}

struct Supervisor<'a> {
    guard: &'a Guard,
    keeper: &'a Keeper,
    watchdog: WatchdogHandle,
    /// The deadline that the watchdog has.
    deadline: Deadline,
    times: StopTimes,
    /// Set once the kill was sent.
    lost: Option<Lost>,
}

impl Supervisor<'_> {
    async fn run(&mut self, signals: &mut Signals, command: &[OsString]) -> Result<Outcome> {
        let mut states = self.guard.states();
        let clock = self.keeper.clock().clone();
        loop {
            let next = self.next_check(clock.now());
            tokio::select! {
                biased;
                report = self.watchdog.next_report() => {
                    let report = report.map_err(watchdog_failed)?;
                    if let Some(outcome) = self.handle_report(report, command)? {
                        return Ok(outcome);
                    }
                }
                number = signals.next() => drop(self.watchdog.signal(number).await),
                _ = states.changed() => {}
                () = clock.sleep_until(next) => {}
            }
            // A failed send needs no handling: a dead watchdog ends its reports, and a stopped one is handled below.
            self.update_watchdog().await;
            if self.deadline.passed(clock.now()) && self.watchdog.is_gone() {
                return Ok(Outcome::Lost { lost: self.lost.unwrap_or(Lost::Unconfirmed) });
            }
        }
    }

    /// Sends the state of the guard to the watchdog.
    async fn update_watchdog(&mut self) {
        let now = self.keeper.clock().now();
        if self.lost.is_none()
            && let Some(lost) = self.guard.state().lost()
        {
            self.lost = Some(lost);
            drop(self.watchdog.kill().await);
        }
        let deadline = self.guard.deadline();
        if self.lost.is_none() && deadline != self.deadline {
            self.deadline = deadline;
            self.times = StopTimes::of(deadline, self.guard.lease().ttl);
            drop(self.watchdog.extend(self.times).await);
        }
        if now >= self.kill_deadline() {
            self.watchdog.kill_directly();
        }
    }

    /// Kills the work after the watchdog failed: it must not outlive the lease.
    async fn kill_leftovers(&self) {
        let clock = self.keeper.clock();
        while !self.watchdog.is_gone() && !self.deadline.passed(clock.now()) {
            self.watchdog.kill_directly();
            clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
        }
    }

    /// When this process kills the work itself, because the watchdog should have and may be stopped.
    fn kill_deadline(&self) -> Tick {
        self.times.kill + self.deadline.left(self.times.kill) / 2
    }

    /// The keeper sends no notification when a renewal only moves the deadline, so it is polled often enough that a later
    /// deadline arrives well before the earlier one stops the work.
    fn next_check(&self, now: Tick) -> Tick {
        let interval = (self.guard.lease().ttl.as_duration() / 30).min(Duration::from_millis(250));
        let last = self.kill_deadline();
        if now < last { last.min(now + interval) } else { now + interval }
    }

    fn handle_report(&mut self, report: Option<WorkReport>, command: &[OsString]) -> Result<Option<Outcome>> {
        Ok(match report {
            Some(WorkReport::Started(_)) => None,
            Some(WorkReport::Failed(errno)) => Some(Outcome::NotStarted(not_started(command, errno))),
            Some(WorkReport::Ended { code, why }) => Some(match (why, self.lost) {
                (EndReason::Own, None) => Outcome::Ended { code },
                (_, lost) => Outcome::Lost { lost: lost.unwrap_or(Lost::Unconfirmed) },
            }),
            None => return Err(Failure::internal("the watchdog exited; the command was killed")),
        })
    }
}

fn watchdog_failed(error: io::Error) -> Failure {
    Failure::internal(format!("lost the connection to the watchdog: {error}; the command was killed"))
}

/// The exit codes that shells use for a command that does not exist or cannot be run.
fn not_started(command: &[OsString], errno: i32) -> Failure {
    let error = io::Error::from_raw_os_error(errno);
    let code = if errno == Errno::NOENT.raw_os_error() { 127 } else { 126 };
    let words = format!("cannot run {}: {error}", command[0].to_string_lossy());
    Failure::new(exit::INTERNAL, "NOT_STARTED", words).exiting(code)
}
