//! Joins that wait for a host.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::{CloseCode, Id};
use tokio::sync::oneshot;

use super::{JoinReply, PendingJoin};
use crate::meeting::Join;

/// Joins that wait for a host, by participant.
#[derive(Default)]
pub(super) struct WaitingJoins {
    by_participant: BTreeMap<Id, PendingJoin>,
}

impl WaitingJoins {
    /// Keeps a join. Its connection continues to wait, for the reply that follows.
    pub(super) fn keep(&mut self, participant: Id, pending: PendingJoin) {
        let PendingJoin { join, seq, outbox, reply } = pending;
        let (later, next) = oneshot::channel();
        let join = Box::new(Join { admitted: true, resume: None, ..*join });
        // A connection that ended meanwhile is noticed when it is admitted.
        let _connection_gone = reply.send(JoinReply::Waits { participant, next });
        self.by_participant.insert(participant, PendingJoin { join, seq, outbox, reply: later });
    }

    /// The join of an admitted participant.
    pub(super) fn take(&mut self, participant: Id) -> Option<PendingJoin> {
        self.by_participant.remove(&participant)
    }

    /// The sequence number of the join request of a participant that waits.
    pub(super) fn seq(&self, participant: Id) -> Option<u64> {
        self.by_participant.get(&participant).map(|pending| pending.seq)
    }

    pub(super) fn send(&self, participant: Id, frame: Bytes) {
        if let Some(pending) = self.by_participant.get(&participant) {
            // A client that does not read is closed, and its connection reports that.
            let _reads = pending.outbox.push(vec![frame]);
        }
    }

    /// Closes the connection of a participant.
    pub(super) fn close(&mut self, participant: Id, code: CloseCode) {
        if let Some(pending) = self.by_participant.remove(&participant) {
            pending.outbox.close_now(code);
        }
    }

    /// Refuses all joins with this message.
    pub(super) fn refuse_all(&mut self, payload: &Payload) {
        for pending in std::mem::take(&mut self.by_participant).into_values() {
            let _connection_gone = pending.reply.send(JoinReply::Refused(Box::new(payload.clone())));
        }
    }

    pub(super) fn close_all(&mut self, code: CloseCode) {
        for pending in std::mem::take(&mut self.by_participant).into_values() {
            pending.outbox.close_now(code);
        }
    }
}
