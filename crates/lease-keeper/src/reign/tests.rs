//! Table tests of the state machine.

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

fn confirmed(sent: u64, remaining: u64) -> Confirmation {
    Confirmation { sent: at(sent), remaining: ms(remaining) }
}

/// 15 s from 0: due at 5 s, overdue at 10 s, deadline at 14.55 s, grace until 29.55 s.
fn reign(policy: Policy) -> ReignState {
    let terms = Terms::new(Ttl::from_secs(15).unwrap()).policy(policy);
    ReignState::new(terms, Margins::default(), confirmed(0, 15_000), at(0), none())
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
    assert_eq!(reign.renewed(second.number, confirmed(7_800, 15_000), at(7_900), none()), GuardState::Held);
    assert_eq!(reign.deadline().tick(), at(7_800 + 14_550));
    assert_eq!(reign.renewed(first.number, confirmed(5_000, 15_000), at(8_000), none()), GuardState::Held);
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
    let mut reign = ReignState::new(terms, Margins::default(), confirmed(0, 15_000), at(0), most);
    assert_eq!(reign.wake(at(0)), Some(at(4_500)));
    for sent in [4_500, 9_500] {
        let attempt = reign.begin(at(sent));
        reign.renewed(attempt.number, confirmed(sent, 15_000), at(sent + 1), most);
        assert_eq!(reign.wake(at(sent + 1)), Some(at(sent + 5_000)));
    }
    let failed = reign.begin(at(14_500));
    reign.failed(failed.number, at(14_600), most);
    let attempt = reign.begin(at(15_000));
    reign.renewed(attempt.number, confirmed(15_000, 15_000), at(15_001), most);
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
    reign.renewed(attempt.number, confirmed(12_000, 10_000), at(12_001), none());
    assert_eq!(reign.deadline().tick(), at(12_000 + 9_700));
}

#[test]
fn a_confirmation_ends_suspension_unless_its_own_deadline_has_passed() {
    let mut late = reign(Policy::Pause);
    let attempt = late.begin(at(5_000));
    assert_eq!(
        late.renewed(attempt.number, confirmed(5_000, 15_000), at(20_000), none()),
        GuardState::Suspended
    );
    let mut fresh = reign(Policy::Pause);
    let attempt = fresh.begin(at(16_000));
    assert_eq!(
        fresh.renewed(attempt.number, confirmed(16_000, 15_000), at(16_010), none()),
        GuardState::Held
    );
}

#[test]
fn a_loss_by_time_is_final() {
    for policy in [Policy::Pause, Policy::Abort, Policy::FailClosed] {
        let mut reign = reign(policy);
        let attempt = reign.begin(at(29_000));
        let state = reign.renewed(attempt.number, confirmed(29_000, 15_000), at(29_550), none());
        assert_eq!(state, GuardState::Lost(Lost::Unconfirmed), "{policy:?}");
        assert_eq!(reign.lose(Lost::Ended(End::Expired), at(29_560)), state, "{policy:?}");
        assert_eq!(reign.wake(at(29_560)), None);
    }
}

#[test]
fn a_stalled_worker_is_not_renewed_and_loses_at_the_deadline() {
    let terms = Terms::new(Ttl::from_secs(15).unwrap())
        .liveness(Liveness::Progress { max_silence: Duration::from_secs(2) });
    let mut reign = ReignState::new(terms, Margins::default(), confirmed(0, 15_000), at(0), none());
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
    let mut reign = ReignState::new(terms, Margins::default(), confirmed(0, 15_000), at(0), none());
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

#[test]
fn a_renewal_that_reports_less_lowers_the_deadline_and_brings_the_next_one_forward() {
    let mut reign = reign(Policy::Pause);
    let attempt = reign.begin(at(5_000));
    reign.renewed(attempt.number, confirmed(5_000, 3_000), at(5_010), none());
    assert_eq!(reign.deadline().tick(), at(5_000 + 3_000 - 90), "the grant was longer");
    assert_eq!(reign.wake(at(5_010)), Some(at(6_000)), "a third of what is left");
    let attempt = reign.begin(at(6_000));
    reign.renewed(attempt.number, confirmed(6_000, 15_000), at(6_010), none());
    assert_eq!(reign.deadline().tick(), at(6_000 + 14_550), "the store gives the whole TTL again");
}

#[test]
fn less_than_a_millisecond_is_nothing() {
    for remaining in [Duration::ZERO, Duration::from_micros(999)] {
        let mut reign = reign(Policy::Pause);
        let attempt = reign.begin(at(5_000));
        let confirmation = Confirmation { sent: at(5_000), remaining };
        assert_eq!(reign.renewed(attempt.number, confirmation, at(5_001), none()), GuardState::Suspended);
        assert_eq!(reign.deadline().tick(), at(5_000));
        assert_eq!(reign.wake(at(5_001)), Some(at(5_300)), "it is renewed, though not at once");
    }
}

/// Two requests are in flight, and the store may have processed either last. The first is sent at 5 s, the second at
/// 7.8 s.
#[test]
fn of_two_requests_in_flight_the_shorter_answer_counts_from_the_later_send() {
    let (whole, short) = (7_800 + 14_550, 7_800 + 9_700);
    let table = [
        // Which answer arrives first, what each reports, and the deadline after both.
        ([1, 2], [15_000, 15_000], whole),
        ([2, 1], [15_000, 15_000], whole),
        ([1, 2], [10_000, 15_000], short),
        ([2, 1], [10_000, 15_000], short),
        ([1, 2], [15_000, 10_000], short),
        ([2, 1], [15_000, 10_000], short),
    ];
    for (row, (order, remaining, expected)) in table.into_iter().enumerate() {
        let mut reign = reign(Policy::Pause);
        let first = reign.begin(at(5_000));
        reign.expire_attempt(at(7_500), none());
        let second = reign.begin(at(7_800));
        for (index, answer) in order.into_iter().enumerate() {
            let (attempt, sent, left) = match answer {
                1 => (first, 5_000, remaining[0]),
                _ => (second, 7_800, remaining[1]),
            };
            reign.renewed(attempt.number, confirmed(sent, left), at(7_900 + index as u64), none());
        }
        assert_eq!(reign.deadline().tick(), at(expected), "row {row}");
    }
}

#[test]
fn a_permit_is_given_only_before_the_deadline_of_a_lease_that_stays() {
    let until = Deadline::at(at(14_550));
    let table = [
        (0, 0, false, Ok(until)),
        (14_000, 550, false, Ok(until)),
        (14_000, 551, false, Err(PermitError::TooLate { left: ms(550) })),
        (0, 0, true, Err(PermitError::Draining)),
        (14_550, 0, false, Err(PermitError::Suspended)),
        (29_550, 0, false, Err(PermitError::Lost(Lost::Unconfirmed))),
    ];
    for (row, (now, need, draining, expected)) in table.into_iter().enumerate() {
        let mut reign = reign(Policy::Pause);
        reign.drain(draining);
        assert_eq!(reign.permit(ms(need), at(now)), expected, "row {row}");
        assert_eq!(reign.permits().until(), expected.ok(), "row {row}: only what was given is counted");
    }
}
