//! What waits for one client.

use std::sync::Arc;

use bytes::Bytes;
use meet_wire::CloseCode;
use meet_wire::transport::Session;

use crate::actor::mailbox::Mailbox;

/// Something for a client.
pub(crate) enum Parcel {
    /// Frames, to be sent in their order.
    Frames(Vec<Bytes>),
    /// The end, after what was put in before.
    Close(CloseCode),
}

/// The way to one client. Nobody ever waits for it: who does not take its parcels is closed.
#[derive(Clone)]
pub(crate) struct Outbox {
    mailbox: Mailbox<Parcel>,
    session: Arc<dyn Session>,
}

impl Outbox {
    pub(crate) fn new(mailbox: Mailbox<Parcel>, session: Arc<dyn Session>) -> Self {
        Self { mailbox, session }
    }

    /// Whether it was taken. Who did not take it is closed.
    pub(crate) fn push(&self, frames: Vec<Bytes>) -> bool {
        let taken = self.mailbox.try_send(Parcel::Frames(frames)).is_ok();
        if !taken {
            self.close_now(CloseCode::TooSlow);
        }
        taken
    }

    /// Closes once everything before is sent.
    pub(crate) fn close(&self, code: CloseCode) {
        if self.mailbox.try_send(Parcel::Close(code)).is_err() {
            self.close_now(code);
        }
    }

    /// Closes at once.
    pub(crate) fn close_now(&self, code: CloseCode) {
        self.session.close_for(code);
    }
}
