//! What holds for a whole search: how far clocks may be off, and which reigns of unanswered claims show.

use std::collections::BTreeSet;

use tenure_lease::BusyReason;

use super::op::{Op, OpKind};
use crate::history::{Nanos, Outcome, TokenId};

/// A token that is never used.
const NO_TOKEN: TokenId = TokenId::MAX;

/// The moments that a duration may end at, given the most that clocks are wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift(pub(super) u32);

impl Drift {
    pub(super) fn least(self, of: Nanos) -> Nanos {
        of - of / 1_000_000 * Nanos::from(self.0)
    }

    pub(super) fn most(self, of: Nanos) -> Nanos {
        of + of / 1_000_000 * Nanos::from(self.0)
    }
}

/// What holds for a whole search.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) drift: Drift,
    /// Whether generations rise in the order of grants.
    pub(super) rises: bool,
    /// Generations that answers name and no answer granted: claims without an answer must have got them.
    pub(super) named: BTreeSet<u64>,
    /// Who was granted a number: the answer may be that of a second claim, and the reign that of the first.
    pub(super) granted: BTreeSet<(TokenId, u64)>,
    /// Tokens that an answer shows to have reigned without saying under which number.
    pub(super) shown: BTreeSet<TokenId>,
    /// Tokens that an answer calls spent.
    pub(super) refused: BTreeSet<TokenId>,
    /// An answer shows some reign and says nothing of it.
    pub(super) vague: bool,
    /// Tokens that may have been given up by callers that left without an answer.
    pub(super) dropped: BTreeSet<TokenId>,
    /// Every operation without an answer is tried everywhere, also where it seems to make no difference.
    pub(super) thorough: bool,
}

impl Terms {
    pub(super) fn of(ops: &[Op], drift: Drift, rises: bool) -> Self {
        let mut terms = Self {
            drift,
            rises,
            named: BTreeSet::new(),
            granted: BTreeSet::new(),
            shown: BTreeSet::new(),
            refused: BTreeSet::new(),
            vague: false,
            dropped: ops.iter().filter(|op| op.dropped).filter_map(|op| op.token).collect(),
            thorough: false,
        };
        for op in ops.iter().filter(|op| !op.open()) {
            let done = op.outcome == Outcome::Ok;
            terms.named.extend(op.answered);
            terms.named.extend(op.generation.filter(|_| done));
            match (op.asked, &*op.word) {
                (OpKind::Acquire { .. }, "granted" | "parked") | (OpKind::Transfer, "transferred") => {
                    let whose = op.token.filter(|_| op.asked != OpKind::Transfer).unwrap_or(NO_TOKEN);
                    terms.granted.extend(op.answered.map(|generation| (whose, generation)));
                }
                (OpKind::Release, "released") if op.generation.is_none() => terms.shown.extend(op.token),
                (OpKind::Acquire { .. }, "token_spent") => {
                    terms.shown.extend(op.token);
                    terms.refused.extend(op.token);
                }
                (OpKind::Acquire { .. }, "busy") | (OpKind::Inspect, "held") => {
                    let held = op.why.as_deref().is_none_or(|why| why == BusyReason::Held.as_str());
                    terms.vague |= held && op.answered.is_none();
                }
                _ => {}
            }
        }
        for (_, generation) in &terms.granted {
            terms.named.remove(generation);
        }
        terms
    }

    /// The numbers that a claim without an answer may have got. The twin of one that was answered needs no number of
    /// its own: the answered one itself may have been the first.
    pub(super) fn numbers(&self, op: &Op, least: u64) -> impl Iterator<Item = u64> {
        let token = op.token.filter(|_| op.id.is_some()).unwrap_or(NO_TOKEN);
        let own = self.granted.range((token, least)..=(token, u64::MAX)).map(|(_, generation)| *generation);
        self.named.range(least..).copied().chain(own.take(if token == NO_TOKEN { 0 } else { usize::MAX }))
    }
}
