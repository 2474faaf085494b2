//! Meetings in this process: all parts (authority, global controller, meeting controller, media handler) or one of them.

mod build;
mod endpoint;
mod health;
mod identity;
mod origins;
mod requirements;
mod secret_file;
mod secrets;
mod settings;
mod usage;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;
use tenure_lease::Clock;
use tenure_meet_mc::actor::{Controller, DrainOrder, DrainReason, Running};
use tenure_service::{Readiness, Shutdown, readiness_route};
use tenure_store::BootClock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use utoipa::openapi::OpenApi;

use crate::cli::{Failure, Result};
use crate::engine;
use crate::services::{Definition, Given, LivenessCheck, Prepared, Process, ReadinessCheck, Roles, Service};

use endpoint::Endpoint;
use health::MeetHealth;
use requirements::Faults;
pub(crate) use secrets::export;
use settings::Settings;

pub(crate) const SERVICE: Definition =
    Definition { name: "meet", settings: settings::SPECS, always: false, set_defaults, prepare };

/// How long tasks may take to end once the meetings have stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The parts of meetings that run in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Role {
    /// All of them.
    #[default]
    #[value(name = "up")]
    All,
    /// The global controller, with the authority.
    Gc,
    /// A meeting controller.
    Mc,
    /// A media handler.
    Mh,
}

impl Role {
    const fn has_gc(self) -> bool {
        matches!(self, Self::All | Self::Gc)
    }

    const fn has_mc(self) -> bool {
        matches!(self, Self::All | Self::Mc)
    }

    const fn has_mh(self) -> bool {
        matches!(self, Self::All | Self::Mh)
    }

    /// Prefixes of variables that set a setting of `[meet]` in a process of this role. Of two the later one wins.
    pub(crate) const fn variable_prefixes(self) -> &'static [&'static str] {
        match self {
            Self::All => &["GC_", "MH_", "MC_"],
            Self::Gc => &["MC_", "GC_"],
            Self::Mc => &["MC_"],
            Self::Mh => &["MC_", "MH_"],
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::All => "up",
            Self::Gc => "gc",
            Self::Mc => "mc",
            Self::Mh => "mh",
        }
    }
}

/// What will run in this process, with valid settings.
struct Plan {
    role: Role,
    settings: Settings,
    shared: bool,
}

/// A role that runs alone has an address and a store of its own where the configuration sets none.
fn set_defaults(settings: &mut tenure_service::Settings, roles: &Roles, given: Given) {
    let role = roles.meet;
    if role == Role::All {
        return;
    }
    let (health, redis) = settings::legacy_settings(settings.sections.get("meet"));
    let own = settings::ports(role).0.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    if let Some(address) = health.or(own).filter(|_| !given.listen) {
        settings.listen = address;
    }
    if settings.store.is_none() {
        settings.store = redis;
    }
}

fn prepare(settings: &tenure_service::Settings, roles: &Roles) -> Result<Box<dyn Prepared>> {
    let role = roles.meet;
    let shared = engine::is_shared(settings);
    let mut faults = Faults::default();
    let read = Settings::parse(settings.sections.get("meet"), &mut faults);
    requirements::check(role, settings, &read, shared, &mut faults);
    faults.finish()?;
    Ok(Box::new(Plan { role, settings: read, shared }))
}

/// The meetings of this process.
struct Meetings {
    role: Role,
    health: MeetHealth,
    routes: Router,
    openapi: Option<OpenApi>,
    /// The base URL of the server.
    url: String,
    public: Option<String>,
    grpc: Option<String>,
    controller: Option<(Controller, Running)>,
    endpoint: Option<Arc<Endpoint>>,
    gc: Option<tenure_meet_gc::Running>,
    /// Ends the connections of clients, after the controller.
    acceptors: CancellationToken,
    tasks: TaskTracker,
    stop: CancellationToken,
    drain: Duration,
}

#[async_trait]
impl Prepared for Plan {
    async fn start(self: Box<Self>, process: &Process) -> Result<Box<dyn Service>> {
        Ok(Box::new(build::start(*self, process).await?))
    }
}

#[async_trait]
impl Service for Meetings {
    fn page(&self) -> Option<&'static str> {
        self.role.has_gc().then_some(SERVICE.name)
    }

    fn routes(&self) -> Router {
        let health = self.health.clone();
        let ready = readiness_route("/health/ready/meet", move || health.readiness());
        self.routes.clone().merge(ready)
    }

    fn description(&self) -> Option<OpenApi> {
        self.openapi.clone()
    }

    /// A role that runs alone decides the readiness of its process; beside other services it is only listed.
    fn readiness(&self) -> ReadinessCheck {
        let (health, alone) = (self.health.clone(), self.role != Role::All);
        Box::new(move |store| match (store, alone) {
            (Readiness::Ready(mut facts), false) => {
                facts.insert("meet".to_owned(), health.facts());
                Readiness::Ready(facts)
            }
            (Readiness::Ready(_), true) => health.readiness(),
            (not_ready, _) => not_ready,
        })
    }

    fn liveness(&self) -> LivenessCheck {
        let alone = self.role != Role::All;
        Box::new(move || if alone { health::check_memory() } else { Ok(()) })
    }

    fn greeting(&self) -> Vec<(&'static str, String)> {
        let url = &self.url;
        let meetings = match (self.role, &self.public) {
            (Role::All, Some(public)) => {
                format!("{url}/meet (browsers connect to {public} over UDP)")
            }
            (_, Some(public)) => format!("{public} (UDP)"),
            (_, None) => format!("{url}/api/v1/meetings"),
        };
        let grpc = self.grpc.clone().map(|grpc| ("gRPC", grpc));
        std::iter::once(("meetings", meetings)).chain(grpc).collect()
    }

    /// Ends with the shutdown; a controller that runs alone also ends when it is drained. Fails when the meeting controller
    /// panicked: its meetings have flushed, and another process takes them.
    async fn run(&self, shutdown: &Shutdown) -> Result<()> {
        let alone = self.role == Role::Mc;
        let (panicked, drained) = match &self.controller {
            Some((controller, _)) => {
                (Some(controller.panicked()), alone.then(|| controller.wait_until_drained()))
            }
            None => (None, None),
        };
        tokio::select! {
            biased;
            () = shutdown.wait() => Ok(()),
            () = OptionFuture::from(panicked).map(drop), if self.controller.is_some() => {
                Err(Failure::internal("the meeting controller panicked"))
            }
            () = OptionFuture::from(drained).map(drop), if alone => {
                shutdown.trigger();
                Ok(())
            }
        }
    }

    /// Moves meetings to other controllers, and closes those that have nowhere to go.
    async fn drain(&mut self) {
        let clock = BootClock;
        if let Some((controller, running)) = self.controller.take() {
            let order = DrainOrder { deadline: self.drain, reason: DrainReason::Unspecified };
            let report = controller.drain_meetings(order).await;
            tracing::info!(migrated = report.migrated, closed = report.closed, "controller drained");
            tokio::select! {
                exit = running.shut_down() => tracing::info!(?exit, "meetings stopped"),
                () = clock.sleep_until(clock.now() + STOP_TIMEOUT) => {
                    tracing::warn!("meetings did not stop in time; their leases expire");
                }
            }
        }
    }

    /// Closes connections, then leaves the registry.
    async fn stop(self: Box<Self>) {
        let Self { endpoint, gc, acceptors, tasks, stop, .. } = *self;
        let clock = BootClock;
        acceptors.cancel();
        if let Some(endpoint) = endpoint {
            endpoint.close().await;
        }
        stop.cancel();
        let rest = async {
            if let Some(gc) = gc {
                gc.shut_down().await;
            }
            tasks.close();
            tasks.wait().await;
        };
        tokio::select! {
            () = rest => {}
            () = clock.sleep_until(clock.now() + STOP_TIMEOUT) => {
                tracing::warn!(tasks = tasks.len(), "meeting tasks did not stop in time");
            }
        }
    }
}
