//! TV in this process: the door, the orchestrator, or both.

mod launch;
mod m3u;
mod settings;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use lease::{Clock, Store};
use lease_store::BootClock;
use parking_lot::Mutex;
use service::{Auth, Readiness, Shutdown, auth_layer};
use session::ProfileId;
use session_api::{Ports, Profiles};
use session_worker::{Fatal, Ffmpeg, LeaseAdmission, Log, Options, Source, Worker};

use crate::cli::{Failure, Result, exit};
use crate::engine;
use crate::up::runs;

use launch::Watchdogs;
use settings::{DEFAULT_PROFILE, Pipeline, Settings};

pub(crate) use settings::SPECS;

/// How long a scrape waits for the comparison of records and leases before it shows what it has.
const COMPARE: Duration = Duration::from_secs(2);
/// How long starts that are being recorded may hold up the end.
const FINISH: Duration = Duration::from_secs(5);
/// How long everything else may take to end once the orchestrator is over.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the process may go on after the guard was lost.
const LAST_RESORT: Duration = Duration::from_secs(10);

/// Which part of the sessions runs here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Role {
    /// Both.
    #[default]
    All,
    /// The door alone: it answers whether or not a worker is there.
    Api,
    /// The orchestrator alone.
    Worker,
}

/// The sessions of this process.
pub(crate) struct Sessions {
    role: Role,
    settings: Settings,
    stage: Arc<Mutex<Stage>>,
    tasks: tokio_util::task::TaskTracker,
}

/// How far the orchestrator is.
#[derive(Clone)]
enum Stage {
    /// It waits for its guard, wipes and recovers.
    Starting,
    Running(Arc<Worker>),
    Over(String),
}

/// Reads the settings; none where sessions do not run. Everything that can be wrong with them is said here, before
/// anything listens.
pub(crate) fn prepare(settings: &service::Settings, role: Role) -> Result<Option<Sessions>> {
    if !runs(settings, "sessions") {
        return Ok(None);
    }
    if role != Role::All && !engine::is_shared(settings) {
        return Err(Failure::usage(
            "session-api and session-worker share one store, and the embedded store serves one process only",
        )
        .hint(
            "name a store that both reach: --store redis://HOST:PORT, or --store tenure://HOST:PORT of a\n\
             running `tenure up --only lease`; or run both in one process with `tenure up`",
        ));
    }
    let read =
        Settings::read(settings.sections.get("sessions"), &settings.data_dir).map_err(Failure::usage)?;
    let sessions = Sessions {
        role,
        settings: read,
        stage: Arc::new(Mutex::new(Stage::Starting)),
        tasks: Default::default(),
    };
    sessions.options().check().map_err(|error| fatal(&error))?;
    Ok(Some(sessions))
}

impl Sessions {
    /// The door's routes, behind the authentication that all share; none where only the orchestrator runs.
    pub(crate) fn routes(
        &self,
        store: Arc<dyn Store>,
        auth: Arc<Auth>,
        max_watchers: usize,
        shutdown: &Shutdown,
    ) -> Result<Router> {
        if self.role == Role::Worker {
            return Ok(Router::new());
        }
        let settings = &self.settings;
        let wrong = |error: session::Error| Failure::usage(format!("sessions: {error}"));
        let secrets = &settings.secrets;
        let secrets =
            session_api::secrets(secrets.current.as_deref(), secrets.previous.as_deref()).map_err(wrong)?;
        let log = Arc::new(Log::new(store.clone()));
        let admission = || Arc::new(LeaseAdmission::new(store.clone(), settings.lease_ttl)) as Arc<_>;
        let ports = Ports { log: log.clone(), bus: log, admission: settings.phase_one.then(admission) };
        let options = session_api::Options {
            slots: settings.slots.len(),
            profiles: profiles(settings.profiles.keys()).map_err(wrong)?,
            channels: settings.channels.clone(),
            max_records: settings.max_records,
            session_lease_ttl: settings.session_lease_ttl,
            heartbeat_interval: settings.session_heartbeat,
            lan: settings.lan.clone(),
            max_watchers,
            shutdown: shutdown.clone(),
            tasks: self.tasks.clone(),
            ..session_api::Options::new(secrets, settings.output_dir.clone())
        };
        let described = axum::routing::get(async || axum::Json(session_api::openapi()));
        let routes = session_api::routes(ports, options).route("/api/v3/openapi.json", described);
        Ok(routes.layer(auth_layer(auth)))
    }

    /// What the door's description says; none where only the orchestrator runs.
    pub(crate) fn description(&self) -> Option<utoipa::openapi::OpenApi> {
        (self.role != Role::Worker).then(session_api::openapi)
    }

    /// Runs the orchestrator until the shutdown. What ends it before ends the process.
    pub(crate) async fn run(&self, store: Arc<dyn Store>, shutdown: &Shutdown) -> Result<()> {
        if self.role != Role::Api {
            self.orchestrate(store, shutdown).await?;
        }
        shutdown.wait().await;
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = BootClock.sleep_until(BootClock.now() + FINISH) => {}
        }
        Ok(())
    }

    async fn orchestrate(&self, store: Arc<dyn Store>, shutdown: &Shutdown) -> Result<()> {
        let starting = Worker::start(store, self.options(), Arc::new(Watchdogs::default()));
        let worker = tokio::select! {
            biased;
            () = shutdown.wait() => return Ok(()),
            started = starting => started.map(Arc::new),
        };
        let worker = worker.map_err(|error| self.over(&error))?;
        *self.stage.lock() = Stage::Running(worker.clone());
        tokio::select! {
            biased;
            error = worker.failed() => return Err(self.over(&error)),
            () = shutdown.wait() => {}
        }
        *self.stage.lock() = Stage::Over("the server is shutting down".into());
        worker.close().await;
        Ok(())
    }

    fn over(&self, error: &Fatal) -> Failure {
        tracing::error!(%error, "there is no orchestrator any more; the process ends");
        *self.stage.lock() = Stage::Over(error.to_string());
        fatal(error)
    }

    /// What is ready besides the store.
    pub(crate) fn readiness(&self) -> impl Fn(Readiness) -> Readiness + Send + Sync + use<> {
        let (stage, api) = (self.stage.clone(), self.role == Role::Api);
        move |store| match (&store, stage.lock().clone()) {
            (Readiness::NotReady(_), _) => store,
            _ if api => store,
            (_, Stage::Starting) => {
                Readiness::NotReady("the orchestrator of the sessions waits for its guard".into())
            }
            (_, Stage::Running(worker)) => match worker.readiness() {
                session_worker::Readiness::Ready => store,
                session_worker::Readiness::NotReady(why) => Readiness::NotReady(why.into()),
            },
            (_, Stage::Over(why)) => Readiness::NotReady(why),
        }
    }

    /// Lets a scrape compare records and leases first, so that it shows what is true now.
    pub(crate) fn compared(&self, metrics: Router) -> Router {
        let stage = self.stage.clone();
        metrics.layer(from_fn(move |request: Request, next: Next| {
            let running = match &*stage.lock() {
                Stage::Running(worker) => Some(worker.clone()),
                Stage::Starting | Stage::Over(_) => None,
            };
            async move {
                if let Some(worker) = running {
                    tokio::select! {
                        () = worker.reconcile_now() => {}
                        () = BootClock.sleep_until(BootClock.now() + COMPARE) => {}
                    }
                }
                next.run(request).await
            }
        }))
    }

    /// One line for the person who started it.
    #[expect(clippy::print_stdout, reason = "the words that a person waits for")]
    pub(crate) fn greet(&self, url: &str) {
        let tuners = self.settings.slots.len();
        if self.role == Role::Worker {
            return println!("  works     for {tuners} tuners");
        }
        let source = match self.settings.pipeline {
            Pipeline::Ffmpeg => "through ffmpeg",
            Pipeline::Pattern => "a test picture; set sessions.receiver_url for a receiver",
        };
        let plural = if tuners == 1 { "" } else { "s" };
        println!("  tv        {url}/tv.html ({tuners} tuner{plural}, {source})");
    }

    fn options(&self) -> Options {
        let settings = &self.settings;
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
}

/// Runs the sessions of this process beside `rest`. Their failure ends the process: `rest` gets a moment to hand on what
/// it holds and no more.
pub(crate) async fn beside<T>(
    sessions: Option<&Sessions>,
    store: Arc<dyn Store>,
    shutdown: &Shutdown,
    mut rest: Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> Result<T> {
    let Some(sessions) = sessions else { return Ok(rest.await) };
    let mut running = Box::pin(sessions.run(store, shutdown));
    tokio::select! {
        biased;
        over = &mut running => match over {
            Ok(()) => Ok(rest.await),
            Err(failure) => {
                shutdown.trigger();
                tokio::select! {
                    _ = rest => {}
                    () = BootClock.sleep_until(BootClock.now() + FAREWELL) => {}
                }
                Err(failure)
            }
        },
        done = &mut rest => {
            shutdown.trigger();
            running.await?;
            Ok(done)
        }
    }
}

/// The names of the settings, the default first; `default` and `auto` are other words for that one.
fn profiles<'a>(names: impl Iterator<Item = &'a String>) -> session::Result<Profiles> {
    let default = ProfileId::new(DEFAULT_PROFILE)?;
    let ids: Vec<ProfileId> = names.map(ProfileId::new).collect::<session::Result<_>>()?;
    // The order of the settings' own is the order of what costs more.
    let mut others: Vec<_> = ids.into_iter().filter(|id| *id != default).collect();
    others.sort_by_key(|id| (id.as_str() == "copy", id.as_str().to_owned()));
    let mut profiles = Profiles::new(default.clone(), others);
    for word in ["default", "auto"] {
        profiles = profiles.alias(word, &default)?;
    }
    Ok(profiles)
}

/// Why the process ends, and what to do about it.
fn fatal(error: &Fatal) -> Failure {
    let words = format!("sessions: {error}");
    match error {
        Fatal::Options { field, why } => Failure::usage(format!("sessions.{field}: {why}")),
        Fatal::Pipeline { .. } | Fatal::Folder { .. } => Failure::unavailable(words),
        Fatal::Held { .. } => Failure::new(exit::INTERNAL, "INTERNAL", words).hint(
            "leave the sessions to that process: start this one with --only and the other services, such as\n\
             --only lease,control,poll; or stop that process first",
        ),
        _ => Failure::internal(words),
    }
}
