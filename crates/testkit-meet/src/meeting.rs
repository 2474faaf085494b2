//! A controller with one meeting.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustls_pki_types::CertificateDer;
use tenure_keeper::{Keeper, OsEntropy};
use tenure_lease::{Holder, Store, Ttl};
use tenure_meet_client::Endpoint;
use tenure_meet_mc::actor::{
    Assigned, Assignment, Controller, Controllers, GlobalController, MediaHandlers, NoControllers,
    NoGlobalController, Options, Running, ScriptedHandlers,
};
use tenure_meet_mc::meeting::{HandlerInfo, Settings};
use tenure_meet_mc::{ControllerState, RateLimit};
use tenure_meet_rpc::Keyring;
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::binding::{MasterSecret, Secrets};
use tenure_meet_wire::jwt::{
    Checker, GuestClaims, Jwks, KeySet, Kind, MeetingClaims, ParticipantType, Role, SigningKey, sign,
};
use tenure_meet_wire::transport::certificate::Pair;
use tenure_meet_wire::transport::quic::{self, Timing};
use tenure_meet_wire::transport::{Listener, memory};
use tenure_store::BootClock;
use tokio::task::JoinSet;

use crate::LocalControllers;
use crate::handler::TestHandlers;

/// The id of the one meeting.
pub const MEETING: &str = "abc";

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The key that signs all tokens.
pub fn signing_key() -> Result<SigningKey> {
    SigningKey::from_seed(&[7; 32]).context("signing key")
}

/// Issues tokens for the meeting.
#[derive(Clone)]
pub struct TestTokens(pub(crate) Arc<dyn Store>);

impl TestTokens {
    /// A meeting token, valid for 15 minutes.
    pub fn token(&self, user: &str, role: Role) -> Result<String> {
        let now = self.0.clock().wall().as_micros() / 1_000_000;
        let claims = MeetingClaims {
            sub: user.to_owned(),
            token_type: Kind::Meeting,
            meeting_id: MEETING.to_owned(),
            home_org_id: None,
            meeting_org_id: String::new(),
            participant_type: ParticipantType::Member,
            role,
            capabilities: Vec::new(),
            iat: now,
            exp: now + 900,
            jti: "j".to_owned(),
        };
        sign(&signing_key()?, &claims).map_err(|error| anyhow!("{error:?}"))
    }

    /// A guest token, valid for 15 minutes.
    pub fn guest(&self, user: &str, name: &str) -> Result<String> {
        let now = self.0.clock().wall().as_micros() / 1_000_000;
        let claims = GuestClaims {
            sub: user.to_owned(),
            token_type: Kind::Guest,
            meeting_id: MEETING.to_owned(),
            participant_type: ParticipantType::Guest,
            role: Role::Guest,
            display_name: name.to_owned(),
            waiting_room: false,
            iat: now,
            exp: now + 900,
            jti: "j".to_owned(),
        };
        sign(&signing_key()?, &claims).map_err(|error| anyhow!("{error:?}"))
    }
}

fn keyring(store: &Arc<dyn Store>) -> Result<Keyring> {
    let public = signing_key()?.public();
    let checker = move || Checker::new(KeySet::from(&Jwks { keys: vec![public.clone()] }));
    Ok(Keyring::local(store.clock(), checker))
}

/// A rate limit that no test reaches.
const UNLIMITED: RateLimit = RateLimit { burst: 10_000, per_second: 10_000 };

/// What a controller calls.
struct Surroundings {
    media_handlers: Arc<dyn MediaHandlers>,
    global_controller: Arc<dyn GlobalController>,
    controllers: Arc<dyn Controllers>,
}

impl Surroundings {
    fn alone(media_handlers: Arc<dyn MediaHandlers>) -> Self {
        Self {
            media_handlers,
            global_controller: Arc::new(NoGlobalController),
            controllers: Arc::new(NoControllers),
        }
    }
}

/// A controller with one meeting, and the tasks of its sessions.
pub struct TestMeeting {
    /// The controller.
    pub controller: Controller,
    running: Option<Running>,
    store: Arc<dyn Store>,
    certificate: Option<CertificateDer<'static>>,
    tasks: JoinSet<()>,
}

impl TestMeeting {
    /// Starts a controller with this id; it has no meeting until [`TestMeeting::assign`].
    pub fn open(store: &Arc<dyn Store>, mc_id: &str) -> Result<Self> {
        Self::trusting(store, mc_id, keyring(store)?)
    }

    /// Starts a controller that calls real handlers.
    pub fn with_handlers(store: &Arc<dyn Store>, mc_id: &str, handlers: &TestHandlers) -> Result<Self> {
        Self::start(store, mc_id, keyring(store)?, Surroundings::alone(Arc::new(handlers.peers(mc_id))))
    }

    /// Starts a controller that moves meetings to others, and takes theirs.
    pub fn among(store: &Arc<dyn Store>, mc_id: &str, others: &LocalControllers) -> Result<Self> {
        let seen = others.seen_by(mc_id);
        let surroundings = Surroundings {
            media_handlers: Arc::new(ScriptedHandlers::ACCEPTING),
            global_controller: Arc::new(seen.clone()),
            controllers: Arc::new(seen),
        };
        let meeting = Self::start(store, mc_id, keyring(store)?, surroundings)?;
        others.add(&meeting.controller);
        Ok(meeting)
    }

    /// Starts a controller that verifies tokens with `keyring`.
    pub fn trusting(store: &Arc<dyn Store>, mc_id: &str, keyring: Keyring) -> Result<Self> {
        Self::start(store, mc_id, keyring, Surroundings::alone(Arc::new(ScriptedHandlers::ACCEPTING)))
    }

    fn start(
        store: &Arc<dyn Store>,
        mc_id: &str,
        keyring: Keyring,
        Surroundings { media_handlers, global_controller, controllers }: Surroundings,
    ) -> Result<Self> {
        let shared = ControllerState {
            store: store.clone(),
            breaker: Arc::default(),
            mc_id: mc_id.to_owned(),
            latency: Arc::default(),
        };
        let secret = MasterSecret::new(vec![7; 32]).map_err(|error| anyhow!("{error:?}"))?;
        let (controller, running) = Controller::start(Options {
            shared,
            keeper: Keeper::new(store.clone(), Holder::new(mc_id).context("controller id")?),
            lease_ttl: Ttl::from_secs(9)?,
            lease_renew: Duration::from_secs(3),
            max_meetings: 100,
            max_participants: 10_000,
            secrets: Secrets::new(secret),
            keyring,
            entropy: Arc::new(OsEntropy),
            media_handlers,
            global_controller,
            controllers,
            join_limit: UNLIMITED,
            request_limit: UNLIMITED,
        });
        Ok(Self {
            controller,
            running: Some(running),
            store: store.clone(),
            certificate: None,
            tasks: JoinSet::new(),
        })
    }

    /// Assigns the meeting to this controller; returns its generation.
    pub async fn assign(&self) -> Result<u64> {
        self.assign_meeting(MEETING).await
    }

    /// Assigns a meeting to this controller; returns its generation.
    pub async fn assign_meeting(&self, meeting: &str) -> Result<u64> {
        let handler = HandlerInfo {
            id: "mh-1".to_owned(),
            webtransport_endpoint: "https://127.0.0.1:1/wt/mh".to_owned(),
            grpc_endpoint: "inproc:mh-1".to_owned(),
            primary: true,
            certificates: Vec::new(),
        };
        self.take(meeting, vec![handler]).await
    }

    /// Assigns the meeting to this controller with these handlers; returns its generation.
    pub async fn assign_to(&self, handlers: Vec<HandlerInfo>) -> Result<u64> {
        self.take(MEETING, handlers).await
    }

    async fn take(&self, meeting: &str, handlers: Vec<HandlerInfo>) -> Result<u64> {
        let meeting = MeetingId::parse(meeting).context("meeting id")?;
        let settings = Settings::default();
        let assignment = Assignment { meeting, settings, handlers, instead_of: None };
        match self.controller.assign(assignment).await {
            Assigned::Accepted { generation } => Ok(generation),
            other => Err(anyhow!("assignment rejected: {other:?}")),
        }
    }

    /// Issues tokens that this controller accepts.
    pub fn tokens(&self) -> TestTokens {
        TestTokens(self.store.clone())
    }

    fn serve(&mut self, listener: impl Listener) {
        let controller = self.controller.clone();
        self.tasks.spawn(async move {
            let mut sessions = JoinSet::new();
            while let Some(offer) = listener.offer().await {
                // A client may disconnect before its session is accepted.
                let Ok(session) = offer.accept().await else { continue };
                let controller = controller.clone();
                sessions.spawn(async move { controller.serve(session).await });
                while sessions.try_join_next().is_some() {}
            }
        });
    }

    /// Serves the in-memory transport; returns its dialer.
    pub fn in_memory(&mut self) -> memory::Dialer {
        let (listener, dialer) = memory::listener();
        self.serve(listener);
        dialer
    }

    /// Serves QUIC on loopback; returns its address.
    pub fn on_loopback(&mut self, timing: Timing) -> Result<(SocketAddr, Endpoint)> {
        use tenure_lease::Clock as _;
        let pair = Pair::new(&["127.0.0.1".to_owned()], BootClock.wall())?;
        let (der, key) = (pair.current().der()?, pair.current().private_key()?);
        self.certificate = Some(der.clone());
        let listener = quic::Listener::bind(ANY, vec![der], key, Arc::new(BootClock), timing)?;
        let address = listener.address()?;
        let hashes = pair.hashes()?.iter().map(|hash| hash.to_vec()).collect();
        self.serve(listener);
        Ok((address, Endpoint { url: format!("https://{address}/wt/mc"), hashes }))
    }

    /// The certificate served over QUIC.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.certificate.clone()
    }

    /// Shuts the controller down gracefully.
    pub async fn shut_down(&mut self) {
        if let Some(running) = self.running.take() {
            running.shut_down().await;
        }
    }
}
