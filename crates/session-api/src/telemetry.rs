//! Metrics of the session API.

use tenure_session::StartIntent;

/// The `outcome` label of an intent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Accepted,
    Replay,
    Conflict,
    NoSlots,
    SessionsFull,
    LeaseError,
    StoreError,
}

/// The `mode` label of an intent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Phase1,
    Phase2,
    Any,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Replay => "replay",
            Self::Conflict => "conflict",
            Self::NoSlots => "no_slots",
            Self::SessionsFull => "sessions_full",
            Self::LeaseError => "lease_error",
            Self::StoreError => "store_error",
        }
    }
}

impl Mode {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Phase1 => "phase1",
            Self::Phase2 => "phase2",
            Self::Any => "any",
        }
    }
}

/// Counts a start intent.
pub(crate) fn count_start(mode: Mode, outcome: Outcome) {
    count_intent(StartIntent::TYPE, mode, outcome);
}

/// Counts an intent.
pub(crate) fn count_intent(kind: &'static str, mode: Mode, outcome: Outcome) {
    let (mode, label) = (mode.as_str(), outcome.as_str());
    metrics::counter!("xg2g_v3_intents_total", "type" => kind, "mode" => mode, "outcome" => label)
        .increment(1);
    if outcome == Outcome::Replay {
        metrics::counter!("xg2g_v3_idempotent_replay_total", "type" => kind).increment(1);
    }
}

/// Counts a committed start event: the session record in NEW.
pub(crate) fn count_start_event() {
    count_event("session.start");
}

/// Counts a committed stop event: the stored stop request.
pub(crate) fn count_stop_event() {
    count_event("session.stop");
}

/// Committing an event publishes it, because the store notifies its watchers in the same step. So only `ok` is counted.
fn count_event(topic: &'static str) {
    metrics::counter!("xg2g_v3_bus_publish_total", "topic" => topic, "outcome" => "ok").increment(1);
}
