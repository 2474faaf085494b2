//! The processes of the roles: the global controller, the meeting controllers and a media handler, as they are.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_keeper::{Keeper, Terms};
use tenure_lease::{Capabilities, Clock, Entropy, Holder, Result, Store, Ttl};
use tenure_meet_mc::actor::{Controller, Options};
use tenure_meet_mc::{
    AcceptLimits, ControllerRegistration, ControllerState, HandlerLoads, Peers, RateLimit, SeatTimeouts,
    SessionAcceptor,
};
use tenure_meet_mh::{HandlerRegistration, MediaHandler, RefuseMeetings};
use tenure_meet_rpc::node::{Listing, Node};
use tenure_meet_rpc::{ChannelPool, Kind, ServiceRole};
use tenure_meet_wire::binding::{MasterSecret, Secrets};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::call::{Service, listener};
use super::tokens::{self, MeetingSigner, ServiceTokens};
use super::world::{Life, World};
use crate::rng::Rng;
use crate::simulation::clock::HostClock;
use crate::simulation::stub::Stub;
use crate::work::SimEntropy;

/// The REST API of the global controller.
pub(super) const API: &str = "api";
/// Its gRPC services.
pub(super) const GC: &str = "gc";
/// The TTL of leases, and how often they are renewed.
pub(super) const TTL: Duration = Duration::from_secs(6);
const RENEW: Duration = Duration::from_secs(2);
/// How long the seat of a disconnected participant is kept.
pub(super) const GRACE: Duration = Duration::from_secs(15);
/// More than any run uses.
const PLENTY: usize = 1_000;
const UNLIMITED: RateLimit = RateLimit { burst: 10_000, per_second: 10_000 };

/// The URL of a node, and the name in it.
pub(super) fn url(name: &str) -> String {
    format!("https://{name}.sim{}", tenure_meet_mc::PATH)
}

pub(super) fn name_of(url: &str) -> Option<&str> {
    Some(url.strip_prefix("https://")?.split_once(".sim")?.0)
}

/// What a process of any role starts with.
pub(super) struct Start {
    pub(super) world: Arc<World>,
    pub(super) life: Life,
    pub(super) clock: HostClock,
    pub(super) rng: Rng,
}

/// What a running process keeps until it ends.
pub(super) type Kept = Box<dyn Any>;

impl Start {
    pub(super) fn entropy(&mut self) -> Arc<dyn Entropy> {
        Arc::new(SimEntropy(Mutex::new(self.rng.fork())))
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(Stub {
            simulation: self.world.simulation.clone(),
            host: self.life.host,
            client: self.life.number,
            clock: self.clock.clone(),
            capabilities: Capabilities::in_process("sim"),
        })
    }

    /// Connections to all other nodes, with the tokens of a role.
    fn channels(&self, role: ServiceRole) -> ChannelPool {
        let tokens = ServiceTokens::new(role, self.clock.wall());
        let channels = ChannelPool::new(tokens, self.clock(), None);
        for name in self.world.addresses.keys() {
            channels.offer(name, Routes::from(self.world.forward(self.life, name)));
        }
        channels
    }

    fn keeper(&mut self, store: &Arc<dyn Store>, id: &str) -> Result<Keeper> {
        let keeper = Keeper::builder(store.clone(), Holder::new(id)?);
        Ok(keeper.entropy(self.entropy()).without_watchdog().build())
    }

    fn listing(&self, name: &str) -> Listing {
        Listing {
            region: String::new(),
            zone: String::new(),
            grpc_endpoint: format!("inproc:{name}"),
            webtransport_endpoint: url(name),
            certificates: watch::channel(Vec::new()).1,
            version: "sim".to_owned(),
        }
    }

    fn serve(&self, name: &str, service: Service) {
        self.world.services.lock().insert(name.to_owned(), service);
    }

    /// Starts the global controller.
    pub(super) fn global_controller(mut self) -> Result<Kept> {
        let store = self.store();
        let (gc, running) = tenure_meet_gc::Gc::start(tenure_meet_gc::Options {
            id: "gc-1".to_owned(),
            store,
            entropy: self.entropy(),
            signer: Arc::new(MeetingSigner(self.clock())),
            keys: tokens::keyring(self.clock()),
            channels: self.channels(ServiceRole::Gc),
            rules: tenure_meet_gc::Rules::default(),
        });
        let tasks = TaskTracker::new();
        let service = |routes| Service { life: self.life, routes, sessions: None, tasks: tasks.clone() };
        self.serve(API, service(Some(tenure_meet_gc::routes(&gc).0)));
        self.serve(GC, service(Some(tenure_meet_gc::grpc(&gc).into_axum_router())));
        Ok(Box::new((gc, running, tasks)))
    }

    /// Starts a meeting controller.
    pub(super) fn meeting_controller(mut self, name: &str) -> Result<Kept> {
        let store = self.store();
        let (keeper, channels) = (self.keeper(&store, name)?, self.channels(ServiceRole::Mc));
        let peers = Peers {
            channels,
            clock: self.clock(),
            mc_id: name.to_owned(),
            grpc_endpoint: format!("inproc:{name}"),
            region: String::new(),
            gc_endpoint: format!("inproc:{GC}"),
        };
        let ttl = Ttl::from_millis(TTL.as_millis() as u64)?;
        let secret = MasterSecret::new(vec![7; 32]);
        let secret = secret.map_err(|error| tenure_lease::Error::invalid("secret", error.to_string()))?;
        let keyring = tokens::keyring(self.clock());
        let (controller, running) = Controller::start(Options {
            shared: ControllerState {
                store,
                breaker: Arc::default(),
                mc_id: name.to_owned(),
                latency: Arc::default(),
            },
            keeper: keeper.clone(),
            lease_ttl: ttl,
            lease_renew: RENEW,
            max_meetings: PLENTY,
            max_participants: PLENTY,
            secrets: Secrets::new(secret),
            keyring: keyring.clone(),
            entropy: self.entropy(),
            media_handlers: Arc::new(peers.clone()),
            global_controller: Arc::new(peers.clone()),
            controllers: Arc::new(peers.clone()),
            join_limit: UNLIMITED,
            request_limit: UNLIMITED,
        });
        let timeouts = SeatTimeouts { grace: GRACE, binding_ttl: GRACE };
        let routes = tenure_meet_mc::grpc(&controller, keyring, timeouts, HandlerLoads::default());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let registration = ControllerRegistration {
            controller: controller.clone(),
            peers,
            listing: self.listing(name),
            usage: Arc::new(|| (0, 0)),
        };
        let terms = Terms::new(ttl).heartbeat(RENEW);
        let node = Node::new(Kind::Controller, keeper, name, terms, Arc::new(registration))?;
        tasks.spawn(node.run(stop.clone()));
        let (listener, sessions) = listener();
        let limits = AcceptLimits { connections: PLENTY, pending: PLENTY, pending_per_address: PLENTY };
        let acceptor = SessionAcceptor::new(controller.clone(), self.clock(), limits);
        tasks.spawn(acceptor.serve(Arc::new(listener), stop.clone()));
        let (routes, sessions) = (Some(routes.into_axum_router()), Some(sessions));
        self.serve(name, Service { life: self.life, routes, sessions, tasks: tasks.clone() });
        Ok(Box::new((controller, running, tasks, stop)))
    }

    /// Starts a media handler: its control side, without sessions.
    pub(super) fn media_handler(mut self, name: &str) -> Result<(MediaHandler, Kept)> {
        let store = self.store();
        let keeper = self.keeper(&store, name)?;
        let handler = MediaHandler::new(tenure_meet_mh::Options {
            id: name.to_owned(),
            max_streams: PLENTY as u32,
            refuse: RefuseMeetings::Nothing,
            keyring: tokens::keyring(self.clock()),
            channels: self.channels(ServiceRole::Mh),
            clock: self.clock(),
            usage: Arc::new(|| (0, 0)),
            cache_bytes: 1 << 20,
            bandwidth: 1_000_000_000,
            relays: None,
        });
        let routes = Some(tenure_meet_mh::grpc(&handler).into_axum_router());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let gc_endpoint = format!("inproc:{GC}");
        let registration =
            HandlerRegistration { handler: handler.clone(), listing: self.listing(name), gc_endpoint };
        let ttl = Ttl::from_millis(TTL.as_millis() as u64)?;
        let terms = Terms::new(ttl).heartbeat(RENEW);
        let node = Node::new(Kind::Handler, keeper, name, terms, Arc::new(registration))?;
        tasks.spawn(node.run(stop.clone()));
        self.serve(name, Service { life: self.life, routes, sessions: None, tasks: tasks.clone() });
        Ok((handler, Box::new((tasks, stop))))
    }
}
