//! TV sessions in this process: the session API, the session worker, or both.

mod launch;
mod m3u;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use parking_lot::Mutex;
use tenure_lease::{Clock, Store};
use tenure_service::{Readiness, Shutdown};
use tenure_session::ProfileId;
use tenure_session_api::{Ports, Profiles};
use tenure_session_worker::{Ffmpeg, LeaseAdmission, Options, Source, StoreSessionLog, Worker, WorkerError};
use tenure_store::BootClock;
use tokio_util::task::TaskTracker;
use utoipa::openapi::OpenApi;

use crate::cli::{Failure, Result, exit};
use crate::engine;
use crate::services::{Definition, Prepared, Process, ReadinessCheck, Roles, Service, no_defaults};

use launch::WatchdogLauncher;
use settings::{DEFAULT_PROFILE, Pipeline, Settings};

pub(crate) const SERVICE: Definition = Definition {
    name: "sessions",
    settings: settings::SPECS,
    always: false,
    set_defaults: no_defaults,
    prepare,
};

/// How long a scrape waits for records and leases to be compared.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the end waits for intents that are being recorded.
const INTENTS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the process may keep running after the loss of the guard.
const LAST_RESORT: Duration = Duration::from_secs(10);

/// Which part of the sessions runs in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Role {
    /// Both.
    #[default]
    All,
    /// Only the session API. It accepts intents whether or not a worker is running.
    Api,
    /// Only the session worker.
    Worker,
}

/// Valid settings.
struct PreparedSessions {
    role: Role,
    settings: Settings,
}

/// The sessions of this process.
struct Sessions {
    role: Role,
    settings: Settings,
    store: Arc<dyn Store>,
    routes: Router,
    url: String,
    stage: Arc<Mutex<Stage>>,
    tasks: TaskTracker,
}

/// The stage of the worker.
#[derive(Clone)]
enum Stage {
    /// It waits for its guard, wipes leases and recovers sessions.
    Starting,
    Running(Arc<Worker>),
    /// It ended, and why.
    Ended(String),
}

fn prepare(settings: &tenure_service::Settings, roles: &Roles) -> Result<Box<dyn Prepared>> {
    let role = roles.sessions;
    if role != Role::All && !engine::is_shared(settings) {
        return Err(Failure::usage(
            "session-api and session-worker share one store, and the embedded store serves one process only",
        )
        .hint(
            "name a store that both can open: --store redis://HOST:PORT, or --store tenure://HOST:PORT of a\n\
             running `tenure up --only lease`; or run both in one process with `tenure up`",
        ));
    }
    let settings =
        Settings::parse(settings.sections.get("sessions"), &settings.data_dir).map_err(Failure::usage)?;
    worker_options(&settings).check().map_err(|error| fatal(&error))?;
    Ok(Box::new(PreparedSessions { role, settings }))
}

#[async_trait]
impl Prepared for PreparedSessions {
    async fn start(self: Box<Self>, process: &Process) -> Result<Box<dyn Service>> {
        let Self { role, settings } = *self;
        let tasks = TaskTracker::new();
        let routes = match role {
            Role::Worker => Router::new(),
            Role::All | Role::Api => api_routes(&settings, process, &tasks)?,
        };
        let (store, url) = (process.store.clone(), process.url.clone());
        let stage = Arc::new(Mutex::new(Stage::Starting));
        Ok(Box::new(Sessions { role, settings, store, routes, url, stage, tasks }))
    }
}

#[async_trait]
impl Service for Sessions {
    fn page(&self) -> Option<&'static str> {
        (self.role != Role::Worker).then_some(SERVICE.name)
    }

    /// The routes of the API.
    fn routes(&self) -> Router {
        self.routes.clone()
    }

    fn description(&self) -> Option<OpenApi> {
        (self.role != Role::Worker).then(tenure_session_api::openapi)
    }

    /// A process with a worker is ready when the worker is.
    fn readiness(&self) -> ReadinessCheck {
        let (stage, api) = (self.stage.clone(), self.role == Role::Api);
        Box::new(move |store| match (&store, stage.lock().clone()) {
            (Readiness::NotReady(_), _) => store,
            _ if api => store,
            (_, Stage::Starting) => Readiness::NotReady("the session worker is waiting for its guard".into()),
            (_, Stage::Running(worker)) => match worker.readiness() {
                tenure_session_worker::Readiness::Ready => store,
                tenure_session_worker::Readiness::NotReady(why) => Readiness::NotReady(why.into()),
            },
            (_, Stage::Ended(why)) => Readiness::NotReady(why),
        })
    }

    /// Compares records with leases before a scrape, so that it reports the present state.
    fn wrap_metrics(&self, metrics: Router) -> Router {
        let stage = self.stage.clone();
        metrics.layer(from_fn(move |request: Request, next: Next| {
            let running = match &*stage.lock() {
                Stage::Running(worker) => Some(worker.clone()),
                Stage::Starting | Stage::Ended(_) => None,
            };
            async move {
                if let Some(worker) = running {
                    tokio::select! {
                        () = worker.reconcile_now() => {}
                        () = BootClock.sleep_until(BootClock.now() + RECONCILE_TIMEOUT) => {}
                    }
                }
                next.run(request).await
            }
        }))
    }

    fn greeting(&self) -> Vec<(&'static str, String)> {
        let tuners = self.settings.slots.len();
        let plural = if tuners == 1 { "" } else { "s" };
        if self.role == Role::Worker {
            return vec![("tv", format!("worker, {tuners} tuner{plural}"))];
        }
        let source = match self.settings.pipeline {
            Pipeline::Ffmpeg => "ffmpeg",
            Pipeline::Pattern => "test pattern; set sessions.receiver_url to use a receiver",
        };
        vec![("tv", format!("{}/tv.html ({tuners} tuner{plural}, {source})", self.url))]
    }

    /// Runs the worker.
    async fn run(&self, shutdown: &Shutdown) -> Result<()> {
        if self.role == Role::Api {
            shutdown.wait().await;
            return Ok(());
        }
        let starting = Worker::start(
            self.store.clone(),
            worker_options(&self.settings),
            Arc::new(WatchdogLauncher::default()),
        );
        let worker = tokio::select! {
            biased;
            () = shutdown.wait() => return Ok(()),
            started = starting => started.map(Arc::new),
        };
        let worker = worker.map_err(|error| self.fail(&error))?;
        *self.stage.lock() = Stage::Running(worker.clone());
        tokio::select! {
            biased;
            error = worker.failed() => Err(self.fail(&error)),
            () = shutdown.wait() => Ok(()),
        }
    }

    /// Ends the worker and its pipelines.
    async fn drain(&mut self) {
        let stage =
            std::mem::replace(&mut *self.stage.lock(), Stage::Ended("the server is shutting down".into()));
        if let Stage::Running(worker) = stage {
            worker.close().await;
        }
    }

    /// Waits for intents that are being recorded.
    async fn stop(self: Box<Self>) {
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = BootClock.sleep_until(BootClock.now() + INTENTS_TIMEOUT) => {}
        }
    }
}

impl Sessions {
    fn fail(&self, error: &WorkerError) -> Failure {
        tracing::error!(%error, "the session worker failed; the process exits");
        *self.stage.lock() = Stage::Ended(error.to_string());
        fatal(error)
    }
}

fn api_routes(settings: &Settings, process: &Process, tasks: &TaskTracker) -> Result<Router> {
    let invalid = |error: tenure_session::Error| Failure::usage(format!("sessions: {error}"));
    let secrets = &settings.secrets;
    let secrets = tenure_session_api::secrets(secrets.current.as_deref(), secrets.previous.as_deref())
        .map_err(invalid)?;
    let store = process.store.clone();
    let log = Arc::new(StoreSessionLog::new(store.clone()));
    let admission = || Arc::new(LeaseAdmission::new(store, settings.lease_ttl)) as Arc<_>;
    let ports = Ports { log, admission: settings.phase_one.then(admission) };
    let mut lan = settings.lan.clone();
    if lan.trusted_proxies.is_empty() {
        lan.trusted_proxies = process.settings.trusted_proxies.clone();
    }
    let options = tenure_session_api::Options {
        slots: settings.slots.len(),
        profiles: profiles(settings.profiles.keys()).map_err(invalid)?,
        channels: settings.channels.clone(),
        max_records: settings.max_records,
        session_lease_ttl: settings.session_lease_ttl,
        heartbeat_interval: settings.session_heartbeat,
        lan,
        max_watchers: process.settings.limits.max_watchers,
        shutdown: process.shutdown.clone(),
        tasks: tasks.clone(),
        ..tenure_session_api::Options::new(secrets, settings.output_dir.clone())
    };
    let description = axum::routing::get(async || axum::Json(tenure_session_api::openapi()));
    Ok(tenure_session_api::routes(ports, options).route("/api/v3/openapi.json", description))
}

fn worker_options(settings: &Settings) -> Options {
    let source = match (&settings.pipeline, &settings.receiver_url) {
        (Pipeline::Ffmpeg, Some(receiver_url)) => Source::Ffmpeg(Ffmpeg {
            program: settings.ffmpeg.clone(),
            receiver_url: receiver_url.clone(),
            recordings_dir: settings.recordings_dir.clone(),
            profiles: settings.profiles.clone(),
        }),
        _ => Source::Pattern,
    };
    Options {
        lease_ttl: settings.lease_ttl,
        heartbeat: settings.heartbeat,
        guard_ttl: settings.guard_ttl,
        guard_heartbeat: settings.guard_heartbeat,
        idle_timeout: settings.idle_timeout,
        session_lease_ttl: settings.session_lease_ttl,
        stall_timeout: settings.stall_timeout,
        first_segment_timeout: settings.first_segment_timeout,
        stop_timeout: settings.stop_timeout,
        drain_timeout: settings.drain_timeout,
        reconcile: settings.reconcile,
        retention: settings.retention,
        max_output_bytes: settings.max_output_bytes,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        last_resort: Some(LAST_RESORT),
        ..Options::new(settings.slots.clone(), settings.output_dir.clone(), source)
    }
}

/// The configured profiles, the default first; `default` and `auto` are aliases of the default.
fn profiles<'a>(names: impl Iterator<Item = &'a String>) -> tenure_session::Result<Profiles> {
    let default = ProfileId::new(DEFAULT_PROFILE)?;
    let ids: Vec<ProfileId> = names.map(ProfileId::new).collect::<tenure_session::Result<_>>()?;
    // Sorted by name, with `copy` last.
    let mut others: Vec<_> = ids.into_iter().filter(|id| *id != default).collect();
    others.sort_by_key(|id| (id.as_str() == "copy", id.as_str().to_owned()));
    let mut profiles = Profiles::new(default.clone(), others);
    for alias in ["default", "auto"] {
        profiles = profiles.alias(alias, &default)?;
    }
    Ok(profiles)
}

/// Converts a fatal error into an exit status with a hint.
fn fatal(error: &WorkerError) -> Failure {
    let message = format!("sessions: {error}");
    match error {
        WorkerError::Options { field, why } => Failure::usage(format!("sessions.{field}: {why}")),
        WorkerError::Pipeline { .. } | WorkerError::Directory { .. } => Failure::unavailable(message),
        WorkerError::GuardHeld { .. } => Failure::new(exit::INTERNAL, "INTERNAL", message).hint(
            "run the sessions only in that process: start this one with --only and the other services, for example\n\
             --only lease,control,poll; or stop that process first",
        ),
        _ => Failure::internal(message),
    }
}
