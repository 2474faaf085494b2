//! Runs services in one process, with one listener and one store.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use tenure_service::config::{Config, Environment, Loader, Source};
use tenure_service::{
    Auth, Readiness, Server, Settings, Shutdown, auth_layer, health_routes_with, login_routes, telemetry,
};

use crate::address::AddressFile;
use crate::cli::{Failure, Result, describe_error, exit};
use crate::services::{Given, Process, Roles, SERVICES, Service};
use crate::{console, engine, supervise};

/// The arguments of `tenure up`. Each flag is also a setting and a variable: see `tenure config`.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Args {
    /// Address to listen on [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Lease store: embedded:DIR, redis://HOST:PORT, tenure://HOST:PORT or memory: [default: embedded, in the data
    /// directory]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Data directory [default: ./tenure-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Configuration file [default: ./tenure.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run only these services (comma-separated): lease, control, poll, sessions, meet
    #[arg(long, value_name = "SERVICES")]
    only: Option<String>,
    /// API token for a store that is a Tenure server (tenure://HOST:PORT)
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TENURE_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    store_token: Option<String>,
    /// End when the process with this id, which started this one, has ended
    #[arg(long, value_name = "PID", hide = true)]
    end_with_parent: Option<i32>,
    #[arg(skip)]
    roles: Roles,
}

impl Args {
    /// Runs only this service, in these roles, whatever the settings say.
    pub(crate) fn only(mut self, service: &str, roles: Roles) -> Self {
        self.only = Some(service.to_owned());
        self.roles = roles;
        self
    }

    /// The configuration of this process, from flags, variables and the file.
    pub(crate) fn load(self) -> Result<Config> {
        let mut loader = Loader::new(Environment::process());
        for service in &SERVICES {
            loader = loader.declare(service.settings);
        }
        for prefix in self.roles.meet.variable_prefixes() {
            loader = loader.variable_prefix(prefix, "meet");
        }
        let config = loader
            .file(self.config)
            .flag("--listen", "listen", self.listen)
            .flag("--store", "store", self.store)
            .flag("--data-dir", "data_dir", self.data_dir)
            .flag("--only", "only", self.only)
            .load()
            .map_err(|error| Failure::usage(error.to_string()))?;
        let names = SERVICES.map(|service| service.name);
        match config.settings.only.iter().find(|name| !names.contains(&name.as_str())) {
            None => Ok(config),
            Some(name) => {
                let known = names.join(", ");
                Err(Failure::usage(format!("only: unknown service {name:?}; available services: {known}")))
            }
        }
    }
}

/// Runs until the shutdown.
pub(crate) async fn run(args: Args) -> Result<u8> {
    if let Some(parent) = args.end_with_parent {
        end_with(parent)?;
    }
    let (roles, token) = (args.roles, args.store_token.clone());
    let config = args.load()?;
    let listen = config.entries().into_iter().find(|entry| entry.path() == "listen");
    let given = Given { listen: listen.is_some_and(|entry| entry.source != Source::Default) };
    let ignored = config.ignored().join(", ");
    let mut settings = config.settings;
    for service in &SERVICES {
        (service.set_defaults)(&mut settings, &roles, given);
    }
    let _telemetry =
        telemetry::init(&settings.log).map_err(|error| Failure::internal(describe_error(&error)))?;
    crate::metrics::describe();
    if !ignored.is_empty() {
        tracing::info!(variables = ignored, "ignoring Kubernetes service variables that resemble settings");
    }
    serve(settings, roles, token.as_deref()).await
}

/// Asks the kernel for a SIGTERM when the parent ends.
fn end_with(parent: i32) -> Result<()> {
    let failed = |error| Failure::internal(format!("--end-with-parent: {error}"));
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)).map_err(failed)?;
    // It may have ended before that.
    if rustix::process::getppid().map(rustix::process::Pid::as_raw_pid) == Some(parent) {
        return Ok(());
    }
    Err(Failure::internal(format!("--end-with-parent: process {parent} is not the parent")))
}

async fn serve(settings: Settings, roles: Roles, store_token: Option<&str>) -> Result<u8> {
    let selected = SERVICES.iter().filter(|service| service.is_selected(&settings));
    let prepared: Vec<_> =
        selected.map(|service| (service.prepare)(&settings, &roles)).collect::<Result<_>>()?;
    let shutdown = Shutdown::on_signals().map_err(|error| Failure::internal(describe_error(&error)))?;
    let (server, process) = open(settings, store_token, shutdown).await?;
    let mut services = Vec::new();
    for service in prepared {
        services.push(service.start(&process).await?);
    }
    let router = mount(&services, &process.auth);
    let address = AddressFile::write(&process.settings.data_dir, &process.url)?;
    greet(&process, &services);
    let clock = process.store.clock();
    let serving = server.run(router, process.shutdown.clone());
    let served = supervise::run(services, serving, &process.shutdown, &*clock).await;
    drop(address);
    served?.map_err(|error| Failure::internal(describe_error(&error)))?;
    Ok(exit::DONE)
}

/// Opens what all services share. The server is bound first, so that a port in use is reported before anything else.
async fn open(
    settings: Settings,
    store_token: Option<&str>,
    shutdown: Shutdown,
) -> Result<(Server, Process)> {
    // It keeps tokens, keys and records: other users of the machine must not read them.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&settings.data_dir).map_err(|error| {
        let dir = settings.data_dir.display();
        Failure::unavailable(format!("cannot create the data directory {dir}: {error}"))
            .hint("choose another one with --data-dir")
    })?;
    let server = Server::bind(&settings).await.map_err(|error| {
        Failure::unavailable(describe_error(&error))
            .hint("stop the other process, or choose another address with --listen")
    })?;
    let store = engine::open(&settings, store_token).await?;
    let auth = Auth::open(&settings, server.local_addr())
        .map_err(|error| Failure::unavailable(describe_error(&error)))
        .map(Arc::new)?;
    let (address, url) = (server.local_addr(), server.url());
    Ok((server, Process { settings, store, auth, address, url, shutdown }))
}

/// All routes of the process, behind the authentication that they share.
fn mount(services: &[Box<dyn Service>], auth: &Arc<Auth>) -> Router {
    let mut openapi = utoipa::openapi::OpenApi::default();
    for (index, description) in services.iter().filter_map(|service| service.description()).enumerate() {
        match index {
            0 => openapi = description,
            _ => openapi.merge(description),
        }
    }
    tenure_service::add_common_responses(&mut openapi);
    let readiness: Vec<_> = services.iter().map(|service| service.readiness()).collect();
    let ready = move || {
        let initial = Readiness::Ready(serde_json::Map::new());
        readiness.iter().fold(initial, |readiness, check| check(readiness))
    };
    let liveness: Vec<_> = services.iter().map(|service| service.liveness()).collect();
    let live = move || liveness.iter().try_for_each(|check| check());
    let metrics = telemetry::metrics_routes();
    let metrics = services.iter().fold(metrics, |metrics, service| service.wrap_metrics(metrics));
    let shared = Router::new()
        .merge(login_routes(auth.clone()))
        .merge(health_routes_with(live, ready))
        .merge(metrics)
        .route("/openapi.json", axum::routing::get(async move || axum::Json(openapi.clone())))
        .merge(console::routes(services.iter().filter_map(|service| service.page()).collect()));
    services
        .iter()
        .fold(shared, |router, service| router.merge(service.routes()))
        .layer(auth_layer(auth.clone()))
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn greet(process: &Process, services: &[Box<dyn Service>]) {
    let Process { settings, auth, url, .. } = process;
    println!("Tenure {} is running", env!("CARGO_PKG_VERSION"));
    println!("  console   {}", auth.login_url(&auth.login_code()));
    println!("            (one-time sign-in link, valid for ten minutes; `tenure login` prints another)");
    let own = [
        ("address", url.clone()),
        ("data", settings.data_dir.display().to_string()),
        ("store", engine::describe(settings, &*process.store)),
    ];
    for (label, value) in own.into_iter().chain(services.iter().flat_map(|service| service.greeting())) {
        println!("  {label:<9} {value}");
    }
    println!("Press Ctrl-C to stop.");
}
