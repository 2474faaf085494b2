//! Routes the clients of one listener by URL path.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::transport::{Listener, Offer};

/// Clients waiting on one path. Further ones are rejected.
const WAITING: usize = 256;
/// Rejections in progress. Further clients are dropped.
const TURNED: usize = 64;

/// Routes clients by path.
pub struct Paths {
    listener: Arc<dyn Listener>,
    ways: Vec<(String, mpsc::Sender<Box<dyn Offer>>)>,
}

/// Accepts the clients of one path.
pub struct Path {
    offers: Mutex<mpsc::Receiver<Box<dyn Offer>>>,
}

impl Paths {
    /// Creates a router without routes over this listener.
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self { listener, ways: Vec::new() }
    }

    /// Adds a route for this path.
    pub fn way(&mut self, path: &str) -> Path {
        let (sender, offers) = mpsc::channel(WAITING);
        self.ways.push((path.to_owned(), sender));
        Path { offers: Mutex::new(offers) }
    }

    /// Routes clients until the listener is closed. An unknown path gets a 404, a full queue a 503.
    pub async fn run(self) {
        let mut turned = JoinSet::new();
        while let Some(offer) = self.listener.offer().await {
            while turned.try_join_next().is_some() {}
            let way = self.ways.iter().find(|(path, _)| *path == offer.connect().path);
            let (offer, status) = match way {
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
