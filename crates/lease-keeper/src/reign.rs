//! What the holder knows of one reign, and what follows from it at a given time. Pure: no clock, no store.

use std::time::Duration;

use lease::breaks::{Break, broken};
use lease::{Deadline, Margins, Tick, Ttl};

use crate::entropy::Jitter;
use crate::terms::{Liveness, Policy, Terms};
use crate::{Lost, State};

/// The holder's side of one reign.
#[derive(Clone, Debug)]
pub(crate) struct Reign {
    terms: Terms,
    margins: Margins,
    /// Rests on `confirmed`; only ever moves forward.
    deadline: Deadline,
    /// The send time of the request that `deadline` rests on.
    confirmed: Tick,
    /// When the next renewal should leave.
    due: Tick,
    attempt: Option<Attempt>,
    attempts: u64,
    failures: u32,
    ticked: Tick,
    /// A renewal was left out because the worker is silent.
    muted: bool,
    draining: bool,
    hold_until: Option<Tick>,
    lost: Option<Lost>,
}

/// One renewal on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    /// Which one, so that a late failure is not taken for that of its successor.
    pub(crate) number: u64,
    /// When to count it as failed.
    pub(crate) limit: Tick,
}

impl Reign {
    /// A reign confirmed by a request that left at `sent`.
    pub(crate) fn new(terms: Terms, margins: Margins, sent: Tick, now: Tick, jitter: Jitter) -> Self {
        let sent = if broken(Break::DeadlineFromReply) { now } else { sent };
        Self {
            deadline: Deadline::from_send(sent, terms.ttl, &margins),
            confirmed: sent,
            due: sent + jitter.shorten(terms.heartbeat),
            attempt: None,
            attempts: 0,
            failures: 0,
            ticked: now,
            muted: false,
            draining: false,
            hold_until: terms.max_hold.map(|most| now + most),
            lost: None,
            margins,
            terms,
        }
    }

    /// The last instant of exclusive acts.
    pub(crate) fn deadline(&self) -> Deadline {
        match self.hold_until {
            Some(until) => self.deadline.min(Deadline::at(until)),
            None => self.deadline,
        }
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.terms.ttl
    }

    pub(crate) fn alone(&self) -> bool {
        self.terms.policy == Policy::FailClosed
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining
    }

    pub(crate) fn drain(&mut self, on: bool) {
        self.draining = on;
    }

    /// The state at `now`. A loss that time has brought is kept: no later answer takes it back.
    pub(crate) fn settle(&mut self, now: Tick) -> State {
        let state = self.state(now);
        if let State::Lost(lost) = state {
            self.lost = Some(lost);
        }
        state
    }

    fn state(&self, now: Tick) -> State {
        if let Some(lost) = self.lost {
            return State::Lost(lost);
        }
        if self.hold_until.is_some_and(|until| now >= until) {
            return State::Lost(Lost::HeldTooLong);
        }
        if !self.deadline.passed(now) {
            let shaky = self.failures > 0 || now >= self.overdue();
            return match shaky && !self.alone() {
                true => State::Jeopardy,
                false => State::Held,
            };
        }
        match self.terms.policy {
            _ if self.muted => State::Lost(Lost::Silent),
            Policy::Pause if now < self.grace_end() => State::Suspended,
            Policy::Pause | Policy::Abort | Policy::FailClosed => State::Lost(Lost::Unconfirmed),
        }
    }

    /// When a renewal that should have left is late by a third of the TTL.
    fn overdue(&self) -> Tick {
        self.confirmed + self.terms.heartbeat + self.terms.ttl.as_duration() / 3
    }

    fn grace_end(&self) -> Tick {
        self.deadline.tick() + self.terms.grace
    }

    /// Whether a renewal should leave now, or so soon that it may share a call.
    pub(crate) fn wants_renewal(&mut self, now: Tick, window: Duration) -> bool {
        if self.lost.is_some() || self.attempt.is_some() || self.due > now + self.terms.early(window) {
            return false;
        }
        if let Liveness::Progress { max_silence } = self.terms.liveness
            && now.since(self.ticked) > max_silence
        {
            self.muted = true;
            self.due = now + self.terms.back_off(u32::MAX);
            return false;
        }
        true
    }

    /// Notes that a renewal leaves, and until when it may take: never past the deadline.
    pub(crate) fn begin(&mut self, now: Tick) -> Attempt {
        let mut limit = now + self.terms.attempt();
        if !self.deadline.passed(now) {
            limit = limit.min(self.deadline.tick());
        }
        self.attempts += 1;
        let attempt = Attempt { number: self.attempts, limit };
        self.attempt = Some(attempt);
        attempt
    }

    /// The store prolonged the reign: the request left at `sent`, the store had `remaining` left after it.
    ///
    /// Counts for any attempt, also one given up before. Time may have ended the reign meanwhile: then it
    /// stays ended.
    pub(crate) fn renewed(
        &mut self,
        number: u64,
        sent: Tick,
        remaining: Duration,
        now: Tick,
        jitter: Jitter,
    ) -> State {
        self.close(number);
        if let State::Lost(lost) = self.settle(now) {
            return State::Lost(lost);
        }
        let sent = if broken(Break::DeadlineFromReply) { now } else { sent };
        // Never beyond the store's own word, should it have kept less than was asked.
        let kept = Ttl::from_millis(remaining.as_millis() as u64).unwrap_or(self.terms.ttl);
        let kept = kept.min(self.terms.ttl);
        self.deadline = self.deadline.max(Deadline::from_send(sent, kept, &self.margins));
        if sent > self.confirmed {
            self.confirmed = sent;
            // What failed together comes back together, and parts again here. Otherwise the first interval's jitter
            // is what keeps holders apart, and no renewal is sent that the heartbeat does not ask for.
            let every = self.terms.heartbeat;
            self.due = sent + if self.failures > 0 { jitter.shorten(every) } else { every };
        }
        self.failures = 0;
        self.settle(now)
    }

    /// An attempt failed or was not answered: the old deadline stands.
    pub(crate) fn failed(&mut self, number: u64, now: Tick, jitter: Jitter) -> State {
        if self.attempt.is_none_or(|attempt| attempt.number != number) {
            return self.settle(now);
        }
        self.close(number);
        self.failures = self.failures.saturating_add(1);
        self.due = now + jitter.shorten(self.terms.back_off(self.failures));
        if self.alone() && self.lost.is_none() {
            self.lost = Some(Lost::Unconfirmed);
        }
        self.settle(now)
    }

    /// Gives up an attempt whose time is over.
    pub(crate) fn give_up(&mut self, now: Tick, jitter: Jitter) {
        if let Some(attempt) = self.attempt.filter(|attempt| now >= attempt.limit) {
            self.failed(attempt.number, now, jitter);
        }
    }

    /// The reign is over; the first reason counts.
    pub(crate) fn lose(&mut self, lost: Lost, now: Tick) -> State {
        self.settle(now);
        self.lost.get_or_insert(lost);
        self.settle(now)
    }

    /// The worker made progress.
    pub(crate) fn tick(&mut self, now: Tick) {
        self.settle(now);
        self.ticked = now;
        self.muted = false;
    }

    /// When to look at this reign again; none when it is over.
    pub(crate) fn wake(&self, now: Tick) -> Option<Tick> {
        if self.lost.is_some() {
            return None;
        }
        let work = self.attempt.map_or(self.due, |attempt| attempt.limit);
        let changes =
            [Some(self.overdue()), Some(self.deadline.tick()), Some(self.grace_end()), self.hold_until];
        changes.into_iter().flatten().filter(|at| *at > now).chain([work]).min()
    }

    /// When to begin winding down work that should be over before the deadline.
    pub(crate) fn last_call(&self) -> Tick {
        self.deadline().tick() - self.terms.attempt()
    }

    fn close(&mut self, number: u64) {
        if self.attempt.is_some_and(|attempt| attempt.number == number) {
            self.attempt = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::{End, Entropy};

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
    fn reign(policy: Policy) -> Reign {
        let terms = Terms::new(Ttl::from_secs(15).unwrap()).policy(policy);
        Reign::new(terms, Margins::default(), at(0), at(0), none())
    }

    #[test]
    fn time_alone_leads_from_held_to_lost() {
        let unconfirmed = State::Lost(Lost::Unconfirmed);
        let table = [
            (Policy::Pause, 9_999, State::Held),
            (Policy::Pause, 10_000, State::Jeopardy),
            (Policy::Pause, 14_549, State::Jeopardy),
            (Policy::Pause, 14_550, State::Suspended),
            (Policy::Pause, 29_549, State::Suspended),
            (Policy::Pause, 29_550, unconfirmed),
            (Policy::Abort, 14_549, State::Jeopardy),
            (Policy::Abort, 14_550, unconfirmed),
            (Policy::FailClosed, 14_549, State::Held),
            (Policy::FailClosed, 14_550, unconfirmed),
        ];
        for (i, (policy, now, expected)) in table.into_iter().enumerate() {
            assert_eq!(reign(policy).settle(at(now)), expected, "row {i}");
        }
    }

    #[test]
    fn a_failure_is_jeopardy_and_the_first_one_ends_a_fail_closed_reign() {
        for (policy, expected) in [
            (Policy::Pause, State::Jeopardy),
            (Policy::Abort, State::Jeopardy),
            (Policy::FailClosed, State::Lost(Lost::Unconfirmed)),
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
            assert_eq!(reign.failed(attempt.number, at(5_000), none()), State::Jeopardy);
            assert_eq!(reign.wake(at(5_000)), Some(at(5_000 + wait)), "failure {n}");
        }
        assert_eq!(reign.deadline(), before);
    }

    #[test]
    fn a_success_counts_from_its_own_send_and_never_moves_the_deadline_back() {
        let mut reign = reign(Policy::Pause);
        let first = reign.begin(at(5_000));
        assert_eq!(first.limit, at(7_500));
        reign.give_up(at(7_500), none());
        let second = reign.begin(at(7_800));
        // The later attempt is answered first.
        assert_eq!(reign.renewed(second.number, at(7_800), ms(15_000), at(7_900), none()), State::Held);
        assert_eq!(reign.deadline().tick(), at(7_800 + 14_550));
        assert_eq!(reign.renewed(first.number, at(5_000), ms(15_000), at(8_000), none()), State::Held);
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
        let mut reign = Reign::new(terms, Margins::default(), at(0), at(0), most);
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
    fn a_store_that_kept_less_than_asked_is_believed() {
        let mut reign = reign(Policy::Pause);
        let attempt = reign.begin(at(12_000));
        reign.renewed(attempt.number, at(12_000), ms(10_000), at(12_001), none());
        assert_eq!(reign.deadline().tick(), at(12_000 + 9_700));
    }

    #[test]
    fn a_confirmation_ends_suspension_unless_its_own_deadline_has_passed() {
        let mut late = reign(Policy::Pause);
        let attempt = late.begin(at(5_000));
        assert_eq!(late.renewed(attempt.number, at(5_000), ms(15_000), at(20_000), none()), State::Suspended);
        let mut fresh = reign(Policy::Pause);
        let attempt = fresh.begin(at(16_000));
        assert_eq!(fresh.renewed(attempt.number, at(16_000), ms(15_000), at(16_010), none()), State::Held);
    }

    #[test]
    fn a_loss_that_time_brought_is_not_taken_back() {
        for policy in [Policy::Pause, Policy::Abort, Policy::FailClosed] {
            let mut reign = reign(policy);
            let attempt = reign.begin(at(29_000));
            let state = reign.renewed(attempt.number, at(29_000), ms(15_000), at(29_550), none());
            assert_eq!(state, State::Lost(Lost::Unconfirmed), "{policy:?}");
            assert_eq!(reign.lose(Lost::Ended(End::Expired), at(29_560)), state, "{policy:?}");
            assert_eq!(reign.wake(at(29_560)), None);
        }
    }

    #[test]
    fn a_silent_worker_is_not_renewed_and_loses_at_the_deadline() {
        let terms = Terms::new(Ttl::from_secs(15).unwrap())
            .liveness(Liveness::Progress { max_silence: Duration::from_secs(2) });
        let mut reign = Reign::new(terms, Margins::default(), at(0), at(0), none());
        assert!(!reign.wants_renewal(at(5_000), ms(0)));
        reign.tick(at(6_000));
        assert!(reign.wants_renewal(at(6_500), ms(0)));
        assert!(!reign.wants_renewal(at(8_001), ms(0)));
        assert_eq!(reign.settle(at(14_549)), State::Jeopardy);
        assert_eq!(reign.settle(at(14_550)), State::Lost(Lost::Silent));
        reign.tick(at(14_551));
        assert_eq!(reign.settle(at(14_552)), State::Lost(Lost::Silent));
    }

    #[test]
    fn a_hold_ends_when_its_terms_say_so() {
        let terms = Terms::new(Ttl::from_secs(15).unwrap()).max_hold(Duration::from_secs(4));
        let mut reign = Reign::new(terms, Margins::default(), at(0), at(0), none());
        assert_eq!(reign.deadline().tick(), at(4_000));
        assert_eq!(reign.wake(at(0)), Some(at(4_000)));
        assert_eq!(reign.settle(at(4_000)), State::Lost(Lost::HeldTooLong));
    }

    #[test]
    fn renewals_due_soon_may_leave_early_but_not_by_more_than_a_tenth() {
        let mut reign = reign(Policy::Pause);
        assert!(!reign.wants_renewal(at(4_899), ms(100)));
        assert!(reign.wants_renewal(at(4_900), ms(100)));
        assert!(!reign.wants_renewal(at(4_499), ms(10_000)));
    }
}
