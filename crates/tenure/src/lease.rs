//! The lease API in this process, and the health of the store behind it. It runs in every process, also without being
//! selected.

use async_trait::async_trait;
use axum::Router;
use tenure_lease::limits;
use tenure_service::Settings;
use tokio::task::JoinSet;
use utoipa::openapi::OpenApi;

use crate::cli::{Failure, Result};
use crate::engine::{self, StoreHealth};
use crate::services::{Definition, Prepared, Process, ReadinessCheck, Roles, Service, no_defaults};

pub(crate) const SERVICE: Definition =
    Definition { name: "lease", settings: &[], always: true, set_defaults: no_defaults, prepare };

fn prepare(settings: &Settings, _: &Roles) -> Result<Box<dyn Prepared>> {
    let (asked, most) = (settings.limits.max_watchers, limits::WATCHERS);
    if asked > most {
        let detail = format!("limits.max_watchers is {asked}, but a store serves at most {most} watchers");
        return Err(Failure::usage(detail).hint(format!("set it to {most} or less")));
    }
    Ok(Box::new(PreparedLeaseApi))
}

struct PreparedLeaseApi;

struct LeaseApi {
    routes: Router,
    openapi: OpenApi,
    health: StoreHealth,
    /// Ends with this value.
    _probe: JoinSet<()>,
}

#[async_trait]
impl Prepared for PreparedLeaseApi {
    async fn start(self: Box<Self>, process: &Process) -> Result<Box<dyn Service>> {
        let auth = process.auth.clone();
        let options = tenure_lease_api::Options::default()
            .max_watchers(process.settings.limits.max_watchers)
            .shutdown(process.shutdown.clone())
            .rate_limit(move |caller| auth.admit(caller));
        let (http, openapi) = tenure_lease_api::http(process.store.clone(), options.clone());
        let routes = http.merge(tenure_lease_api::grpc(process.store.clone(), options));
        let (health, probe) = engine::probe(process.store.clone(), process.shutdown.clone());
        Ok(Box::new(LeaseApi { routes, openapi, health, _probe: probe }))
    }
}

#[async_trait]
impl Service for LeaseApi {
    fn page(&self) -> Option<&'static str> {
        Some(SERVICE.name)
    }

    fn routes(&self) -> Router {
        self.routes.clone()
    }

    fn description(&self) -> Option<OpenApi> {
        Some(self.openapi.clone())
    }

    fn readiness(&self) -> ReadinessCheck {
        let health = self.health.clone();
        Box::new(move |_| health.readiness())
    }

    async fn stop(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_watchers_than_a_store_serves_are_refused_at_start() {
        let mut settings = Settings::default();
        for (watchers, accepted) in [(1, true), (1_024, true), (1_025, false), (1_000_000, false)] {
            settings.limits.max_watchers = watchers;
            let refused = prepare(&settings, &Roles::default()).err();
            assert_eq!(refused.is_none(), accepted, "{watchers}");
            let words = ["limits.max_watchers", &watchers.to_string(), "at most 1024"];
            assert!(refused.is_none_or(|failure| words.iter().all(|word| failure.detail().contains(word))));
        }
    }
}
