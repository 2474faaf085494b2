//! The lease API in this process, and the health of the store behind it. It runs in every process, also without being
//! selected.

use async_trait::async_trait;
use axum::Router;
use tenure_service::Settings;
use tokio::task::JoinSet;
use utoipa::openapi::OpenApi;

use crate::cli::Result;
use crate::engine::{self, StoreHealth};
use crate::services::{Definition, Prepared, Process, ReadinessCheck, Roles, Service, no_defaults};

pub(crate) const SERVICE: Definition =
    Definition { name: "lease", settings: &[], always: true, set_defaults: no_defaults, prepare };

fn prepare(_: &Settings, _: &Roles) -> Result<Box<dyn Prepared>> {
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
