//! The judge: what must hold in every history, as pure functions over it.
//!
//! Each invariant is a function of its own with hand-written good and bad histories. What a history cannot
//! show (it has no store events, or its clocks left their bound) is not judged.

mod abandoned;
mod false_grants;
mod fault_free;
mod fenced;
mod generations;
mod permits;
mod queue;
mod reigns;
mod revival;
mod secrecy;
mod slots;
mod wipe;

#[cfg(test)]
mod fixture;

use std::fmt;

use crate::history::{History, Nanos};

pub use abandoned::{nothing_is_left, spent_tokens_stay_spent};
pub use false_grants::no_false_yes;
pub use fenced::fenced_writes_never_go_back;
pub use generations::generations_rise;
pub use permits::one_holder;
pub use queue::{nobody_is_stuck, the_head_is_served};
pub use revival::nothing_revives;
pub use secrecy::no_token_shows;
pub use slots::slots_are_bounded;
pub use wipe::wipes_are_proven;

/// A sentence that must hold, numbered as in the test plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Invariant {
    /// I1: no two unexpired permits on one key.
    OneHolder,
    /// I2: generations rise strictly per key.
    GenerationsRise,
    /// I3: no fenced write goes back.
    FencedWrites,
    /// I4: a renewal never revives.
    NothingRevives,
    /// I5: the head of the queue is served, in order, and every request is answered.
    HeadIsServed,
    /// I6: slots in use never exceed the offer, each has one owner.
    Slots,
    /// I7: a wipe without proof changes nothing.
    WipeIsProven,
    /// I8: tokens never show.
    NoTokenShows,
    /// I9: no lost, late or doubled answer makes a false yes.
    NoFalseYes,
    /// I10: what was let go does not stay held.
    NothingIsLeft,
    /// I11: a spent token is never granted again.
    SpentTokens,
    /// I12: the store's operations have an order that explains every answer.
    Linearizable,
}

impl Invariant {
    /// Every invariant.
    pub const ALL: [Self; 12] = [
        Self::OneHolder,
        Self::GenerationsRise,
        Self::FencedWrites,
        Self::NothingRevives,
        Self::HeadIsServed,
        Self::Slots,
        Self::WipeIsProven,
        Self::NoTokenShows,
        Self::NoFalseYes,
        Self::NothingIsLeft,
        Self::SpentTokens,
        Self::Linearizable,
    ];

    /// Number and sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::OneHolder => "I1 no two unexpired permits on one key",
            Self::GenerationsRise => "I2 generations rise strictly",
            Self::FencedWrites => "I3 no fenced write goes back",
            Self::NothingRevives => "I4 a renewal never revives",
            Self::HeadIsServed => "I5 the head is served within the bound",
            Self::Slots => "I6 slots in use never exceed the offer",
            Self::WipeIsProven => "I7 a wipe without proof changes nothing",
            Self::NoTokenShows => "I8 tokens never show",
            Self::NoFalseYes => "I9 no answer makes a false yes",
            Self::NothingIsLeft => "I10 what was let go does not stay held",
            Self::SpentTokens => "I11 a spent token is never granted again",
            Self::Linearizable => "I12 operations have one order",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// A sentence that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When it showed.
    pub at: Nanos,
    /// What was seen.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(invariant: Invariant, at: Nanos, text: impl Into<String>) -> Self {
        Self { invariant, at, text: text.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.6} s  {}: {}", self.at as f64 / 1e9, self.invariant, self.text)
    }
}

/// Everything that is wrong with a history, earliest first. Secrecy needs the output beside the history: see
/// [`no_token_shows`].
pub fn judge(history: &History) -> Vec<Violation> {
    let laws: [fn(&History) -> Vec<Violation>; 11] = [
        one_holder,
        generations_rise,
        fenced_writes_never_go_back,
        nothing_revives,
        the_head_is_served,
        nobody_is_stuck,
        slots_are_bounded,
        wipes_are_proven,
        no_false_yes,
        nothing_is_left,
        spent_tokens_stay_spent,
    ];
    let mut found: Vec<Violation> = laws.iter().flat_map(|law| law(history)).collect();
    found.sort_by_key(|violation| (violation.at, violation.invariant));
    found
}
