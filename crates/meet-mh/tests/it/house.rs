//! A handler, and who speaks with it.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Tick};
use lease_store::TokioClock;
use meet_mh::{Handler, Options, Refuse};
use meet_rpc::{Keyring, Line, Lines, Minted, Part, Tokens};
use meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use meet_wire::internal::{
    EnforceMuteRequest, EnforceMuteResponse, RegisterMeetingRequest, RegisterMeetingResponse,
};
use meet_wire::jwt::{
    Checker, Jwks, KeySet, Kind, MeetingClaims, ParticipantType, Role, ServiceClaims, ServiceType,
    SigningKey, sign,
};

pub(crate) const BOB: &str = "018bcfe5-6801-7000-8000-000000000000";

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32]).unwrap()
}

pub(crate) struct House {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) handler: Handler,
    pub(crate) lines: Lines,
    pub(crate) keyring: Keyring,
}

fn tokens(clock: &Arc<TokioClock>, service_type: ServiceType) -> Arc<dyn Tokens> {
    let wall = clock.clone();
    Minted::new(clock.clone(), move || {
        let iat = wall.wall().as_micros() / 1_000_000;
        let scope = [Part::Gc, Part::Mc, Part::Mh].map(Part::scope).join(" ");
        let (sub, jti) = ("part".to_owned(), "j".to_owned());
        let claims =
            ServiceClaims { sub, token_type: Kind::Service, scope, service_type, iat, exp: iat + 3_600, jti };
        Ok((sign(&key(), &claims).unwrap(), Duration::from_secs(3_600)))
    })
}

pub(crate) fn house(max_streams: u32) -> House {
    let clock = Arc::new(TokioClock::default());
    let keyring =
        Keyring::here(clock.clone(), || Checker::new(KeySet::from(&Jwks { keys: vec![key().public()] })));
    let lines = Lines::new(tokens(&clock, ServiceType::MediaHandler), clock.clone(), None);
    let handler = Handler::new(Options {
        id: "mh-1".to_owned(),
        max_streams,
        refuse: Refuse::Nothing,
        keyring: keyring.clone(),
        lines: lines.clone(),
        clock: clock.clone(),
        vitals: Arc::new(|| (5, 6)),
    });
    lines.offer("mh-1", meet_mh::grpc(&handler));
    House { clock, handler, lines, keyring }
}

impl House {
    pub(crate) fn as_part(&self, service_type: ServiceType) -> MediaHandlerServiceClient<Line> {
        let lines = self.lines.speaking_as(tokens(&self.clock, service_type));
        MediaHandlerServiceClient::new(lines.to("inproc:mh-1").unwrap())
    }

    pub(crate) async fn register(&self, generation: u64) -> RegisterMeetingResponse {
        let request = RegisterMeetingRequest {
            meeting_id: "abc".to_owned(),
            mc_id: "mc-1".to_owned(),
            mc_grpc_endpoint: "inproc:mc-1".to_owned(),
            generation,
            peers: Vec::new(),
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
