//! Putting the parts together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use lease::{Clock, Holder, Store};
use lease_keeper::{Keeper, OsEntropy, Terms};
use meet_ac::Authority;
use meet_mc::actor::{Controller, Options, Running};
use meet_mc::{Desk, Loads, Peers, Room, Times};
use meet_mh::Handler;
use meet_rpc::node::{Listing, Node, Standing};
use meet_rpc::{Keyring, Kind, Lines, Part};
use meet_wire::transport::Paths;
use meet_wire::transport::quic::Timing;
use service::{Server, Shutdown};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::condition::Condition;
use super::endpoint::{Endpoint, Opening};
use super::identity::{self, ClientSecrets, GC_CLIENT, MC_CLIENT, MH_CLIENT, Signs, failed};
use super::settings;
use super::{Ended, Meetings, Plan, Role, vitals};
use crate::cli::{Failure, Result};
use crate::up::words;

const GC_NAME: &str = "gc";
/// How long the binding secret of before is taken after a start.
const PREVIOUS: Duration = Duration::from_secs(3_600);

/// What all parts of this process share.
struct House<'a> {
    plan: &'a Plan,
    service: &'a service::Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    authority: Option<Arc<Authority>>,
    secrets: ClientSecrets,
    keyring: Keyring,
    lines: Lines,
    vitals: Arc<dyn Fn() -> (u32, u32) + Send + Sync>,
    tasks: TaskTracker,
    stop: CancellationToken,
    fronts: CancellationToken,
    /// Where other parts reach this process; none inside it.
    grpc: Option<(Server, String)>,
    /// What is offered there.
    offered: Router,
}

pub(super) async fn start(
    plan: Plan,
    store: Arc<dyn Store>,
    service: &service::Settings,
    address: SocketAddr,
    shutdown: &Shutdown,
) -> Result<Meetings> {
    let mut house = open(&plan, service, store.clone()).await?;
    let endpoint = if plan.role.has_mc() || plan.role.has_mh() {
        Some(Arc::new(house.endpoint(address)?))
    } else {
        None
    };
    let public = endpoint.as_ref().map(|endpoint| house.public(endpoint)).transpose()?;
    let mut paths = endpoint.as_ref().map(|endpoint| Paths::new(endpoint.listener.clone()));
    let gc = house.global();
    let mut controller = None;
    let mut standing = None;
    if let (Some(endpoint), Some(paths), Some(public)) = (&endpoint, &mut paths, &public) {
        if plan.role.has_mc() {
            let (started, running, stands) = house.controller(endpoint, paths, public).await?;
            controller = Some((started, running));
            standing = Some(stands);
        }
        if plan.role.has_mh() {
            let stands = house.handler(endpoint, paths, public).await?;
            standing = standing.or(Some(stands));
        }
    }
    if let (Some(endpoint), Some(paths)) = (&endpoint, paths) {
        house.spawn(paths.run());
        let endpoint = endpoint.clone();
        house.spawn(async move { endpoint.keep_fresh().await });
    }
    let condition =
        Condition::new(store, controller.as_ref().map(|(controller, _)| controller.clone()), standing);
    let watched = condition.clone();
    house.spawn(async move { watched.watch().await });
    let (routes, openapi) = house.routes(gc.as_ref().map(|(gc, _)| gc));
    let House { tasks, stop, fronts, grpc, offered, .. } = house;
    let (server, grpc) = grpc.unzip();
    if let Some(server) = server {
        let shutdown = shutdown.clone();
        tasks.spawn(async move {
            if let Err(error) = server.run(offered, shutdown).await {
                tracing::error!(error = words(&error), "the gRPC listener of meetings ended");
            }
        });
    }
    let running = Ended { controller, endpoint, gc: gc.map(|(_, running)| running), fronts };
    let (role, drain) = (plan.role, plan.settings.drain);
    Ok(Meetings { role, condition, routes, openapi, public, grpc, running, tasks, stop, drain })
}

async fn open<'a>(
    plan: &'a Plan,
    service: &'a service::Settings,
    store: Arc<dyn Store>,
) -> Result<House<'a>> {
    service::install_crypto();
    let clock = store.clock();
    let secrets = ClientSecrets::read(plan, &service.data_dir)?;
    let authority = match plan.role.has_gc() {
        true => Some(identity::authority(plan, service, &store, &secrets).await?),
        false => None,
    };
    let (keyring, tokens) = match (&authority, plan.role) {
        (Some(authority), _) => {
            let signs = authority.clone();
            let keyring = Keyring::here(clock.clone(), move || signs.checker());
            (keyring, identity::minted(authority, GC_CLIENT, &secrets.gc, &clock))
        }
        (None, role) => {
            let part = if role == Role::Mc { Part::Mc } else { Part::Mh };
            let insecure = service.insecure_http;
            let tokens = identity::fetched(part, &plan.settings, insecure, &clock).await?;
            (identity::published(&plan.settings, insecure, &clock)?, tokens)
        }
    };
    let grpc = listen(plan, service).await?;
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    let house = House {
        plan,
        service,
        vitals: vitals::meter(clock.clone()),
        store,
        keyring,
        lines: Lines::new(tokens, clock.clone(), None),
        clock,
        secrets,
        fronts: CancellationToken::new(),
        tasks,
        stop,
        authority,
        grpc,
        offered: Router::new(),
    };
    if let Some(authority) = house.authority.clone() {
        house.spawn(async move { authority.keep_turning().await });
    }
    Ok(house)
}

/// The listener for other parts: always when a part runs alone, otherwise only if it is asked for.
async fn listen(plan: &Plan, service: &service::Settings) -> Result<Option<(Server, String)>> {
    let own = SocketAddr::from(([127, 0, 0, 1], settings::ports(plan.role).1));
    let address = match (plan.settings.grpc_bind, plan.role) {
        (Some(address), _) => address,
        (None, Role::All) => return Ok(None),
        (None, _) => own,
    };
    if !address.ip().is_loopback() && service.tls.is_none() && !service.insecure_http {
        let words = format!(
            "meet.grpc_bind_address: {address} is open to other machines, and without TLS they would send their tokens readable by anyone"
        );
        return Err(Failure::usage(words)
            .hint("give [tls] cert and key, or set insecure_http = true if the network is trusted"));
    }
    let settings = service::Settings { listen: address, ..service.clone() };
    let server = Server::bind(&settings).await.map_err(|error| Failure::unavailable(words(&error)))?;
    let endpoint = match &plan.settings.grpc_advertise {
        Some(given) if given.contains("://") => given.clone(),
        Some(given) if service.tls.is_some() => format!("https://{given}"),
        Some(given) => format!("http://{given}"),
        None => server.url(),
    };
    Ok(Some((server, endpoint)))
}

impl House<'_> {
    /// Runs until the end.
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
        let host = host.map_or_else(|| shown(address), |(host, _)| host.to_owned());
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
        })
    }

    /// `https://HOST:PORT` where clients reach this process.
    fn public(&self, endpoint: &Endpoint) -> Result<String> {
        let address = endpoint.address()?;
        if address.ip().is_unspecified() && self.plan.settings.webtransport_advertise.is_none() {
            tracing::warn!(
                "meet.webtransport_advertise_address is not set: clients on other machines are told an address of this one"
            );
        }
        let own = || format!("{}:{}", shown(address), address.port());
        Ok(format!("https://{}", self.plan.settings.webtransport_advertise.clone().unwrap_or_else(own)))
    }

    /// Offers the services of a part, in this process and on the listener; and says where others call it.
    fn offer(&mut self, name: &str, services: &[&str], routes: Routes) -> String {
        let here = self.lines.offer(name, routes.clone());
        match &self.grpc {
            None => here,
            Some((_, endpoint)) => {
                let endpoint = endpoint.clone();
                let mut offered = std::mem::take(&mut self.offered);
                for service in services {
                    let path = format!("/tenure.meet.internal.v1.{service}/{{*method}}");
                    offered = offered.route_service(&path, routes.clone());
                }
                self.offered = offered;
                endpoint
            }
        }
    }

    fn global(&mut self) -> Option<(meet_gc::Gc, meet_gc::Running)> {
        let authority = self.authority.clone()?;
        let settings = &self.plan.settings;
        let (gc, running) = meet_gc::Gc::start(meet_gc::Options {
            id: format!("gc-{}", identity::fresh(6)),
            store: self.store.clone(),
            entropy: Arc::new(OsEntropy),
            signer: Arc::new(Signs(authority)),
            keys: self.keyring.clone(),
            lines: self.lines.clone(),
            rules: meet_gc::Rules { region: settings.region.clone(), ..meet_gc::Rules::default() },
        });
        self.offer(GC_NAME, &["GlobalControllerService", "MediaHandlerRegistryService"], meet_gc::grpc(&gc));
        Some((gc, running))
    }

    /// Where GC is.
    fn gc_endpoint(&self) -> String {
        match self.plan.role {
            Role::All | Role::Gc => format!("inproc:{GC_NAME}"),
            Role::Mc | Role::Mh => self.plan.settings.gc_grpc_url.clone(),
        }
    }

    /// The lines of a part of this process.
    fn lines_of(&self, client_id: &str, secret: &str) -> Lines {
        match &self.authority {
            Some(authority) => {
                self.lines.speaking_as(identity::minted(authority, client_id, secret, &self.clock))
            }
            None => self.lines.clone(),
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

    fn terms(&self) -> Terms {
        let settings = &self.plan.settings;
        Terms::new(settings.lease_ttl).heartbeat(settings.lease_renew)
    }

    async fn controller(
        &mut self,
        endpoint: &Endpoint,
        paths: &mut Paths,
        public: &str,
    ) -> Result<(Controller, Running, watch::Receiver<Standing>)> {
        let settings = self.plan.settings.clone();
        let id = identity::name(Part::Mc, &settings, self.plan.role);
        let keeper = self.keeper(&id)?;
        let terms = self.terms();
        keeper.check(&terms).map_err(|error| Failure::usage(format!("meet.lease_ttl_ms: {error}")))?;
        let grpc_endpoint = match &self.grpc {
            Some((_, endpoint)) => endpoint.clone(),
            None => format!("inproc:{id}"),
        };
        let peers = Peers {
            lines: self.lines_of(MC_CLIENT, &self.secrets.mc),
            clock: self.clock.clone(),
            mc_id: id.clone(),
            grpc_endpoint: grpc_endpoint.clone(),
            region: settings.region.clone(),
            gc_endpoint: self.gc_endpoint(),
        };
        let desk = Desk {
            store: self.store.clone(),
            breaker: Arc::default(),
            mc_id: id.clone(),
            pulse: Arc::default(),
        };
        let (controller, running) = Controller::start(Options {
            desk,
            keeper: keeper.clone(),
            lease_ttl: settings.lease_ttl,
            lease_renew: settings.lease_renew,
            max_meetings: settings.max_meetings,
            max_participants: settings.max_participants,
            secrets: identity::binding(self.plan, &self.service.data_dir)?,
            keyring: self.keyring.clone(),
            entropy: Arc::new(OsEntropy),
            port: Arc::new(peers.clone()),
            home: Arc::new(peers.clone()),
            join_rate: settings.join_rate,
            talk_rate: settings.chat_rate,
        });
        let times = Times { grace: settings.grace, binding_ttl: settings.binding_ttl };
        let routes = meet_mc::grpc(&controller, self.keyring.clone(), times, Loads::default());
        self.offer(&id, &["MeetingControllerService", "MediaCoordinationService"], routes);
        let listing = self.listing(endpoint, grpc_endpoint, format!("{public}{}", meet_mc::PATH));
        let vitals = self.vitals.clone();
        let member = meet_mc::Attendance { controller: controller.clone(), peers, listing, vitals };
        let node = Node::new(Kind::Controller, keeper, &id, terms, Arc::new(member)).map_err(failed)?;
        let standing = node.standing();
        self.tasks.spawn(node.run(self.stop.clone()));
        let room = Room { connections: settings.max_connections, waiting: settings.max_waiting };
        let front = meet_mc::Front::new(controller.clone(), self.clock.clone(), room);
        let way = Arc::new(paths.way(meet_mc::PATH));
        self.tasks.spawn(front.serve(way, self.fronts.clone()));
        let (forgets, clock) = (controller.clone(), self.clock.clone());
        self.spawn(async move {
            clock.sleep_until(clock.now() + PREVIOUS).await;
            forgets.forget_previous_secret();
        });
        Ok((controller, running, standing))
    }

    async fn handler(
        &mut self,
        endpoint: &Endpoint,
        paths: &mut Paths,
        public: &str,
    ) -> Result<watch::Receiver<Standing>> {
        let settings = self.plan.settings.clone();
        let id = identity::name(Part::Mh, &settings, self.plan.role);
        let handler = Handler::new(meet_mh::Options {
            id: id.clone(),
            max_streams: settings.max_streams,
            refuse: settings.refuse,
            keyring: self.keyring.clone(),
            lines: self.lines_of(MH_CLIENT, &self.secrets.mh),
            clock: self.clock.clone(),
            vitals: self.vitals.clone(),
        });
        let grpc_endpoint = self.offer(&id, &["MediaHandlerService"], meet_mh::grpc(&handler));
        let listing = self.listing(endpoint, grpc_endpoint, format!("{public}{}", meet_mh::PATH));
        let member =
            meet_mh::Attendance { handler: handler.clone(), listing, gc_endpoint: self.gc_endpoint() };
        let keeper = self.keeper(&id)?;
        let node = Node::new(Kind::Handler, keeper, &id, self.terms(), Arc::new(member)).map_err(failed)?;
        let standing = node.standing();
        self.tasks.spawn(node.run(self.stop.clone()));
        let way = Arc::new(paths.way(meet_mh::PATH));
        self.tasks.spawn(meet_mh::Front::new(handler).serve(way, self.fronts.clone()));
        Ok(standing)
    }

    /// What people and programs ask over HTTP.
    fn routes(&self, gc: Option<&meet_gc::Gc>) -> (Router, Option<utoipa::openapi::OpenApi>) {
        let mut router = Router::new();
        if let Some(authority) = &self.authority {
            router = router.merge(meet_ac::routes(authority.clone()));
        }
        match gc.map(meet_gc::routes) {
            Some((routes, openapi)) => (router.merge(routes), Some(openapi)),
            None => (router, None),
        }
    }
}

/// The host that clients are told: never a name that stands for several addresses.
fn shown(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        ip => ip.to_string(),
    }
}
