//! Bounded mailboxes. Their depth is measured when a message is sent.

use tokio::sync::mpsc;

use crate::metric;

/// The type of an actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActorType {
    /// The controller of all meetings.
    Controller,
    /// One meeting.
    Meeting,
    /// One connection.
    Connection,
}

/// How full a mailbox is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Few messages wait.
    Normal,
    /// Many messages wait.
    Warning,
    /// The mailbox is close to its bound.
    Critical,
}

impl ActorType {
    /// All types.
    pub(crate) const ALL: [Self; 3] = [Self::Controller, Self::Meeting, Self::Connection];

    /// The label in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Meeting => "meeting",
            Self::Connection => "connection",
        }
    }

    /// The level of a depth.
    pub const fn level(self, depth: usize) -> Level {
        let (warning, critical) = match self {
            Self::Controller | Self::Meeting => (100, 500),
            Self::Connection => (50, 200),
        };
        match depth {
            depth if depth > critical => Level::Critical,
            depth if depth >= warning => Level::Warning,
            _ => Level::Normal,
        }
    }
}

/// The actor has ended, or its mailbox is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MailboxClosed;

/// The sending side of an actor's mailbox.
pub(crate) struct Mailbox<T> {
    kind: ActorType,
    sender: mpsc::Sender<T>,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self { kind: self.kind, sender: self.sender.clone() }
    }
}

impl<T> Mailbox<T> {
    /// A mailbox of this size and its receiver.
    pub(crate) fn new(kind: ActorType, size: usize) -> (Self, mpsc::Receiver<T>) {
        let (sender, receiver) = mpsc::channel(size);
        (Self { kind, sender }, receiver)
    }

    /// Messages that wait.
    pub(crate) fn depth(&self) -> usize {
        self.sender.max_capacity() - self.sender.capacity()
    }

    fn record_depth(&self) {
        // Includes the message just sent.
        metric::mailbox_reached(self.kind, self.depth());
    }

    /// Sends a message; waits while the mailbox is full.
    pub(crate) async fn send(&self, message: T) -> Result<(), MailboxClosed> {
        self.sender.send(message).await.map_err(|_| MailboxClosed)?;
        self.record_depth();
        Ok(())
    }

    /// Whether the actor has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a message, or fails at once if the mailbox is full.
    pub(crate) fn try_send(&self, message: T) -> Result<(), MailboxClosed> {
        self.sender.try_send(message).map_err(|_| {
            metric::dropped(self.kind);
            MailboxClosed
        })?;
        self.record_depth();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_have_the_documented_levels() {
        let cases = [(0, 0), (49, 0), (50, 1), (99, 1), (100, 1), (200, 1), (201, 2)];
        let levels = [Level::Normal, Level::Warning, Level::Critical];
        for (depth, level) in cases {
            assert_eq!(ActorType::Connection.level(depth), levels[level], "{depth}");
        }
        for (depth, level) in [(99, 0), (100, 1), (500, 1), (501, 2)] {
            assert_eq!(ActorType::Meeting.level(depth), levels[level], "{depth}");
        }
    }

    #[tokio::test]
    async fn sending_fails_if_the_mailbox_is_full_or_its_actor_has_ended() {
        let (mailbox, receiver) = Mailbox::new(ActorType::Meeting, 2);
        assert_eq!(
            (mailbox.try_send(1), mailbox.try_send(2), mailbox.try_send(3)),
            (Ok(()), Ok(()), Err(MailboxClosed))
        );
        drop(receiver);
        assert_eq!(mailbox.send(4).await, Err(MailboxClosed));
    }
}
