//! A session with streams: WebTransport over QUIC ([`quic`]), or a pair in memory for tests ([`memory`]).
//!
//! Streams are read in order and piece by piece. Never to the end in one call: the QUIC library then waits for ever for a stream whose
//! first packet was sent twice.

pub mod certificate;
pub mod memory;
mod message;
mod paths;
pub mod quic;
mod quic_hash;

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::CloseCode;

pub use message::{MessageReader, MessageWriter, ReadError};
pub use paths::{Path, Paths};

/// How a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// Somebody closed it, with this code.
    Code(u32),
    /// Nobody said anything any more, or the network or the handshake failed.
    Lost(String),
}

/// A session or a stream of it that is no more.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransportError {
    /// The session ended.
    #[error("the session ended: {0:?}")]
    Closed(Closed),
    /// Only this stream ended, by the peer's will.
    #[error("the stream was reset")]
    Reset,
    /// It never began.
    #[error("no session: {0}")]
    Refused(String),
}

/// Both ends of a stream.
pub type Streams = (Box<dyn SendStream>, Box<dyn RecvStream>);

/// One session.
#[async_trait]
pub trait Session: Send + Sync + 'static {
    /// The next stream that the peer opens.
    async fn accept_bi(&self) -> Result<Streams, TransportError>;

    /// Opens a stream.
    async fn open_bi(&self) -> Result<Streams, TransportError>;

    /// Ends the session. What was written before may be lost.
    fn close(&self, code: u32, reason: &str);

    /// Waits for the end.
    async fn closed(&self) -> Closed;

    /// Where the peer is, as far as the network says.
    fn remote(&self) -> Option<SocketAddr>;
}

impl dyn Session {
    /// Ends the session for a reason of ours.
    pub fn close_for(&self, code: CloseCode) {
        self.close(code.number(), code.as_str());
    }
}

/// The end of a stream on which one writes.
#[async_trait]
pub trait SendStream: Send {
    /// Writes all of it; waits while the peer takes nothing.
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError>;

    /// Says that nothing more comes.
    fn finish(&mut self);
}

/// The end of a stream on which one reads.
#[async_trait]
pub trait RecvStream: Send {
    /// The next bytes, in order and at most `max` of them; none at the end.
    async fn receive(&mut self, max: usize) -> Result<Option<Bytes>, TransportError>;
}

/// What a client says when it connects.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Connect {
    /// The path of the URL.
    pub path: String,
    /// The page that a browser connects from; native clients may leave it out.
    pub origin: Option<String>,
    /// The trace that the connection belongs to; browsers cannot send it.
    pub traceparent: Option<String>,
}

/// A client that wants a session.
#[async_trait]
pub trait Offer: Send {
    /// What it said.
    fn connect(&self) -> &Connect;

    /// Where it is.
    fn remote(&self) -> Option<SocketAddr>;

    /// Takes it.
    async fn accept(self: Box<Self>) -> Result<Arc<dyn Session>, TransportError>;

    /// Turns it away with an HTTP status. A browser's page sees nothing of it but the failure.
    async fn reject(self: Box<Self>, status: u16);
}

/// Where clients arrive.
#[async_trait]
pub trait Listener: Send + Sync + 'static {
    /// The next client; none when the listener is closed. May be dropped and called again.
    async fn offer(&self) -> Option<Box<dyn Offer>>;
}
