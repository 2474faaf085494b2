//! I5: the head of the queue is served, in order, and every request is answered.

use std::collections::{BTreeMap, VecDeque};

use super::fault_free::FaultFree;
use super::{Invariant, Violation};
use crate::history::{Event, History, Nanos, Step, TokenId, What};

/// A key as its queue sees it.
#[derive(Default)]
struct QueueState<'h> {
    /// Parked claims with how often each is parked.
    queue: VecDeque<(Option<TokenId>, u32)>,
    reign: Option<u64>,
    /// When the key is free at the latest: the running reign's or delay's end.
    free_at: Nanos,
    /// Who may go first, each until when.
    successors: Vec<(&'h str, Nanos)>,
    superseded: Option<Nanos>,
    /// Since when a claim waits for a free key.
    waiting_since: Option<Nanos>,
}

impl QueueState<'_> {
    fn judge(
        &self,
        at: Nanos,
        store: u32,
        key: &str,
        calm: &FaultFree,
        history: &History,
    ) -> Option<Violation> {
        let since = self.waiting_since?.max(self.free_at);
        let bound = history.setting.service_bound;
        let due = since.saturating_add(bound);
        (at > due && calm.holds(since, due, store, None)).then(|| {
            let text = format!(
                "{key}: the head of the queue has waited for a free key since {:.6} s",
                since as f64 / 1e9
            );
            Violation::new(Invariant::HeadIsServed, at, text)
        })
    }

    /// Whether `token` may be granted now.
    fn overtaken(&mut self, token: Option<TokenId>, holder: &str, at: Nanos) -> bool {
        // Whatever was said of the reign before is over with this grant.
        let successors = std::mem::take(&mut self.successors);
        let successor = successors.iter().any(|(name, until)| *name == holder && at <= *until);
        let superseded = self.superseded == Some(at);
        let head = self.queue.front().is_none_or(|(head, _)| token.is_none() || *head == token);
        !successor && !superseded && !head
    }

    fn remove(&mut self, token: Option<TokenId>) {
        self.queue.retain(|(parked, _)| *parked != token);
    }
}

/// I5: a key that is free and waited for is granted within the bound while its store runs, to the first in
/// line, or to the successor that its last holder named.
pub fn the_head_is_served(history: &History) -> Vec<Violation> {
    let calm = FaultFree::of(history);
    let mut lines: BTreeMap<(u32, &str), QueueState<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { at, what } in &history.events {
        match what {
            What::Store { store, key, step, generation, token, holder } => {
                let line = lines.entry((*store, key)).or_default();
                found.extend(line.judge(*at, *store, key, &calm, history));
                if matches!(step, Step::Granted) && line.overtaken(*token, holder, *at) {
                    let text = format!("{key}: {generation} went past the head of the queue");
                    found.push(Violation::new(Invariant::HeadIsServed, *at, text));
                }
                take(line, *at, step, *generation, *token, holder);
            }
            What::End => {
                for ((store, key), line) in &lines {
                    found.extend(line.judge(*at, *store, key, &calm, history));
                }
            }
            _ => {}
        }
    }
    found
}

fn take<'h>(
    line: &mut QueueState<'h>,
    at: Nanos,
    step: &Step,
    generation: u64,
    token: Option<TokenId>,
    holder: &'h str,
) {
    match step {
        Step::Granted => {
            line.remove(token);
            (line.reign, line.free_at) = (Some(generation), Nanos::MAX);
        }
        Step::Renewed { until } if line.reign == Some(generation) => line.free_at = *until,
        Step::Renewed { .. } => {}
        Step::Ended(why) if line.reign == Some(generation) => {
            line.reign = None;
            line.free_at = at;
            line.superseded = (why == "superseded").then_some(at);
        }
        Step::Ended(_) => {}
        Step::Parked => match line.queue.iter_mut().find(|(parked, _)| *parked == token) {
            Some((_, times)) => *times += 1,
            None => line.queue.push_back((token, 1)),
        },
        Step::Left => {
            if let Some((_, times)) = line.queue.iter_mut().find(|(parked, _)| *parked == token) {
                *times -= 1;
            }
            line.queue.retain(|(_, times)| *times > 0);
        }
        Step::Successor { until } => line.successors.push((holder, *until)),
        Step::Closed { until } => {
            line.free_at = line.free_at.max(*until);
            line.successors.push((holder, *until));
        }
    }
    let waited_for = line.queue.is_empty().then_some(None);
    line.waiting_since = waited_for.unwrap_or(Some(line.waiting_since.unwrap_or(at)));
}

/// I5: every request was answered within its bound.
pub fn nobody_is_stuck(history: &History) -> Vec<Violation> {
    let stuck = history.events.iter().filter_map(|event| match &event.what {
        What::Stuck { client, text } => {
            let text = format!("client {client} did not come to an end: {text}");
            Some(Violation::new(Invariant::HeadIsServed, event.at, text))
        }
        _ => None,
    });
    stuck.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::*;

    const BOUND: Nanos = 2_000_000_000;

    #[test]
    fn a_head_that_is_served_in_time_is_good() {
        let good = history([
            (0, granted("k", 1, 11)),
            (5, parked("k", 12)),
            (6, parked("k", 13)),
            (9, ended("k", 1, "released")),
            (9, granted("k", 2, 12)),
            (10, ended("k", 2, "released")),
            (10, granted("k", 3, 13)),
            (BOUND * 9, What::End),
        ]);
        assert_eq!(the_head_is_served(&good), []);
    }

    #[test]
    fn a_free_key_that_keeps_its_head_waiting_is_found() {
        let story = |fault: Option<What>| {
            let mut story = vec![
                (0, granted("k", 1, 11)),
                (5, parked("k", 12)),
                (9, ended("k", 1, "expired")),
                (BOUND * 3, What::End),
            ];
            story.extend(fault.map(|fault| (10, fault)));
            story.sort_by_key(|(at, _)| *at);
            history(story)
        };
        assert_eq!(the_head_is_served(&story(None)).len(), 1);
        let frozen = What::Fault { name: "freeze".into(), host: Some(0), until: BOUND };
        assert_eq!(the_head_is_served(&story(Some(frozen))), []);
        let elsewhere = What::Fault { name: "freeze".into(), host: Some(7), until: BOUND };
        assert_eq!(the_head_is_served(&story(Some(elsewhere))).len(), 1);
    }

    #[test]
    fn an_expiry_that_nobody_acts_on_is_found() {
        let bad = history([
            (0, granted("k", 1, 11)),
            (0, renewed("k", 1, 100)),
            (5, parked("k", 12)),
            (BOUND * 2, What::End),
        ]);
        assert_eq!(the_head_is_served(&bad).len(), 1);
    }

    #[test]
    fn a_delay_keeps_everybody_waiting() {
        let closed = Step::Closed { until: BOUND * 3 };
        let good = history([
            (0, granted("k", 1, 11)),
            (5, parked("k", 12)),
            (9, ended("k", 1, "revoked")),
            (9, store("k", 0, None, closed)),
            (BOUND * 3, granted("k", 2, 12)),
            (BOUND * 3, What::End),
        ]);
        assert_eq!(the_head_is_served(&good), []);
    }

    #[test]
    fn who_overtakes_the_head_is_found_unless_it_is_the_heir() {
        let story = |successor: bool| {
            let mut story = vec![
                (0, granted("k", 1, 11)),
                (5, parked("k", 12)),
                (6, parked("k", 13)),
                (9, ended("k", 1, "released")),
                (9, granted("k", 2, 13)),
                (9, ended("k", 2, "released")),
                (9, granted("k", 3, 12)),
            ];
            if successor {
                story.insert(3, (9, store("k", 0, None, Step::Successor { until: 20 })));
            }
            history(story)
        };
        assert_eq!(the_head_is_served(&story(false)).len(), 1);
        assert_eq!(the_head_is_served(&story(true)), []);
    }

    #[test]
    fn somebody_without_an_answer_is_found() {
        let bad = history([(0, What::Stuck { client: 1, text: "acquire".into() })]);
        assert_eq!(nobody_is_stuck(&bad).len(), 1);
        assert_eq!(nobody_is_stuck(&history([(0, What::End)])), []);
    }
}
