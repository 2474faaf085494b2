//! Everything on this machine: one process, one listener, one store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use lease::Store;
use service::config::{Config, Environment, Loader, Place};
use service::{Auth, Server, Settings, Shutdown, auth_layer, health_routes_with, login_routes, telemetry};

use crate::cli::{Failure, Result, exit};
use crate::meet::{self, Meetings};
use crate::sessions::{Role, Sessions};
use crate::{console, control, engine, poll, sessions};

/// What `tenure up` is started with. Each flag is also a setting and a variable: see `tenure config`.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Args {
    /// Where to listen, 127.0.0.1:7400 by default
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Where the leases live: embedded:FOLDER (the default, in the data directory), redis://HOST:PORT, memory:
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Where everything is kept, ./tenure-data by default
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<String>,
    /// A file with settings, ./tenure.toml by default if it is there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only these services, separated by commas
    #[arg(long, value_name = "SERVICES")]
    only: Option<String>,
    /// The token that is shown to the store, where that is a server (tenure://HOST:PORT)
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TENURE_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    store_token: Option<String>,
    #[arg(skip)]
    roles: Roles,
}

/// Which parts of services run here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Roles {
    pub(crate) sessions: Role,
    pub(crate) meet: meet::Role,
}

/// The services of this build.
const SERVICES: [&str; 5] = ["lease", "sessions", "control", "poll", "meet"];

impl Args {
    /// With only this service, whatever the settings say.
    pub(crate) fn alone(mut self, service: &str) -> Self {
        self.only = Some(service.to_owned());
        self
    }

    /// With only this part of the sessions, whatever the settings say.
    pub(crate) fn session(mut self, role: Role) -> Self {
        self.roles.sessions = role;
        self.alone("sessions")
    }

    /// With only this part of the meetings, whatever the settings say.
    pub(crate) fn meeting(mut self, role: meet::Role) -> Self {
        self.roles.meet = role;
        self.alone("meet")
    }

    /// The settings of this process, from flags, variables and the file.
    pub(crate) fn load(self) -> Result<Config> {
        let config = Loader::new(Environment::process())
            .declare(poller::SPECS)
            .declare(sessions::SPECS)
            .declare(meet::SPECS)
            .file(self.config)
            .flag("--listen", "listen", self.listen)
            .flag("--store", "store", self.store)
            .flag("--data-dir", "data_dir", self.data_dir)
            .flag("--only", "only", self.only)
            .declare(::control::Options::SPECS)
            .load()
            .map_err(|error| Failure::usage(error.to_string()))?;
        match config.settings.only.iter().find(|name| !SERVICES.contains(&name.as_str())) {
            None => Ok(config),
            Some(name) => Err(Failure::usage(format!(
                "only: {name:?} is not a service of this build; there is {}",
                SERVICES.join(", ")
            ))),
        }
    }
}

/// Serves until told to end.
pub(crate) async fn run(args: Args) -> Result<u8> {
    let (roles, token) = (args.roles, args.store_token.clone());
    serve(args.load()?, roles, token.as_deref()).await
}

/// Serves what the settings name until told to end.
pub(crate) async fn serve(config: Config, roles: Roles, store_token: Option<&str>) -> Result<u8> {
    let ignored = config.ignored().join(", ");
    let listen = config.entries().into_iter().find(|entry| entry.path() == "listen");
    let mut settings = config.settings;
    meet::alone(roles.meet, &mut settings, listen.is_some_and(|entry| entry.source != Place::Default));
    let settings = settings;
    let polling = poll::settings(&settings)?;
    let _telemetry = telemetry::init(&settings.log).map_err(|error| Failure::internal(words(&error)))?;
    if !ignored.is_empty() {
        tracing::info!(variables = ignored, "links to a Kubernetes Service are no settings; ignored");
    }
    let tv = sessions::prepare(&settings, roles.sessions)?;
    let meeting = meet::prepare(&settings, roles.meet)?;
    let shutdown = Shutdown::on_signals().map_err(|error| Failure::internal(words(&error)))?;
    std::fs::create_dir_all(&settings.data_dir).map_err(|error| {
        Failure::unavailable(format!("cannot make the folder {}: {error}", settings.data_dir.display()))
            .hint("name another one with --data-dir")
    })?;
    let server = Server::bind(&settings).await.map_err(|error| {
        Failure::unavailable(words(&error)).hint("stop what runs there, or choose another --listen")
    })?;
    let opened = engine::open(&settings, store_token).await?;
    let auth = Auth::open(&settings, server.local_addr())
        .map_err(|error| Failure::unavailable(words(&error)))
        .map(Arc::new)?;
    let control = control::start(&settings, opened.clone())?;
    let (health, tasks) = engine::watch(opened.clone(), shutdown.clone());
    let node = polling.map(|polling| poll::start(opened.clone(), polling)).transpose()?;
    let tv = tv.as_ref();
    let meetings = meet::start(meeting, opened.clone(), &settings, server.local_addr(), &shutdown).await?;
    let guests = Guests { node: node.as_ref(), tv, meetings: meetings.as_ref() };
    let mut router = mount(&settings, opened.clone(), auth.clone(), health, &shutdown, guests);
    if let Some(control) = &control {
        router = router.merge(control::routes(control, auth.clone()));
    }
    if let Some(tv) = tv {
        let watchers = settings.limits.max_watchers;
        router = router.merge(tv.routes(opened.clone(), auth.clone(), watchers, &shutdown)?);
    }
    if let Some(meetings) = &meetings {
        router = router.merge(meetings.routes(auth.clone()));
    }
    let address = Address::write(&settings.data_dir, &server.url())?;
    greet(&settings, &server, &auth, &*opened);
    node.as_ref().inspect(|node| poll::greet(node));
    tv.inspect(|tv| tv.greet(&server.url()));
    meetings.as_ref().inspect(|meetings| meetings.greet(&server.url()));
    how_to_stop();
    let serving = Box::pin(meet::beside(meetings, &shutdown, server.run(router, shutdown.clone())));
    let serving = poll::beside(node, &shutdown, serving);
    let rest = Box::pin(async { tokio::join!(serving, control::close(control, shutdown.clone())).0 });
    let served = sessions::beside(tv, opened, &shutdown, rest).await;
    drop((address, tasks));
    served?.map_err(|error| Failure::internal(words(&error)))?;
    Ok(exit::DONE)
}

/// Whether a service is to run.
pub(crate) fn runs(settings: &Settings, service: &str) -> bool {
    settings.only.is_empty() || settings.only.iter().any(|name| name == service)
}

/// Services that are here or not.
#[derive(Clone, Copy)]
struct Guests<'a> {
    node: Option<&'a poller::Node>,
    tv: Option<&'a Sessions>,
    meetings: Option<&'a Meetings>,
}

/// All routes of the process below the authentication that they share.
fn mount(
    settings: &Settings,
    store: Arc<dyn Store>,
    auth: Arc<Auth>,
    health: engine::Health,
    shutdown: &Shutdown,
    Guests { node, tv, meetings }: Guests<'_>,
) -> Router {
    let rates = auth.clone();
    let options = lease_api::Options::default()
        .max_watchers(settings.limits.max_watchers)
        .shutdown(shutdown.clone())
        .meter(move |caller| rates.admit(caller));
    let (http, mut openapi) = lease_api::http(store.clone(), options.clone());
    let (polling, described) = node.map(poller::routes).unzip();
    let others = tv.and_then(Sessions::description).into_iter();
    for described in described.into_iter().chain(others).chain(meetings.and_then(Meetings::description)) {
        openapi.merge(described);
    }
    service::common_answers(&mut openapi);
    let metrics = telemetry::metrics_routes();
    let (ready, meeting) = (tv.map(Sessions::readiness), meetings.map(Meetings::readiness));
    let now = move || {
        let now = ready.iter().fold(health.now(), |now, ready| ready(now));
        meeting.iter().fold(now, |now, ready| ready(now))
    };
    let alive = meetings.map(Meetings::liveness);
    let live = move || alive.as_ref().map_or(Ok(()), |alive| alive());
    let described = axum::routing::get(async move || axum::Json(openapi.clone()));
    Router::new()
        .merge(http)
        .merge(lease_api::grpc(store, options))
        .merge(login_routes(auth.clone()))
        .merge(health_routes_with(live, now))
        .merge(match tv {
            Some(tv) => tv.compared(metrics),
            None => metrics,
        })
        .route("/openapi.json", described)
        .merge(console::routes())
        .merge(polling.unwrap_or_default())
        .layer(auth_layer(auth))
}

/// The file that leads commands on this machine here; gone when the process ends in an orderly way.
struct Address(PathBuf);

impl Address {
    fn write(data_dir: &Path, url: &str) -> Result<Self> {
        let (path, fresh) = (data_dir.join("address"), data_dir.join("address.new"));
        // Renamed into place: a command that looks for it finds all of it or nothing.
        std::fs::write(&fresh, format!("{url}\n"))
            .and_then(|()| std::fs::rename(&fresh, &path))
            .map_err(|error| Failure::unavailable(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        // A stale address is harmless: whoever follows it finds nobody there.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[expect(clippy::print_stdout, reason = "the words that a person waits for")]
fn greet(settings: &Settings, server: &Server, auth: &Auth, store: &dyn Store) {
    println!("Tenure {} is up", env!("CARGO_PKG_VERSION"));
    println!("  console   {}", auth.login_url(&auth.login_code()));
    println!("            (signs you in once, within ten minutes; `tenure login` makes another)");
    println!("  address   {}", server.url());
    println!("  folder    {}", settings.data_dir.display());
    println!("  engine    {}", engine::describe(settings, store));
}

#[expect(clippy::print_stdout, reason = "the words that a person waits for")]
fn how_to_stop() {
    println!("Press Ctrl-C to stop.");
}

/// An error and its causes in one line.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn whoever_reads_the_address_while_it_changes_reads_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let old = Address::write(dir.path(), "http://127.0.0.1:1").unwrap();
        let mut reader = std::fs::File::open(&old.0).unwrap();
        let new = Address::write(dir.path(), "http://127.0.0.1:2").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "http://127.0.0.1:1\n");
        assert_eq!(std::fs::read_to_string(&new.0).unwrap(), "http://127.0.0.1:2\n");
    }
}
