//! The state of a meeting.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_lease::{Tick, Wall};
use tenure_meet_wire::{Id, MeetingId};

#[cfg(doc)]
use crate::meeting::Input;
use crate::meeting::{
    Change, EventLog, Phase, Presence, Role, Rule, Seat, Trigger, UserRecord, WaitingEntry, limits,
};

/// The current time on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Monotonic, for deadlines.
    pub tick: Tick,
    /// Wall clock, for records and people.
    pub wall: Wall,
}

/// Settings of a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Maximum number of seats.
    pub max_participants: u32,
    /// Whether guests may join.
    pub allow_guests: bool,
    /// Whether participants other than hosts wait until a host admits them.
    pub waiting_room: bool,
    /// How long a seat is kept after its connection is lost.
    pub grace: Duration,
    /// How long after the loss the seat can be resumed.
    pub binding_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_participants: 100,
            allow_guests: true,
            waiting_room: false,
            grace: limits::GRACE,
            binding_ttl: limits::GRACE,
        }
    }
}

/// A media handler of the meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandlerInfo {
    /// Its id.
    pub id: String,
    /// The endpoint for clients.
    pub webtransport_endpoint: String,
    /// The endpoint for controllers.
    pub grpc_endpoint: String,
    /// Whether it is the primary handler.
    pub primary: bool,
    /// Hashes of its certificates.
    pub certificates: Vec<Vec<u8>>,
}

/// The state of one meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// The meeting's id.
    pub id: MeetingId,
    /// The settings, checked at each join.
    pub settings: Settings,
    /// The lifecycle phase.
    pub phase: Phase,
    /// The seats, in join order.
    pub seats: BTreeMap<Id, Seat>,
    /// Participants that wait for a host, in order. They are not persisted: a lost connection joins again.
    pub waiting: BTreeMap<Id, WaitingEntry>,
    /// What hosts decided about users.
    pub users: BTreeMap<String, UserRecord>,
    /// Whether guests enter muted, since a host muted or kicked one.
    pub guests_enter_muted: bool,
    /// The last speakers, the last one first. Not persisted.
    pub speakers: Vec<Id>,
    /// The last events.
    pub log: EventLog,
    /// Rises with every change of a host mute.
    pub mute_epoch: u64,
    /// The media handlers, best first.
    pub handlers: Vec<HandlerInfo>,
    /// When the last participant left; `None` while there are seats or participants that wait.
    pub empty_since: Option<Tick>,
}

impl Meeting {
    /// A meeting without seats.
    pub fn new(id: MeetingId, settings: Settings, handlers: Vec<HandlerInfo>, now: Now) -> Self {
        Self {
            id,
            settings,
            phase: Phase::Active,
            seats: BTreeMap::new(),
            waiting: BTreeMap::new(),
            users: BTreeMap::new(),
            guests_enter_muted: false,
            speakers: Vec::new(),
            log: EventLog::default(),
            mute_epoch: 0,
            handlers,
            empty_since: Some(now.tick),
        }
    }

    /// The connected hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values().filter(|seat| seat.role == Role::Host && seat.presence == Presence::Connected)
    }

    /// The seat whose current or previous binding has this correlation id.
    pub fn seat_by_correlation(&self, correlation: Id) -> Option<&Seat> {
        self.seats.values().find(|seat| {
            let previous = seat.binding.previous.as_ref();
            seat.binding.correlation == correlation
                || previous.is_some_and(|old| old.correlation == correlation)
        })
    }

    /// The next deadline at which [`Input::Timer`] changes something; none while timers are ignored.
    pub fn next_deadline(&self) -> Option<Tick> {
        if self.phase.rule(Trigger::Timer) != Rule::Apply {
            return None;
        }
        let seats = self.seats.values().filter_map(|seat| match seat.presence {
            Presence::Disconnected { until, .. } => Some(until),
            Presence::Connected => None,
        });
        let requests =
            self.seats.values().filter_map(|seat| seat.unmute_request.map(|request| request.until));
        seats.chain(requests).chain(self.empty_since.map(|since| since + limits::EMPTY)).min()
    }

    /// Applies changes once they are persisted.
    pub fn apply_changes(&mut self, changes: &[Change], now: Now) {
        for change in changes {
            match change {
                Change::Seat(seat) => drop(self.seats.insert(seat.participant, (**seat).clone())),
                Change::SeatRemoved(participant) => drop(self.seats.remove(participant)),
                Change::User { user, record } if record.is_empty() => drop(self.users.remove(user)),
                Change::User { user, record } => drop(self.users.insert(user.clone(), record.clone())),
                Change::GuestsEnterMuted => self.guests_enter_muted = true,
                Change::Speakers(speakers) => self.speakers.clone_from(speakers),
                Change::Waiting(entry) => drop(self.waiting.insert(entry.participant, (**entry).clone())),
                Change::WaitingRemoved(participant) => drop(self.waiting.remove(participant)),
                Change::MuteEpoch(epoch) => self.mute_epoch = *epoch,
                Change::Phase(phase) => {
                    self.phase = phase.clone();
                    if self.phase == Phase::Complete {
                        self.seats.clear();
                        self.waiting.clear();
                    }
                }
                Change::Handlers(handlers) => self.handlers.clone_from(handlers),
                Change::Settings(settings) => self.settings.clone_from(settings),
                Change::Event(event) => self.log.append(event.clone()),
                Change::NonceSpent(_) => {}
            }
        }
        match (self.seats.is_empty() && self.waiting.is_empty(), self.empty_since) {
            (true, None) => self.empty_since = Some(now.tick),
            (false, Some(_)) => self.empty_since = None,
            _ => {}
        }
    }
}
