//! The state of a meeting.

use std::collections::BTreeMap;
use std::time::Duration;

use lease::{Tick, Wall};
use meet_wire::{Id, MeetingId};

use crate::meeting::{Change, Journal, Phase, Presence, Role, Seat, limits};

/// Both times of one moment: one to decide by, one to write down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// On the owner's clock.
    pub tick: Tick,
    /// For people and for who comes after.
    pub wall: Wall,
}

/// What a meeting was made with, or what was changed since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The most seats.
    pub max_participants: u32,
    /// Whether people without an account may join.
    pub allow_guests: bool,
    /// How long a seat is kept after a loss.
    pub grace: Duration,
    /// How long after a loss the proof of a seat is good.
    pub binding_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_participants: 100, allow_guests: true, grace: limits::GRACE, binding_ttl: limits::GRACE }
    }
}

/// A media handler of the meeting, in the order of its rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handler {
    /// Its id.
    pub id: String,
    /// Where clients reach it.
    pub webtransport_endpoint: String,
    /// Where controllers reach it.
    pub grpc_endpoint: String,
    /// Whether it is the first choice.
    pub primary: bool,
    /// The hashes of its certificates.
    pub certificates: Vec<Vec<u8>>,
}

/// A meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// Its name.
    pub id: MeetingId,
    /// By what joins are judged.
    pub settings: Settings,
    /// Where it is in its move.
    pub phase: Phase,
    /// Who is in it, in the order of joining.
    pub seats: BTreeMap<Id, Seat>,
    /// What happened.
    pub journal: Journal,
    /// Rises with every change of what a host enforces.
    pub mute_epoch: u64,
    /// Its media handlers.
    pub handlers: Vec<Handler>,
    /// Since when nobody has a seat.
    pub empty_since: Option<Tick>,
}

impl Meeting {
    /// A meeting that nobody has joined.
    pub fn new(id: MeetingId, settings: Settings, handlers: Vec<Handler>, now: Now) -> Self {
        Self {
            id,
            settings,
            phase: Phase::Active,
            seats: BTreeMap::new(),
            journal: Journal::default(),
            mute_epoch: 0,
            handlers,
            empty_since: Some(now.tick),
        }
    }

    /// Who may be asked and told as a host now.
    pub fn hosts(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values().filter(|seat| seat.role == Role::Host && seat.presence == Presence::Here)
    }

    /// The seat to which a connection with this id belongs, by its present or its spent binding.
    pub fn by_correlation(&self, correlation: Id) -> Option<&Seat> {
        self.seats.values().find(|seat| {
            let previous = seat.binding.previous.as_ref();
            seat.binding.correlation == correlation
                || previous.is_some_and(|old| old.correlation == correlation)
        })
    }

    /// When time alone changes something next.
    pub fn next_deadline(&self) -> Option<Tick> {
        let away = self.seats.values().filter_map(|seat| match seat.presence {
            Presence::Away { until, .. } => Some(until),
            Presence::Here => None,
        });
        let asks = self.seats.values().filter_map(|seat| seat.ask.map(|ask| ask.until));
        away.chain(asks).chain(self.empty_since.map(|since| since + limits::EMPTY)).min()
    }

    /// Takes changes that were written down.
    pub fn absorb(&mut self, changes: &[Change], now: Now) {
        for change in changes {
            match change {
                Change::Seat(seat) => drop(self.seats.insert(seat.participant, (**seat).clone())),
                Change::SeatGone(participant) => drop(self.seats.remove(participant)),
                Change::MuteEpoch(epoch) => self.mute_epoch = *epoch,
                Change::Phase(phase) => {
                    self.phase = phase.clone();
                    if self.phase == Phase::Complete {
                        self.seats.clear();
                    }
                }
                Change::Handlers(handlers) => self.handlers.clone_from(handlers),
                Change::Settings(settings) => self.settings.clone_from(settings),
                Change::Happened(happening) => self.journal.append(happening.clone()),
                Change::NonceSpent(_) => {}
            }
        }
        match (self.seats.is_empty(), self.empty_since) {
            (true, None) => self.empty_since = Some(now.tick),
            (false, Some(_)) => self.empty_since = None,
            _ => {}
        }
    }
}
