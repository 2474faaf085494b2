//! The holder's view of one reign, as a pure state machine: no clock, no store.

use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Deadline, Margins, Tick, Ttl};

use crate::entropy::Jitter;
use crate::permit::{OutstandingPermits, PermitError};
use crate::terms::{Liveness, Policy, Terms};
use crate::{GuardState, Lost};

/// The holder's side of one reign.
#[derive(Clone, Debug)]
pub(crate) struct ReignState {
    terms: Terms,
    margins: Margins,
    /// Computed from `confirmed` and what the store reported.
    deadline: Deadline,
    /// The latest send time of a confirmed request.
    confirmed: Tick,
    /// Set while the store reports less than the TTL.
    shortened: Option<Shortened>,
    /// When the next renewal should be sent.
    due: Tick,
    attempt: Option<Attempt>,
    attempts: u64,
    failures: u32,
    last_progress: Tick,
    /// A renewal was skipped because the worker made no progress.
    stalled: bool,
    draining: bool,
    hold_until: Option<Tick>,
    lost: Option<Lost>,
    permits: OutstandingPermits,
}

/// What the store confirmed to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Confirmation {
    /// When the request was sent.
    pub(crate) sent: Tick,
    /// The time that the store reported as left.
    pub(crate) remaining: Duration,
}

/// A response that reported less than the TTL.
#[derive(Clone, Copy, Debug)]
struct Shortened {
    received: Tick,
    remaining: Duration,
}

/// One renewal in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    /// Distinguishes a late failure from one of the next attempt.
    pub(crate) number: u64,
    /// When it counts as failed.
    pub(crate) limit: Tick,
}

impl ReignState {
    /// A reign confirmed by a request.
    pub(crate) fn new(
        terms: Terms,
        margins: Margins,
        confirmation: Confirmation,
        now: Tick,
        jitter: Jitter,
    ) -> Self {
        let Confirmation { sent, remaining } = confirmation;
        let sent = if broken(Break::DeadlineFromReply) { now } else { sent };
        let shortened =
            (remaining < terms.ttl.as_duration()).then_some(Shortened { received: now, remaining });
        Self {
            deadline: Confirmation { sent, remaining }.deadline(&terms, &margins),
            confirmed: sent,
            shortened,
            due: sent + jitter.shorten(terms.renewal_interval(remaining)),
            attempt: None,
            attempts: 0,
            failures: 0,
            last_progress: now,
            stalled: false,
            draining: false,
            hold_until: terms.max_hold.map(|limit| now + limit),
            lost: None,
            permits: OutstandingPermits::default(),
            margins,
            terms,
        }
    }

    /// Gives a permit for an act that takes up to `need`, if it ends before the deadline, and counts it.
    pub(crate) fn permit(&mut self, need: Duration, now: Tick) -> Result<Deadline, PermitError> {
        match self.settle(now) {
            GuardState::Lost(lost) => return Err(PermitError::Lost(lost)),
            GuardState::Suspended => return Err(PermitError::Suspended),
            GuardState::Held | GuardState::Jeopardy if self.draining && !broken(Break::PermitWhileMoving) => {
                return Err(PermitError::Draining);
            }
            GuardState::Held | GuardState::Jeopardy => {}
        }
        let deadline = self.deadline();
        let left = deadline.left(now);
        if left.is_zero() || need > left {
            return Err(PermitError::TooLate { left });
        }
        self.permits.add(deadline);
        Ok(deadline)
    }

    pub(crate) fn permits(&mut self) -> &mut OutstandingPermits {
        &mut self.permits
    }

    /// The end of exclusive acts.
    pub(crate) fn deadline(&self) -> Deadline {
        match self.hold_until {
            Some(until) => self.deadline.min(Deadline::at(until)),
            None => self.deadline,
        }
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.terms.ttl
    }

    pub(crate) fn renews_alone(&self) -> bool {
        self.terms.policy == Policy::FailClosed
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining
    }

    pub(crate) fn drain(&mut self, on: bool) {
        self.draining = on;
    }

    /// The state at `now`. A loss by time is final: no later response reverts it.
    pub(crate) fn settle(&mut self, now: Tick) -> GuardState {
        let state = self.state(now);
        if let GuardState::Lost(lost) = state {
            self.lost = Some(lost);
        }
        state
    }

    fn state(&self, now: Tick) -> GuardState {
        if let Some(lost) = self.lost {
            return GuardState::Lost(lost);
        }
        if self.hold_until.is_some_and(|until| now >= until) {
            return GuardState::Lost(Lost::HeldTooLong);
        }
        if !self.deadline.passed(now) {
            let at_risk = self.failures > 0 || now >= self.overdue();
            return match at_risk && !self.renews_alone() {
                true => GuardState::Jeopardy,
                false => GuardState::Held,
            };
        }
        match self.terms.policy {
            _ if self.stalled => GuardState::Lost(Lost::Silent),
            Policy::Pause if now < self.grace_end() => GuardState::Suspended,
            Policy::Pause | Policy::Abort | Policy::FailClosed => GuardState::Lost(Lost::Unconfirmed),
        }
    }

    /// When a due renewal is late by a third of the TTL.
    fn overdue(&self) -> Tick {
        self.confirmed + self.terms.heartbeat + self.terms.ttl.as_duration() / 3
    }

    fn grace_end(&self) -> Tick {
        self.deadline.tick() + self.terms.grace
    }

    /// Whether a renewal is due now, or so soon that it may share a call.
    pub(crate) fn is_renewal_due(&mut self, now: Tick, window: Duration) -> bool {
        if self.lost.is_some() || self.attempt.is_some() || self.due > now + self.terms.early(window) {
            return false;
        }
        if let Liveness::Progress { max_silence } = self.terms.liveness
            && now.since(self.last_progress) > max_silence
        {
            self.stalled = true;
            self.due = now + self.terms.back_off(u32::MAX);
            return false;
        }
        true
    }

    /// Starts a renewal, which must not outlast the deadline.
    pub(crate) fn begin(&mut self, now: Tick) -> Attempt {
        let mut limit = now + self.terms.renewal_timeout();
        if !self.deadline.passed(now) {
            limit = limit.min(self.deadline.tick());
        }
        self.attempts += 1;
        let attempt = Attempt { number: self.attempts, limit };
        self.attempt = Some(attempt);
        attempt
    }

    /// The store confirmed the reign to the attempt `number`.
    ///
    /// Counts for any attempt, even one that timed out before. A reign that time has ended meanwhile stays ended.
    pub(crate) fn renewed(
        &mut self,
        number: u64,
        confirmation: Confirmation,
        now: Tick,
        jitter: Jitter,
    ) -> GuardState {
        self.finish_attempt(number);
        if let GuardState::Lost(lost) = self.settle(now) {
            return GuardState::Lost(lost);
        }
        let Confirmation { sent, mut remaining } = confirmation;
        let sent = if broken(Break::DeadlineFromReply) { now } else { sent };
        // The store may have processed two requests in flight in either order. Whichever came last, it came after both
        // were sent, so the shorter time counts from the later send.
        if let Some(shortened) = self.shortened.filter(|shortened| sent < shortened.received) {
            remaining = remaining.min(shortened.remaining);
        }
        let is_short = remaining < self.terms.ttl.as_duration();
        self.shortened = is_short.then_some(Shortened { received: now, remaining });
        let latest = sent.max(self.confirmed);
        self.deadline = Confirmation { sent: latest, remaining }.deadline(&self.terms, &self.margins);
        if sent > self.confirmed || is_short {
            self.confirmed = latest;
            // Holders that failed together retry together, so jitter spreads them again. Otherwise the jitter of the
            // first interval suffices, and no renewal is sent earlier than the heartbeat requires.
            let every = self.terms.renewal_interval(remaining);
            self.due = latest + if self.failures > 0 { jitter.shorten(every) } else { every };
        }
        self.failures = 0;
        self.settle(now)
    }

    /// An attempt failed or got no response: the deadline does not move.
    pub(crate) fn failed(&mut self, number: u64, now: Tick, jitter: Jitter) -> GuardState {
        if self.attempt.is_none_or(|attempt| attempt.number != number) {
            return self.settle(now);
        }
        self.finish_attempt(number);
        self.failures = self.failures.saturating_add(1);
        self.due = now + jitter.shorten(self.terms.back_off(self.failures));
        if self.renews_alone() && self.lost.is_none() {
            self.lost = Some(Lost::Unconfirmed);
        }
        self.settle(now)
    }

    /// Fails an attempt that has timed out.
    pub(crate) fn expire_attempt(&mut self, now: Tick, jitter: Jitter) {
        if let Some(attempt) = self.attempt.filter(|attempt| now >= attempt.limit) {
            self.failed(attempt.number, now, jitter);
        }
    }

    /// Ends the reign; the first reason counts.
    pub(crate) fn lose(&mut self, lost: Lost, now: Tick) -> GuardState {
        self.settle(now);
        self.lost.get_or_insert(lost);
        self.settle(now)
    }

    /// The worker made progress.
    pub(crate) fn tick(&mut self, now: Tick) {
        self.settle(now);
        self.last_progress = now;
        self.stalled = false;
    }

    /// When this reign needs attention; none after its end.
    pub(crate) fn wake(&self, now: Tick) -> Option<Tick> {
        if self.lost.is_some() {
            return None;
        }
        let work = self.attempt.map_or(self.due, |attempt| attempt.limit);
        let changes =
            [Some(self.overdue()), Some(self.deadline.tick()), Some(self.grace_end()), self.hold_until];
        changes.into_iter().flatten().filter(|at| *at > now).chain([work]).min()
    }

    /// When work should begin to stop, so that it ends before the deadline.
    pub(crate) fn stop_work_at(&self) -> Tick {
        self.deadline().tick() - self.terms.renewal_timeout()
    }

    fn finish_attempt(&mut self, number: u64) {
        if self.attempt.is_some_and(|attempt| attempt.number == number) {
            self.attempt = None;
        }
    }
}

impl Confirmation {
    /// The deadline that it gives, never beyond the TTL of the terms.
    pub(crate) fn deadline(self, terms: &Terms, margins: &Margins) -> Deadline {
        let kept = self.remaining.min(terms.ttl.as_duration());
        match Ttl::from_millis(kept.as_millis() as u64) {
            Ok(kept) => Deadline::from_send(self.sent, kept, margins),
            // Less than a millisecond is nothing.
            Err(_) => Deadline::at(self.sent),
        }
    }
}

#[cfg(test)]
mod tests;
