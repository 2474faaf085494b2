//! Transitions between looks.

use serde::{Deserialize, Serialize};

use super::colour::random_unit;

/// The kinds of transitions; the index is the id.
pub(crate) const KINDS: &[&str] = &["fade", "wipe", "centre", "dissolve", "blinds"];

/// One transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// The id of its kind.
    pub kind: u8,
    /// The duration.
    pub ms: u32,
}

/// The default transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransitionSettings {
    /// Whether transitions are enabled.
    pub enabled: bool,
    /// The id of its kind.
    pub kind: u8,
    /// The duration.
    pub duration_ms: u32,
}

impl Default for TransitionSettings {
    fn default() -> Self {
        Self { enabled: true, kind: 0, duration_ms: 600 }
    }
}

impl TransitionSettings {
    pub(super) fn transition(self) -> Transition {
        Transition { kind: self.kind, ms: if self.enabled { self.duration_ms } else { 0 } }
    }
}

impl Transition {
    /// The share of the new look at position `x` when a fraction `done` of the transition is over.
    pub(super) fn share(self, done: f32, x: f32, led: u32) -> f32 {
        let edge = |at: f32| ((done * 1.15 - at) / 0.15).clamp(0.0, 1.0);
        match KINDS.get(usize::from(self.kind)).copied().unwrap_or("fade") {
            "wipe" => edge(x),
            "centre" => edge((2.0 * x - 1.0).abs()),
            "dissolve" => edge(random_unit(led)),
            "blinds" => edge((x * 8.0).fract()),
            _ => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_starts_with_the_old_look_and_ends_with_the_new_one() {
        for kind in 0..KINDS.len() as u8 {
            for led in 0..320 {
                let (transition, x) = (Transition { kind, ms: 1 }, led as f32 / 320.0);
                assert!(transition.share(0.0, x, led) < 0.01, "{kind} {led}");
                assert!(transition.share(1.0, x, led) > 0.99, "{kind} {led}");
            }
        }
    }
}
