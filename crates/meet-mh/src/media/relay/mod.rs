//! Media between the handlers of one meeting.
//!
//! Two handlers that serve a meeting share one connection for it, a [`RelayLink`]. Each offers the streams that are
//! published at itself, and never those that it was offered: every stream crosses one link at most, and there are no
//! loops. Each states what its own viewers need of the offered streams. What is offered and needed follows from the state
//! of the meeting: after a change the link compares it with what it sent last, and sends the difference.

mod accept;
mod dial;
mod feed;
mod link;
mod need;
mod offer;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tenure_meet_wire::transport::quic::Dialer;
use tenure_meet_wire::transport::{Session, TransportError};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::group::Budget;
use super::track::TrackKey;

pub use accept::RelayAcceptor;
pub(crate) use dial::run as run_dialing;
pub(crate) use offer::RelayedCopy;

/// Connects to other handlers.
#[async_trait]
pub trait RelayDialer: Send + Sync + 'static {
    /// Connects to the handler at an endpoint. Nothing is sent to one whose certificate has none of these hashes.
    async fn dial(
        &self,
        endpoint: &str,
        certificates: &[Vec<u8>],
    ) -> Result<Arc<dyn Session>, TransportError>;
}

#[async_trait]
impl RelayDialer for Dialer {
    async fn dial(
        &self,
        endpoint: &str,
        certificates: &[Vec<u8>],
    ) -> Result<Arc<dyn Session>, TransportError> {
        self.dial_relay(endpoint, certificates).await
    }
}

/// The connection with another handler, in the state of a meeting.
pub(crate) struct RelayLink {
    /// The id of the other handler.
    pub(crate) handler: String,
    pub(crate) session: Arc<dyn Session>,
    /// Ends the link.
    pub(crate) cancel: CancellationToken,
    /// The link compares what it sent with the state.
    pub(crate) wake: Arc<Notify>,
    /// Changes when a stream is offered by the other handler.
    pub(crate) offers: watch::Sender<u64>,
    /// What may be cached of the other handler.
    pub(crate) cache: Arc<Budget>,
    /// What was offered to the other handler.
    offered: HashMap<TrackKey, Offered>,
    next_alias: u16,
    /// Streams that their publishers ended, with the reason, until they are withdrawn.
    ended: HashMap<TrackKey, String>,
    /// What the other handler offered, by alias.
    streams: HashMap<u16, TrackKey>,
    /// What the other handler was asked for, by alias.
    needed: HashMap<u16, Needed>,
}

/// A stream that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offered {
    alias: u16,
    version: super::track::Version,
    /// The number of the offer.
    number: u64,
}

/// What is needed of a stream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Needed {
    renditions: Vec<u32>,
    temporal: u32,
}

impl RelayLink {
    pub(crate) fn new(handler: String, session: Arc<dyn Session>, cancel: CancellationToken) -> Self {
        Self {
            handler,
            session,
            cancel,
            wake: Arc::default(),
            offers: watch::Sender::new(0),
            cache: Budget::new(crate::limits::RELAY_CACHE),
            offered: HashMap::new(),
            next_alias: 1,
            ended: HashMap::new(),
            streams: HashMap::new(),
            needed: HashMap::new(),
        }
    }

    /// Streams that the other handler sends.
    pub(crate) fn active(&self) -> usize {
        self.needed.values().filter(|needed| !needed.renditions.is_empty()).count()
    }

    /// The publisher of a stream ended it.
    pub(crate) fn end(&mut self, key: &TrackKey, reason: &str) {
        if self.offered.contains_key(key) {
            self.ended.insert(key.clone(), reason.to_owned());
        }
        self.wake.notify_one();
    }
}
