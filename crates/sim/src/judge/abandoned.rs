//! I10 and I11: what was let go does not stay held, and does not come back.

use std::collections::{BTreeMap, BTreeSet};

use super::fault_free::FaultFree;
use super::reigns::{ObservedReign, reigns};
use super::{Invariant, Violation};
use crate::history::{Call, CallVerb, Client, Event, History, Nanos, OpId, Step, TokenId, What, Word};

/// A token that a client let go.
struct Gone<'h> {
    client: Client,
    key: &'h str,
    token: TokenId,
    at: Nanos,
    /// Until when the reaper owes a release.
    owed: Nanos,
}

/// I10: with nothing at fault, the reign of a token that its client let go ends within the reaper's bound; and
/// it is not renewed.
pub fn nothing_is_left(history: &History) -> Vec<Violation> {
    let (calm, reigns) = (FaultFree::of(history), reigns(history));
    let end = history.events.last().map_or(0, |event| event.at);
    let given_up = given_up(history);
    let mut found = Vec::new();
    for gone in let_go(history) {
        let own = |r: &&ObservedReign| r.key == gone.key && r.token == Some(gone.token);
        for reign in reigns.iter().filter(own) {
            let start = reign.from.max(gone.at);
            let due = start + history.setting.reaper_bound;
            let over = reign.ended.as_ref().map_or(Nanos::MAX, |(at, _)| *at);
            // A store that forgot that a token was given up grants it to a late copy of its claim.
            let forgotten = given_up.get(&(gone.key, gone.token)).is_some_and(|when| {
                *when < reign.from && calm.crashed(*when, reign.from, Some(reign.store), None)
            });
            let crashed = calm.crashed(0, due, None, Some(gone.client));
            let excused = due > gone.owed || due > end || crashed || forgotten;
            if over > due && !excused && calm.holds(start, due, reign.store, Some(gone.client)) {
                let text = format!(
                    "{}: client {} let {} go at {:.6} s and it is still held",
                    gone.key,
                    gone.client,
                    reign.generation,
                    gone.at as f64 / 1e9
                );
                found.push(Violation::new(Invariant::NothingIsLeft, due, text));
            }
        }
    }
    found.extend(renewed_after(history));
    found
}

/// Tokens whose release was answered, with the time of the request.
fn given_up(history: &History) -> BTreeMap<(&str, TokenId), Nanos> {
    // With the time of the request: the store may have crashed between its decision and the arrival of its answer.
    let mut releases: BTreeMap<OpId, (Nanos, (&str, TokenId))> = BTreeMap::new();
    let mut given_up = BTreeMap::new();
    for Event { at, what } in &history.events {
        match what {
            What::Invoked {
                op, call: Call { verb: CallVerb::Release, key, token: Some(token), .. }, ..
            } => {
                releases.insert(*op, (*at, (key, *token)));
            }
            What::Returned { op, answer } if matches!(&*answer.word, "released" | "not_held") => {
                if let Some((sent, whose)) = releases.get(op) {
                    given_up.entry(*whose).or_insert(*sent);
                }
            }
            _ => {}
        }
    }
    given_up
}

fn let_go(history: &History) -> Vec<Gone<'_>> {
    let mut asked: BTreeMap<(Client, TokenId), (Nanos, &Call)> = BTreeMap::new();
    let mut guarded: BTreeMap<(Client, TokenId), ()> = BTreeMap::new();
    let mut doubles = Doubles::default();
    // Transfers without an answer that decides. A guard in doubt is not released when it is dropped: the transfer may land.
    let mut transfers: BTreeMap<OpId, TokenId> = BTreeMap::new();
    let mut gone = Vec::new();
    for Event { at, what } in &history.events {
        match what {
            What::Invoked { op, client, call } => {
                if let (CallVerb::Acquire | CallVerb::Replace, Some(token)) = (call.verb, call.token) {
                    asked.insert((*client, token), (*at, call));
                    doubles.asked(*op, (*client, token), call.wait.is_some());
                }
                if let (CallVerb::Transfer, Some(token)) = (call.verb, call.token) {
                    transfers.insert(*op, token);
                }
            }
            What::Returned { op, answer } => {
                if matches!(&*answer.word, "transferred" | "no_successor" | "not_held") {
                    transfers.remove(op);
                }
                doubles.answered(*op, &answer.word);
            }
            What::Guard { client, token, .. } => drop(guarded.insert((*client, *token), ())),
            What::Dropped { client, key, token: Some(token) } => {
                let Some((sent, call)) = asked.get(&(*client, *token)) else { continue };
                let in_doubt = transfers.values().any(|transferred| transferred == token);
                if in_doubt || doubles.excuse((*client, *token)) {
                    continue;
                }
                let (wait, ttl) = (call.wait.unwrap_or(0), call.ttl.unwrap_or(0));
                // By a clock that runs fast the time is up sooner.
                let by_its_clock =
                    |time: Nanos| time * 1_000_000 / (1_000_000 + Nanos::from(history.setting.drift_ppm));
                let owed = match guarded.contains_key(&(*client, *token)) {
                    true => at + by_its_clock(ttl),
                    false => sent + by_its_clock(wait + ttl / 3 + ttl),
                };
                // A little earlier still, for the way.
                let owed = owed - ttl / 10;
                gone.push(Gone { client: *client, key, token: *token, at: *at, owed });
            }
            _ => {}
        }
    }
    gone
}

/// Claims that the network doubled. A client that did not wait and was answered busy, or that nothing happened, owes
/// nothing; a second copy of the question may still be granted without an owner, and then only the TTL ends it. A claim that
/// waited in vain is given up.
#[derive(Default)]
struct Doubles {
    ops: BTreeMap<OpId, (Client, TokenId)>,
    open: BTreeMap<(Client, TokenId), u32>,
    told: BTreeMap<(Client, TokenId), Word>,
    waited: BTreeSet<(Client, TokenId)>,
}

impl Doubles {
    fn asked(&mut self, op: OpId, whose: (Client, TokenId), waits: bool) {
        self.ops.insert(op, whose);
        if waits {
            self.waited.insert(whose);
        }
        *self.open.entry(whose).or_default() += 1;
    }

    fn answered(&mut self, op: OpId, word: &str) {
        let Some(whose) = self.ops.remove(&op) else { return };
        *self.open.entry(whose).or_default() -= 1;
        self.told.insert(whose, word.to_owned().into());
    }

    fn excuse(&self, whose: (Client, TokenId)) -> bool {
        let owes_nothing = match self.told.get(&whose).map(|word| &**word) {
            Some("busy") => !self.waited.contains(&whose),
            Some("unavailable") => true,
            _ => false,
        };
        owes_nothing && self.open.get(&whose).is_some_and(|open| *open > 0)
    }
}

fn renewed_after(history: &History) -> Vec<Violation> {
    let mut gone: BTreeMap<(Client, TokenId), Nanos> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        match what {
            What::Dropped { client, token: Some(token), .. } => drop(gone.insert((*client, *token), *at)),
            What::Invoked { client, call, .. } if call.verb == CallVerb::Renew => {
                if let Some(token) = call.token
                    && gone.get(&(*client, token)).is_some_and(|when| when < at)
                {
                    let text = format!("{}: client {client} renews what it let go", call.key);
                    found.push(Violation::new(Invariant::NothingIsLeft, *at, text));
                }
            }
            _ => {}
        }
    }
    found
}

/// I11: a token whose reign was given back, handed over, revoked, wiped or replaced is never granted that key
/// again; nor is one that was released while it held nothing, for as long as the store remembers.
pub fn spent_tokens_stay_spent(history: &History) -> Vec<Violation> {
    let calm = FaultFree::of(history);
    // With the time of the request: the store may have crashed between its decision and the arrival of its answer.
    let mut calls: BTreeMap<OpId, (Nanos, &Call)> = BTreeMap::new();
    let mut released: BTreeMap<(&str, TokenId), ()> = BTreeMap::new();
    let mut reigning: BTreeMap<(&str, u64), TokenId> = BTreeMap::new();
    let mut spent: BTreeMap<(&str, TokenId), Nanos> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        match what {
            What::Invoked { op, call, .. } => {
                calls.insert(*op, (*at, call));
                if let (CallVerb::Release, Some(token)) = (call.verb, call.token) {
                    released.insert((&call.key, token), ());
                }
            }
            What::Returned { op, answer } => {
                if let Some((sent, call)) = calls.get(op)
                    && call.verb == CallVerb::Release
                    && call.generation.is_none()
                    && answer.word == "not_held"
                    && let Some(token) = call.token
                {
                    spent.entry((&call.key, token)).or_insert(*sent);
                }
            }
            What::Store { key, step: Step::Granted, generation, token: Some(token), store, .. } => {
                reigning.insert((key, *generation), *token);
                if let Some(when) = spent.get(&(key.as_str(), *token))
                    && *at - when < TOMBSTONE
                    && !calm.crashed(*when, *at, Some(*store), None)
                {
                    let text = format!("{key}: {generation} was granted to a spent token");
                    found.push(Violation::new(Invariant::SpentTokens, *at, text));
                }
            }
            What::Store { key, step: Step::Ended(why), generation, .. } => {
                let Some(token) = reigning.get(&(key.as_str(), *generation)) else { continue };
                let spends = match &**why {
                    // A grant that was not delivered is taken back without spending the token.
                    "released" => released.contains_key(&(key.as_str(), *token)),
                    "transferred" | "revoked" | "wiped" | "superseded" => true,
                    _ => false,
                };
                if spends {
                    spent.entry((key, *token)).or_insert(*at);
                }
            }
            _ => {}
        }
    }
    found
}

/// How long a store remembers a token that was released while it held nothing.
const TOMBSTONE: Nanos = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    fn dropped(token: TokenId) -> What {
        What::Dropped { client: 1, key: "k".into(), token: Some(token) }
    }

    const S: Nanos = 1_000_000_000;

    /// A claim of 60 s let go after one second, whose reign ends at `over`.
    fn story(over: Nanos, fault: Option<What>) -> History {
        let mut call = acquire(1, 1, "k", 11);
        if let What::Invoked { call, .. } = &mut call {
            call.ttl = Some(60 * S);
        }
        let mut events = vec![
            (0, What::Started { client: 1, host: 5, holder: "h".into() }),
            (0, call),
            (S / 2, granted("k", 1, 11)),
            (S, dropped(11)),
            (over, ended("k", 1, "expired")),
            (90 * S, What::End),
        ];
        events.extend(fault.map(|fault| (2 * S, fault)));
        events.sort_by_key(|(at, _)| *at);
        history(events)
    }

    #[test]
    fn what_was_let_go_is_given_back_within_the_bound() {
        assert_eq!(nothing_is_left(&story(2 * S, None)), []);
        assert_eq!(nothing_is_left(&story(61 * S, None)).len(), 1);
    }

    #[test]
    fn faults_on_the_way_excuse() {
        for (host, count) in [(None, 0), (Some(5), 0), (Some(0), 0), (Some(9), 1)] {
            let fault = What::Fault { name: "cut".into(), host, until: 3 * S };
            assert_eq!(nothing_is_left(&story(61 * S, Some(fault))).len(), count, "{host:?}");
        }
    }

    #[test]
    fn a_doubled_claim_that_did_not_wait_and_was_busy_is_left_to_its_ttl() {
        let mut seen = story(61 * S, None);
        let mut twin = seen.events[1].clone();
        if let What::Invoked { op, .. } = &mut twin.what {
            *op = 2;
        }
        seen.events.insert(2, twin);
        assert_eq!(nothing_is_left(&seen).len(), 1);
        seen.events.insert(4, Event { at: S, what: answer(2, "busy", 0) });
        assert_eq!(nothing_is_left(&seen), []);
        // The waiter gives it up.
        if let What::Invoked { call, .. } = &mut seen.events[2].what {
            call.wait = Some(S);
        }
        assert_eq!(nothing_is_left(&seen).len(), 1);
    }

    #[test]
    fn what_a_store_forgot_to_be_given_up_is_left_to_its_ttl() {
        let story = |given_up: bool, crash: Nanos| {
            let mut seen = story(61 * S, None);
            let release = Call { verb: CallVerb::Release, ..bare("k", 11) };
            if given_up {
                seen.events.push(Event { at: 1, what: What::Invoked { op: 2, client: 1, call: release } });
                seen.events.push(Event { at: 2, what: answer(2, "released", 0) });
            }
            let what = What::Fault { name: "crash".into(), host: Some(0), until: crash };
            seen.events.push(Event { at: crash, what });
            seen.sort();
            nothing_is_left(&seen).len()
        };
        // The copy of a claim comes after the crash.
        assert_eq!(story(true, S / 4), 0);
        assert_eq!(story(false, S / 4), 1, "it was not given up");
        assert_eq!(story(true, 2), 0, "the answer was on its way");
        assert_eq!(story(true, 0), 1, "it was given up after the crash");
    }

    #[test]
    fn a_debt_is_over_when_the_debtors_clock_says_so() {
        // Parked for up to 100 s, let go after one, granted without an owner after 150 s.
        let mut seen = story(210 * S, None);
        if let What::Invoked { call, .. } = &mut seen.events[1].what {
            call.wait = Some(100 * S);
        }
        let grant = seen.events.iter_mut().find(|event| matches!(event.what, What::Store { .. })).unwrap();
        grant.at = 150 * S;
        let end = seen.events.iter_mut().find(|event| matches!(event.what, What::End)).unwrap();
        end.at = 300 * S;
        seen.sort();
        assert_eq!(nothing_is_left(&seen).len(), 1);
        seen.setting.drift_ppm = 428_571;
        assert_eq!(nothing_is_left(&seen), []);
    }

    #[test]
    fn a_renewal_of_what_was_let_go_is_found() {
        let bad = history([(0, dropped(11)), (5, renew(2, 1, "k", 11, 1))]);
        assert_eq!(nothing_is_left(&bad).len(), 1);
    }

    #[test]
    fn a_spent_token_that_is_granted_again_is_found() {
        for (why, count) in [("transferred", 1), ("revoked", 1), ("expired", 0)] {
            let seen = history([(0, granted("k", 1, 11)), (1, ended("k", 1, why)), (2, granted("k", 2, 11))]);
            assert_eq!(spent_tokens_stay_spent(&seen).len(), count, "{why}");
        }
    }

    #[test]
    fn a_grant_after_a_release_that_found_nothing_is_found() {
        let story = |at| {
            let release = Call { verb: CallVerb::Release, generation: None, ..bare("k", 11) };
            history([
                (0, What::Invoked { op: 1, client: 1, call: release }),
                (1, answer(1, "not_held", 0)),
                (at, granted("k", 1, 11)),
            ])
        };
        assert_eq!(spent_tokens_stay_spent(&story(2)).len(), 1);
        assert_eq!(spent_tokens_stay_spent(&story(61 * S)), []);
    }

    #[test]
    fn a_store_that_crashed_before_its_answer_arrived_may_have_forgotten_the_release() {
        let story = |crash| {
            let release = Call { verb: CallVerb::Release, generation: None, ..bare("k", 11) };
            let mut seen = history([
                (1, What::Invoked { op: 1, client: 1, call: release }),
                (crash, What::Fault { name: "crash".into(), host: Some(0), until: crash }),
                (3, answer(1, "not_held", 0)),
                (4, granted("k", 1, 11)),
            ]);
            seen.sort();
            spent_tokens_stay_spent(&seen).len()
        };
        assert_eq!(story(2), 0);
        assert_eq!(story(0), 1, "it was released after the crash");
    }
}
