//! The store of this process: opening it, describing it, and probing its health.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Durability, Key, Store, Wakeup};
use tenure_service::{Readiness, Settings, Shutdown};
use tenure_store::{BootClock, Metered};
use tokio::task::JoinSet;

use crate::cli::{Result, StoreLocation, describe_error};

/// How often the store is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens the store of the settings, by default the embedded one in the data directory. `token` authenticates with a
/// store that is a server.
pub(crate) async fn open(settings: &Settings, token: Option<&str>) -> Result<Arc<dyn Store>> {
    let store = StoreLocation::new(&url(settings)).with_token(token).open().await?;
    Ok(Arc::new(Metered::new(store)))
}

fn url(settings: &Settings) -> String {
    match &settings.store {
        Some(url) => url.clone(),
        None => format!("embedded:{}", settings.data_dir.join("store").display()),
    }
}

/// Whether other processes can open the store beside this one.
pub(crate) fn is_shared(settings: &Settings) -> bool {
    !tenure_store::Store::dies_with_process(&url(settings))
}

/// The store and its durability, for the start-up output.
pub(crate) fn describe(settings: &Settings, store: &dyn Store) -> String {
    let loss = match store.capabilities().durability {
        Durability::Volatile => "in memory, lost when this process ends",
        Durability::Synced => "durable: nothing acknowledged is lost",
        Durability::ServerPersistence => "as durable as the persistence of its server",
        Durability::Majority => "durable while a majority of its servers lives",
    };
    format!("{} ({loss})", StoreLocation::new(&url(settings)).display_url())
}

/// The latest result of probing the store.
#[derive(Clone)]
pub(crate) struct StoreHealth(Arc<Mutex<Readiness>>);

impl StoreHealth {
    pub(crate) fn readiness(&self) -> Readiness {
        self.0.lock().clone()
    }
}

/// Probes the store every [`PROBE_INTERVAL`] until the shutdown.
pub(crate) fn probe(store: Arc<dyn Store>, shutdown: Shutdown) -> (StoreHealth, JoinSet<()>) {
    let health = StoreHealth(Arc::new(Mutex::new(Readiness::Ready(facts(&*store)))));
    let latest = health.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let Ok(key) = Key::new("tenure:health") else { return };
        while !shutdown.is_triggered() {
            *latest.0.lock() = probe_once(&*store, &key).await;
            tokio::select! {
                biased;
                () = shutdown.wait() => {}
                () = BootClock.sleep_until(BootClock.now() + PROBE_INTERVAL) => {}
            }
        }
        *latest.0.lock() = Readiness::NotReady("the server is shutting down".into());
    });
    (health, tasks)
}

/// The engine and its capabilities, as the readiness endpoint reports them.
fn facts(store: &dyn Store) -> serde_json::Map<String, serde_json::Value> {
    let can = store.capabilities();
    let loss = match can.durability {
        Durability::Volatile => "process",
        Durability::Synced => "nothing",
        Durability::ServerPersistence => "server_persistence",
        Durability::Majority => "without_majority",
    };
    let capabilities = serde_json::json!({
        "engine": can.engine,
        "min_ttl_ms": can.min_ttl.as_millis(),
        "max_ttl_ms": can.max_ttl.as_millis(),
        "expiry_lag_ms": can.expiry_lag.as_millis() as u64,
        "failover_ms": can.failover.as_millis() as u64,
        "loss": loss,
        "dies_with_process": can.dies_with_process,
        "ttl_step_ms": can.ttl_step.as_millis() as u64,
        "max_commit_operations": can.limits.commit_operations,
        "max_commit_bytes": can.limits.commit_bytes,
        "max_wiped_leases": can.limits.wiped_leases,
        "wakes_waiters": if can.wakes_waiters == Wakeup::Push { "push" } else { "poll" },
        "proof_of_death": can.proof_of_death,
        "shared_keys": can.shared_keys,
    });
    let mut facts = serde_json::Map::from_iter([
        ("engine".to_owned(), can.engine.into()),
        ("capabilities".to_owned(), capabilities),
    ]);
    let warnings = store.warnings();
    if !warnings.is_empty() {
        facts.insert("warnings".to_owned(), warnings.into());
    }
    facts
}

async fn probe_once(store: &dyn Store, key: &Key) -> Readiness {
    tokio::select! {
        biased;
        answer = store.inspect(key) => match answer {
            Ok(_) => Readiness::Ready(facts(store)),
            Err(error) => Readiness::NotReady(format!("store unavailable: {}", describe_error(&error))),
        },
        () = BootClock.sleep_until(BootClock.now() + PROBE_TIMEOUT) => {
            Readiness::NotReady("store unavailable: no answer in time".into())
        }
    }
}
