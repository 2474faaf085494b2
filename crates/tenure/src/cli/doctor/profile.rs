//! What the engine states about itself, and how far away it is.

use std::sync::Arc;
use std::time::Duration;

use lease::{Capabilities, Key, Loss, Store, Ttl};

use super::report::Report;
use crate::cli::human;

/// How often the store is asked to know how far away it is.
const TRIPS: usize = 21;

pub(super) fn capabilities(profile: &Capabilities, report: &mut Report) {
    let ttl = |ttl: Ttl| human::duration(ttl.as_duration());
    report.ok(
        "profile",
        format!(
            "engine {}, ttl from {} to {}, an expiry is noticed within {}{}",
            profile.engine,
            ttl(profile.min_ttl),
            ttl(profile.max_ttl),
            human::duration(profile.expiry_lag),
            match profile.failover {
                Duration::ZERO => ", no failover".to_owned(),
                failover => format!(", a failover takes up to {}", human::duration(failover)),
            }
        ),
    );
    match profile.loss {
        Loss::Nothing => report.ok("loss", "nothing acknowledged is lost: it is on disk before the answer"),
        Loss::Process => report.warn(
            "loss",
            "everything is lost with the process",
            "for tests only; use embedded:FOLDER or redis:// for anything else",
        ),
        Loss::ServerPersistence => report.warn(
            "loss",
            "what the server's own persistence loses is lost",
            "Redis: `appendonly yes`, `appendfsync always` and `maxmemory-policy noeviction` lose nothing;\n\
             see them with: redis-cli config get append*; redis-cli config get maxmemory-policy",
        ),
    }
}

pub(super) async fn round_trip(store: &Arc<dyn Store>, report: &mut Report) {
    let clock = store.clock();
    let Ok(key) = Key::new("tenure-doctor/nobody") else { return };
    let mut trips = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let start = clock.now();
        if let Err(error) = store.inspect(&key).await {
            return report.refused("round trip", &error.into());
        }
        trips.push(clock.now().since(start));
    }
    trips.sort();
    judge(trips[TRIPS / 2], trips[TRIPS - 1], store.capabilities().min_ttl, report);
}

/// A renewal has a sixth of the TTL to be answered.
fn judge(median: Duration, worst: Duration, floor: Ttl, report: &mut Report) {
    let detail = format!("p50 {}, worst {} of {TRIPS}", human::latency(median), human::latency(worst));
    let shortest = worst * 6;
    if shortest <= floor.as_duration() {
        return report.ok("round trip", detail);
    }
    let remedy = format!(
        "a renewal gets a sixth of the ttl: give leases at least {} here",
        human::duration(shortest.max(Duration::from_secs(1)))
    );
    report.warn("round trip", detail, remedy);
}
