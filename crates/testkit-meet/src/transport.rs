//! In-memory connections that a test can cut.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_lease::Clock;
use tenure_meet_client::{Dial, Endpoint};
use tenure_meet_wire::transport::memory::{Conditions, Dialer, Session, Wire};
use tenure_meet_wire::transport::{Connect, Session as Acts, TransportError};

/// Connections that can still be cut; older ones are forgotten.
const MAX_CONNECTIONS: usize = 1_024;
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(86_400);

/// A transport in memory, shared by the clients of a test.
#[derive(Default)]
pub struct FlakyTransport {
    routes: Mutex<BTreeMap<String, Dialer>>,
    connections: Mutex<VecDeque<(String, Wire)>>,
    down: Mutex<bool>,
    dials: Mutex<Vec<(String, Option<String>)>>,
}

impl FlakyTransport {
    /// A transport without routes.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Routes `url` to a listener.
    pub fn add_route(&self, url: &str, dialer: Dialer) {
        self.routes.lock().insert(url.to_owned(), dialer);
    }

    /// Cuts every open connection without a close code. New connections still succeed.
    pub fn cut(&self) {
        self.connections.lock().drain(..).for_each(|(_, connection)| connection.cut());
    }

    /// Cuts the connections of a route and refuses new ones, as when its server dies.
    pub fn cut_route(&self, url: &str) {
        self.routes.lock().remove(url);
        self.connections
            .lock()
            .iter()
            .filter(|(to, _)| to == url)
            .for_each(|(_, connection)| connection.cut());
    }

    /// Delivers nothing more on the connections of a route and refuses new ones, as when its network fails.
    pub fn silence_route(&self, url: &str, clock: Arc<dyn Clock>) {
        self.routes.lock().remove(url);
        let conditions = Conditions {
            clock,
            delay: NEVER,
            loss_permille: 1_000,
            reorder_permille: 0,
            bytes_per_second: None,
            seed: 1,
        };
        let connections = self.connections.lock();
        connections
            .iter()
            .filter(|(to, _)| to == url)
            .for_each(|(_, connection)| connection.set(&conditions));
    }

    /// While down, every connection is cut and new ones are refused.
    pub fn set_down(&self, down: bool) {
        *self.down.lock() = down;
        if down {
            self.cut();
        }
    }

    /// Every dial so far: URL and traceparent.
    pub fn dials(&self) -> Vec<(String, Option<String>)> {
        self.dials.lock().clone()
    }
}

#[async_trait]
impl Dial for FlakyTransport {
    async fn dial(&self, place: &Endpoint, traceparent: &str) -> Result<Arc<dyn Acts>, TransportError> {
        let traceparent = Some(traceparent.to_owned());
        self.dials.lock().push((place.url.clone(), traceparent.clone()));
        let route = self.routes.lock().get(&place.url).cloned().filter(|_| !*self.down.lock());
        let route = route.ok_or_else(|| TransportError::Refused("connection refused".to_owned()))?;
        let session: Arc<Session> =
            route.dial(Connect { path: "/wt/mc".to_owned(), origin: None, traceparent }).await?;
        let mut connections = self.connections.lock();
        if connections.len() == MAX_CONNECTIONS {
            connections.pop_front();
        }
        connections.push_back((place.url.clone(), session.wire()));
        Ok(session)
    }
}
