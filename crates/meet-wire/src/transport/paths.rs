//! One listener for several: clients are led by the path of their URL.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::transport::{Listener, Offer};

/// Clients that wait on one path; one more is turned away.
const WAITING: usize = 256;
/// Clients that are being turned away; more are dropped.
const TURNED: usize = 64;

/// Leads clients to where they want to go.
pub struct Paths {
    listener: Arc<dyn Listener>,
    ways: Vec<(String, mpsc::Sender<Box<dyn Offer>>)>,
}

/// Where the clients of one path arrive.
pub struct Path {
    offers: Mutex<mpsc::Receiver<Box<dyn Offer>>>,
}

impl Paths {
    /// Over this listener, with no way yet.
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self { listener, ways: Vec::new() }
    }

    /// A way for the clients of this path.
    pub fn way(&mut self, path: &str) -> Path {
        let (sender, offers) = mpsc::channel(WAITING);
        self.ways.push((path.to_owned(), sender));
        Path { offers: Mutex::new(offers) }
    }

    /// Leads until the listener is closed. Who wants to go nowhere that is known gets a 404, who would wait too long a 503.
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
