//! A handler and its callers.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_lease::{Clock, Tick};
use tenure_meet_mh::{
    MediaHandler, Options, PATH, RefuseMeetings, RelayAcceptor, RelayDialer, SessionAcceptor,
};
use tenure_meet_rpc::{Channel, ChannelPool, Keyring, MintedTokens, ServiceRole, TokenSource};
use tenure_meet_wire::binding::MasterSecret;
use tenure_meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tenure_meet_wire::internal::{
    CrossRegionPeer, EnforceMuteRequest, EnforceMuteResponse, MediaSeat, RegisterMeetingRequest,
    RegisterMeetingResponse, ReleaseMeetingRequest, ReleaseParticipantRequest, ReleaseReason,
};
use tenure_meet_wire::jwt::{Checker, Jwks, KeySet, Kind, ServiceClaims, ServiceType, SigningKey, sign};
use tenure_meet_wire::media::grant::HandlerKey;
use tenure_meet_wire::media::message::MediaGrant;
use tenure_meet_wire::transport::memory::{self, Dialer, Session};
use tenure_meet_wire::transport::{Connect, Paths};
use tenure_meet_wire::{Id, MeetingId};
use tenure_store::TokioClock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::MediaClient;

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32]).unwrap()
}

/// The id of a participant.
pub(crate) fn id(n: u8) -> Id {
    Id::parse(&format!("018bcfe5-6801-7000-8000-0000000000{n:02x}")).unwrap()
}

pub(crate) fn abc() -> MeetingId {
    MeetingId::parse("abc").unwrap()
}

fn handler_key(handler: &str) -> HandlerKey {
    HandlerKey::derive(&MasterSecret::new(vec![9; 32]).unwrap(), &abc(), handler)
}

pub(crate) struct Harness<C: Clock = TokioClock> {
    pub(crate) id: String,
    /// The other handlers that registrations name.
    pub(crate) peers: Mutex<Vec<CrossRegionPeer>>,
    /// Dials this handler as another one does.
    pub(crate) relay: Dialer,
    pub(crate) clock: Arc<C>,
    pub(crate) handler: MediaHandler,
    pub(crate) channels: ChannelPool,
    pub(crate) keyring: Keyring,
    pub(crate) dialer: Dialer,
    pub(crate) stop: CancellationToken,
    grants: AtomicU8,
    _tasks: JoinSet<()>,
}

fn tokens<C: Clock>(clock: &Arc<C>, service_type: ServiceType) -> Arc<dyn TokenSource> {
    let wall = clock.clone();
    MintedTokens::new(clock.clone(), move || {
        let iat = wall.wall().as_micros() / 1_000_000;
        let scope = [ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh].map(ServiceRole::scope).join(" ");
        let (sub, jti) = ("part".to_owned(), "j".to_owned());
        let claims =
            ServiceClaims { sub, token_type: Kind::Service, scope, service_type, iat, exp: iat + 3_600, jti };
        Ok((sign(&key(), &claims).unwrap(), Duration::from_secs(3_600)))
    })
}

pub(crate) fn harness(max_streams: u32) -> Harness {
    harness_by(Arc::new(TokioClock::default()), max_streams)
}

pub(crate) fn harness_by<C: Clock>(clock: Arc<C>, max_streams: u32) -> Harness<C> {
    harness_as("mh-1", clock, max_streams, None)
}

/// A handler with an id, which dials other handlers.
pub(crate) fn harness_as<C: Clock>(
    id: &str,
    clock: Arc<C>,
    max_streams: u32,
    relays: Option<Arc<dyn RelayDialer>>,
) -> Harness<C> {
    let keyring =
        Keyring::local(clock.clone(), || Checker::new(KeySet::from(&Jwks { keys: vec![key().public()] })));
    let channels = ChannelPool::new(tokens(&clock, ServiceType::MediaHandler), clock.clone(), None);
    let handler = MediaHandler::new(Options {
        id: id.to_owned(),
        max_streams,
        refuse: RefuseMeetings::Nothing,
        keyring: keyring.clone(),
        channels: channels.clone(),
        clock: clock.clone(),
        usage: Arc::new(|| (5, 6)),
        cache_bytes: 64 * 1024 * 1024,
        bandwidth: 1_000_000,
        relays,
    });
    channels.offer(id, tenure_meet_mh::grpc(&handler));
    let (listener, dialer) = memory::listener();
    let (relay_listener, relay) = memory::listener();
    let mut paths = Paths::new(Arc::new(listener));
    let way = Arc::new(paths.way(PATH));
    let (acceptor, stop) = (SessionAcceptor::new(handler.clone()), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(paths.run());
    tasks.spawn(acceptor.serve(way, stop.clone()));
    tasks.spawn(RelayAcceptor::new(handler.clone()).serve(Arc::new(relay_listener), stop.clone()));
    Harness {
        id: id.to_owned(),
        peers: Mutex::default(),
        relay,
        clock,
        handler,
        channels,
        keyring,
        dialer,
        stop,
        grants: AtomicU8::new(0),
        _tasks: tasks,
    }
}

/// A seat that may do everything and is not muted.
pub(crate) fn seat(n: u8) -> MediaSeat {
    MediaSeat {
        participant_id: id(n).to_string(),
        user_id: format!("u{n}"),
        epoch: 1,
        mute_epoch: 1,
        may_send_audio: true,
        may_send_video: true,
        may_receive: true,
        ..MediaSeat::default()
    }
}

impl<C: Clock> Harness<C> {
    pub(crate) fn as_part(&self, service_type: ServiceType) -> MediaHandlerServiceClient<Channel> {
        let channels = self.channels.with_tokens(tokens(&self.clock, service_type));
        MediaHandlerServiceClient::new(channels.to(&format!("inproc:{}", self.id)).unwrap())
    }

    pub(crate) fn mc(&self) -> MediaHandlerServiceClient<Channel> {
        self.as_part(ServiceType::MeetingController)
    }

    /// Registers the meeting without seats.
    pub(crate) async fn register(&self, generation: u64) -> RegisterMeetingResponse {
        self.register_seats(generation, Vec::new()).await
    }

    pub(crate) async fn register_seats(
        &self,
        generation: u64,
        seats: Vec<MediaSeat>,
    ) -> RegisterMeetingResponse {
        let request = RegisterMeetingRequest {
            meeting_id: "abc".to_owned(),
            mc_id: "mc-1".to_owned(),
            mc_grpc_endpoint: "inproc:mc-1".to_owned(),
            generation,
            handler_key: vec![handler_key(&self.id).expose().to_vec().into()],
            lease_ms: 30_000,
            seats,
            peers: self.peers.lock().unwrap().clone(),
        };
        self.mc().register_meeting(request).await.unwrap().into_inner()
    }

    /// Registers the meeting with seats for participants 1 to `count`.
    pub(crate) async fn open(&self, count: u8) {
        assert!(self.register_seats(1, (1..=count).map(seat).collect()).await.accepted);
    }

    pub(crate) async fn mute(&self, n: u8, epoch: u64, audio: bool, video: bool) -> EnforceMuteResponse {
        self.mute_as(1, n, epoch, audio, video).await
    }

    pub(crate) async fn mute_as(
        &self,
        generation: u64,
        n: u8,
        mute_epoch: u64,
        audio_muted: bool,
        video_muted: bool,
    ) -> EnforceMuteResponse {
        let request = EnforceMuteRequest {
            participant_id: id(n).to_string(),
            audio_muted,
            video_muted,
            meeting_id: "abc".to_owned(),
            generation,
            mute_epoch,
        };
        self.mc().enforce_mute(request).await.unwrap().into_inner()
    }

    pub(crate) async fn release_participant(&self, n: u8, epoch: u64, reason: ReleaseReason) -> bool {
        let mut request = ReleaseParticipantRequest {
            meeting_id: "abc".to_owned(),
            participant_id: id(n).to_string(),
            epoch,
            generation: 1,
            ..ReleaseParticipantRequest::default()
        };
        request.set_reason(reason);
        self.mc().release_participant(request).await.unwrap().into_inner().released
    }

    pub(crate) async fn release_meeting(&self, generation: u64) {
        let request = ReleaseMeetingRequest { meeting_id: "abc".to_owned(), generation };
        self.mc().release_meeting(request).await.unwrap();
    }

    /// A grant of a participant, never used before.
    pub(crate) fn grant(&self, n: u8) -> MediaGrant {
        let issued_at_ms = self.clock.wall().as_millis();
        MediaGrant {
            meeting_id: "abc".to_owned(),
            participant_id: id(n).to_string(),
            user_id: format!("u{n}"),
            epoch: 1,
            may_send_audio: true,
            may_send_video: true,
            may_receive: true,
            mute_epoch: 1,
            issued_at_ms,
            expires_at_ms: issued_at_ms + 60_000,
            handler_id: self.id.clone(),
            generation: 1,
            grant_id: vec![self.grants.fetch_add(1, Ordering::Relaxed); 16].into(),
        }
    }

    pub(crate) fn seal(&self, grant: &MediaGrant) -> bytes::Bytes {
        handler_key(&self.id).seal(grant)
    }

    pub(crate) async fn dial(&self) -> Option<Arc<Session>> {
        self.dialer.dial(Connect { path: PATH.to_owned(), ..Connect::default() }).await.ok()
    }

    /// A client that has sent Hello with a grant.
    pub(crate) async fn greet(&self, grant: &MediaGrant, standby: bool) -> MediaClient<Session> {
        let session = self.dial().await.unwrap();
        MediaClient::greet(session, self.seal(grant), standby).await
    }

    /// A client that was admitted.
    pub(crate) async fn join(&self, n: u8) -> MediaClient<Session> {
        let mut client = self.greet(&self.grant(n), false).await;
        client.welcome().await;
        client
    }

    pub(crate) async fn join_standby(&self, n: u8) -> MediaClient<Session> {
        let mut client = self.greet(&self.grant(n), true).await;
        client.welcome().await;
        client
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}
