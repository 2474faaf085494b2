//! Sessions on request, in memory.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc};

use super::{BACKLOG, Session, pair};
use crate::transport::{
    Closed, Connect, Listener as TransportListener, Offer as TransportOffer, Session as TransportSession,
    TransportError,
};

/// Accepts in-memory clients.
pub struct Listener {
    offers: Mutex<mpsc::Receiver<Offer>>,
}

/// Connects to a [`Listener`].
#[derive(Clone)]
pub struct Dialer {
    offers: mpsc::Sender<Offer>,
    from: Option<SocketAddr>,
}

/// An in-memory client that requests a session.
pub struct Offer {
    connect: Connect,
    remote: Option<SocketAddr>,
    answer: tokio::sync::oneshot::Sender<Result<Arc<Session>, u16>>,
}

/// Creates a listener and a connector to it.
pub fn listener() -> (Listener, Dialer) {
    let (sender, offers) = mpsc::channel(BACKLOG);
    (Listener { offers: Mutex::new(offers) }, Dialer { offers: sender, from: None })
}

impl Dialer {
    /// Dials from this address.
    #[must_use]
    pub fn from(self, address: SocketAddr) -> Self {
        Self { from: Some(address), ..self }
    }

    /// Requests a session and waits until it is accepted or rejected.
    pub async fn dial(&self, connect: Connect) -> Result<Arc<Session>, TransportError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || TransportError::Refused("listener closed".to_owned());
        self.offers.send(Offer { connect, remote: self.from, answer }).await.map_err(|_| gone())?;
        match answered.await.map_err(|_| gone())? {
            Ok(session) => Ok(session),
            Err(status) => Err(TransportError::Refused(status.to_string())),
        }
    }
}

#[async_trait]
impl TransportListener for Listener {
    async fn offer(&self) -> Option<Box<dyn TransportOffer>> {
        Some(Box::new(self.offers.lock().await.recv().await?))
    }
}

#[async_trait]
impl TransportOffer for Offer {
    fn connect(&self) -> &Connect {
        &self.connect
    }

    fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    async fn accept(self: Box<Self>) -> Result<Arc<dyn TransportSession>, TransportError> {
        let (near, far) = pair();
        self.answer.send(Ok(far)).map_err(|_| TransportError::Closed(Closed::Lost("gone".to_owned())))?;
        Ok(near)
    }

    async fn reject(self: Box<Self>, status: u16) {
        let _nobody_waits = self.answer.send(Err(status));
    }
}
