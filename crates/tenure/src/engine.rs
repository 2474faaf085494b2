//! The store of this process: which one, opened how, and whether it answers.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Key, Loss, Store};
use lease_store::{BootClock, Metered};
use parking_lot::Mutex;
use service::{Readiness, Settings, Shutdown};
use tokio::task::JoinSet;

use crate::cli::{Place, Result};
use crate::up::words;

/// How often the store is asked whether it answers.
const ASK: Duration = Duration::from_secs(2);

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens the store that the settings name: the embedded one in the data directory if they name none. A server is shown
/// `token`.
pub(crate) async fn open(settings: &Settings, token: Option<&str>) -> Result<Arc<dyn Store>> {
    let store = Place::new(&url(settings)).with_token(token).open().await?;
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
    let url = url(settings);
    !url.starts_with("embedded:") && !url.starts_with("memory:")
}

/// The engine in words.
pub(crate) fn describe(settings: &Settings, store: &dyn Store) -> String {
    let loss = match store.capabilities().loss {
        Loss::Process => "forgets with this process",
        Loss::Nothing => "nothing acknowledged is lost",
        Loss::ServerPersistence => "keeps what its server's persistence keeps",
    };
    format!("{} ({loss})", Place::new(&url(settings)).shown())
}

/// What the store last answered.
#[derive(Clone)]
pub(crate) struct Health(Arc<Mutex<Readiness>>);

impl Health {
    pub(crate) fn now(&self) -> Readiness {
        self.0.lock().clone()
    }
}

/// Asks the store now and then whether it answers, until the shutdown.
pub(crate) fn watch(store: Arc<dyn Store>, shutdown: Shutdown) -> (Health, JoinSet<()>) {
    let health = Health(Arc::new(Mutex::new(Readiness::Ready(facts(&*store)))));
    let told = health.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let Ok(key) = Key::new("tenure:health") else { return };
        while !shutdown.is_triggered() {
            *told.0.lock() = ask(&*store, &key).await;
            tokio::select! {
                biased;
                () = shutdown.wait() => {}
                () = BootClock.sleep_until(BootClock.now() + ASK) => {}
            }
        }
        *told.0.lock() = Readiness::NotReady("the server is shutting down".into());
    });
    (health, tasks)
}

/// What the console shows of the engine.
fn facts(store: &dyn Store) -> serde_json::Map<String, serde_json::Value> {
    let can = store.capabilities();
    let loss = match can.loss {
        Loss::Process => "process",
        Loss::Nothing => "nothing",
        Loss::ServerPersistence => "server_persistence",
    };
    let capabilities = serde_json::json!({
        "engine": can.engine,
        "min_ttl_ms": can.min_ttl.as_millis(),
        "max_ttl_ms": can.max_ttl.as_millis(),
        "expiry_lag_ms": can.expiry_lag.as_millis() as u64,
        "failover_ms": can.failover.as_millis() as u64,
        "loss": loss,
    });
    serde_json::Map::from_iter([
        ("engine".to_owned(), can.engine.into()),
        ("capabilities".to_owned(), capabilities),
    ])
}

async fn ask(store: &dyn Store, key: &Key) -> Readiness {
    tokio::select! {
        biased;
        answer = store.inspect(key) => match answer {
            Ok(_) => Readiness::Ready(facts(store)),
            Err(error) => Readiness::NotReady(format!("the store does not answer: {}", words(&error))),
        },
        () = BootClock.sleep_until(BootClock.now() + PATIENCE) => {
            Readiness::NotReady("the store does not answer in time".into())
        }
    }
}
