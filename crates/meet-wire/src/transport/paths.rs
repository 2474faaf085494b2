//! Routes the clients of one listener by URL path.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::transport::{AllowedOrigins, Listener, Offer};

/// Clients waiting on one path. Further ones are rejected.
const WAITING: usize = 256;
/// Rejections in progress. Further clients are dropped.
const TURNED: usize = 64;

/// Routes clients by path.
pub struct Paths {
    listener: Arc<dyn Listener>,
    ways: Vec<(String, mpsc::Sender<Box<dyn Offer>>)>,
    origins: AllowedOrigins,
}

/// Accepts the clients of one path.
pub struct Path {
    offers: Mutex<mpsc::Receiver<Box<dyn Offer>>>,
}

impl Paths {
    /// Creates a router without routes over this listener.
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self { listener, ways: Vec::new(), origins: AllowedOrigins::any() }
    }

    /// Accepts only pages of these origins. Clients that send none are native and accepted.
    #[must_use]
    pub fn allowing(self, origins: AllowedOrigins) -> Self {
        Self { origins, ..self }
    }

    /// Adds a route for this path.
    pub fn way(&mut self, path: &str) -> Path {
        let (sender, offers) = mpsc::channel(WAITING);
        self.ways.push((path.to_owned(), sender));
        Path { offers: Mutex::new(offers) }
    }

    /// Routes clients until the listener is closed. A foreign origin gets a 403, an unknown path a
    /// 404, a full queue a 503.
    pub async fn run(self) {
        let mut turned = JoinSet::new();
        while let Some(offer) = self.listener.offer().await {
            while turned.try_join_next().is_some() {}
            let way = self.ways.iter().find(|(path, _)| *path == offer.connect().path);
            let (offer, status) = match way {
                _ if !self.origins.allows(offer.connect().origin.as_deref()) => (offer, 403),
                None => (offer, 404),
                Some((_, sender)) => match sender.try_send(offer) {
                    Ok(()) => continue,
                    Err(TrySendError::Full(offer) | TrySendError::Closed(offer)) => (offer, 503),
                },
            };
            if turned.len() < TURNED {
                turned.spawn(offer.reject(status));
            }
        }
    }
}

#[async_trait]
impl Listener for Path {
    async fn offer(&self) -> Option<Box<dyn Offer>> {
        self.offers.lock().await.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Connect, TransportError, memory};

    #[tokio::test(start_paused = true)]
    async fn a_foreign_origin_is_rejected_and_a_native_client_is_not() {
        let (listener, dialer) = memory::listener();
        let origins = AllowedOrigins::new(["https://a.example".to_owned()]);
        let mut paths = Paths::new(Arc::new(listener)).allowing(origins);
        let path = paths.way("/wt/mh");
        let mut tasks = JoinSet::new();
        tasks.spawn(paths.run());
        tasks.spawn(async move {
            while let Some(offer) = path.offer().await {
                offer.accept().await.map(drop).unwrap();
            }
        });
        for (origin, status) in
            [(None, None), (Some("https://a.example"), None), (Some("https://b.example"), Some("403"))]
        {
            let connect =
                Connect { path: "/wt/mh".into(), origin: origin.map(str::to_owned), traceparent: None };
            let refused = dialer.dial(connect).await.err();
            assert_eq!(refused, status.map(|status| TransportError::Refused(status.to_owned())));
        }
    }
}
