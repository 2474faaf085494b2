//! The services of this process, from settings to shutdown.
//!
//! | step | what happens |
//! |---|---|
//! | [`Definition::settings`] | the section of the configuration is declared |
//! | [`Definition::prepare`] | the section is validated; nothing is opened yet |
//! | [`Prepared::start`] | the service starts on the store of the process |
//! | [`Service::routes`], `description`, `readiness`, `greeting` | the server mounts and announces it |
//! | [`Service::run`] | it works until the shutdown, beside the server |
//! | [`Service::drain`], [`Service::stop`] | it finishes what is under way and releases what it holds |
//!
//! To add a service, implement the two traits and add a line to [`SERVICES`].

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use tenure_lease::Store;
use tenure_service::config::Spec;
use tenure_service::{Auth, Readiness, Settings, Shutdown};
use utoipa::openapi::OpenApi;

use crate::cli::Result;
use crate::{control, lease, meet, poll, sessions};

/// All services, in the order in which they start.
pub(crate) const SERVICES: [Definition; 5] =
    [lease::SERVICE, control::SERVICE, poll::SERVICE, sessions::SERVICE, meet::SERVICE];

/// A service of this build.
pub(crate) struct Definition {
    /// The name in `--only`.
    pub(crate) name: &'static str,
    /// The settings of its section.
    pub(crate) settings: &'static [Spec],
    /// Whether it runs even when `--only` does not name it.
    pub(crate) always: bool,
    /// Fills in settings whose defaults depend on the roles of this process.
    pub(crate) set_defaults: fn(&mut Settings, &Roles, Given),
    /// Validates the settings. Every mistake is reported here, before the process listens.
    pub(crate) prepare: fn(&Settings, &Roles) -> Result<Box<dyn Prepared>>,
}

impl Definition {
    /// Whether the settings select this service.
    pub(crate) fn is_selected(&self, settings: &Settings) -> bool {
        self.always || settings.only.is_empty() || settings.only.iter().any(|name| name == self.name)
    }
}

/// Which parts of each service run in this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Roles {
    pub(crate) poll: poll::Role,
    pub(crate) sessions: sessions::Role,
    pub(crate) meet: meet::Role,
}

/// What the configuration sets explicitly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) listen: bool,
}

/// No defaults of its own.
pub(crate) fn no_defaults(_: &mut Settings, _: &Roles, _: Given) {}

/// What all services of a process share.
pub(crate) struct Process {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) auth: Arc<Auth>,
    /// The address that the server listens on.
    pub(crate) address: SocketAddr,
    /// The base URL of the server.
    pub(crate) url: String,
    pub(crate) shutdown: Shutdown,
}

/// A service with valid settings, not yet started.
#[async_trait]
pub(crate) trait Prepared: Send {
    async fn start(self: Box<Self>, process: &Process) -> Result<Box<dyn Service>>;
}

/// Extends or overrides the readiness of the services before this one.
pub(crate) type ReadinessCheck = Box<dyn Fn(Readiness) -> Readiness + Send + Sync>;

/// Fails when the process should be restarted.
pub(crate) type LivenessCheck = Box<dyn Fn() -> std::result::Result<(), String> + Send + Sync>;

/// A service that has started. The defaulted methods are for what only some services have.
#[async_trait]
pub(crate) trait Service: Send + Sync {
    /// Its HTTP and gRPC routes. The process adds authentication.
    fn routes(&self) -> Router;

    /// The OpenAPI description of its routes.
    fn description(&self) -> Option<OpenApi> {
        None
    }

    fn readiness(&self) -> ReadinessCheck {
        Box::new(|readiness| readiness)
    }

    fn liveness(&self) -> LivenessCheck {
        Box::new(|| Ok(()))
    }

    /// Wraps the metrics endpoint, to refresh values before a scrape.
    fn wrap_metrics(&self, metrics: Router) -> Router {
        metrics
    }

    /// Its page in the navigation of the console, by the name of the service, when this process serves it.
    fn page(&self) -> Option<&'static str> {
        None
    }

    /// What is printed at the start: labels and values.
    fn greeting(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Works until the shutdown. An error ends the process; `drain` and `stop` are not called then.
    async fn run(&self, shutdown: &Shutdown) -> Result<()> {
        shutdown.wait().await;
        Ok(())
    }

    /// Finishes what is under way, while the server finishes its requests.
    async fn drain(&mut self) {}

    /// Releases everything that the service holds.
    async fn stop(self: Box<Self>);
}
