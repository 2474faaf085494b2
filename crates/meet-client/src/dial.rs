//! Connects to the controller of a meeting.

use std::sync::Arc;

use async_trait::async_trait;
use tenure_meet_wire::transport::{Connect, Session, TransportError, memory, quic};

/// The endpoint of a controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The https URL.
    pub url: String,
    /// The SHA-256 hashes of its certificates.
    pub hashes: Vec<Vec<u8>>,
}

/// Opens sessions. Many clients may share one dialer and its socket.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Opens a session.
    async fn dial(&self, place: &Endpoint, traceparent: &str) -> Result<Arc<dyn Session>, TransportError>;
}

#[async_trait]
impl Dial for quic::Dialer {
    async fn dial(&self, place: &Endpoint, traceparent: &str) -> Result<Arc<dyn Session>, TransportError> {
        quic::Dialer::dial(self, &place.url, &place.hashes, Some(traceparent)).await
    }
}

#[async_trait]
impl Dial for memory::Dialer {
    async fn dial(&self, place: &Endpoint, traceparent: &str) -> Result<Arc<dyn Session>, TransportError> {
        let connect =
            Connect { path: place.url.clone(), origin: None, traceparent: Some(traceparent.to_owned()) };
        Ok(memory::Dialer::dial(self, connect).await?)
    }
}
