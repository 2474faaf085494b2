//! Health of meetings in this process, refreshed every second.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tenure_lease::{Clock, Prefix, Query, Store};
use tenure_meet_mc::actor::{Controller, limits};
use tenure_meet_rpc::node::RegistrationState;
use tenure_service::Readiness;
use tokio::sync::watch;

use super::usage;

/// The refresh interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the store may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// Memory usage from which a controller is not live.
const MEMORY_LIMIT_PERCENT: u32 = 90;

/// The last known state.
#[derive(Clone, PartialEq, Eq, Debug)]
struct HealthSnapshot {
    draining: bool,
    store: bool,
    /// Capacity in use, in percent.
    full: usize,
    degraded: bool,
    handlers: Option<usize>,
    registration: Option<RegistrationState>,
}

impl HealthSnapshot {
    /// Why the controller is not ready, if it is not.
    fn not_ready_reason(&self) -> Option<String> {
        match self {
            Self { draining: true, .. } => Some("the meeting controller is draining".to_owned()),
            Self { store: false, .. } => Some("the meeting store does not respond".to_owned()),
            Self { full, .. } if *full >= limits::FULL_PERCENT => {
                Some(format!("the meeting controller is full ({full} %)"))
            }
            Self { handlers: Some(0), .. } => Some("no media handler is registered".to_owned()),
            _ => None,
        }
    }

    fn facts(&self) -> Map<String, Value> {
        let registered = self.registration.map(|registration| registration == RegistrationState::Registered);
        let state = if self.degraded { "degraded" } else { "healthy" };
        let facts = [
            ("state".to_owned(), json!(state)),
            ("capacity_percent".to_owned(), json!(self.full)),
            ("media_handlers".to_owned(), json!(self.handlers)),
            ("registered".to_owned(), json!(registered)),
        ];
        facts.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }
}

/// The health of meetings in this process.
#[derive(Clone)]
pub(super) struct MeetHealth {
    snapshot: Arc<Mutex<HealthSnapshot>>,
    controller: Option<Controller>,
    registration: Option<watch::Receiver<RegistrationState>>,
    store: Arc<dyn Store>,
}

impl MeetHealth {
    pub(super) fn new(
        store: Arc<dyn Store>,
        controller: Option<Controller>,
        registration: Option<watch::Receiver<RegistrationState>>,
    ) -> Self {
        let snapshot = HealthSnapshot {
            draining: false,
            store: true,
            full: 0,
            degraded: false,
            handlers: None,
            registration: None,
        };
        Self { snapshot: Arc::new(Mutex::new(snapshot)), controller, registration, store }
    }

    /// Refreshes the state, forever.
    pub(super) async fn watch(&self) {
        let clock = self.store.clock();
        loop {
            self.refresh(&*clock).await;
            clock.sleep_until(clock.now() + INTERVAL).await;
        }
    }

    async fn refresh(&self, clock: &dyn Clock) {
        let registration = self.registration.as_ref().map(|registration| *registration.borrow());
        let mut snapshot = HealthSnapshot { registration, ..self.snapshot.lock().clone() };
        let answer = tokio::select! {
            answer = self.handlers() => answer,
            () = clock.sleep_until(clock.now() + STORE_TIMEOUT) => None,
        };
        snapshot.store = answer.is_some();
        snapshot.handlers = answer.or(snapshot.handlers);
        if let Some(controller) = &self.controller {
            snapshot.draining = controller.is_draining();
            snapshot.store &= controller.store_available();
            snapshot.full = controller.counts().await.percent_of(controller.capacity());
            snapshot.degraded = controller.is_degraded().await;
        }
        record_metrics(&snapshot);
        *self.snapshot.lock() = snapshot;
    }

    /// The number of registered media handlers; `None` if the store does not respond.
    async fn handlers(&self) -> Option<usize> {
        let query = Query::new(Prefix::new("mh:").ok()?);
        let page = self.store.list(&query).await.ok()?;
        Some(page.items.iter().filter(|status| status.phase == tenure_lease::Phase::Held).count())
    }

    /// Readiness by the rules of a meeting controller.
    pub(super) fn readiness(&self) -> Readiness {
        let mut snapshot = self.snapshot.lock().clone();
        // Local facts are read again: the snapshot may be a second old.
        if let Some(controller) = &self.controller {
            snapshot.draining = controller.is_draining();
            snapshot.store &= controller.store_available();
        }
        snapshot.not_ready_reason().map_or_else(|| Readiness::Ready(snapshot.facts()), Readiness::NotReady)
    }

    /// Facts for the readiness of all services.
    pub(super) fn facts(&self) -> Value {
        let snapshot = self.snapshot.lock().clone();
        let mut facts = snapshot.facts();
        if let Some(why) = snapshot.not_ready_reason() {
            facts.insert("state".to_owned(), json!("not_ready"));
            facts.insert("why".to_owned(), json!(why));
        }
        Value::Object(facts)
    }
}

fn record_metrics(snapshot: &HealthSnapshot) {
    metrics::gauge!("mc_capacity_ratio").set(snapshot.full as f64 / 100.0);
    metrics::gauge!("mc_degraded").set(f64::from(u8::from(snapshot.degraded)));
    metrics::gauge!("mc_draining").set(f64::from(u8::from(snapshot.draining)));
    metrics::gauge!("mc_media_handlers").set(snapshot.handlers.unwrap_or_default() as f64);
    metrics::gauge!("mc_memory_ratio").set(f64::from(usage::memory_percent().unwrap_or_default()) / 100.0);
}

/// Liveness by the rules of a meeting controller: enough memory is left.
pub(super) fn check_memory() -> Result<(), String> {
    match usage::memory_percent() {
        Some(percent) if percent >= MEMORY_LIMIT_PERCENT => Err(format!("{percent} % of the memory in use")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> HealthSnapshot {
        let registration = Some(RegistrationState::Registered);
        HealthSnapshot {
            draining: false,
            store: true,
            full: 0,
            degraded: false,
            handlers: Some(1),
            registration,
        }
    }

    #[test]
    fn not_ready_without_store_or_handler_or_when_draining_or_full() {
        assert_eq!(snapshot().not_ready_reason(), None);
        assert_eq!(
            HealthSnapshot { full: 94, degraded: true, ..snapshot() }.not_ready_reason(),
            None,
            "degraded still serves"
        );
        for (snapshot, message) in [
            (HealthSnapshot { store: false, ..snapshot() }, "store"),
            (HealthSnapshot { draining: true, ..snapshot() }, "draining"),
            (HealthSnapshot { full: 95, ..snapshot() }, "full (95 %)"),
            (HealthSnapshot { handlers: Some(0), ..snapshot() }, "no media handler"),
        ] {
            assert!(snapshot.not_ready_reason().is_some_and(|why| why.contains(message)), "{message}");
        }
        assert_eq!(HealthSnapshot { full: 80, degraded: true, ..snapshot() }.facts()["state"], "degraded");
    }
}
