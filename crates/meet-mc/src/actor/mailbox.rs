//! Bounded mailboxes, measured where a mail is put in.

use tokio::sync::mpsc;

use crate::metric;

/// A kind of actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActorType {
    /// The one over all meetings.
    Controller,
    /// One meeting.
    Meeting,
    /// One connection.
    Connection,
}

/// How full a mailbox is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// As it should be.
    Normal,
    /// Fuller than it should be.
    Warning,
    /// Much fuller.
    Critical,
}

impl ActorType {
    /// The word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Meeting => "meeting",
            Self::Connection => "connection",
        }
    }

    /// How a depth is to be taken.
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

/// The actor is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone;

/// Where mails for an actor are put in.
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
    /// A mailbox of this size, and where the actor takes its mails out.
    pub(crate) fn new(kind: ActorType, size: usize) -> (Self, mpsc::Receiver<T>) {
        let (sender, receiver) = mpsc::channel(size);
        (Self { kind, sender }, receiver)
    }

    fn measured(&self) {
        // What waits, this one included.
        metric::mailbox(self.kind, self.sender.max_capacity() - self.sender.capacity());
    }

    /// Puts a mail in; waits while the mailbox is full.
    pub(crate) async fn send(&self, mail: T) -> Result<(), Gone> {
        self.sender.send(mail).await.map_err(|_| Gone)?;
        self.measured();
        Ok(())
    }

    /// Whether the actor takes no more mails.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Puts a mail in, or gives up at once.
    pub(crate) fn try_send(&self, mail: T) -> Result<(), Gone> {
        self.sender.try_send(mail).map_err(|_| {
            metric::dropped(self.kind);
            Gone
        })?;
        self.measured();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_taken_as_the_table_says() {
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
    async fn a_full_mailbox_takes_no_more_and_a_mailbox_of_nobody_says_so() {
        let (mailbox, receiver) = Mailbox::new(ActorType::Meeting, 2);
        assert_eq!(
            (mailbox.try_send(1), mailbox.try_send(2), mailbox.try_send(3)),
            (Ok(()), Ok(()), Err(Gone))
        );
        drop(receiver);
        assert_eq!(mailbox.send(4).await, Err(Gone));
    }
}
