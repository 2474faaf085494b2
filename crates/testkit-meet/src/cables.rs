//! Connections in memory that a test cuts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use meet_client::{Dial, Place};
use meet_wire::transport::memory::{Dialer, Session, Wire};
use meet_wire::transport::{Connect, Session as Acts, TransportError};
use parking_lot::Mutex;

/// The most wires that are kept to be cut.
const WIRES: usize = 1_024;

/// The cables of one client, or of several.
#[derive(Default)]
pub struct Cables {
    ends: Mutex<BTreeMap<String, Dialer>>,
    wires: Mutex<VecDeque<Wire>>,
    down: Mutex<bool>,
    dialled: Mutex<Vec<(String, Option<String>)>>,
}

impl Cables {
    /// Cables that lead nowhere.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Leads `url` to a listener.
    pub fn lead(&self, url: &str, dialer: Dialer) {
        self.ends.lock().insert(url.to_owned(), dialer);
    }

    /// Cuts every connection as a network does; new ones are made.
    pub fn cut(&self) {
        self.wires.lock().drain(..).for_each(|wire| wire.cut());
    }

    /// Lets nobody through, or again everybody.
    pub fn down(&self, down: bool) {
        *self.down.lock() = down;
        if down {
            self.cut();
        }
    }

    /// Where was dialled, with which trace.
    pub fn dialled(&self) -> Vec<(String, Option<String>)> {
        self.dialled.lock().clone()
    }
}

#[async_trait]
impl Dial for Cables {
    async fn dial(&self, place: &Place, traceparent: &str) -> Result<Arc<dyn Acts>, TransportError> {
        let traceparent = Some(traceparent.to_owned());
        self.dialled.lock().push((place.url.clone(), traceparent.clone()));
        let end = self.ends.lock().get(&place.url).cloned().filter(|_| !*self.down.lock());
        let end = end.ok_or_else(|| TransportError::Refused("nobody is there".to_owned()))?;
        let session: Arc<Session> =
            end.dial(Connect { path: "/wt/mc".to_owned(), origin: None, traceparent }).await?;
        let mut wires = self.wires.lock();
        if wires.len() == WIRES {
            wires.pop_front();
        }
        wires.push_back(session.wire());
        Ok(session)
    }
}
