//! A controller with one meeting.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures_util::future::{BoxFuture, ready};
use lease::{Holder, Store, Ttl};
use lease_keeper::{Keeper, OsEntropy};
use lease_store::BootClock;
use meet_client::Place;
use meet_mc::actor::{Assigned, Assignment, Controller, MediaPort, MuteOrder, NoHome, Options, Running};
use meet_mc::meeting::{Handler, Settings};
use meet_mc::{Desk, Rate};
use meet_rpc::Keyring;
use meet_wire::MeetingId;
use meet_wire::binding::{MasterSecret, Secrets};
use meet_wire::jwt::{
    Checker, GuestClaims, Jwks, KeySet, Kind, MeetingClaims, ParticipantType, Role, SigningKey, sign,
};
use meet_wire::transport::certificate::Pair;
use meet_wire::transport::quic::{self, Timing};
use meet_wire::transport::{Listener, memory};
use rustls_pki_types::CertificateDer;
use tokio::task::JoinSet;

/// The one meeting of every venue.
pub const MEETING: &str = "abc";

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The key that signs all tokens.
pub fn signing_key() -> Result<SigningKey> {
    SigningKey::from_seed(&[7; 32]).context("the signing key")
}

/// Makes tokens for seats.
#[derive(Clone)]
pub struct Seats(pub(crate) Arc<dyn Store>);

impl Seats {
    /// A token that is good for a quarter of an hour.
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

    /// A guest's token, good for as long.
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

/// More than any test does.
const OFTEN: Rate = Rate { burst: 10_000, per_second: 10_000 };

/// Media handlers that do as they are told.
struct Obedient;

impl MediaPort for Obedient {
    fn register(&self, _: &MeetingId, _: u64, _: &[Handler]) -> BoxFuture<'static, Option<Vec<Handler>>> {
        Box::pin(ready(None))
    }

    fn enforce(&self, _: MuteOrder) -> BoxFuture<'static, Vec<String>> {
        Box::pin(ready(Vec::new()))
    }

    fn release(&self, _: &MeetingId, _: u64, _: &[Handler]) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

/// A controller, and the tasks of its sessions.
pub struct Venue {
    /// The controller.
    pub controller: Controller,
    running: Option<Running>,
    store: Arc<dyn Store>,
    certificate: Option<CertificateDer<'static>>,
    tasks: JoinSet<()>,
}

impl Venue {
    /// A controller of this name on a store; it has no meeting yet.
    pub fn open(store: &Arc<dyn Store>, mc_id: &str) -> Result<Self> {
        let public = signing_key()?.public();
        let checker = move || Checker::new(KeySet::from(&Jwks { keys: vec![public.clone()] }));
        Self::trusting(store, mc_id, Keyring::here(store.clock(), checker))
    }

    /// The same, where the tokens of somebody else are good.
    pub fn trusting(store: &Arc<dyn Store>, mc_id: &str, keyring: Keyring) -> Result<Self> {
        let desk = Desk {
            store: store.clone(),
            breaker: Arc::default(),
            mc_id: mc_id.to_owned(),
            pulse: Arc::default(),
        };
        let secret = MasterSecret::new(vec![7; 32]).map_err(|error| anyhow!("{error:?}"))?;
        let (controller, running) = Controller::start(Options {
            desk,
            keeper: Keeper::new(store.clone(), Holder::new(mc_id).context("the name of a controller")?),
            lease_ttl: Ttl::from_secs(9)?,
            lease_renew: Duration::from_secs(3),
            max_meetings: 100,
            max_participants: 10_000,
            secrets: Secrets::new(secret),
            keyring,
            entropy: Arc::new(OsEntropy),
            port: Arc::new(Obedient),
            home: Arc::new(NoHome),
            join_rate: OFTEN,
            talk_rate: OFTEN,
        });
        Ok(Self {
            controller,
            running: Some(running),
            store: store.clone(),
            certificate: None,
            tasks: JoinSet::new(),
        })
    }

    /// Takes the meeting.
    pub async fn assign(&self) -> Result<u64> {
        let meeting = MeetingId::parse(MEETING).context("the name of the meeting")?;
        let handler = Handler {
            id: "mh-1".to_owned(),
            webtransport_endpoint: "https://127.0.0.1:1/wt/mh".to_owned(),
            grpc_endpoint: "inproc:mh-1".to_owned(),
            primary: true,
            certificates: Vec::new(),
        };
        let assignment = Assignment { meeting, settings: Settings::default(), handlers: vec![handler] };
        match self.controller.assign(assignment).await {
            Assigned::Accepted { generation } => Ok(generation),
            other => Err(anyhow!("not taken: {other:?}")),
        }
    }

    /// Who makes tokens that are good here.
    pub fn seats(&self) -> Seats {
        Seats(self.store.clone())
    }

    fn serve(&mut self, listener: impl Listener) {
        let controller = self.controller.clone();
        self.tasks.spawn(async move {
            let mut sessions = JoinSet::new();
            while let Some(offer) = listener.offer().await {
                // Who is gone before it is let in is nobody.
                let Ok(session) = offer.accept().await else { continue };
                let controller = controller.clone();
                sessions.spawn(async move { controller.serve(session).await });
                while sessions.try_join_next().is_some() {}
            }
        });
    }

    /// Is reached over memory.
    pub fn in_memory(&mut self) -> memory::Dialer {
        let (listener, dialer) = memory::listener();
        self.serve(listener);
        dialer
    }

    /// Is reached over QUIC on loopback: where.
    pub fn on_loopback(&mut self, timing: Timing) -> Result<(SocketAddr, Place)> {
        use lease::Clock as _;
        let pair = Pair::new(&["127.0.0.1".to_owned()], BootClock.wall())?;
        let (der, key) = (pair.current().der()?, pair.current().private_key()?);
        self.certificate = Some(der.clone());
        let listener = quic::Listener::bind(ANY, vec![der], key, Arc::new(BootClock), timing)?;
        let address = listener.address()?;
        let hashes = pair.hashes()?.iter().map(|hash| hash.to_vec()).collect();
        self.serve(listener);
        Ok((address, Place { url: format!("https://{address}/wt/mc"), hashes }))
    }

    /// What it shows there.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.certificate.clone()
    }

    /// Shuts the controller down in an orderly way.
    pub async fn shut_down(&mut self) {
        if let Some(running) = self.running.take() {
            running.shut_down().await;
        }
    }
}
