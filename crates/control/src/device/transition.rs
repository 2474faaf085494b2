//! How one look becomes another.

use serde::{Deserialize, Serialize};

use super::colour::chance;

/// The kinds of transitions; the place of a kind is its id.
pub(crate) const KINDS: &[&str] = &["fade", "wipe", "centre", "dissolve", "blinds"];

/// One transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// Which kind.
    pub kind: u8,
    /// How long it takes.
    pub ms: u32,
}

/// How looks change unless a command says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blend {
    /// Whether there are transitions at all.
    pub enabled: bool,
    /// Which kind.
    pub kind: u8,
    /// How long they take.
    pub duration_ms: u32,
}

impl Default for Blend {
    fn default() -> Self {
        Self { enabled: true, kind: 0, duration_ms: 600 }
    }
}

impl Blend {
    pub(super) fn transition(self) -> Transition {
        Transition { kind: self.kind, ms: if self.enabled { self.duration_ms } else { 0 } }
    }
}

impl Transition {
    /// How much of the new look a place shows when `done` of the time is over.
    pub(super) fn share(self, done: f32, x: f32, led: u32) -> f32 {
        let edge = |at: f32| ((done * 1.15 - at) / 0.15).clamp(0.0, 1.0);
        match KINDS.get(usize::from(self.kind)).copied().unwrap_or("fade") {
            "wipe" => edge(x),
            "centre" => edge((2.0 * x - 1.0).abs()),
            "dissolve" => edge(chance(led)),
            "blinds" => edge((x * 8.0).fract()),
            _ => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_begins_with_the_old_look_and_ends_with_the_new_one() {
        for kind in 0..KINDS.len() as u8 {
            for led in 0..320 {
                let (transition, x) = (Transition { kind, ms: 1 }, led as f32 / 320.0);
                assert!(transition.share(0.0, x, led) < 0.01, "{kind} {led}");
                assert!(transition.share(1.0, x, led) > 0.99, "{kind} {led}");
            }
        }
    }
}
