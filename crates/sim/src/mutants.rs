//! Known breaks, and the proof that the judge finds each.

use tenure_lease::breaks::Break;
#[cfg(feature = "breaks")]
use tenure_lease::breaks::set;

use crate::judge::Violation;
use crate::plan::Plan;
use crate::run::run;

/// What came of looking for one break.
#[derive(Clone, Debug)]
pub struct HuntResult {
    /// The break.
    pub what: Break,
    /// How many seeds it took; none when it survived.
    pub seeds: Option<u64>,
    /// The seed that found it.
    pub seed: u64,
    /// What the judge said first.
    pub first: Option<Violation>,
}

/// How many seeds each break gets, unless said otherwise.
pub const MAX_SEEDS: u64 = 4_000;

/// Runs seeds with one break switched on until the judge notices.
#[cfg(feature = "breaks")]
pub fn hunt(what: Break, from: u64, most: u64) -> HuntResult {
    set(Some(what));
    let mut caught = HuntResult { what, seeds: None, seed: 0, first: None };
    for number in 0..most {
        let seed = from.wrapping_add(number);
        let found = run(&Plan::of(seed)).violations;
        if let Some(first) = found.into_iter().next() {
            caught = HuntResult { what, seeds: Some(number + 1), seed, first: Some(first) };
            break;
        }
    }
    set(None);
    caught
}

/// Without the feature nothing can be broken.
#[cfg(not(feature = "breaks"))]
pub fn hunt(what: Break, from: u64, _: u64) -> HuntResult {
    let _ = (run, Plan::of, from);
    HuntResult { what, seeds: None, seed: 0, first: None }
}
