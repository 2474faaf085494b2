//! Sessions and streams over QUIC.

use std::net::SocketAddr;

use async_trait::async_trait;
use bytes::Bytes;
use web_transport_quinn::{self as wt, SessionError, WebTransportError};

use crate::transport::{
    Closed, PathStats, ReceiveLimits, RecvStream, SendStream, Session as TransportSession, Streams,
    TransportError,
};

/// A session, or a plain connection whose codes are not mapped.
pub(super) struct Session(pub(super) wt::Session);

fn ended(error: &SessionError) -> Closed {
    match error {
        SessionError::WebTransportError(WebTransportError::Closed(code, _)) => Closed::Code(*code),
        other => Closed::Lost(other.to_string()),
    }
}

fn gone(error: &SessionError) -> TransportError {
    TransportError::Closed(ended(error))
}

#[async_trait]
impl TransportSession for Session {
    async fn accept_bi(&self) -> Result<Streams, TransportError> {
        let (send, receive) = self.0.accept_bi().await.map_err(|error| gone(&error))?;
        Ok((Box::new(Sending(send)), Box::new(Receiving(receive))))
    }

    async fn open_bi(&self) -> Result<Streams, TransportError> {
        let (send, receive) = self.0.open_bi().await.map_err(|error| gone(&error))?;
        Ok((Box::new(Sending(send)), Box::new(Receiving(receive))))
    }

    async fn accept_uni(&self) -> Result<Box<dyn RecvStream>, TransportError> {
        Ok(Box::new(Receiving(self.0.accept_uni().await.map_err(|error| gone(&error))?)))
    }

    async fn open_uni(&self) -> Result<Box<dyn SendStream>, TransportError> {
        Ok(Box::new(Sending(self.0.open_uni().await.map_err(|error| gone(&error))?)))
    }

    fn send_datagram(&self, bytes: Bytes) -> Result<(), TransportError> {
        use quinn::SendDatagramError::{Disabled, TooLarge, UnsupportedByPeer};
        let len = bytes.len();
        self.0.send_datagram(bytes).map_err(|error| match error {
            SessionError::SendDatagramError(Disabled | TooLarge | UnsupportedByPeer) => {
                TransportError::Datagram(len)
            }
            error => gone(&error),
        })
    }

    async fn receive_datagram(&self) -> Result<Bytes, TransportError> {
        self.0.read_datagram().await.map_err(|error| gone(&error))
    }

    fn max_datagram(&self) -> usize {
        self.0.max_datagram_size()
    }

    fn stats(&self) -> PathStats {
        let stats = quinn::Connection::stats(&self.0);
        PathStats {
            rtt: stats.path.rtt,
            min_rtt: stats.path.min_rtt,
            sent_bytes: stats.udp_tx.bytes,
            lost_bytes: stats.path.lost_bytes,
            sent_packets: stats.path.sent_packets,
            lost_packets: stats.path.lost_packets,
            received_bytes: stats.udp_rx.bytes,
        }
    }

    fn set_send_window(&self, bytes: u64) {
        quinn::Connection::set_send_window(&self.0, bytes);
    }

    fn set_receive_limits(&self, limits: ReceiveLimits) {
        self.0.set_receive_window(limits.window.into());
        self.0.set_max_concurrent_uni_streams(limits.uni_streams.into());
    }

    fn close(&self, code: u32, reason: &str) {
        self.0.close(code, reason.as_bytes());
    }

    async fn closed(&self) -> Closed {
        ended(&self.0.closed().await)
    }

    fn remote(&self) -> Option<SocketAddr> {
        Some(self.0.remote_address())
    }
}

struct Sending(wt::SendStream);

#[async_trait]
impl SendStream for Sending {
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError> {
        self.0.write_chunk(bytes).await.map_err(|error| match error {
            wt::WriteError::SessionError(error) => gone(&error),
            wt::WriteError::Stopped(code) => TransportError::Reset(Some(code)),
            _ => TransportError::Reset(None),
        })
    }

    fn finish(&mut self) {
        // The stream is already finished or reset.
        let _ = self.0.finish();
    }

    fn reset(&mut self, code: u32) {
        // The stream is already reset, or all of it was acknowledged.
        let _ = self.0.reset(code);
    }

    async fn acknowledged(&mut self) {
        // How the wait ends does not matter: nothing is left to deliver.
        let _ = self.0.stopped().await;
    }

    fn set_priority(&mut self, priority: i32) {
        // The stream is already closed.
        let _ = self.0.set_priority(priority);
    }
}

struct Receiving(wt::RecvStream);

#[async_trait]
impl RecvStream for Receiving {
    async fn receive(&mut self, max: usize) -> Result<Option<Bytes>, TransportError> {
        match self.0.read_chunk(max, true).await {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
            Err(wt::ReadError::SessionError(error)) => Err(gone(&error)),
            Err(wt::ReadError::Reset(code)) => Err(TransportError::Reset(Some(code))),
            Err(_) => Err(TransportError::Reset(None)),
        }
    }

    fn stop(&mut self, code: u32) {
        // The stream has already ended.
        let _ = self.0.stop(code);
    }
}
