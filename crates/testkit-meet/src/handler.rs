//! Real media handlers for tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tenure_lease::{Clock, Store};
use tenure_meet_mc::Peers;
use tenure_meet_mc::meeting::HandlerInfo;
use tenure_meet_mh::{MediaHandler, Options, RefuseMeetings, SessionAcceptor};
use tenure_meet_rpc::{Channel, ChannelPool, Keyring, MintedTokens, ServiceRole, TokenError, TokenSource};
use tenure_meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tenure_meet_wire::jwt::{Checker, Jwks, KeySet, Kind, ServiceClaims, ServiceType, sign};
use tenure_meet_wire::transport::certificate::Pair;
use tenure_meet_wire::transport::quic::{self, Timing};
use tenure_meet_wire::transport::{Listener, memory};
use tenure_store::BootClock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::meeting::signing_key;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const TOKEN_LIFE: Duration = Duration::from_secs(3_600);
const MAX_STREAMS: u32 = 10_000;
const CACHE: usize = 64 * 1024 * 1024;
const BANDWIDTH: u64 = 1_000_000_000;

fn tokens(clock: &Arc<dyn Clock>, service_type: ServiceType) -> Result<Arc<dyn TokenSource>> {
    let (wall, key) = (clock.clone(), signing_key()?);
    Ok(MintedTokens::new(clock.clone(), move || {
        let iat = wall.wall().as_micros() / 1_000_000;
        let scope = [ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh].map(ServiceRole::scope).join(" ");
        let claims = ServiceClaims {
            sub: "test".to_owned(),
            token_type: Kind::Service,
            scope,
            service_type,
            iat,
            exp: iat + TOKEN_LIFE.as_secs(),
            jti: "j".to_owned(),
        };
        let token = sign(&key, &claims).map_err(|error| TokenError::Unavailable(format!("{error:?}")))?;
        Ok((token, TOKEN_LIFE))
    }))
}

/// The handlers of a test meeting and the channels to them.
pub struct TestHandlers {
    channels: ChannelPool,
    clock: Arc<dyn Clock>,
    handlers: Vec<TestHandler>,
}

/// One handler.
pub struct TestHandler {
    /// How the controller names it.
    pub info: HandlerInfo,
    /// Opens in-memory sessions with it; absent over QUIC.
    pub dialer: Option<memory::Dialer>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl TestHandlers {
    /// No handlers yet, on the clock of this store.
    pub fn new(store: &Arc<dyn Store>) -> Result<Self> {
        let clock = store.clock();
        let channels = ChannelPool::new(tokens(&clock, ServiceType::MeetingController)?, clock.clone(), None);
        Ok(Self { channels, clock, handlers: Vec::new() })
    }

    /// Adds a handler that is reached in memory at `https://ID/wt/mh`.
    pub fn add_in_memory(&mut self, id: &str) -> Result<()> {
        let (listener, dialer) = memory::listener();
        self.add(id, format!("https://{id}/wt/mh"), Vec::new(), listener, Some(dialer))
    }

    /// Adds a handler that is reached over QUIC on loopback. Clients dial the address that `route` returns for its own.
    pub fn add_on_loopback(
        &mut self,
        id: &str,
        timing: Timing,
        route: impl FnOnce(SocketAddr) -> Result<SocketAddr>,
    ) -> Result<()> {
        let pair = Pair::new(&["127.0.0.1".to_owned()], BootClock.wall())?;
        let (der, key) = (pair.current().der()?, pair.current().private_key()?);
        let listener = quic::Listener::bind(ANY, vec![der], key, Arc::new(BootClock), timing)?;
        let url = format!("https://{}/wt/mh", route(listener.address()?)?);
        let hashes = pair.hashes()?.iter().map(|hash| hash.to_vec()).collect();
        self.add(id, url, hashes, listener, None)
    }

    fn add(
        &mut self,
        id: &str,
        url: String,
        certificates: Vec<Vec<u8>>,
        listener: impl Listener,
        dialer: Option<memory::Dialer>,
    ) -> Result<()> {
        let public = signing_key()?.public();
        let keyring = Keyring::local(self.clock.clone(), move || {
            Checker::new(KeySet::from(&Jwks { keys: vec![public.clone()] }))
        });
        let own = self.channels.with_tokens(tokens(&self.clock, ServiceType::MediaHandler)?);
        let handler = MediaHandler::new(Options {
            id: id.to_owned(),
            max_streams: MAX_STREAMS,
            refuse: RefuseMeetings::Nothing,
            keyring,
            channels: own,
            clock: self.clock.clone(),
            usage: Arc::new(|| (0, 0)),
            cache_bytes: CACHE,
            bandwidth: BANDWIDTH,
            relays: None,
        });
        self.channels.offer(id, tenure_meet_mh::grpc(&handler));
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(SessionAcceptor::new(handler).serve(Arc::new(listener), stop.clone()));
        let info = HandlerInfo {
            id: id.to_owned(),
            webtransport_endpoint: url,
            grpc_endpoint: format!("inproc:{id}"),
            primary: self.handlers.is_empty(),
            certificates,
        };
        self.handlers.push(TestHandler { info, dialer, stop, tasks });
        Ok(())
    }

    /// All handlers; the first one is the primary.
    pub fn list(&self) -> &[TestHandler] {
        &self.handlers
    }

    /// Calls these handlers on behalf of a controller.
    pub(crate) fn peers(&self, mc_id: &str) -> Peers {
        Peers {
            channels: self.channels.clone(),
            clock: self.clock.clone(),
            mc_id: mc_id.to_owned(),
            grpc_endpoint: format!("inproc:{mc_id}"),
            region: "here".to_owned(),
            gc_endpoint: "inproc:gc".to_owned(),
        }
    }

    /// Calls a handler as a controller does.
    pub fn client(&self, id: &str) -> Result<MediaHandlerServiceClient<Channel>> {
        Ok(MediaHandlerServiceClient::new(self.channels.to(&self.find(id)?.info.grpc_endpoint)?))
    }

    /// Drains a handler as SIGTERM does: clients are asked to move, then it ends.
    pub fn drain(&self, id: &str) -> Result<()> {
        self.find(id)?.stop.cancel();
        Ok(())
    }

    /// Accepts no more sessions at a handler. Open ones stay.
    pub fn stop_listening(&mut self, id: &str) -> Result<()> {
        let handler = self.handlers.iter_mut().find(|handler| handler.info.id == id);
        handler.context("unknown handler")?.tasks.abort_all();
        Ok(())
    }

    fn find(&self, id: &str) -> Result<&TestHandler> {
        self.handlers.iter().find(|it| it.info.id == id).ok_or_else(|| anyhow!("unknown handler {id}"))
    }
}
