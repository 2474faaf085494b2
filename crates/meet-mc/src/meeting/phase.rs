//! The lifecycle of a meeting: one table says what each phase does with each input.
//!
//! ```text
//! Active ──Freeze──▶ ShuttingDown ──Move──▶ Migrating ──▶ Complete
//!    ▲                    │                                  ▲
//!    └───────Thaw─────────┘            (ended or empty) ─────┘
//! ```
//!
//! A new phase is a column of [`TABLE`], a new input a row.

use crate::meeting::{Input, Refusal};

/// A phase of the meeting's life at one controller. It is not persisted: the lease decides who owns the meeting.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// The meeting runs here.
    #[default]
    Active,
    /// Frozen for a move: nothing changes, clients retry later.
    ShuttingDown,
    /// Moved: clients are redirected.
    Migrating {
        /// The new controller's endpoint.
        endpoint: String,
        /// Hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
    /// The meeting is over here.
    Complete,
}

/// What a phase does with an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Apply, persist and publish.
    Apply,
    /// Apply in memory only; nothing is persisted or published.
    Track,
    /// Ignore.
    Ignore,
    /// Refuse: retry later (`MIGRATING`).
    Retry,
    /// Refuse: reconnect to the new controller (`REDIRECT`).
    Redirect,
    /// Refuse: the meeting has ended.
    Ended,
    /// Refuse: not possible in this phase.
    Conflict,
}

/// A row of the table: the kinds of input that the phases tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Joins, requests, new handlers, new settings.
    Change,
    /// A connection ended.
    Disconnected,
    /// Handlers answered a mute order.
    MuteEnforced,
    /// A deadline may have passed, or other participants speak.
    Timer,
    /// Announce a move to clients.
    Prepare,
    /// Begin a move.
    Freeze,
    /// Abort a move.
    Thaw,
    /// Complete a move.
    Move,
}

/// Trigger × phase → rule. `Freeze`, `Thaw` and `Move` enter `ShuttingDown`, `Active` and `Migrating` where they apply.
#[rustfmt::skip]
const TABLE: [(Trigger, [Rule; 4]); 8] = [
    //                       Active          ShuttingDown    Migrating       Complete
    (Trigger::Change,       [Rule::Apply,    Rule::Retry,    Rule::Redirect, Rule::Ended]),
    (Trigger::Disconnected, [Rule::Apply,    Rule::Track,    Rule::Track,    Rule::Track]),
    (Trigger::MuteEnforced, [Rule::Apply,    Rule::Apply,    Rule::Apply,    Rule::Apply]),
    (Trigger::Timer,        [Rule::Apply,    Rule::Ignore,   Rule::Ignore,   Rule::Ignore]),
    (Trigger::Prepare,      [Rule::Apply,    Rule::Conflict, Rule::Conflict, Rule::Conflict]),
    (Trigger::Freeze,       [Rule::Apply,    Rule::Conflict, Rule::Conflict, Rule::Conflict]),
    (Trigger::Thaw,         [Rule::Conflict, Rule::Apply,    Rule::Conflict, Rule::Conflict]),
    (Trigger::Move,         [Rule::Conflict, Rule::Apply,    Rule::Conflict, Rule::Conflict]),
];

impl Trigger {
    pub(super) const fn of(input: &Input) -> Self {
        match input {
            Input::Join(_)
            | Input::Request { .. }
            | Input::Handlers(_)
            | Input::Settings { .. }
            | Input::End => Self::Change,
            Input::Disconnected { .. } | Input::StoppedWaiting { .. } => Self::Disconnected,
            Input::MuteEnforced { .. } => Self::MuteEnforced,
            Input::Timer | Input::Speakers { .. } => Self::Timer,
            Input::PrepareMove(_) => Self::Prepare,
            Input::Freeze => Self::Freeze,
            Input::Thaw => Self::Thaw,
            Input::Move { .. } => Self::Move,
        }
    }
}

impl Phase {
    const fn column(&self) -> usize {
        match self {
            Self::Active => 0,
            Self::ShuttingDown => 1,
            Self::Migrating { .. } => 2,
            Self::Complete => 3,
        }
    }

    /// What this phase does with a trigger.
    pub fn rule(&self, trigger: Trigger) -> Rule {
        let row = TABLE.iter().find(|(row, _)| *row == trigger);
        row.map_or(Rule::Conflict, |(_, rules)| rules[self.column()])
    }

    /// The refusal of a rule that refuses.
    pub(crate) fn refusal(&self, rule: Rule) -> Result<(), Refusal> {
        match (rule, self) {
            (Rule::Apply | Rule::Track | Rule::Ignore, _) => Ok(()),
            (Rule::Redirect, Self::Migrating { endpoint, certificates }) => {
                Err(Refusal::Moved { endpoint: endpoint.clone(), certificates: certificates.clone() })
            }
            (Rule::Retry | Rule::Redirect, _) => Err(Refusal::Moving),
            (Rule::Ended, _) => Err(Refusal::MeetingEnded),
            (Rule::Conflict, _) => Err(Refusal::Conflict("not possible in the meeting's current phase")),
        }
    }

    /// The name for logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::ShuttingDown => "shutting_down",
            Self::Migrating { .. } => "migrating",
            Self::Complete => "complete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trigger_has_one_row() {
        let input = Input::Move { endpoint: String::new(), certificates: Vec::new() };
        for (trigger, _) in TABLE {
            assert_eq!(TABLE.iter().filter(|(row, _)| *row == trigger).count(), 1, "{trigger:?}");
        }
        assert_eq!(Trigger::of(&input), Trigger::Move);
    }

    #[test]
    fn only_a_frozen_meeting_moves_or_thaws_and_only_an_active_one_freezes() {
        let migrating = Phase::Migrating { endpoint: String::new(), certificates: Vec::new() };
        let phases = [Phase::Active, Phase::ShuttingDown, migrating, Phase::Complete];
        let allowed = |trigger| phases.clone().map(|phase| phase.rule(trigger) == Rule::Apply);
        assert_eq!(allowed(Trigger::Prepare), [true, false, false, false]);
        assert_eq!(allowed(Trigger::Freeze), [true, false, false, false]);
        assert_eq!(allowed(Trigger::Thaw), [false, true, false, false]);
        assert_eq!(allowed(Trigger::Move), [false, true, false, false]);
    }
}
