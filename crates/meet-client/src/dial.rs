//! Connecting to where a meeting is.

use std::sync::Arc;

use async_trait::async_trait;
use meet_wire::transport::{Connect, Session, TransportError, memory, quic};

/// Where a meeting is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// A whole https URL.
    pub url: String,
    /// The SHA-256 hashes of the certificates that are shown there.
    pub hashes: Vec<Vec<u8>>,
}

/// Opens sessions. Many clients may share one, and with it one socket.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Connects.
    async fn dial(&self, place: &Place, traceparent: &str) -> Result<Arc<dyn Session>, TransportError>;
}

#[async_trait]
impl Dial for quic::Dialer {
    async fn dial(&self, place: &Place, traceparent: &str) -> Result<Arc<dyn Session>, TransportError> {
        quic::Dialer::dial(self, &place.url, &place.hashes, Some(traceparent)).await
    }
}

#[async_trait]
impl Dial for memory::Dialer {
    async fn dial(&self, place: &Place, traceparent: &str) -> Result<Arc<dyn Session>, TransportError> {
        let connect =
            Connect { path: place.url.clone(), origin: None, traceparent: Some(traceparent.to_owned()) };
        Ok(memory::Dialer::dial(self, connect).await?)
    }
}
