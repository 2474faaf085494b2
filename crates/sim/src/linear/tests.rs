use super::*;
use crate::history::{Answer, Call, CallVerb, Event, Outcome, Setting, What};

const S: Nanos = 1_000_000_000;
const TTL: Nanos = 10 * S;

/// A history that is written down by hand.
#[derive(Default)]
struct By {
    events: Vec<Event>,
    ops: u64,
}

impl By {
    /// An operation from one moment to another.
    fn op(
        &mut self,
        (from, to): (Nanos, Nanos),
        verb: CallVerb,
        (token, named): (u64, Option<u64>),
        (outcome, word, answered): (Outcome, &'static str, Option<u64>),
    ) -> &mut Self {
        self.ops += 1;
        let ttl = matches!(verb, CallVerb::Acquire | CallVerb::Replace | CallVerb::Renew).then_some(TTL);
        let call = Call {
            verb,
            key: "k".into(),
            token: Some(token),
            generation: named,
            holder: matches!(verb, CallVerb::Acquire | CallVerb::Replace).then(|| format!("h{token}")),
            ttl,
            wait: None,
        };
        let why = (word == "busy").then_some("held".into());
        let answer = Answer { outcome, word: word.into(), generation: answered, why };
        self.events.push(Event { at: from * S, what: What::Invoked { op: self.ops, client: 0, call } });
        self.events.push(Event { at: to * S, what: What::Returned { op: self.ops, answer } });
        self
    }

    fn granted(&mut self, when: (Nanos, Nanos), token: u64, generation: u64) -> &mut Self {
        self.op(when, CallVerb::Acquire, (token, None), (Outcome::Ok, "granted", Some(generation)))
    }

    fn busy(&mut self, when: (Nanos, Nanos), token: u64, generation: u64) -> &mut Self {
        self.op(when, CallVerb::Acquire, (token, None), (Outcome::Refused, "busy", Some(generation)))
    }

    fn renewed(&mut self, when: (Nanos, Nanos), token: u64, generation: u64) -> &mut Self {
        self.op(when, CallVerb::Renew, (token, Some(generation)), (Outcome::Ok, "renewed", None))
    }

    /// A renewal for another time, or for whatever the reign has.
    fn renewed_for(&mut self, (from, to): (Nanos, Nanos), token: u64, ttl: Option<Nanos>) -> &mut Self {
        self.renewed((from, to), token, 5);
        let asked = self.events.iter_mut().rev().find_map(|event| match &mut event.what {
            What::Invoked { call, .. } => Some(call),
            _ => None,
        });
        asked.unwrap().ttl = ttl;
        self
    }

    fn released(&mut self, when: (Nanos, Nanos), token: u64) -> &mut Self {
        self.op(when, CallVerb::Release, (token, None), (Outcome::Ok, "released", None))
    }

    fn seen(&mut self, when: (Nanos, Nanos), word: &'static str, generation: Option<u64>) -> &mut Self {
        self.op(when, CallVerb::Inspect, (0, None), (Outcome::Ok, word, generation))
    }

    fn unknown(&mut self, when: (Nanos, Nanos), verb: CallVerb, token: u64) -> &mut Self {
        self.op(when, verb, (token, None), (Outcome::Unknown, "unknown", None))
    }

    fn crash(&mut self, at: Nanos) -> &mut Self {
        let what = What::Fault { name: "crash".into(), host: None, until: at * S };
        self.events.push(Event { at: at * S, what });
        self
    }

    fn check(&self) -> Result<SearchStats, NotLinearizable> {
        self.check_in(Setting::default())
    }

    fn check_in(&self, setting: Setting) -> Result<SearchStats, NotLinearizable> {
        let mut history = History { setting, events: self.events.clone() };
        history.sort();
        check(&history)
    }
}

#[test]
fn a_plain_reign_has_an_order() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).busy((2, 3), 2, 5).renewed((3, 4), 1, 5).released((5, 6), 1);
    by.seen((6, 7), "free", Some(5)).granted((7, 8), 2, 6);
    assert_eq!(by.check().map(|looked| looked.given_up), Ok(0));
}

#[test]
fn operations_at_the_same_time_may_be_in_any_order() {
    let mut by = By::default();
    by.granted((0, 9), 2, 6).granted((0, 9), 1, 5).released((0, 9), 1).busy((0, 9), 3, 5);
    by.check().unwrap();
}

#[test]
fn two_grants_without_an_end_between_them_have_none() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).granted((2, 3), 2, 6);
    assert!(by.check().unwrap_err().message.contains("granted"));
}

#[test]
fn time_ends_a_reign_from_its_ttl_on_and_not_before() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).granted((10, 11), 2, 6);
    by.check().unwrap();
    let mut by = By::default();
    by.granted((0, 1), 1, 5).renewed((2, 3), 1, 5).granted((10, 11), 2, 6);
    by.check().unwrap_err();
}

#[test]
fn a_read_that_is_behind_has_no_order() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).seen((2, 3), "free", None);
    by.check().unwrap_err();
    let mut by = By::default();
    by.granted((0, 1), 1, 5).released((1, 2), 1).granted((2, 3), 2, 6).seen((4, 5), "held", Some(5));
    by.check().unwrap_err();
}

#[test]
fn a_release_that_was_lost_has_no_order() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).released((1, 2), 1).busy((3, 4), 2, 5);
    by.check().unwrap_err();
}

#[test]
fn a_reign_that_time_has_ended_is_not_revived() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).renewed((20, 21), 1, 5);
    by.check().unwrap_err();
    let mut by = By::default();
    by.granted((0, 1), 1, 5).granted((11, 12), 2, 6).renewed((13, 14), 1, 5);
    by.check().unwrap_err();
}

#[test]
fn generations_that_fall_or_repeat_have_no_order() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).released((1, 2), 1).granted((2, 3), 2, 4);
    by.check().unwrap_err();
    let mut by = By::default();
    by.granted((0, 1), 1, 5).released((1, 2), 1).granted((2, 3), 2, 5);
    by.check().unwrap_err();
}

#[test]
fn a_token_that_was_spent_is_not_granted_again() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).released((1, 2), 1).granted((2, 3), 1, 6);
    by.check().unwrap_err();
    let mut by = By::default();
    by.op((0, 1), CallVerb::Release, (1, None), (Outcome::Refused, "not_held", None)).granted((2, 3), 1, 5);
    by.check().unwrap_err();
}

#[test]
fn what_was_not_answered_may_have_happened_later_or_never() {
    for generation in [5, 6] {
        let mut by = By::default();
        by.granted((0, 1), 1, 5).unknown((2, 3), CallVerb::Release, 1).seen((4, 5), "held", Some(5));
        match generation {
            5 => by.seen((6, 7), "held", Some(5)),
            _ => by.granted((6, 7), 2, 6),
        };
        by.check().unwrap();
    }
    // It happened, so it does not undo itself.
    let mut by = By::default();
    by.granted((0, 1), 1, 5).unknown((2, 3), CallVerb::Release, 1).seen((4, 5), "free", Some(5));
    by.seen((6, 7), "held", Some(5));
    by.check().unwrap_err();
}

#[test]
fn a_claim_without_an_answer_explains_a_holder_that_nobody_was_told_of() {
    let mut by = By::default();
    by.unknown((0, 1), CallVerb::Acquire, 1).busy((2, 3), 2, 7).granted((3, 4), 1, 7).busy((4, 5), 2, 7);
    by.check().unwrap();
    let mut by = By::default();
    by.busy((2, 3), 2, 7);
    by.check().unwrap_err();
}

#[test]
fn a_successor_takes_the_key_under_the_number_of_the_transfer() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5);
    by.op((2, 9), CallVerb::Acquire, (2, None), (Outcome::Ok, "parked", Some(6)));
    by.op((3, 4), CallVerb::Transfer, (1, Some(5)), (Outcome::Ok, "transferred", Some(6)));
    by.renewed((9, 10), 2, 6).op((10, 11), CallVerb::Renew, (1, Some(5)), (Outcome::Refused, "lost", None));
    by.check().unwrap();
    by.renewed((11, 12), 1, 5);
    by.check().unwrap_err();
}

#[test]
fn a_lock_delay_keeps_everybody_out() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5);
    by.op((2, 3), CallVerb::Revoke, (0, Some(5)), (Outcome::Ok, "revoked", None));
    by.seen((3, 4), "delayed", Some(5));
    by.check().unwrap();
}

#[test]
fn a_fenced_write_needs_a_live_lease() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5);
    by.op((1, 2), CallVerb::WriteStrict, (1, Some(5)), (Outcome::Ok, "written", None)).released((2, 3), 1);
    by.op((3, 4), CallVerb::WriteStrict, (1, Some(5)), (Outcome::Refused, "fenced_out", Some(5)));
    by.check().unwrap();
    by.op((4, 5), CallVerb::WriteStrict, (1, Some(5)), (Outcome::Ok, "written", None));
    by.check().unwrap_err();
}

#[test]
fn a_store_that_comes_back_may_give_a_reign_its_time_again_but_forgets_nothing() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).crash(9).renewed((12, 13), 1, 5);
    by.check().unwrap();
    let mut by = By::default();
    by.granted((0, 1), 1, 5).released((2, 3), 1).crash(4).renewed((5, 6), 1, 5);
    by.check().unwrap_err();
    let mut by = By::default();
    by.granted((0, 1), 1, 5).crash(4).granted((5, 6), 2, 4);
    by.check().unwrap_err();
}

#[test]
fn a_store_that_comes_back_may_not_know_that_a_ttl_was_shortened() {
    let shortened = |crashes: bool| {
        let mut by = By::default();
        by.granted((0, 1), 1, 5).renewed_for((2, 3), 1, Some(S));
        if crashes {
            by.crash(3);
        }
        by.renewed_for((3, 4), 1, None).busy((7, 8), 2, 5);
        by.check()
    };
    shortened(true).unwrap();
    shortened(false).unwrap_err();
    // It knows every TTL that was longer.
    let mut by = By::default();
    by.granted((0, 1), 1, 5).crash(2).renewed_for((3, 4), 1, None).granted((11, 12), 2, 6);
    by.check().unwrap_err();
}

#[test]
fn a_request_that_was_sent_again_may_have_happened_twice() {
    let again = Setting { resends: true, ..Setting::default() };
    // The first copy ended the reign, the second found nothing.
    let mut by = By::default();
    by.granted((0, 1), 1, 5);
    by.op((2, 3), CallVerb::Release, (1, None), (Outcome::Refused, "not_held", None)).granted((4, 5), 2, 6);
    by.check().unwrap_err();
    by.check_in(again.clone()).unwrap();
    // The first copy began a reign that others saw, the second one that was answered.
    let mut by = By::default();
    by.granted((0, 40), 1, 7).busy((5, 6), 2, 5);
    by.check().unwrap_err();
    by.check_in(again.clone()).unwrap();
    // This number may never have been granted.
    let mut by = By::default();
    by.granted((0, 1), 1, 5).released((1, 2), 1).busy((3, 4), 2, 9);
    by.check_in(again).unwrap_err();
}

#[test]
fn a_server_that_died_in_between_came_back_at_some_moment() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5);
    let what = What::Fault { name: "crash".into(), host: Some(0), until: 20 * S };
    by.events.push(Event { at: 9 * S, what });
    by.renewed((15, 21), 1, 5);
    by.check().unwrap();
    // A store whose clock and memory outlive it gives nothing its time again.
    by.check_in(Setting { engine: "redis".into(), ..Setting::default() }).unwrap_err();
}

#[test]
fn a_long_wait_does_not_hide_those_who_came_later() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5);
    by.op((1, 290), CallVerb::Acquire, (2, None), (Outcome::Refused, "busy", Some(5)));
    for n in 0..280 {
        by.renewed((2 + n, 3 + n), 1, 5);
    }
    assert_eq!(by.check().map(|looked| looked.given_up), Ok(0));
}

#[test]
fn the_reign_that_a_second_claim_is_told_of_may_be_that_of_the_first() {
    let mut by = By::default();
    by.unknown((0, 1), CallVerb::Acquire, 1).busy((2, 3), 2, 5).granted((4, 5), 1, 5);
    by.check().unwrap();
    // Not that of another holder.
    let mut by = By::default();
    by.unknown((0, 1), CallVerb::Acquire, 1).busy((2, 3), 2, 5).granted((4, 5), 3, 5);
    by.check().unwrap_err();
}

#[test]
fn a_replacement_without_an_answer_shows_in_who_is_gone() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).op((2, 3), CallVerb::Replace, (2, Some(5)), (Outcome::Unknown, "unknown", None));
    by.granted((4, 5), 3, 7);
    by.check().unwrap();
}

#[test]
fn a_release_without_an_answer_may_have_given_its_token_up() {
    let spent = |by: &mut By| {
        by.op((4, 5), CallVerb::Acquire, (1, None), (Outcome::Refused, "token_spent", None));
        by.check()
    };
    spent(By::default().unknown((0, 1), CallVerb::Release, 1)).unwrap();
    spent(By::default().unknown((0, 1), CallVerb::Release, 2)).unwrap_err();
}

#[test]
fn a_claim_without_an_answer_may_follow_a_reign_that_time_has_ended() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).unknown((2, 3), CallVerb::Acquire, 2).seen((12, 13), "held", Some(6));
    by.check().unwrap();
}

#[test]
fn a_holder_that_asked_again_and_went_away_may_have_given_the_key_back() {
    let after = |by: &mut By| by.granted((4, 5), 2, 6).check();
    after(By::default().granted((0, 1), 1, 5).unknown((2, 3), CallVerb::Acquire, 1)).unwrap();
    after(By::default().granted((0, 1), 1, 5).unknown((2, 3), CallVerb::Acquire, 3)).unwrap_err();
    // A caller that was answered keeps it, also when the same claim comes a second time.
    let mut by = By::default();
    by.granted((0, 1), 1, 5).granted((4, 5), 2, 6);
    by.check_in(Setting { resends: true, ..Setting::default() }).unwrap_err();
}

#[test]
fn a_token_that_was_given_back_by_whoever_went_away_is_spent() {
    let spent = |by: &mut By| {
        by.op((4, 5), CallVerb::Acquire, (1, None), (Outcome::Refused, "token_spent", None));
        by.check()
    };
    spent(By::default().unknown((0, 1), CallVerb::Acquire, 1)).unwrap();
    spent(By::default().unknown((0, 1), CallVerb::Acquire, 2)).unwrap_err();
}

#[test]
fn a_replacement_without_an_answer_may_have_any_number_that_shows() {
    let mut by = By::default();
    by.granted((0, 1), 1, 5).op((2, 3), CallVerb::Replace, (2, Some(5)), (Outcome::Unknown, "unknown", None));
    // A claim names the next number, which is not the one that was granted.
    by.op((4, 5), CallVerb::Replace, (3, Some(6)), (Outcome::Refused, "busy", Some(9)));
    let what = &mut by.events.last_mut().unwrap().what;
    if let What::Returned { answer, .. } = what {
        answer.why = Some("not_that_generation".into());
    }
    by.granted((6, 7), 2, 9);
    by.check().unwrap();
}

#[test]
fn a_replacement_without_an_answer_may_follow_a_claim_without_one() {
    let mut by = By::default();
    by.unknown((0, 1), CallVerb::Acquire, 1);
    by.op((2, 3), CallVerb::Replace, (2, Some(5)), (Outcome::Unknown, "unknown", None));
    by.busy((4, 5), 3, 6).granted((6, 7), 2, 6);
    by.check().unwrap();
}

#[test]
fn a_release_that_names_an_earlier_reign_of_the_holders_does_not_give_its_token_up() {
    let after = |again: bool| {
        let mut by = By::default();
        by.granted((0, 1), 1, 5);
        if again {
            by.granted((12, 13), 1, 6);
        }
        by.op((14, 15), CallVerb::Release, (1, Some(5)), (Outcome::Refused, "not_held", None));
        by.granted((30, 31), 1, 7).check()
    };
    after(true).unwrap();
    after(false).unwrap_err();
}
