//! The connected clients of a meeting: answers, direct messages and the fan-out of events.
//!
//! Frames are collected and queued for each client once per work item: a burst of events takes one place in the queue,
//! and does not close clients that read.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_meet_wire::signaling::MediaServerInfo;
use tenure_meet_wire::{CloseCode, Id};
use tokio::sync::oneshot;

use super::JoinReply;
use super::writer::Durability;
use crate::actor::outbox::{Outbox, encode_frame};
use crate::convert;
use crate::meeting::{EventLog, LoggedEvent, Meeting, Phase, Welcome};

struct Connection {
    epoch: u64,
    outbox: Outbox,
    /// The last event that was sent or that the welcome covered.
    last_event: u64,
    /// Frames of the current work item.
    frames: Vec<Bytes>,
}

impl Connection {
    /// Queues the collected frames. Returns false if the client does not read.
    fn flush(&mut self) -> bool {
        self.frames.is_empty() || self.outbox.push(std::mem::take(&mut self.frames))
    }
}

#[derive(Default)]
pub(super) struct Connections {
    by_participant: BTreeMap<Id, Connection>,
    /// Connections closed because they do not read; their seats must be disconnected.
    lagging: Vec<(Id, u64)>,
}

impl Connections {
    /// Answers a join: the welcome and the missed events come before anything else.
    pub(super) fn admit(
        &mut self,
        state: &Meeting,
        welcome: &Welcome,
        media_servers: Vec<MediaServerInfo>,
        (seq, outbox, reply): (u64, Outbox, oneshot::Sender<JoinReply>),
    ) {
        let (participant, epoch) = (welcome.seat.participant, welcome.seat.epoch);
        let answers = convert::welcome_to_wire(state, welcome, media_servers).into_iter();
        let mut frames: Vec<Bytes> = answers.map(|answer| encode_frame(Some(answer), seq, 0, None)).collect();
        let missed = welcome.replay.iter().flatten();
        frames.extend(missed.map(|entry| encode_event(entry, participant)));
        let last = welcome.replay.iter().flatten().last();
        let last_event = last.map_or(welcome.event_seq, |entry| entry.seq);
        let mut connected = outbox.push(frames);
        let before = self
            .by_participant
            .insert(participant, Connection { epoch, outbox, last_event, frames: Vec::new() });
        if let Some(older) = before.filter(|older| older.epoch != epoch) {
            older.outbox.close_now(CloseCode::Superseded);
        }
        // A connection that ended during the join does not report it itself.
        connected &= reply.send(JoinReply::Seated { participant, epoch }).is_ok();
        if !connected {
            self.lagging.push((participant, epoch));
        }
    }

    pub(super) fn send(&mut self, participant: Id, frame: Bytes) {
        if let Some(connection) = self.by_participant.get_mut(&participant) {
            connection.frames.push(frame);
        }
    }

    /// Queues what was collected since the last call.
    pub(super) fn flush(&mut self) {
        for (participant, connection) in &mut self.by_participant {
            if !connection.flush() {
                self.lagging.push((*participant, connection.epoch));
            }
        }
    }

    /// Whether the seat has a connection of this epoch.
    pub(super) fn has(&self, participant: Id, epoch: u64) -> bool {
        self.by_participant.get(&participant).is_some_and(|known| known.epoch == epoch)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_participant.is_empty()
    }

    pub(super) fn participants(&self) -> Vec<Id> {
        self.by_participant.keys().copied().collect()
    }

    /// Sends each connection the events that it has not received. Participants outside an event's audience receive
    /// only its number.
    pub(super) fn publish(&mut self, log: &EventLog, durability: Durability) {
        let oldest = self.by_participant.values().map(|connection| connection.last_event).min();
        let Some(oldest) = oldest else { return };
        let fresh: Vec<&LoggedEvent> = log.events().rev().take_while(|entry| entry.seq > oldest).collect();
        for entry in fresh.into_iter().rev() {
            let durable = durability.to_wire();
            let full = encode_frame(Some(convert::event_to_wire(&entry.event)), 0, entry.seq, durable);
            let bare = encode_frame(None, 0, entry.seq, durable);
            let audience = entry.event.audience();
            for (participant, connection) in &mut self.by_participant {
                if connection.last_event >= entry.seq {
                    continue;
                }
                connection.last_event = entry.seq;
                let frame = if audience.contains(*participant) { &full } else { &bare };
                connection.frames.push(frame.clone());
            }
        }
    }

    /// Closes the connection of this epoch, if it is still the current one.
    pub(super) fn close(&mut self, state: &Meeting, participant: Id, epoch: u64, code: CloseCode) {
        let connection = self.by_participant.get_mut(&participant).filter(|known| known.epoch == epoch);
        let Some(connection) = connection else { return };
        // A client that does not read is closed already.
        let _reads = connection.flush();
        connection.outbox.close(code);
        if !state.seats.contains_key(&participant) || state.phase == Phase::Complete {
            self.by_participant.remove(&participant);
        }
    }

    pub(super) fn close_all(&mut self, code: CloseCode, deliver_queued: bool) {
        for mut connection in std::mem::take(&mut self.by_participant).into_values() {
            if deliver_queued {
                let _reads = connection.flush();
                connection.outbox.close(code);
            } else {
                connection.outbox.close_now(code);
            }
        }
    }

    /// Removes the connection of this epoch, if it is still the current one.
    pub(super) fn remove(&mut self, participant: Id, epoch: u64) {
        if self.by_participant.get(&participant).is_some_and(|known| known.epoch == epoch) {
            self.by_participant.remove(&participant);
        }
    }

    pub(super) fn next_lagging(&mut self) -> Option<(Id, u64)> {
        self.lagging.pop()
    }

    pub(super) fn epochs(&self) -> impl Iterator<Item = (Id, u64)> + use<'_> {
        self.by_participant.iter().map(|(participant, connection)| (*participant, connection.epoch))
    }
}

fn encode_event(entry: &LoggedEvent, participant: Id) -> Bytes {
    let for_participant = entry.event.audience().contains(participant);
    let payload = for_participant.then(|| convert::event_to_wire(&entry.event));
    encode_frame(payload, 0, entry.seq, None)
}
