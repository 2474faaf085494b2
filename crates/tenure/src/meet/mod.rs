//! Meetings in this process: the authority, the global controller, a meeting controller and a media handler; or one of them.

mod build;
mod condition;
mod endpoint;
mod identity;
mod keep;
mod settings;
mod vitals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use lease::{Clock, Store};
use lease_store::BootClock;
use meet_mc::actor::{Controller, Running};
use service::{Auth, Readiness, Shutdown, auth_layer, readiness_route};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cli::{Failure, Result};
use crate::engine;
use crate::up::runs;

use condition::Condition;
use endpoint::Endpoint;
use settings::Settings;

pub(crate) use settings::SPECS;

/// How long everything else may take to end once the meetings are over.
const FAREWELL: Duration = Duration::from_secs(5);

/// Which part of the meetings runs here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Role {
    /// All of them.
    #[default]
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

    const fn word(self) -> &'static str {
        match self {
            Self::All => "up",
            Self::Gc => "gc",
            Self::Mc => "mc",
            Self::Mh => "mh",
        }
    }
}

/// What will run here, checked.
pub(crate) struct Plan {
    role: Role,
    settings: Settings,
    shared: bool,
}

/// What a part that runs alone is started with where nobody said otherwise: where its health is, and its store.
pub(crate) fn alone(role: Role, settings: &mut service::Settings, listen_given: bool) {
    if role == Role::All {
        return;
    }
    let (health, redis) = settings::older(settings.sections.get("meet"));
    let own = settings::ports(role).0.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    if let Some(address) = health.or(own).filter(|_| !listen_given) {
        settings.listen = address;
    }
    if settings.store.is_none() {
        settings.store = redis;
    }
}

/// Reads the settings; none where meetings do not run. Everything that can be wrong with them is said here, before anything listens.
pub(crate) fn prepare(settings: &service::Settings, role: Role) -> Result<Option<Plan>> {
    if !runs(settings, "meet") {
        return Ok(None);
    }
    let shared = engine::is_shared(settings);
    if role != Role::All && !shared {
        let words = format!(
            "tenure {} shares one store with the other parts of meetings, and the embedded store serves one process only",
            role.word()
        );
        return Err(Failure::usage(words).hint(
            "name a store that all reach: --store redis://HOST:PORT, or --store tenure://HOST:PORT of a\n\
             running `tenure up --only lease`; or run all parts in one process with `tenure up --only meet`",
        ));
    }
    let read = Settings::read(settings.sections.get("meet")).map_err(Failure::usage)?;
    if shared && role.has_mc() && read.secrets.binding.is_none() {
        let words = "meetings on a shared store need MC_BINDING_TOKEN_SECRET (base64, at least 32 bytes), the same for \
                     every meeting controller of the region";
        return Err(Failure::usage(words).hint(
            "make one with `head -c 32 /dev/urandom | base64`; or leave meetings out: --only lease,sessions,control,poll",
        ));
    }
    if shared && role.has_gc() && settings.seal_key.is_none() {
        let words = "meetings on a shared store need TENURE_SEAL_KEY (at least 32 bytes): it seals the signing keys there";
        return Err(Failure::usage(words).hint("or leave meetings out: --only lease,sessions,control,poll"));
    }
    if !role.has_gc() {
        for (given, name) in [
            (read.ac_endpoint.is_some(), "AC_ENDPOINT"),
            (read.client_id.is_some(), "MC_CLIENT_ID"),
            (read.secrets.client.is_some(), "MC_CLIENT_SECRET"),
        ] {
            if !given {
                return Err(Failure::usage(format!(
                    "tenure {} needs {name}: it has its service tokens from there",
                    role.word()
                )));
            }
        }
    }
    Ok(Some(Plan { role, settings: read, shared }))
}

/// The meetings of this process.
pub(crate) struct Meetings {
    role: Role,
    condition: Condition,
    routes: Router,
    openapi: Option<utoipa::openapi::OpenApi>,
    public: Option<String>,
    grpc: Option<String>,
    running: Ended,
    tasks: TaskTracker,
    stop: CancellationToken,
    drain: Duration,
}

/// What is ended in order.
struct Ended {
    controller: Option<(Controller, Running)>,
    endpoint: Option<Arc<Endpoint>>,
    gc: Option<meet_gc::Running>,
    /// Ends what clients and other parts are told by, after the controller.
    fronts: CancellationToken,
}

impl Meetings {
    /// Their routes, behind the authentication that all share.
    pub(crate) fn routes(&self, auth: Arc<Auth>) -> Router {
        let condition = self.condition.clone();
        let ready = readiness_route("/health/ready/meet", move || condition.readiness());
        self.routes.clone().layer(auth_layer(auth)).merge(ready)
    }

    /// What their description says.
    pub(crate) fn description(&self) -> Option<utoipa::openapi::OpenApi> {
        self.openapi.clone()
    }

    /// What is ready besides the store. Alone, the rules of a meeting controller hold; beside others, it is only listed.
    pub(crate) fn readiness(&self) -> impl Fn(Readiness) -> Readiness + Send + Sync + use<> {
        let (condition, alone) = (self.condition.clone(), self.role != Role::All);
        move |store| match (store, alone) {
            (Readiness::Ready(mut facts), false) => {
                facts.insert("meet".to_owned(), condition.facts());
                Readiness::Ready(facts)
            }
            (Readiness::Ready(_), true) => condition.readiness(),
            (not_ready, _) => not_ready,
        }
    }

    /// Whether the process should go on.
    pub(crate) fn liveness(&self) -> impl Fn() -> std::result::Result<(), String> + Send + Sync + use<> {
        let alone = self.role != Role::All;
        move || if alone { condition::alive() } else { Ok(()) }
    }

    /// One line for the person who started it.
    #[expect(clippy::print_stdout, reason = "the words that a person waits for")]
    pub(crate) fn greet(&self, url: &str) {
        match (self.role, &self.public) {
            (Role::All, Some(public)) => {
                println!(
                    "  meetings  {url}/meet (browsers connect to {public} over UDP; no audio or video yet)"
                )
            }
            (_, Some(public)) => println!("  meetings  at {public} (UDP)"),
            (_, None) => println!("  meetings  {url}/api/v1/meetings"),
        }
        if let Some(grpc) = &self.grpc {
            println!("  gRPC      {grpc}");
        }
    }

    /// Ends everything in order: nothing new, then clients are told, then the places in the registry are given back.
    async fn close(self) {
        let clock = BootClock;
        if let Some((controller, running)) = self.running.controller {
            controller.drain();
            tokio::select! {
                exit = running.shut_down() => tracing::info!(?exit, "the meetings are over"),
                () = clock.sleep_until(clock.now() + self.drain) => {
                    tracing::warn!("meetings did not end in time; their leases end by their TTL");
                }
            }
        }
        self.running.fronts.cancel();
        if let Some(endpoint) = self.running.endpoint {
            endpoint.close().await;
        }
        self.stop.cancel();
        let rest = async {
            if let Some(gc) = self.running.gc {
                gc.shut_down().await;
            }
            self.tasks.close();
            self.tasks.wait().await;
        };
        tokio::select! {
            () = rest => {}
            () = clock.sleep_until(clock.now() + FAREWELL) => {
                tracing::warn!(tasks = self.tasks.len(), "parts of meetings did not end in time");
            }
        }
    }
}

/// Runs `serving` and, from the shutdown on, ends the meetings beside it.
pub(crate) async fn beside<T>(
    meetings: Option<Meetings>,
    shutdown: &Shutdown,
    serving: impl Future<Output = T>,
) -> T {
    let ending = async {
        shutdown.wait().await;
        if let Some(meetings) = meetings {
            meetings.close().await;
        }
    };
    let served = async {
        let served = serving.await;
        // A server that ends by itself takes the meetings along.
        shutdown.trigger();
        served
    };
    tokio::join!(served, ending).0
}

/// Starts what was planned.
pub(crate) async fn start(
    plan: Option<Plan>,
    store: Arc<dyn Store>,
    settings: &service::Settings,
    address: SocketAddr,
    shutdown: &Shutdown,
) -> Result<Option<Meetings>> {
    match plan {
        Some(plan) => build::start(plan, store, settings, address, shutdown).await.map(Some),
        None => Ok(None),
    }
}
