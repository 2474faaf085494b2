//! One connection: a session and its single stream.

use std::sync::Arc;

use tenure_meet_wire::signaling::ServerMessage;
use tenure_meet_wire::transport::{Closed, MessageReader, MessageWriter, ReadError, Session, TransportError};

use crate::join_api::UnreachableReason;

/// An established connection.
pub(crate) struct Connection {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) writer: MessageWriter,
    pub(crate) reader: MessageReader,
}

/// How a connection ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionLost {
    /// By a close code.
    Code(u32),
    /// By another failure.
    Lost(String),
    /// Nothing was received for [`limits::SILENCE`](crate::limits::SILENCE).
    Silent,
    /// By this client, which must connect again.
    Abandoned(&'static str),
}

impl ConnectionLost {
    /// Why the controller seems unreachable; none if it closed the connection itself, or this client did.
    pub(crate) const fn unreachable(&self) -> Option<UnreachableReason> {
        match self {
            Self::Silent => Some(UnreachableReason::Timeout),
            Self::Lost(_) => Some(UnreachableReason::Unspecified),
            Self::Code(_) | Self::Abandoned(_) => None,
        }
    }
}

impl Connection {
    pub(crate) async fn open(session: Arc<dyn Session>) -> Result<Self, TransportError> {
        let (send, receive) = session.open_bi().await?;
        Ok(Self { session, writer: MessageWriter::new(send), reader: MessageReader::new(receive) })
    }

    /// Returns the next message, or how the connection ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<ServerMessage, ConnectionLost> {
        match self.reader.next().await {
            Ok(Some(message)) => Ok(message),
            // The stream ended. The session knows why.
            Ok(None) | Err(ReadError::Transport(TransportError::Reset(_))) => {
                Err(self.session.closed().await.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl From<Closed> for ConnectionLost {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Code(code) => Self::Code(code),
            Closed::Lost(why) => Self::Lost(why),
        }
    }
}

impl From<ReadError> for ConnectionLost {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Transport(TransportError::Closed(closed)) => closed.into(),
            other => Self::Lost(other.to_string()),
        }
    }
}
