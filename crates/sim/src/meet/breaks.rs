//! Known breaks of meetings, and the proof that the judge finds each.

use tenure_lease::breaks::Break;
#[cfg(feature = "breaks")]
use tenure_lease::breaks::set;

use super::{Plan, Violation, run};

/// The breaks that this simulation finds.
pub const BREAKS: &[Break] = &[
    Break::UnfencedWrites,
    Break::UnknownWriteFails,
    Break::DurableBeforeWrite,
    Break::SkipsEventNumbers,
    Break::RestartsEventNumbers,
    Break::ForgetsApplied,
    Break::ResendsApplied,
    Break::CountsLostAsApplied,
    Break::ReusesNonce,
    Break::ForgetsHostDecisions,
    Break::TakesFromTheLiving,
];

/// Runs seeds with one break switched on until the judge notices: how many it took, and what the judge said first.
#[cfg(feature = "breaks")]
pub fn hunt(what: Break, from: u64, most: u64) -> Option<(u64, Violation)> {
    set(Some(what));
    let found = (0..most).find_map(|number| {
        let first = run(&Plan::of(from.wrapping_add(number))).violations.into_iter().next();
        first.map(|first| (number + 1, first))
    });
    set(None);
    found
}

/// Without the feature nothing can be broken.
#[cfg(not(feature = "breaks"))]
pub fn hunt(_: Break, _: u64, _: u64) -> Option<(u64, Violation)> {
    let _ = (run, Plan::of);
    None
}
