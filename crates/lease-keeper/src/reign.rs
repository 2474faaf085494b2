//! The holder's view of one reign, as a pure state machine: no clock, no store.

use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Deadline, Margins, Tick, Ttl};

use crate::entropy::Jitter;
use crate::terms::{Liveness, Policy, Terms};
use crate::{GuardState, Lost};

/// The holder's side of one reign.
#[derive(Clone, Debug)]
pub(crate) struct ReignState {
    terms: Terms,
    margins: Margins,
    /// Computed from `confirmed`; only moves forward.
    deadline: Deadline,
    /// The send time of the last confirmed request.
    confirmed: Tick,
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
    /// A reign confirmed by a request that was sent at `sent`.
    pub(crate) fn new(terms: Terms, margins: Margins, sent: Tick, now: Tick, jitter: Jitter) -> Self {
        let sent = if broken(Break::DeadlineFromReply) { now } else { sent };
        Self {
            deadline: Deadline::from_send(sent, terms.ttl, &margins),
            confirmed: sent,
            due: sent + jitter.shorten(terms.heartbeat),
            attempt: None,
            attempts: 0,
            failures: 0,
            last_progress: now,
            stalled: false,
            draining: false,
            hold_until: terms.max_hold.map(|limit| now + limit),
            lost: None,
            margins,
            terms,
        }
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

    /// The store extended the reign: the request was sent at `sent`, and the store reported `remaining`.
    ///
    /// Counts for any attempt, even one that timed out before. A reign that time has ended meanwhile stays ended.
    pub(crate) fn renewed(
        &mut self,
        number: u64,
        sent: Tick,
        remaining: Duration,
        now: Tick,
        jitter: Jitter,
    ) -> GuardState {
        self.finish_attempt(number);
        if let GuardState::Lost(lost) = self.settle(now) {
            return GuardState::Lost(lost);
        }
        let sent = if broken(Break::DeadlineFromReply) { now } else { sent };
        // Never beyond what the store reported, which may be less than was requested.
        let kept = Ttl::from_millis(remaining.as_millis() as u64).unwrap_or(self.terms.ttl);
        let kept = kept.min(self.terms.ttl);
        self.deadline = self.deadline.max(Deadline::from_send(sent, kept, &self.margins));
        if sent > self.confirmed {
            self.confirmed = sent;
            // Holders that failed together retry together, so jitter spreads them again. Otherwise the jitter of the
            // first interval suffices, and no renewal is sent earlier than the heartbeat requires.
            let every = self.terms.heartbeat;
            self.due = sent + if self.failures > 0 { jitter.shorten(every) } else { every };
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

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_lease::{End, Entropy};

    struct Zero;
    impl Entropy for Zero {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(1_000_000_000_000 + ms * 1_000_000)
    }

    fn none() -> Jitter {
        Jitter::draw(&Zero)
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// 15 s from 0: due at 5 s, overdue at 10 s, deadline at 14.55 s, grace until 29.55 s.
    fn reign(policy: Policy) -> ReignState {
        let terms = Terms::new(Ttl::from_secs(15).unwrap()).policy(policy);
        ReignState::new(terms, Margins::default(), at(0), at(0), none())
    }

    #[test]
    fn time_alone_leads_from_held_to_lost() {
        let unconfirmed = GuardState::Lost(Lost::Unconfirmed);
        let table = [
            (Policy::Pause, 9_999, GuardState::Held),
            (Policy::Pause, 10_000, GuardState::Jeopardy),
            (Policy::Pause, 14_549, GuardState::Jeopardy),
            (Policy::Pause, 14_550, GuardState::Suspended),
            (Policy::Pause, 29_549, GuardState::Suspended),
            (Policy::Pause, 29_550, unconfirmed),
            (Policy::Abort, 14_549, GuardState::Jeopardy),
            (Policy::Abort, 14_550, unconfirmed),
            (Policy::FailClosed, 14_549, GuardState::Held),
            (Policy::FailClosed, 14_550, unconfirmed),
        ];
        for (i, (policy, now, expected)) in table.into_iter().enumerate() {
            assert_eq!(reign(policy).settle(at(now)), expected, "row {i}");
        }
    }

    #[test]
    fn a_failure_is_jeopardy_and_the_first_one_ends_a_fail_closed_reign() {
        for (policy, expected) in [
            (Policy::Pause, GuardState::Jeopardy),
            (Policy::Abort, GuardState::Jeopardy),
            (Policy::FailClosed, GuardState::Lost(Lost::Unconfirmed)),
        ] {
            let mut reign = reign(policy);
            let attempt = reign.begin(at(5_000));
            assert_eq!(reign.failed(attempt.number, at(5_100), none()), expected, "{policy:?}");
        }
    }

    #[test]
    fn a_failure_leaves_the_deadline_and_backs_off() {
        let mut reign = reign(Policy::Pause);
        let before = reign.deadline();
        for (n, wait) in [(1, 300), (2, 600), (3, 1_200), (4, 1_500), (5, 1_500)] {
            let attempt = reign.begin(at(5_000));
            assert_eq!(reign.failed(attempt.number, at(5_000), none()), GuardState::Jeopardy);
            assert_eq!(reign.wake(at(5_000)), Some(at(5_000 + wait)), "failure {n}");
        }
        assert_eq!(reign.deadline(), before);
    }

    #[test]
    fn a_success_counts_from_its_own_send_and_never_moves_the_deadline_back() {
        let mut reign = reign(Policy::Pause);
        let first = reign.begin(at(5_000));
        assert_eq!(first.limit, at(7_500));
        reign.expire_attempt(at(7_500), none());
        let second = reign.begin(at(7_800));
        // The response to the later attempt arrives first.
        assert_eq!(reign.renewed(second.number, at(7_800), ms(15_000), at(7_900), none()), GuardState::Held);
        assert_eq!(reign.deadline().tick(), at(7_800 + 14_550));
        assert_eq!(reign.renewed(first.number, at(5_000), ms(15_000), at(8_000), none()), GuardState::Held);
        assert_eq!(reign.deadline().tick(), at(7_800 + 14_550));
    }

    #[test]
    fn jitter_shortens_the_first_interval_and_the_one_after_a_failure_and_no_other() {
        struct Most;
        impl Entropy for Most {
            fn fill(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&1_000_u64.to_le_bytes());
            }
        }
        let most = Jitter::draw(&Most);
        let terms = Terms::new(Ttl::from_secs(15).unwrap());
        let mut reign = ReignState::new(terms, Margins::default(), at(0), at(0), most);
        assert_eq!(reign.wake(at(0)), Some(at(4_500)));
        for sent in [4_500, 9_500] {
            let attempt = reign.begin(at(sent));
            reign.renewed(attempt.number, at(sent), ms(15_000), at(sent + 1), most);
            assert_eq!(reign.wake(at(sent + 1)), Some(at(sent + 5_000)));
        }
        let failed = reign.begin(at(14_500));
        reign.failed(failed.number, at(14_600), most);
        let attempt = reign.begin(at(15_000));
        reign.renewed(attempt.number, at(15_000), ms(15_000), at(15_001), most);
        assert_eq!(reign.wake(at(15_001)), Some(at(19_500)));
    }

    #[test]
    fn an_attempt_never_outlasts_the_deadline() {
        let mut reign = reign(Policy::Pause);
        assert_eq!(reign.begin(at(14_000)).limit, at(14_550));
        assert_eq!(reign.begin(at(14_550)).limit, at(14_550 + 2_500));
    }

    #[test]
    fn a_store_that_granted_less_than_requested_is_believed() {
        let mut reign = reign(Policy::Pause);
        let attempt = reign.begin(at(12_000));
        reign.renewed(attempt.number, at(12_000), ms(10_000), at(12_001), none());
        assert_eq!(reign.deadline().tick(), at(12_000 + 9_700));
    }

    #[test]
    fn a_confirmation_ends_suspension_unless_its_own_deadline_has_passed() {
        let mut late = reign(Policy::Pause);
        let attempt = late.begin(at(5_000));
        assert_eq!(
            late.renewed(attempt.number, at(5_000), ms(15_000), at(20_000), none()),
            GuardState::Suspended
        );
        let mut fresh = reign(Policy::Pause);
        let attempt = fresh.begin(at(16_000));
        assert_eq!(
            fresh.renewed(attempt.number, at(16_000), ms(15_000), at(16_010), none()),
            GuardState::Held
        );
    }

    #[test]
    fn a_loss_by_time_is_final() {
        for policy in [Policy::Pause, Policy::Abort, Policy::FailClosed] {
            let mut reign = reign(policy);
            let attempt = reign.begin(at(29_000));
            let state = reign.renewed(attempt.number, at(29_000), ms(15_000), at(29_550), none());
            assert_eq!(state, GuardState::Lost(Lost::Unconfirmed), "{policy:?}");
            assert_eq!(reign.lose(Lost::Ended(End::Expired), at(29_560)), state, "{policy:?}");
            assert_eq!(reign.wake(at(29_560)), None);
        }
    }

    #[test]
    fn a_stalled_worker_is_not_renewed_and_loses_at_the_deadline() {
        let terms = Terms::new(Ttl::from_secs(15).unwrap())
            .liveness(Liveness::Progress { max_silence: Duration::from_secs(2) });
        let mut reign = ReignState::new(terms, Margins::default(), at(0), at(0), none());
        assert!(!reign.is_renewal_due(at(5_000), ms(0)));
        reign.tick(at(6_000));
        assert!(reign.is_renewal_due(at(6_500), ms(0)));
        assert!(!reign.is_renewal_due(at(8_001), ms(0)));
        assert_eq!(reign.settle(at(14_549)), GuardState::Jeopardy);
        assert_eq!(reign.settle(at(14_550)), GuardState::Lost(Lost::Silent));
        reign.tick(at(14_551));
        assert_eq!(reign.settle(at(14_552)), GuardState::Lost(Lost::Silent));
    }

    #[test]
    fn a_hold_ends_when_its_terms_say_so() {
        let terms = Terms::new(Ttl::from_secs(15).unwrap()).max_hold(Duration::from_secs(4));
        let mut reign = ReignState::new(terms, Margins::default(), at(0), at(0), none());
        assert_eq!(reign.deadline().tick(), at(4_000));
        assert_eq!(reign.wake(at(0)), Some(at(4_000)));
        assert_eq!(reign.settle(at(4_000)), GuardState::Lost(Lost::HeldTooLong));
    }

    #[test]
    fn renewals_due_soon_may_leave_early_but_not_by_more_than_a_tenth() {
        let mut reign = reign(Policy::Pause);
        assert!(!reign.is_renewal_due(at(4_899), ms(100)));
        assert!(reign.is_renewal_due(at(4_900), ms(100)));
        assert!(!reign.is_renewal_due(at(4_499), ms(10_000)));
    }
}
