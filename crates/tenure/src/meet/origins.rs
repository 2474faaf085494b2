//! The origins of pages that may open sessions.
//!
//! The pages come from a global controller. Beside it, a role that runs alone knows only the address that it was configured
//! with, and browsers may use another one. So each global controller publishes its origins in the store, and the other roles
//! allow them. Only processes with access to the store can write there.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Key, Op, Prefix, Query, Result, Store, Ttl};
use tenure_meet_wire::transport::AllowedOrigins;

/// The keys of the published origins, one per global controller.
const PREFIX: &str = "gc:origins:";
/// How often origins are published and read.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long published origins count.
const LIFE_MS: u64 = 60_000;
/// Origins that one global controller publishes.
const MAX_ORIGINS: usize = 64;

/// Publishes the origins of this global controller, forever.
pub(super) async fn publish(store: Arc<dyn Store>, gc_id: String, origins: Vec<String>) {
    let clock = store.clock();
    let origins = &origins[..origins.len().min(MAX_ORIGINS)];
    loop {
        if let Err(error) = publish_once(&*store, &gc_id, origins).await {
            tracing::debug!(%error, "cannot publish the origins of the pages");
        }
        clock.sleep_until(clock.now() + INTERVAL).await;
    }
}

async fn publish_once(store: &dyn Store, gc_id: &str, origins: &[String]) -> Result<()> {
    let key = Key::new(format!("{PREFIX}{gc_id}"))?;
    let value = serde_json::to_vec(origins)
        .map_err(|error| tenure_lease::Error::invalid("origins", error.to_string()))?;
    let put = Op::Put { key, value: value.into(), ttl: Some(Ttl::from_millis(LIFE_MS)?) };
    store.commit(&[put]).await.map(|_| ())
}

/// Allows its own origins and the published ones, and logs refused ones, forever.
pub(super) async fn follow(store: Arc<dyn Store>, own: Vec<String>, allowed: AllowedOrigins) {
    let clock = store.clock();
    loop {
        // While the store is unavailable, the last list stays.
        if let Ok(published) = read(&*store).await {
            allowed.replace(own.iter().cloned().chain(published).collect());
        }
        log_refused(&allowed);
        clock.sleep_until(clock.now() + INTERVAL).await;
    }
}

async fn read(store: &dyn Store) -> Result<Vec<String>> {
    let page = store.scan(&Query::new(Prefix::new(PREFIX)?)).await?;
    let lists =
        page.items.iter().filter_map(|record| serde_json::from_slice::<Vec<String>>(&record.value).ok());
    Ok(lists.flat_map(|list| list.into_iter().take(MAX_ORIGINS)).collect())
}

/// Logs refused origins, forever. For a process that serves its pages itself.
pub(super) async fn watch_refused(clock: Arc<dyn Clock>, allowed: AllowedOrigins) {
    loop {
        clock.sleep_until(clock.now() + INTERVAL).await;
        log_refused(&allowed);
    }
}

fn log_refused(allowed: &AllowedOrigins) {
    for origin in allowed.take_refused() {
        tracing::warn!(
            origin,
            "refused a page: its origin is not one of the global controller's; if it is yours, add it to allowed_origins there"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_store::Local;

    #[tokio::test]
    async fn the_origins_of_all_global_controllers_are_allowed() {
        let store = Local::memory();
        for (id, origin) in [("gc-1", "https://a.example"), ("gc-2", "https://b.example")] {
            publish_once(&store, id, &[origin.to_owned()]).await.unwrap();
        }
        assert_eq!(read(&store).await.unwrap(), ["https://a.example", "https://b.example"]);
    }
}
