//! The capabilities of the engine and the latency to it.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Capabilities, Durability, Key, Store, Ttl};

use super::report::Report;
use crate::cli::human;

/// Number of round trips measured.
const ROUND_TRIPS: usize = 21;

pub(super) fn capabilities(profile: &Capabilities, report: &mut Report) {
    let ttl = |ttl: Ttl| human::format_duration(ttl.as_duration());
    report.ok(
        "profile",
        format!(
            "engine {}, TTL from {} to {}, expiry detected within {}{}",
            profile.engine,
            ttl(profile.min_ttl),
            ttl(profile.max_ttl),
            human::format_duration(profile.expiry_lag),
            match profile.failover {
                Duration::ZERO => ", no failover".to_owned(),
                failover => format!(", failover takes up to {}", human::format_duration(failover)),
            }
        ),
    );
    match profile.durability {
        Durability::Synced => {
            report.ok("durability", "nothing acknowledged is lost: writes are on disk before the response")
        }
        Durability::Majority => {
            report.ok("durability", "nothing acknowledged is lost while a majority of the servers is running")
        }
        Durability::Volatile => report.warn(
            "durability",
            "everything is lost when the process ends",
            "use this store for tests only; use embedded:DIR or redis:// otherwise",
        ),
        Durability::ServerPersistence => report.warn(
            "durability",
            "durability depends on the persistence of the server",
            "with `appendonly yes`, `appendfsync always` and `maxmemory-policy noeviction` Redis loses nothing;\n\
             show them with: redis-cli config get append*; redis-cli config get maxmemory-policy",
        ),
    }
}

/// How the store is run, where that endangers leases.
pub(super) fn warnings(warnings: &[String], report: &mut Report) {
    for warning in warnings {
        report.warn("server", warning, "docs/deployment.md lists the settings that a store needs");
    }
}

pub(super) async fn round_trip(store: &Arc<dyn Store>, report: &mut Report) {
    let clock = store.clock();
    let Ok(key) = Key::new("tenure-doctor/unused") else { return };
    let mut trips = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = clock.now();
        if let Err(error) = store.inspect(&key).await {
            return report.fail_with("round trip", &error.into());
        }
        trips.push(clock.now().since(start));
    }
    trips.sort();
    check_latency(trips[ROUND_TRIPS / 2], trips[ROUND_TRIPS - 1], store.capabilities().min_ttl, report);
}

/// A renewal must complete within a sixth of the TTL.
fn check_latency(median: Duration, worst: Duration, floor: Ttl, report: &mut Report) {
    let detail = format!(
        "p50 {}, max {} of {ROUND_TRIPS}",
        human::format_latency(median),
        human::format_latency(worst)
    );
    let shortest = worst * 6;
    if shortest <= floor.as_duration() {
        return report.ok("round trip", detail);
    }
    let remedy = format!(
        "a renewal must complete within a sixth of the TTL: use TTLs of at least {} with this store",
        human::format_duration(shortest.max(Duration::from_secs(1)))
    );
    report.warn("round trip", detail, remedy);
}
