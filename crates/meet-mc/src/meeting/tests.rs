//! Tests of `apply`: single inputs, tables over all of them, and random sequences.

use std::time::Duration;

use tenure_lease::{Tick, Wall};
use tenure_meet_wire::binding::{MasterSecret, Nonce, Secrets};
use tenure_meet_wire::{CloseCode, Id, MeetingId};

use super::*;

mod joins;
mod layouts;
mod mutes;
mod random;
mod tables;
mod users;

/// A meeting with its clock and secrets: inputs are applied, and their changes taken over at once.
pub(super) struct Fixture {
    pub(super) meeting: Meeting,
    pub(super) now: Now,
    pub(super) secrets: Secrets,
    made: u16,
}

pub(super) fn id(number: u16) -> Id {
    Id::parse(&format!("018bcfe5-6800-7000-8000-00000000{number:04x}")).unwrap()
}

impl Fixture {
    pub(super) fn new() -> Self {
        let now =
            Now { tick: Tick::from_nanos(1_000_000_000_000), wall: Wall::from_micros(1_700_000_000_000_000) };
        let meeting = Meeting::new(MeetingId::parse("abc").unwrap(), Settings::default(), Vec::new(), now);
        let secrets = Secrets::new(MasterSecret::new(vec![7; 32]).unwrap());
        Self { meeting, now, secrets, made: 0 }
    }

    pub(super) fn advance(&mut self, time: Duration) {
        self.now.tick = self.now.tick + time;
        self.now.wall = Wall::from_micros(self.now.wall.as_micros() + time.as_micros() as u64);
    }

    pub(super) fn decide(&self, input: &Input) -> Result<Effects, Refusal> {
        apply(&self.meeting, input, &Context { now: self.now, secrets: &self.secrets })
    }

    pub(super) fn apply(&mut self, input: &Input) -> Result<Effects, Refusal> {
        let effects = self.decide(input)?;
        self.meeting.apply_changes(&effects.changes, self.now);
        Ok(effects)
    }

    pub(super) fn new_join(&mut self, user: &str, role: Role) -> Join {
        self.made += 2;
        let ids = NewIds {
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
            admitted: false,
            ids,
        }
    }

    pub(super) fn join(&mut self, user: &str, role: Role) -> Welcome {
        let join = self.new_join(user, role);
        let effects = self.apply(&Input::Join(Box::new(join))).unwrap();
        welcome(&effects)
    }

    /// A join that resumes the seat of a welcome.
    pub(super) fn resume_join(&mut self, welcome: &Welcome) -> Join {
        let mut join = self.new_join(&welcome.seat.user, welcome.seat.role);
        join.last_event_seq = welcome.event_seq;
        join.resume = Some(ResumeProof {
            correlation: welcome.seat.binding.correlation,
            token: welcome.token.as_str().to_owned(),
        });
        join
    }

    pub(super) fn request(&mut self, seat: &Seat, request: Request) -> Result<Effects, Refusal> {
        let current = self.meeting.seats.get(&seat.participant);
        let seq = current.map_or(1, |seat| seat.applied.number() + 1);
        let (participant, epoch) = (seat.participant, seat.epoch);
        self.apply(&Input::Request { participant, epoch, seq, request })
    }

    pub(super) fn disconnect(&mut self, seat: &Seat) -> Effects {
        self.apply(&Input::Disconnected { participant: seat.participant, epoch: seat.epoch }).unwrap()
    }
}

pub(super) fn welcome(effects: &Effects) -> Welcome {
    *effects.welcome.clone().expect("a welcome")
}

pub(super) fn closes(effects: &Effects) -> Vec<(Id, u64, CloseCode)> {
    let closes = effects.then.iter().filter_map(|effect| match effect {
        Effect::Close { participant, epoch, code } => Some((*participant, *epoch, *code)),
        _ => None,
    });
    closes.collect()
}

pub(super) fn sent(effects: &Effects) -> Vec<(Id, DirectMessage)> {
    let sent = effects.then.iter().filter_map(|effect| match effect {
        Effect::Send { participant, message } => Some((*participant, message.clone())),
        _ => None,
    });
    sent.collect()
}
