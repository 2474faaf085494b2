//! Whether the answers of a store can be those of operations that happened one after the other, each at one moment
//! between its request and its answer.
//!
//! The search is that of Wing and Gong, with what was seen before remembered (Lowe). It goes key by key, which
//! loses nothing: an order of all exists if one of each key's does. The sequential specification is [`tenure_lease::rules`];
//! time running out is a step that may be taken from the first moment at which the store's clock can have come to
//! it, and must have been taken after the last. An operation without an answer may happen at any later moment, or
//! never. Order among those who wait is not looked at here.
//!
//! A claim without an answer can always be thought of as never granted, unless an answer shows its reign: so only
//! reigns that some answer names, or whose end it tells, are looked for among them.

mod mask;
mod op;
mod spec;
mod terms;

use std::collections::HashSet;
use std::fmt;

use self::mask::Mask;
use self::op::{Op, by_key};
use self::spec::{KeyState, NEVER};
use self::terms::{Drift, Terms};
use crate::history::{History, Nanos};

/// How much was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SearchStats {
    /// Keys.
    pub keys: usize,
    /// Operations.
    pub operations: usize,
    /// Situations that the search went through.
    pub situations: usize,
    /// Keys whose search was given up as too long: nothing is known of them.
    pub given_up: usize,
}

impl std::ops::AddAssign for SearchStats {
    fn add_assign(&mut self, more: Self) {
        self.keys += more.keys;
        self.operations += more.operations;
        self.situations += more.situations;
        self.given_up += more.given_up;
    }
}

/// No order explains what a key answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotLinearizable {
    /// The key.
    pub key: String,
    /// The first moment after which nothing fits.
    pub at: Nanos,
    /// What was tried last, in message.
    pub message: String,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// The most situations that are looked at for one key.
const MAX_STATES: usize = 400_000;
/// The most operations beyond the first one that has no place yet.
const WINDOW: usize = Mask::BITS;

/// Looks for an order that explains a history, for each of its keys.
pub fn check(history: &History) -> Result<SearchStats, NotLinearizable> {
    let mut looked = SearchStats::default();
    let (drift, rises) = (Drift(history.setting.drift_ppm), history.setting.generations_rise);
    for (key, ops) in by_key(history) {
        looked.keys += 1;
        looked.operations += ops.len();
        let mut terms = Terms::of(&ops, drift, rises);
        let mut found = search(&ops, &terms);
        if matches!(found, SearchResult::NotLinearizable { .. }) {
            // Nothing is called broken before everything was tried.
            terms.thorough = true;
            found = search(&ops, &terms);
        }
        match found {
            SearchResult::Linearizable(situations) => looked.situations += situations,
            SearchResult::GaveUp(situations) => {
                looked.situations += situations;
                looked.given_up += 1;
            }
            SearchResult::NotLinearizable { at, message } => {
                return Err(NotLinearizable { key, at, message });
            }
        }
    }
    Ok(looked)
}

enum SearchResult {
    Linearizable(usize),
    GaveUp(usize),
    NotLinearizable { at: Nanos, message: String },
}

/// How far an order has come.
#[derive(Clone)]
struct SearchState {
    spot: KeyState,
    /// All answered operations before this one have their place.
    first: usize,
    /// Those after it that have theirs.
    mask: Mask,
    /// Unanswered ones that happened.
    taken: Vec<u32>,
}

fn search(ops: &[Op], terms: &Terms) -> SearchResult {
    let (open, sure): (Vec<&Op>, Vec<&Op>) = ops.iter().partition(|op| op.open());
    let mut seen = HashSet::new();
    let mut stack =
        vec![SearchState { spot: KeyState::new(), first: 0, mask: Mask::default(), taken: Vec::new() }];
    let (mut situations, mut furthest, mut cut) = (0, (0, 0), false);
    while let Some(place) = stack.pop() {
        if place.first == sure.len() {
            return SearchResult::Linearizable(situations);
        }
        let salt = (place.first as u64) << 32 ^ place.taken.len() as u64;
        let mark =
            (place.spot.fingerprint(salt), place.spot.fingerprint(!salt), place.mask, place.taken.clone());
        if !seen.insert(mark) {
            continue;
        }
        situations += 1;
        if situations > MAX_STATES {
            return SearchResult::GaveUp(situations);
        }
        furthest = furthest.max((place.first, place.mask.count()));
        cut |= next(&place, &sure, &open, terms, &mut stack);
    }
    if cut {
        return SearchResult::GaveUp(situations);
    }
    let stuck = sure[furthest.0.min(sure.len() - 1)];
    let message = format!(
        "no order of the operations explains the answer {:?}{} to {:?}{}",
        stuck.word,
        stuck.answered.map(|g| format!(" {g}")).unwrap_or_default(),
        stuck.asked,
        stuck.id.map(|id| format!(" (operation {id})")).unwrap_or_default(),
    );
    SearchResult::NotLinearizable {
        at: if stuck.returned == NEVER { stuck.invoked } else { stuck.returned },
        message,
    }
}

/// Puts every place that can follow on the stack, the likeliest last. True when some were left out.
fn next(
    place: &SearchState,
    sure: &[&Op],
    open: &[&Op],
    terms: &Terms,
    stack: &mut Vec<SearchState>,
) -> bool {
    // Whatever comes next was asked before the first of those answered that are left.
    let window = &sure[place.first..sure.len().min(place.first + WINDOW)];
    let left = |i: &usize| !place.mask.has(*i);
    let limit = (0..window.len()).filter(left).map(|i| window[i].returned).min().unwrap_or(NEVER);
    let beyond = sure.get(place.first + WINDOW).is_some_and(|op| op.invoked <= limit);
    let mut candidates: Vec<usize> =
        (0..window.len()).filter(left).filter(|i| window[*i].invoked <= limit).collect();
    let late = candidates.iter().any(|i| place.spot.is_over_by(window[*i].invoked));
    // They are in the order in which they were asked.
    for (n, op) in open.iter().enumerate().take_while(|(_, op)| op.invoked <= limit) {
        if !place.spot.may_care(op, terms, late) || place.taken.contains(&(n as u32)) {
            continue;
        }
        for spot in place.spot.after(op, terms) {
            let mut taken = place.taken.clone();
            taken.push(n as u32);
            taken.sort_unstable();
            stack.push(SearchState { spot, taken, ..*place });
        }
    }
    candidates.sort_by_key(|i| std::cmp::Reverse(window[*i].returned));
    for i in candidates {
        let ways = place.spot.after(window[i], terms);
        // What needs no time to pass is tried first.
        for spot in ways.into_iter().rev() {
            let (mask, done) = place.mask.with(i);
            stack.push(SearchState { spot, first: place.first + done, mask, taken: place.taken.clone() });
        }
    }
    beyond
}

#[cfg(test)]
mod tests;
