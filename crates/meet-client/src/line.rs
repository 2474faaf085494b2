//! One connection: the session and its one stream.

use std::sync::Arc;

use meet_wire::signaling::ServerMessage;
use meet_wire::transport::{Closed, MessageReader, MessageWriter, ReadError, Session, TransportError};

/// A connection that was made.
pub(crate) struct Line {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) writer: MessageWriter,
    pub(crate) reader: MessageReader,
}

/// How a connection ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// By a code.
    Code(u32),
    /// By something else.
    Lost(String),
}

impl Line {
    pub(crate) async fn open(session: Arc<dyn Session>) -> Result<Self, TransportError> {
        let (send, receive) = session.open_bi().await?;
        Ok(Self { session, writer: MessageWriter::new(send), reader: MessageReader::new(receive) })
    }

    /// The next message, or how the connection ended. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<ServerMessage, Loss> {
        match self.reader.next().await {
            Ok(Some(message)) => Ok(message),
            // Nothing more comes on the stream; why is said by the session.
            Ok(None) | Err(ReadError::Transport(TransportError::Reset)) => {
                Err(self.session.closed().await.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl From<Closed> for Loss {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Code(code) => Self::Code(code),
            Closed::Lost(why) => Self::Lost(why),
        }
    }
}

impl From<ReadError> for Loss {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Transport(TransportError::Closed(closed)) => closed.into(),
            other => Self::Lost(other.to_string()),
        }
    }
}
