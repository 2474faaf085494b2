//! Messages over a stream.

use prost::Message;

use crate::frame::{self, Decoder, FrameError};
use crate::transport::{RecvStream, SendStream, TransportError};

/// Maximum bytes per read.
const PIECE: usize = 16 * 1024;

/// Why no further message can be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer violated the protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    Cut,
}

/// Reads messages.
pub struct MessageReader {
    stream: Box<dyn RecvStream>,
    decoder: Decoder,
}

/// Writes messages.
pub struct MessageWriter {
    stream: Box<dyn SendStream>,
}

impl MessageReader {
    /// Reads messages from this stream.
    pub fn new(stream: Box<dyn RecvStream>) -> Self {
        Self { stream, decoder: Decoder::default() }
    }

    /// Returns the next message, or `None` at the end. Cancel safe.
    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, ReadError> {
        loop {
            if let Some(message) = self.decoder.message()? {
                return Ok(Some(message));
            }
            match self.stream.receive(PIECE).await? {
                Some(piece) => self.decoder.push(&piece),
                None if self.decoder.kept() > 0 => return Err(ReadError::Cut),
                None => return Ok(None),
            }
        }
    }
}

impl MessageWriter {
    /// Writes messages to this stream.
    pub fn new(stream: Box<dyn SendStream>) -> Self {
        Self { stream }
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &impl Message) -> Result<(), ReadError> {
        Ok(self.stream.send(frame::encode(message)?).await?)
    }

    /// Sends an encoded frame, so that a broadcast encodes once.
    pub async fn send_frame(&mut self, frame: bytes::Bytes) -> Result<(), TransportError> {
        self.stream.send(frame).await
    }

    /// Finishes the stream.
    pub fn finish(&mut self) {
        self.stream.finish();
    }
}
