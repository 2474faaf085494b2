//! A handler and its callers.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Tick};
use tenure_meet_mh::{MediaHandler, Options, RefuseMeetings};
use tenure_meet_rpc::{Channel, ChannelPool, Keyring, MintedTokens, ServiceRole, TokenSource};
use tenure_meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tenure_meet_wire::internal::{
    EnforceMuteRequest, EnforceMuteResponse, RegisterMeetingRequest, RegisterMeetingResponse,
};
use tenure_meet_wire::jwt::{
    Checker, Jwks, KeySet, Kind, MeetingClaims, ParticipantType, Role, ServiceClaims, ServiceType,
    SigningKey, sign,
};
use tenure_store::TokioClock;

pub(crate) const BOB: &str = "018bcfe5-6801-7000-8000-000000000000";

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32]).unwrap()
}

pub(crate) struct Harness {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) handler: MediaHandler,
    pub(crate) channels: ChannelPool,
    pub(crate) keyring: Keyring,
}

fn tokens(clock: &Arc<TokioClock>, service_type: ServiceType) -> Arc<dyn TokenSource> {
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
    let clock = Arc::new(TokioClock::default());
    let keyring =
        Keyring::local(clock.clone(), || Checker::new(KeySet::from(&Jwks { keys: vec![key().public()] })));
    let channels = ChannelPool::new(tokens(&clock, ServiceType::MediaHandler), clock.clone(), None);
    let handler = MediaHandler::new(Options {
        id: "mh-1".to_owned(),
        max_streams,
        refuse: RefuseMeetings::Nothing,
        keyring: keyring.clone(),
        channels: channels.clone(),
        clock: clock.clone(),
        usage: Arc::new(|| (5, 6)),
    });
    channels.offer("mh-1", tenure_meet_mh::grpc(&handler));
    Harness { clock, handler, channels, keyring }
}

impl Harness {
    pub(crate) fn as_part(&self, service_type: ServiceType) -> MediaHandlerServiceClient<Channel> {
        let channels = self.channels.with_tokens(tokens(&self.clock, service_type));
        MediaHandlerServiceClient::new(channels.to("inproc:mh-1").unwrap())
    }

    pub(crate) async fn register(&self, generation: u64) -> RegisterMeetingResponse {
        let request = RegisterMeetingRequest {
            meeting_id: "abc".to_owned(),
            mc_id: "mc-1".to_owned(),
            mc_grpc_endpoint: "inproc:mc-1".to_owned(),
            generation,
            ..RegisterMeetingRequest::default()
        };
        let mut mc = self.as_part(ServiceType::MeetingController);
        mc.register_meeting(request).await.unwrap().into_inner()
    }

    pub(crate) async fn mute(
        &self,
        generation: u64,
        mute_epoch: u64,
        audio_muted: bool,
    ) -> EnforceMuteResponse {
        let request = EnforceMuteRequest {
            participant_id: BOB.to_owned(),
            audio_muted,
            video_muted: false,
            meeting_id: "abc".to_owned(),
            generation,
            mute_epoch,
        };
        let mut mc = self.as_part(ServiceType::MeetingController);
        mc.enforce_mute(request).await.unwrap().into_inner()
    }

    pub(crate) fn token(&self, meeting: &str) -> String {
        let now = self.clock.wall().as_micros() / 1_000_000;
        let claims = MeetingClaims {
            sub: "bob".to_owned(),
            token_type: Kind::Meeting,
            meeting_id: meeting.to_owned(),
            home_org_id: None,
            meeting_org_id: String::new(),
            participant_type: ParticipantType::Member,
            role: Role::Participant,
            capabilities: Vec::new(),
            iat: now,
            exp: now + 900,
            jti: "j".to_owned(),
        };
        sign(&key(), &claims).unwrap()
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}
