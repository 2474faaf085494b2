//! The stream assignments of subscribed layouts. They follow the state a moment later, so that a burst of changes leads
//! to one message.

use std::collections::HashMap;

use tenure_lease::Tick;
use tenure_meet_wire::Id;

use crate::actor::limits;
use crate::meeting::{Assignment, Change, Event, Meeting, Phase, assign};

#[derive(Default)]
pub(super) struct Layouts {
    /// What was sent last, by participant.
    sent: HashMap<Id, Vec<Assignment>>,
    /// When the layouts are computed again.
    due: Option<Tick>,
}

impl Layouts {
    /// Notes changes that are about to be applied, if they may change what layouts show.
    pub(super) fn note(&mut self, state: &Meeting, changes: &[Change], now: Tick) {
        if changes.iter().any(|change| affects(state, change)) {
            self.due.get_or_insert(now + limits::LAYOUT);
        }
    }

    /// A connection was resumed or is new: it gets its assignments again.
    pub(super) fn forget(&mut self, participant: Id, now: Tick) {
        self.sent.remove(&participant);
        self.due.get_or_insert(now + limits::LAYOUT);
    }

    pub(super) fn next_wake(&self) -> Option<Tick> {
        self.due
    }

    /// The layouts that changed, if they are due.
    pub(super) fn changed(&mut self, state: &Meeting, now: Tick) -> Vec<(Id, Vec<Assignment>)> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = None;
        self.sent
            .retain(|participant, _| state.seats.get(participant).is_some_and(|seat| seat.layout.is_some()));
        if state.phase != Phase::Active {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for seat in state.seats.values().filter(|seat| seat.layout.is_some()) {
            let before = self.sent.get(&seat.participant);
            let after = assign(state, seat, before.map_or(&[], Vec::as_slice));
            if before != Some(&after) {
                self.sent.insert(seat.participant, after.clone());
                changed.push((seat.participant, after));
            }
        }
        changed
    }
}

/// Whether a change may change what layouts show.
fn affects(state: &Meeting, change: &Change) -> bool {
    match change {
        Change::Speakers(speakers) => *speakers != state.speakers,
        Change::Seat(seat) => {
            let before = state.seats.get(&seat.participant);
            before.is_some_and(|before| before.layout != seat.layout)
        }
        Change::Event(event) => matches!(
            event,
            Event::Published { .. }
                | Event::Unpublished { .. }
                | Event::Left { .. }
                | Event::Presence { .. }
                | Event::Muted { .. }
        ),
        _ => false,
    }
}
