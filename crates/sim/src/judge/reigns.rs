//! The store's view of who reigned, read off its events.

use std::collections::BTreeMap;

use crate::history::{Event, History, Nanos, Step, TokenId, What};

/// One reign as the store had it.
#[derive(Clone, Debug)]
pub(crate) struct ObservedReign {
    pub(crate) key: String,
    pub(crate) store: u32,
    pub(crate) generation: u64,
    pub(crate) token: Option<TokenId>,
    pub(crate) from: Nanos,
    /// What the store promised last, with the moment it did; empty when the recorder does not know.
    pub(crate) promises: Vec<(Nanos, Nanos)>,
    pub(crate) ended: Option<(Nanos, String)>,
}

impl ObservedReign {
    /// The latest end that the store had promised by `at`.
    pub(crate) fn promised(&self, at: Nanos) -> Option<Nanos> {
        self.promises.iter().filter(|(when, _)| *when <= at).map(|(_, until)| *until).max()
    }

    /// Whether the store counted it as live at `at`, by its events alone.
    pub(crate) fn live(&self, at: Nanos) -> bool {
        self.from <= at && self.ended.as_ref().is_none_or(|(end, _)| at <= *end)
    }
}

/// All reigns, in the order of their grants.
pub(crate) fn reigns(history: &History) -> Vec<ObservedReign> {
    let mut reigns: Vec<ObservedReign> = Vec::new();
    let mut last: BTreeMap<(u32, &str, u64), usize> = BTreeMap::new();
    for Event { at, what } in &history.events {
        let What::Store { store, key, step, generation, token, .. } = what else { continue };
        let place = (*store, key.as_str(), *generation);
        match step {
            Step::Granted => {
                last.insert(place, reigns.len());
                reigns.push(ObservedReign {
                    key: key.clone(),
                    store: *store,
                    generation: *generation,
                    token: *token,
                    from: *at,
                    promises: Vec::new(),
                    ended: None,
                });
            }
            Step::Renewed { until } => {
                if let Some(reign) = last.get(&place).and_then(|i| reigns.get_mut(*i)) {
                    reign.promises.push((*at, *until));
                    reign.token = reign.token.or(*token);
                }
            }
            Step::Ended(why) => {
                if let Some(reign) = last.get(&place).and_then(|i| reigns.get_mut(*i)) {
                    reign.ended.get_or_insert((*at, why.to_string()));
                }
            }
            Step::Parked | Step::Left | Step::Successor { .. } | Step::Closed { .. } => {}
        }
    }
    reigns
}
