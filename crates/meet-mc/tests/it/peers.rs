//! Scripted peers of a controller, within the process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::Store;
use tenure_meet_mc::Peers;
use tenure_meet_rpc::{ChannelPool, Gatekeeper, MintedTokens, ServiceRole, TokenSource};
use tenure_meet_wire::internal::global_controller_service_server::{
    GlobalControllerService, GlobalControllerServiceServer,
};
use tenure_meet_wire::internal::media_handler_service_server::{
    MediaHandlerService, MediaHandlerServiceServer,
};
use tenure_meet_wire::internal::{
    EnforceMuteRequest, EnforceMuteResponse, MhAssignment, MhRejectionReason, MhReplacement,
    NotifyMeetingEndedRequest, NotifyMeetingEndedResponse, RegisterMeetingRequest, RegisterMeetingResponse,
    ReleaseMeetingRequest, ReleaseMeetingResponse, ReleaseParticipantRequest, ReleaseParticipantResponse,
    RequestMhReplacementRequest, RouteMediaRequest, RouteMediaResponse, TelemetrySample, TelemetrySummary,
};
use tenure_meet_wire::jwt::{Kind, ServiceClaims, ServiceType, sign};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::harness::{key, keyring};

/// TokenSource of a part with all scopes.
pub(crate) fn tokens(store: &Arc<dyn Store>, service_type: ServiceType) -> Arc<dyn TokenSource> {
    let clock = store.clock();
    MintedTokens::new(store.clock(), move || {
        let iat = clock.wall().as_micros() / 1_000_000;
        let scope = [ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh].map(ServiceRole::scope).join(" ");
        let (sub, jti) = ("part".to_owned(), "j".to_owned());
        let claims =
            ServiceClaims { sub, token_type: Kind::Service, scope, service_type, iat, exp: iat + 3_600, jti };
        Ok((sign(&key(), &claims).unwrap(), Duration::from_secs(3_600)))
    })
}

pub(crate) fn peers(store: &Arc<dyn Store>, mc_id: &str) -> Peers {
    Peers {
        channels: ChannelPool::new(tokens(store, ServiceType::MeetingController), store.clock(), None),
        clock: store.clock(),
        mc_id: mc_id.to_owned(),
        grpc_endpoint: format!("inproc:{mc_id}"),
        region: "here".to_owned(),
        gc_endpoint: "inproc:gc".to_owned(),
    }
}

/// A scripted handler that records its calls.
#[derive(Clone, Default)]
pub(crate) struct Mh {
    pub(crate) registered: Arc<Mutex<Vec<RegisterMeetingRequest>>>,
    pub(crate) muted: Arc<Mutex<Vec<EnforceMuteRequest>>>,
    pub(crate) released: Arc<Mutex<Vec<ReleaseMeetingRequest>>>,
    /// Answers to the next registrations; later ones are accepted.
    pub(crate) answers: Arc<Mutex<VecDeque<Option<MhRejectionReason>>>>,
    /// Participants that were released.
    pub(crate) left: Arc<Mutex<Vec<ReleaseParticipantRequest>>>,
    /// Whether mutes are not acknowledged.
    pub(crate) deaf: bool,
    /// Whether the meeting is unknown, as after a restart, until it is registered.
    pub(crate) unknown: Arc<AtomicBool>,
    /// Whether no call is answered.
    pub(crate) down: Arc<AtomicBool>,
}

impl Mh {
    fn check_up(&self) -> Result<(), Status> {
        if self.down.load(Ordering::Relaxed) { Err(Status::unavailable("scripted")) } else { Ok(()) }
    }

    pub(crate) fn offer(&self, channels: &ChannelPool, name: &str, store: &Arc<dyn Store>) {
        let routes = Routes::new(MediaHandlerServiceServer::new(self.clone()));
        channels.offer(name, Gatekeeper::new(ServiceRole::Mh, keyring(store)).guard(routes));
    }
}

#[tonic::async_trait]
impl MediaHandlerService for Mh {
    async fn register_meeting(
        &self,
        request: Request<RegisterMeetingRequest>,
    ) -> Result<Response<RegisterMeetingResponse>, Status> {
        self.check_up()?;
        self.unknown.store(false, Ordering::Relaxed);
        self.registered.lock().push(request.into_inner());
        let mut answer = RegisterMeetingResponse { accepted: true, ..Default::default() };
        match self.answers.lock().pop_front() {
            None => {}
            Some(None) => return Err(Status::unavailable("scripted")),
            Some(Some(reason)) => {
                answer.accepted = false;
                answer.set_rejection_reason(reason);
            }
        }
        Ok(Response::new(answer))
    }

    async fn enforce_mute(
        &self,
        request: Request<EnforceMuteRequest>,
    ) -> Result<Response<EnforceMuteResponse>, Status> {
        self.check_up()?;
        let request = request.into_inner();
        if self.unknown.load(Ordering::Relaxed) {
            return Err(Status::not_found("scripted"));
        }
        let mute_epoch = if self.deaf { 0 } else { request.mute_epoch };
        self.muted.lock().push(request);
        Ok(Response::new(EnforceMuteResponse { enforced: !self.deaf, mute_epoch, rejection_reason: 0 }))
    }

    async fn release_participant(
        &self,
        request: Request<ReleaseParticipantRequest>,
    ) -> Result<Response<ReleaseParticipantResponse>, Status> {
        self.check_up()?;
        self.left.lock().push(request.into_inner());
        Ok(Response::new(ReleaseParticipantResponse::default()))
    }

    async fn release_meeting(
        &self,
        request: Request<ReleaseMeetingRequest>,
    ) -> Result<Response<ReleaseMeetingResponse>, Status> {
        self.released.lock().push(request.into_inner());
        Ok(Response::new(ReleaseMeetingResponse {}))
    }

    async fn route_media(
        &self,
        _: Request<RouteMediaRequest>,
    ) -> Result<Response<RouteMediaResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn stream_telemetry(
        &self,
        _: Request<Streaming<TelemetrySample>>,
    ) -> Result<Response<TelemetrySummary>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// A global controller that records ended meetings and offers replacement handlers.
#[derive(Clone, Default)]
pub(crate) struct Gc {
    pub(crate) ended: Arc<Mutex<Vec<NotifyMeetingEndedRequest>>>,
    pub(crate) replacements: Arc<Mutex<Vec<RequestMhReplacementRequest>>>,
    pub(crate) others: Arc<Mutex<Vec<MhAssignment>>>,
}

impl Gc {
    pub(crate) fn offer(&self, channels: &ChannelPool, store: &Arc<dyn Store>) {
        let routes = Routes::new(GlobalControllerServiceServer::new(self.clone()));
        channels.offer("gc", Gatekeeper::new(ServiceRole::Gc, keyring(store)).guard(routes));
    }
}

#[tonic::async_trait]
impl GlobalControllerService for Gc {
    async fn notify_meeting_ended(
        &self,
        request: Request<NotifyMeetingEndedRequest>,
    ) -> Result<Response<NotifyMeetingEndedResponse>, Status> {
        self.ended.lock().push(request.into_inner());
        Ok(Response::new(NotifyMeetingEndedResponse {}))
    }

    async fn request_mh_replacement(
        &self,
        request: Request<RequestMhReplacementRequest>,
    ) -> Result<Response<MhReplacement>, Status> {
        let meeting_id = request.get_ref().meeting_id.clone();
        self.replacements.lock().push(request.into_inner());
        Ok(Response::new(MhReplacement { meeting_id, new_mhs: self.others.lock().clone() }))
    }
}
