//! What a meeting does once something is written: it answers, tells everybody, and has others do their part.

use std::time::Duration;

use bytes::Bytes;
use meet_wire::signaling::Accepted;
use meet_wire::signaling::server_message::Payload;
use meet_wire::{CloseCode, Id};

use super::{Asker, Connection, Ending, Joining, MeetingActor, Owed, encoded};
use crate::actor::cause::Cause;
use crate::actor::limits;
use crate::actor::port::MuteOrder;
use crate::meeting::{Effect, Effects, Entry, Event, Now, Phase, Presence};
use crate::{convert, metric};

impl MeetingActor {
    pub(super) fn deliver(&mut self, owed: &Owed, durable: Option<bool>) -> Result<(), Ending> {
        let asker = owed.asker;
        for effect in &owed.then {
            match effect {
                Effect::Welcome(_) => {}
                Effect::Accept => {
                    if let Some(Asker { participant, seq }) = asker {
                        let accepted = encoded(Some(Payload::Accepted(Accepted {})), seq, 0, durable);
                        self.send(participant, vec![accepted]);
                    }
                }
                Effect::Tell { participant, telling } => {
                    let told = convert::told(&self.state, telling);
                    self.send(*participant, vec![encoded(Some(told), 0, 0, None)]);
                }
                Effect::Close { participant, epoch, code } => self.close(*participant, *epoch, *code),
                Effect::Register => {
                    // A join asks for it when the meeting was empty; every owner tells the same handlers once.
                    if !self.registered {
                        self.register();
                    }
                }
                Effect::Enforce { participant, mutes, by } => {
                    let order = MuteOrder {
                        meeting: self.state.id.clone(),
                        generation: self.held.generation().get(),
                        participant: *participant,
                        mutes: mutes.clone(),
                        handlers: self.state.handlers.clone(),
                    };
                    let (participant, epoch, by) = (*participant, mutes.epoch, *by);
                    let enforced = self.port.enforce(order);
                    self.orders.spawn(Cause::current().run(async move {
                        Some(Event::Enforced { participant, epoch, by, missing: enforced.await })
                    }));
                }
                Effect::End => return Err(Ending::Over),
            }
        }
        Ok(())
    }

    /// Tells the handlers who owns the meeting now. If none of them takes it, others are used, a few times.
    pub(super) fn register(&mut self) {
        self.registered = true;
        let generation = self.held.generation().get();
        let told = self.port.register(&self.state.id, generation, &self.state.handlers);
        let again = self.replaced < limits::REPLACEMENTS;
        self.replaced += 1;
        let done = async move { told.await.filter(|_| again).map(Event::Handlers) };
        self.orders.spawn(Cause::current().run(done));
    }

    /// Tells everybody where media goes from now on.
    pub(super) fn tell_handlers(&mut self) {
        let frame = encoded(Some(convert::handlers(&self.state)), 0, 0, None);
        for (participant, connection) in &self.connections {
            if !connection.outbox.push(vec![frame.clone()]) {
                self.gone.push((*participant, connection.epoch));
            }
        }
    }

    /// Counts who came back, and how long they were away.
    pub(super) fn measure(&self, event: &Event, effects: &Effects, now: Now) {
        let Event::Join(join) = event else { return };
        let welcome = effects.then.iter().find_map(|effect| match effect {
            Effect::Welcome(welcome) => Some(welcome),
            _ => None,
        });
        let Some(welcome) = welcome.filter(|_| join.resume.is_some()) else { return };
        metric::resumed(if welcome.resumed { "resumed" } else { "new_seat" });
        let before = self.state.seats.get(&welcome.seat.participant).map(|seat| seat.presence);
        if let (true, Some(Presence::Away { since, .. })) = (welcome.resumed, before) {
            metric::recovered(Duration::from_micros(now.wall.as_micros().saturating_sub(since.as_micros())));
        }
    }

    /// Lets a connection in: its welcome, and what it missed, before anything else.
    pub(super) fn welcome(&mut self, effects: &Effects, joining: Joining) {
        let welcome = effects.then.iter().find_map(|effect| match effect {
            Effect::Welcome(welcome) => Some(welcome),
            _ => None,
        });
        let Some(welcome) = welcome else { return };
        let (participant, epoch) = (welcome.seat.participant, welcome.seat.epoch);
        let answers = convert::welcomed(&self.state, welcome).into_iter();
        let mut frames: Vec<Bytes> =
            answers.map(|answer| encoded(Some(answer), joining.seq, 0, None)).collect();
        let missed = welcome.replay.iter().flatten();
        frames.extend(missed.map(|entry| told(entry, participant)));
        let last = welcome.replay.iter().flatten().last();
        let seen = last.map_or(welcome.event_seq, |entry| entry.seq);
        let mut there = joining.outbox.push(frames);
        let connection = Connection { epoch, outbox: joining.outbox, seen };
        let before = self.connections.insert(participant, connection);
        if let Some(older) = before.filter(|older| older.epoch != epoch) {
            older.outbox.close_now(CloseCode::Superseded);
        }
        // The connection may have ended while it was let in: then nobody else says so.
        there &= joining.seated.send(Ok((participant, epoch))).is_ok();
        if !there {
            self.gone.push((participant, epoch));
        }
    }

    /// Tells everybody what they have not been told, with its number.
    pub(super) fn broadcast(&mut self, durable: Option<bool>) {
        let Some(least) = self.connections.values().map(|connection| connection.seen).min() else { return };
        let newest = self.state.journal.entries().rev();
        let fresh: Vec<&Entry> = newest.take_while(|entry| entry.seq > least).collect();
        for entry in fresh.into_iter().rev() {
            let all = encoded(Some(convert::happened(&entry.happening)), 0, entry.seq, durable);
            let bare = encoded(None, 0, entry.seq, durable);
            let audience = entry.happening.audience();
            for (participant, connection) in &mut self.connections {
                if connection.seen >= entry.seq {
                    continue;
                }
                connection.seen = entry.seq;
                let frame = if audience.has(*participant) { &all } else { &bare };
                if !connection.outbox.push(vec![frame.clone()]) {
                    self.gone.push((*participant, connection.epoch));
                }
            }
        }
    }

    fn close(&mut self, participant: Id, epoch: u64, code: CloseCode) {
        let Some(connection) = self.connections.get(&participant).filter(|known| known.epoch == epoch) else {
            return;
        };
        connection.outbox.close(code);
        if !self.state.seats.contains_key(&participant) || self.state.phase == Phase::Complete {
            self.connections.remove(&participant);
        }
    }
}

fn told(entry: &Entry, participant: Id) -> Bytes {
    let audience = entry.happening.audience();
    let payload = audience.has(participant).then(|| convert::happened(&entry.happening));
    encoded(payload, 0, entry.seq, None)
}
