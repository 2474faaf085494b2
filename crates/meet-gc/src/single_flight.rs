//! Work that concurrent callers share: one at a time per name.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_lease::Tick;

/// The callers that wait for one name. Holds the last result and its time.
pub(crate) type Flight<T> = Arc<tokio::sync::Mutex<Option<(Tick, T)>>>;

/// Work in progress, by name.
pub(crate) struct SingleFlights<T>(Mutex<HashMap<String, Flight<T>>>);

impl<T> Default for SingleFlights<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> SingleFlights<T> {
    pub(crate) fn board(&self, name: &str) -> Flight<T> {
        let mut flights = self.0.lock();
        // Callers that were cancelled leave their entry behind.
        flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        flights.entry(name.to_owned()).or_default().clone()
    }

    pub(crate) fn leave(&self, name: &str, flight: Flight<T>) {
        drop(flight);
        let mut flights = self.0.lock();
        if flights.get(name).is_some_and(|flight| Arc::strong_count(flight) == 1) {
            flights.remove(name);
        }
    }
}
