//! The queue of messages for one client.

use std::sync::Arc;

use bytes::Bytes;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ErrorCode, ServerMessage};
use tenure_meet_wire::transport::Session;
use tenure_meet_wire::{CloseCode, frame};

use crate::actor::mailbox::Mailbox;
use crate::{convert, metric};

/// An item for a client.
pub(crate) enum OutboxItem {
    /// Frames, sent in order.
    Frames(Vec<Bytes>),
    /// Close after everything queued before.
    Close(CloseCode),
}

/// Sends to one client without waiting: a client whose queue is full is closed.
#[derive(Clone)]
pub(crate) struct Outbox {
    mailbox: Mailbox<OutboxItem>,
    session: Arc<dyn Session>,
}

impl Outbox {
    pub(crate) fn new(mailbox: Mailbox<OutboxItem>, session: Arc<dyn Session>) -> Self {
        Self { mailbox, session }
    }

    /// Queues frames. Returns false, and closes the session, if the queue is full.
    pub(crate) fn push(&self, frames: Vec<Bytes>) -> bool {
        let queued = self.mailbox.try_send(OutboxItem::Frames(frames)).is_ok();
        if !queued {
            self.close_now(CloseCode::TooSlow);
        }
        queued
    }

    /// Closes the session after everything queued is sent.
    pub(crate) fn close(&self, code: CloseCode) {
        if self.mailbox.try_send(OutboxItem::Close(code)).is_err() {
            self.close_now(code);
        }
    }

    /// Closes the session at once.
    pub(crate) fn close_now(&self, code: CloseCode) {
        self.session.close_for(code);
    }
}

/// Encodes a message as a frame. A message that exceeds the frame limit, which the bounds of all fields prevent,
/// is replaced by an error.
pub(crate) fn encode_frame(
    payload: Option<Payload>,
    seq: u64,
    event_seq: u64,
    durable: Option<bool>,
) -> Bytes {
    let message = ServerMessage { payload, seq, event_seq, durable, ..ServerMessage::default() };
    frame::encode(&message).unwrap_or_else(|error| {
        tracing::error!(target: metric::TARGET, %error, seq, event_seq, "message exceeds the frame limit");
        let payload = Some(convert::error_payload(ErrorCode::InternalError, "the answer is too long"));
        let message = ServerMessage { payload, seq, event_seq, ..ServerMessage::default() };
        frame::encode(&message).unwrap_or_default()
    })
}
