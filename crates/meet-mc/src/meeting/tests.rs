//! Tables over the state and events.

use std::time::Duration;

use lease::{Tick, Wall};
use meet_wire::binding::{MasterSecret, Nonce, Secrets};
use meet_wire::{CloseCode, Id, MeetingId};

use super::*;

mod joins;
mod mutes;
mod pairs;
mod walk;

/// A meeting, its clock and its secrets: events go in, effects come out and are absorbed.
pub(super) struct Table {
    pub(super) meeting: Meeting,
    pub(super) now: Now,
    pub(super) secrets: Secrets,
    made: u16,
}

pub(super) fn id(number: u16) -> Id {
    Id::parse(&format!("018bcfe5-6800-7000-8000-00000000{number:04x}")).unwrap()
}

impl Table {
    pub(super) fn new() -> Self {
        let now =
            Now { tick: Tick::from_nanos(1_000_000_000_000), wall: Wall::from_micros(1_700_000_000_000_000) };
        let meeting = Meeting::new(MeetingId::parse("abc").unwrap(), Settings::default(), Vec::new(), now);
        let secrets = Secrets::new(MasterSecret::new(vec![7; 32]).unwrap());
        Self { meeting, now, secrets, made: 0 }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now.tick = self.now.tick + time;
        self.now.wall = Wall::from_micros(self.now.wall.as_micros() + time.as_micros() as u64);
    }

    pub(super) fn ask(&self, event: &Event) -> Result<Effects, Refusal> {
        apply(&self.meeting, event, &Context { now: self.now, secrets: &self.secrets })
    }

    pub(super) fn perform(&mut self, event: &Event) -> Result<Effects, Refusal> {
        let effects = self.ask(event)?;
        self.meeting.absorb(&effects.changes, self.now);
        Ok(effects)
    }

    pub(super) fn joining(&mut self, user: &str, role: Role) -> Join {
        self.made += 2;
        let fresh = Fresh {
            participant: id(self.made),
            correlation: id(self.made + 1),
            nonce: Nonce::parse(&format!("{:032x}", self.made)).unwrap(),
        };
        Join {
            user: user.to_owned(),
            name: user.to_uppercase(),
            role,
            resume: None,
            attempt: "attempt-1".to_owned(),
            last_event_seq: 0,
            fresh,
        }
    }

    pub(super) fn seated(&mut self, user: &str, role: Role) -> Welcome {
        let join = self.joining(user, role);
        let effects = self.perform(&Event::Join(Box::new(join))).unwrap();
        welcome(&effects)
    }

    /// Asks to come back with what a welcome gave.
    pub(super) fn returning(&mut self, welcome: &Welcome) -> Join {
        let mut join = self.joining(&welcome.seat.user, welcome.seat.role);
        join.last_event_seq = welcome.event_seq;
        join.resume = Some(Resume {
            correlation: welcome.seat.binding.correlation,
            token: welcome.token.as_str().to_owned(),
        });
        join
    }

    pub(super) fn request(&mut self, seat: &Seat, request: Request) -> Result<Effects, Refusal> {
        let current = self.meeting.seats.get(&seat.participant);
        let seq = current.map_or(1, |seat| seat.applied.number() + 1);
        let (participant, epoch) = (seat.participant, seat.epoch);
        self.perform(&Event::Asked { participant, epoch, seq, request })
    }

    pub(super) fn lose(&mut self, seat: &Seat) -> Effects {
        self.perform(&Event::Closed { participant: seat.participant, epoch: seat.epoch }).unwrap()
    }
}

pub(super) fn welcome(effects: &Effects) -> Welcome {
    let found = effects.then.iter().find_map(|effect| match effect {
        Effect::Welcome(welcome) => Some((**welcome).clone()),
        _ => None,
    });
    found.expect("a welcome")
}

pub(super) fn closes(effects: &Effects) -> Vec<(Id, u64, CloseCode)> {
    let closes = effects.then.iter().filter_map(|effect| match effect {
        Effect::Close { participant, epoch, code } => Some((*participant, *epoch, *code)),
        _ => None,
    });
    closes.collect()
}

pub(super) fn told(effects: &Effects) -> Vec<(Id, Telling)> {
    let told = effects.then.iter().filter_map(|effect| match effect {
        Effect::Tell { participant, telling } => Some((*participant, telling.clone())),
        _ => None,
    });
    told.collect()
}
