//! A session with streams: WebTransport over QUIC ([`quic`]), or an in-memory pair for tests ([`memory`]).
//!
//! Read streams in order and chunk by chunk, never to the end in one call: the QUIC library then waits forever for a stream whose
//! first packet was retransmitted.

pub mod certificate;
pub mod memory;
mod message;
mod origin;
mod paths;
mod per_address;
pub mod quic;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::CloseCode;

pub use message::{MessageReader, MessageWriter, ReadError};
pub use origin::AllowedOrigins;
pub use paths::{Path, Paths};
pub use per_address::{AddressLimit, AddressPermit};

/// The protocol between two media handlers. As a path it names their connections at a listener.
pub const RELAY: &str = "tenure-relay/1";

/// How a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// Closed by either side with this code.
    Code(u32),
    /// Lost by an idle timeout, a network error or a failed handshake.
    Lost(String),
}

/// The failure of a session or one of its streams.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransportError {
    /// The session ended.
    #[error("the session ended: {0:?}")]
    Closed(Closed),
    /// The peer reset or stopped this stream, with a code unless it was lost.
    #[error("the stream was reset with code {0:?}")]
    Reset(Option<u32>),
    /// The datagram is longer than the path carries, or the peer accepts none.
    #[error("a datagram of {0} bytes cannot be sent")]
    Datagram(usize),
    /// The session could not be established.
    #[error("cannot establish a session: {0}")]
    Refused(String),
}

/// What is known of the path to the peer. Counters rise from the start of the session.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathStats {
    /// The round trip now.
    pub rtt: Duration,
    /// The shortest round trip seen.
    pub min_rtt: Duration,
    /// Bytes sent, those sent again included.
    pub sent_bytes: u64,
    /// Bytes lost of those sent.
    pub lost_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets lost of those sent.
    pub lost_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

/// What a peer may send before it must wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveLimits {
    /// Data that the other end has not read, over all streams, in bytes.
    pub window: u32,
    /// Open unidirectional streams.
    pub uni_streams: u32,
}

impl ReceiveLimits {
    /// Before the peer is authenticated.
    pub const UNKNOWN_PEER: Self = Self { window: 64 * 1024, uni_streams: 8 };
    /// An authenticated participant that sends media.
    pub const MEDIA: Self = Self { window: 2 * 1024 * 1024, uni_streams: 72 };
    /// Another media handler of the same meeting.
    pub const RELAY: Self = Self { window: 16 * 1024 * 1024, uni_streams: 1_024 };
}

/// The two halves of a stream.
pub type Streams = (Box<dyn SendStream>, Box<dyn RecvStream>);

/// One session.
#[async_trait]
pub trait Session: Send + Sync + 'static {
    /// Accepts the next stream that the peer opens.
    async fn accept_bi(&self) -> Result<Streams, TransportError>;

    /// Opens a stream.
    async fn open_bi(&self) -> Result<Streams, TransportError>;

    /// Accepts the next unidirectional stream that the peer opens.
    async fn accept_uni(&self) -> Result<Box<dyn RecvStream>, TransportError>;

    /// Opens a unidirectional stream. Waits while the peer allows no further one.
    async fn open_uni(&self) -> Result<Box<dyn SendStream>, TransportError>;

    /// Sends a datagram without waiting. A full send buffer drops the oldest one, and the network may lose any.
    fn send_datagram(&self, bytes: Bytes) -> Result<(), TransportError>;

    /// Returns the next datagram. Cancel safe.
    async fn receive_datagram(&self) -> Result<Bytes, TransportError>;

    /// The longest datagram that can be sent now, in bytes; 0 if the peer accepts none.
    fn max_datagram(&self) -> usize;

    /// What is known of the path, for rate control.
    fn stats(&self) -> PathStats;

    /// Limits the data that waits to be sent or acknowledged, in bytes.
    fn set_send_window(&self, bytes: u64);

    /// Changes what the peer may send.
    fn set_receive_limits(&self, limits: ReceiveLimits);

    /// Closes the session. Data in flight may be lost.
    fn close(&self, code: u32, reason: &str);

    /// Waits until the session ends.
    async fn closed(&self) -> Closed;

    /// The peer's address, if the network provides it.
    fn remote(&self) -> Option<SocketAddr>;
}

impl dyn Session {
    /// Closes the session with one of our codes.
    pub fn close_for(&self, code: CloseCode) {
        self.close(code.number(), code.as_str());
    }
}

/// The sending half of a stream.
#[async_trait]
pub trait SendStream: Send {
    /// Writes all bytes. Waits while the peer's flow control blocks.
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError>;

    /// Finishes the stream.
    fn finish(&mut self);

    /// Abandons the stream: what was not delivered is dropped and the peer learns the code. Also after
    /// [`SendStream::finish`], until everything is acknowledged.
    fn reset(&mut self, code: u32);

    /// Waits until the peer acknowledged all data of a finished stream, wants no more of it, or is gone. Cancel safe.
    async fn acknowledged(&mut self);

    /// Of the streams of a session, data of the one with the greatest number leaves first. The default is 0.
    fn set_priority(&mut self, priority: i32);
}

/// The receiving half of a stream.
#[async_trait]
pub trait RecvStream: Send {
    /// Returns the next bytes in order, at most `max`, or `None` at the end.
    async fn receive(&mut self, max: usize) -> Result<Option<Bytes>, TransportError>;

    /// Asks the peer to send no more, and drops what has arrived.
    fn stop(&mut self, code: u32);
}

/// The connect request of a client.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Connect {
    /// The path of the URL.
    pub path: String,
    /// The origin of the page in a browser. Native clients may omit it.
    pub origin: Option<String>,
    /// The trace of the connection. Browsers cannot send it.
    pub traceparent: Option<String>,
}

/// A client that requests a session.
#[async_trait]
pub trait Offer: Send {
    /// The connect request.
    fn connect(&self) -> &Connect;

    /// The address of the client.
    fn remote(&self) -> Option<SocketAddr>;

    /// Accepts the session.
    async fn accept(self: Box<Self>) -> Result<Arc<dyn Session>, TransportError>;

    /// Rejects the session with an HTTP status. A page in a browser sees only that it failed.
    async fn reject(self: Box<Self>, status: u16);
}

/// Accepts clients.
#[async_trait]
pub trait Listener: Send + Sync + 'static {
    /// Returns the next client, or `None` when the listener is closed. Cancel safe.
    async fn offer(&self) -> Option<Box<dyn Offer>>;
}
