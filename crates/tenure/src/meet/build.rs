//! Builds and starts the parts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tenure_keeper::{Keeper, OsEntropy, Terms};
use tenure_lease::{Clock, Holder, Store};
use tenure_meet_ac::Authority;
use tenure_meet_mc::actor::{Controller, Options, Running};
use tenure_meet_mc::{AcceptLimits, ControllerState, HandlerLoads, Peers, SeatTimeouts};
use tenure_meet_mh::MediaHandler;
use tenure_meet_rpc::node::{Listing, Node, ProcessProof, RegistrationState};
use tenure_meet_rpc::{ChannelPool, Keyring, Kind, ServiceRole};
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_meet_wire::transport::{AllowedOrigins, Paths, RELAY};
use tenure_service::Server;
use tenure_session_worker::ProcessIdentity;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::endpoint::{Endpoint, Opening};
use super::health::MeetHealth;
use super::identity::{self, AuthoritySigner, GC_CLIENT, MC_CLIENT, MH_CLIENT, failed};
use super::secrets::{self, NodeSecrets};
use super::{Meetings, Plan, Role, origins, requirements, settings, usage};
use crate::cli::{Failure, Result, describe_error};
use crate::services::Process;

const GC_NAME: &str = "gc";
/// The gRPC services of a meeting controller.
const CONTROLLER_SERVICES: [&str; 3] =
    ["MeetingControllerService", "MeetingMigrationService", "MediaCoordinationService"];

/// How long the previous binding secret is accepted after a start.
const PREVIOUS_SECRET: Duration = Duration::from_secs(3_600);
/// Memory for groups of media where the memory of the machine is not known.
const CACHE_BYTES: usize = 256 * 1024 * 1024;

/// What the parts of this process share while they are started.
struct Builder<'a> {
    plan: &'a Plan,
    service: &'a tenure_service::Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    authority: Option<Arc<Authority>>,
    secrets: NodeSecrets,
    keyring: Keyring,
    channels: ChannelPool,
    usage: Arc<dyn Fn() -> (u32, u32) + Send + Sync>,
    tasks: TaskTracker,
    stop: CancellationToken,
    acceptors: CancellationToken,
    /// The gRPC listener and its endpoint; none if all parts run in this process.
    grpc: Option<(Server, String)>,
    /// The services on that listener.
    grpc_routes: Router,
}

pub(super) async fn start(plan: Plan, process: &Process) -> Result<Meetings> {
    let store = process.store.clone();
    let mut builder = open(&plan, &process.settings, store.clone()).await?;
    let endpoint = if plan.role.has_mc() || plan.role.has_mh() {
        Some(Arc::new(builder.endpoint(process.address)?))
    } else {
        None
    };
    let public = endpoint.as_ref().map(|endpoint| builder.public_url(endpoint)).transpose()?;
    let allowed = builder.follow_origins(process);
    let mut paths = endpoint.as_ref().map(|it| Paths::new(it.listener.clone()).allowing(allowed));
    let gc = builder.start_global_controller(process);
    let mut controller = None;
    let mut registration = None;
    if let (Some(endpoint), Some(paths), Some(public)) = (&endpoint, &mut paths, &public) {
        if plan.role.has_mc() {
            let (started, running, state) = builder.start_controller(endpoint, paths, public).await?;
            controller = Some((started, running));
            registration = Some(state);
        }
        if plan.role.has_mh() {
            let state = builder.start_handler(endpoint, paths, public).await?;
            registration = registration.or(Some(state));
        }
    }
    if let (Some(endpoint), Some(paths)) = (&endpoint, paths) {
        builder.spawn(paths.run());
        let endpoint = endpoint.clone();
        builder.spawn(async move { endpoint.keep_fresh().await });
    }
    let health =
        MeetHealth::new(store, controller.as_ref().map(|(controller, _)| controller.clone()), registration);
    let watched = health.clone();
    builder.spawn(async move { watched.watch().await });
    let (routes, openapi) = builder.routes(gc.as_ref().map(|(gc, _)| gc));
    let Builder { tasks, stop, acceptors, grpc, grpc_routes, .. } = builder;
    let (server, grpc) = grpc.unzip();
    if let Some(server) = server {
        // It serves until the end of the drain: moves need it.
        let (shutdown, stopped) = (tenure_service::Shutdown::new(), stop.clone());
        let trigger = shutdown.clone();
        tasks.spawn(async move {
            stopped.cancelled().await;
            trigger.trigger();
        });
        tasks.spawn(async move {
            if let Err(error) = server.run(grpc_routes, shutdown).await {
                tracing::error!(error = describe_error(&error), "meeting gRPC listener failed");
            }
        });
    }
    Ok(Meetings {
        role: plan.role,
        health,
        routes,
        openapi,
        url: process.url.clone(),
        public,
        grpc,
        controller,
        endpoint,
        gc: gc.map(|(_, running)| running),
        acceptors,
        tasks,
        stop,
        drain: plan.settings.drain,
    })
}

async fn open<'a>(
    plan: &'a Plan,
    service: &'a tenure_service::Settings,
    store: Arc<dyn Store>,
) -> Result<Builder<'a>> {
    tenure_service::install_crypto();
    let clock = store.clock();
    let secrets = secrets::resolve(plan, service, &store).await?;
    let gc_secret = identity::random_secret(32);
    let authority = match plan.role.has_gc() {
        true => Some(identity::authority(&gc_secret, &secrets, &service.data_dir, &store).await?),
        false => None,
    };
    let (keyring, tokens) = match (&authority, plan.role) {
        (Some(authority), _) => {
            let signs = authority.clone();
            let keyring = Keyring::local(clock.clone(), move || signs.checker());
            (keyring, identity::local_tokens(authority, GC_CLIENT, &gc_secret, &clock))
        }
        (None, role) => {
            let part = if role == Role::Mc { ServiceRole::Mc } else { ServiceRole::Mh };
            let insecure = service.insecure_http;
            let tokens = identity::remote_tokens(part, &plan.settings, insecure, &clock).await?;
            (identity::remote_keyring(&plan.settings, insecure, &clock)?, tokens)
        }
    };
    let grpc = listen(plan, service).await?;
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    let builder = Builder {
        plan,
        service,
        usage: usage::meter(clock.clone()),
        store,
        keyring,
        channels: ChannelPool::new(tokens, clock.clone(), None),
        clock,
        secrets,
        acceptors: CancellationToken::new(),
        tasks,
        stop,
        authority,
        grpc,
        grpc_routes: Router::new(),
    };
    if let Some(authority) = builder.authority.clone() {
        builder.spawn(async move { authority.keep_turning().await });
    }
    Ok(builder)
}

/// The gRPC listener: always for a part that runs alone, otherwise only if configured.
async fn listen(plan: &Plan, service: &tenure_service::Settings) -> Result<Option<(Server, String)>> {
    let Some(address) = requirements::grpc_address(plan.role, &plan.settings) else { return Ok(None) };
    let settings = tenure_service::Settings { listen: address, ..service.clone() };
    let server =
        Server::bind(&settings).await.map_err(|error| Failure::unavailable(describe_error(&error)))?;
    let endpoint = match &plan.settings.grpc_advertise {
        Some(given) if given.contains("://") => given.clone(),
        Some(given) if service.tls.is_some() => format!("https://{given}"),
        Some(given) => format!("http://{given}"),
        None => server.url(),
    };
    Ok(Some((server, endpoint)))
}

impl Builder<'_> {
    /// Runs a task until the shutdown.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    fn endpoint(&self, address: SocketAddr) -> Result<Endpoint> {
        let settings = &self.plan.settings;
        let own = settings::ports(self.plan.role).2;
        let address = match settings.webtransport_bind {
            Some(given) => given,
            None if self.plan.role == Role::All => address,
            None => SocketAddr::new(address.ip(), own),
        };
        let host = settings.webtransport_advertise.as_deref().and_then(|given| given.rsplit_once(':'));
        let host = host.map_or_else(|| advertised_host(address), |(host, _)| host.to_owned());
        let files = settings.tls.clone();
        let files =
            files.or_else(|| self.service.tls.as_ref().map(|tls| (tls.cert.clone(), tls.key.clone())));
        Endpoint::open(Opening {
            address,
            any_port: self.service.listen.port() == 0,
            host,
            files,
            data_dir: &self.service.data_dir,
            clock: self.clock.clone(),
            timing: Timing { idle: settings.idle, keep_alive: settings.idle / 4 },
            congestion: settings.congestion,
        })
    }

    /// The URL `https://HOST:PORT` for clients.
    fn public_url(&self, endpoint: &Endpoint) -> Result<String> {
        let address = endpoint.address()?;
        if address.ip().is_unspecified() && self.plan.settings.webtransport_advertise.is_none() {
            tracing::warn!(
                "meet.webtransport_advertise_address is not set: clients on other machines get a loopback address"
            );
        }
        let own = || format!("{}:{}", advertised_host(address), address.port());
        Ok(format!("https://{}", self.plan.settings.webtransport_advertise.clone().unwrap_or_else(own)))
    }

    /// The origins of pages that may open sessions: those of this server, of the authority's address and, on a shared
    /// store, of every global controller.
    fn follow_origins(&self, process: &Process) -> AllowedOrigins {
        let pages =
            self.plan.settings.ac_endpoint.as_deref().and_then(|url| url.parse::<axum::http::Uri>().ok());
        let pages = pages.and_then(|uri| Some(format!("{}://{}", uri.scheme_str()?, uri.authority()?)));
        let own: Vec<String> = process.auth.origins().into_iter().chain(pages).collect();
        let allowed = AllowedOrigins::new(own.clone());
        match self.plan.shared {
            true => self.spawn(origins::follow(self.store.clone(), own, allowed.clone())),
            false => self.spawn(origins::watch_refused(self.clock.clone(), allowed.clone())),
        }
        allowed
    }

    /// Serves a part's gRPC in this process and on the listener; returns its endpoint.
    fn serve_grpc(&mut self, name: &str, services: &[&str], routes: Routes) -> String {
        let here = self.channels.offer(name, routes.clone());
        match &self.grpc {
            None => here,
            Some((_, endpoint)) => {
                let endpoint = endpoint.clone();
                let mut grpc_routes = std::mem::take(&mut self.grpc_routes);
                for service in services {
                    let path = format!("/tenure.meet.internal.v1.{service}/{{*method}}");
                    grpc_routes = grpc_routes.route_service(&path, routes.clone());
                }
                self.grpc_routes = grpc_routes;
                endpoint
            }
        }
    }

    fn start_global_controller(
        &mut self,
        process: &Process,
    ) -> Option<(tenure_meet_gc::Gc, tenure_meet_gc::Running)> {
        let authority = self.authority.clone()?;
        let settings = &self.plan.settings;
        let id = format!("gc-{}", identity::random_secret(6));
        if self.plan.shared {
            self.spawn(origins::publish(self.store.clone(), id.clone(), process.auth.origins()));
        }
        let (gc, running) = tenure_meet_gc::Gc::start(tenure_meet_gc::Options {
            id,
            store: self.store.clone(),
            entropy: Arc::new(OsEntropy),
            signer: Arc::new(AuthoritySigner(authority)),
            keys: self.keyring.clone(),
            channels: self.channels.clone(),
            rules: tenure_meet_gc::Rules {
                region: settings.region.clone(),
                ..tenure_meet_gc::Rules::default()
            },
        });
        self.serve_grpc(
            GC_NAME,
            &["GlobalControllerService", "MediaHandlerRegistryService"],
            tenure_meet_gc::grpc(&gc),
        );
        Some((gc, running))
    }

    /// GC's endpoint.
    fn gc_endpoint(&self) -> String {
        match self.plan.role {
            Role::All | Role::Gc => format!("inproc:{GC_NAME}"),
            Role::Mc | Role::Mh => self.plan.settings.gc_grpc_url.clone(),
        }
    }

    /// Connections that authenticate as a part of this process.
    fn channels_for(&self, client_id: &str, secret: &str) -> ChannelPool {
        match &self.authority {
            Some(authority) => {
                self.channels.with_tokens(identity::local_tokens(authority, client_id, secret, &self.clock))
            }
            None => self.channels.clone(),
        }
    }

    fn listing(&self, endpoint: &Endpoint, grpc_endpoint: String, url: String) -> Listing {
        Listing {
            region: self.plan.settings.region.clone(),
            zone: self.plan.settings.zone.clone(),
            grpc_endpoint,
            webtransport_endpoint: url,
            certificates: endpoint.hashes(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn keeper(&self, id: &str) -> Result<Keeper> {
        Ok(Keeper::new(self.store.clone(), Holder::new(id).map_err(failed)?))
    }

    /// Lets a node that restarts on the same machine under the same id register at once. Where leases end with their
    /// process no proof is needed.
    fn process_proof(&self) -> Option<ProcessProof> {
        let me = ProcessIdentity::of_this_process().filter(|_| self.store.capabilities().proof_of_death)?;
        let process = me.to_string();
        let is_dead =
            move |text: &str| ProcessIdentity::parse(text).is_some_and(|other| me.finds_dead(&other));
        Some(ProcessProof { process, is_dead: Arc::new(is_dead) })
    }

    fn terms(&self) -> Terms {
        let settings = &self.plan.settings;
        Terms::new(settings.lease_ttl).heartbeat(settings.lease_renew)
    }

    async fn start_controller(
        &mut self,
        endpoint: &Endpoint,
        paths: &mut Paths,
        public: &str,
    ) -> Result<(Controller, Running, watch::Receiver<RegistrationState>)> {
        let settings = self.plan.settings.clone();
        let id = identity::node_id(ServiceRole::Mc, &settings, self.plan.role);
        let keeper = self.keeper(&id)?;
        let terms = self.terms();
        keeper.check(&terms).map_err(|error| Failure::usage(format!("meet.lease_ttl_ms: {error}")))?;
        let grpc_endpoint = match &self.grpc {
            Some((_, endpoint)) => endpoint.clone(),
            None => format!("inproc:{id}"),
        };
        let peers = Peers {
            channels: self.channels_for(MC_CLIENT, &self.secrets.mc_client),
            clock: self.clock.clone(),
            mc_id: id.clone(),
            grpc_endpoint: grpc_endpoint.clone(),
            region: settings.region.clone(),
            gc_endpoint: self.gc_endpoint(),
        };
        let shared = ControllerState {
            store: self.store.clone(),
            breaker: Arc::default(),
            mc_id: id.clone(),
            latency: Arc::default(),
        };
        let (controller, running) = Controller::start(Options {
            shared,
            keeper: keeper.clone(),
            lease_ttl: settings.lease_ttl,
            lease_renew: settings.lease_renew,
            max_meetings: settings.max_meetings,
            max_participants: settings.max_participants,
            secrets: identity::binding_secrets(
                &self.secrets.binding,
                settings.secrets.binding_previous.as_deref(),
            )?,
            keyring: self.keyring.clone(),
            entropy: Arc::new(OsEntropy),
            media_handlers: Arc::new(peers.clone()),
            global_controller: Arc::new(peers.clone()),
            controllers: Arc::new(peers.clone()),
            join_limit: settings.join_rate,
            request_limit: settings.request_rate,
        });
        let times = SeatTimeouts { grace: settings.grace, binding_ttl: settings.binding_ttl };
        let routes = tenure_meet_mc::grpc(&controller, self.keyring.clone(), times, HandlerLoads::default());
        self.serve_grpc(&id, &CONTROLLER_SERVICES, routes);
        let listing = self.listing(endpoint, grpc_endpoint, format!("{public}{}", tenure_meet_mc::PATH));
        let usage = self.usage.clone();
        let member =
            tenure_meet_mc::ControllerRegistration { controller: controller.clone(), peers, listing, usage };
        let node = Node::new(Kind::Controller, keeper, &id, terms, Arc::new(member)).map_err(failed)?;
        let node = node.proving(self.process_proof());
        let registration = node.registration_state();
        self.tasks.spawn(node.run(self.stop.clone()));
        let room = AcceptLimits {
            connections: settings.max_connections,
            pending: settings.max_waiting,
            pending_per_address: settings.max_waiting_per_address,
        };
        let front = tenure_meet_mc::SessionAcceptor::new(controller.clone(), self.clock.clone(), room);
        let way = Arc::new(paths.way(tenure_meet_mc::PATH));
        self.tasks.spawn(front.serve(way, self.acceptors.clone()));
        self.forget_previous_secret(controller.clone());
        Ok((controller, running, registration))
    }

    /// Forgets the previous binding secret when its time is over.
    fn forget_previous_secret(&self, controller: Controller) {
        let clock = self.clock.clone();
        self.spawn(async move {
            clock.sleep_until(clock.now() + PREVIOUS_SECRET).await;
            controller.forget_previous_secret();
        });
    }

    async fn start_handler(
        &mut self,
        endpoint: &Endpoint,
        paths: &mut Paths,
        public: &str,
    ) -> Result<watch::Receiver<RegistrationState>> {
        let settings = self.plan.settings.clone();
        let id = identity::node_id(ServiceRole::Mh, &settings, self.plan.role);
        let handler = MediaHandler::new(tenure_meet_mh::Options {
            id: id.clone(),
            max_streams: settings.max_streams,
            refuse: settings.refuse,
            keyring: self.keyring.clone(),
            channels: self.channels_for(MH_CLIENT, &self.secrets.mh_client),
            clock: self.clock.clone(),
            usage: self.usage.clone(),
            cache_bytes: usage::memory_limit().map_or(CACHE_BYTES, |limit| (limit / 4) as usize),
            bandwidth: settings.mh_bandwidth,
            relays: Some(Arc::new(self.relay_dialer(endpoint)?)),
        });
        let grpc_endpoint = self.serve_grpc(&id, &["MediaHandlerService"], tenure_meet_mh::grpc(&handler));
        let listing = self.listing(endpoint, grpc_endpoint, format!("{public}{}", tenure_meet_mh::PATH));
        let member = tenure_meet_mh::HandlerRegistration {
            handler: handler.clone(),
            listing,
            gc_endpoint: self.gc_endpoint(),
        };
        let keeper = self.keeper(&id)?;
        let node = Node::new(Kind::Handler, keeper, &id, self.terms(), Arc::new(member)).map_err(failed)?;
        let node = node.proving(self.process_proof());
        let registration = node.registration_state();
        self.tasks.spawn(node.run(self.stop.clone()));
        self.tasks.spawn(tenure_meet_mh::LoadReporter::new(handler.clone()).run(self.stop.clone()));
        let relays = Arc::new(paths.way(RELAY));
        self.tasks
            .spawn(tenure_meet_mh::RelayAcceptor::new(handler.clone()).serve(relays, self.acceptors.clone()));
        let way = Arc::new(paths.way(tenure_meet_mh::PATH));
        self.tasks.spawn(tenure_meet_mh::SessionAcceptor::new(handler).serve(way, self.acceptors.clone()));
        Ok(registration)
    }

    /// Connects to other handlers. Those without a pinned certificate must have one of an authority that this machine
    /// trusts.
    fn relay_dialer(&self, endpoint: &Endpoint) -> Result<Dialer> {
        let any: IpAddr = match endpoint.address()? {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let idle = self.plan.settings.idle;
        let dialer = Dialer::new(SocketAddr::new(any, 0), Timing { idle, keep_alive: idle / 4 });
        Ok(dialer.map_err(failed)?.trusting(rustls_native_certs::load_native_certs().certs))
    }

    /// The HTTP routes and their description.
    fn routes(&self, gc: Option<&tenure_meet_gc::Gc>) -> (Router, Option<utoipa::openapi::OpenApi>) {
        let mut router = Router::new();
        if let Some(authority) = &self.authority {
            router = router.merge(tenure_meet_ac::routes(authority.clone()));
        }
        match gc.map(tenure_meet_gc::routes) {
            Some((routes, openapi)) => (router.merge(routes), Some(openapi)),
            None => (router, None),
        }
    }
}

/// The advertised host: an address, never a name with several addresses.
fn advertised_host(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) => format!("[{ip}]"),
        ip => ip.to_string(),
    }
}
