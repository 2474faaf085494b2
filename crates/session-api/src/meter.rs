//! What the door counts.

use session::{Start, Topic};

/// What became of an intent, in the words of the metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Accepted,
    Replay,
    Conflict,
    NoSlots,
    SessionsFull,
    LeaseError,
    StoreError,
    PublishError,
}

/// Which way an intent took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Phase1,
    Phase2,
    Any,
}

impl Outcome {
    const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Replay => "replay",
            Self::Conflict => "conflict",
            Self::NoSlots => "no_slots",
            Self::SessionsFull => "sessions_full",
            Self::LeaseError => "lease_error",
            Self::StoreError => "store_error",
            Self::PublishError => "publish_error",
        }
    }
}

impl Mode {
    const fn word(self) -> &'static str {
        match self {
            Self::Phase1 => "phase1",
            Self::Phase2 => "phase2",
            Self::Any => "any",
        }
    }
}

/// An intent to start was decided.
pub(crate) fn start(mode: Mode, outcome: Outcome) {
    intent(Start::WORD, mode, outcome);
}

/// An intent was decided.
pub(crate) fn intent(kind: &'static str, mode: Mode, outcome: Outcome) {
    let (mode, word) = (mode.word(), outcome.word());
    metrics::counter!("xg2g_v3_intents_total", "type" => kind, "mode" => mode, "outcome" => word)
        .increment(1);
    if outcome == Outcome::Replay {
        metrics::counter!("xg2g_v3_idempotent_replay_total", "type" => kind).increment(1);
    }
}

/// The bus was told, or not.
pub(crate) fn published(topic: Topic, told: bool) {
    let outcome = if told { "ok" } else { "error" };
    metrics::counter!("xg2g_v3_bus_publish_total", "topic" => topic.word(), "outcome" => outcome)
        .increment(1);
}
