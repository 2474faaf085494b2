//! The gRPC service of a handler, for meeting controllers.

use tenure_meet_rpc::{Gatekeeper, ServiceRole};
use tenure_meet_wire::internal::media_handler_service_server::{
    MediaHandlerService, MediaHandlerServiceServer,
};
use tenure_meet_wire::internal::{
    EnforceMuteRequest, EnforceMuteResponse, MhRejectionReason, RegisterMeetingRequest,
    RegisterMeetingResponse, ReleaseMeetingRequest, ReleaseMeetingResponse, ReleaseParticipantRequest,
    ReleaseParticipantResponse, RouteMediaRequest, RouteMediaResponse, TelemetrySample, TelemetrySummary,
};
use tenure_meet_wire::{Id, MeetingId};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::{MediaHandler, MuteMask, metric};

/// The service of a handler, behind the check of service tokens.
pub fn grpc(handler: &MediaHandler) -> Routes {
    let routes = Routes::new(MediaHandlerServiceServer::new(GrpcService(handler.clone())));
    Gatekeeper::new(ServiceRole::Mh, handler.options().keyring.clone()).guard(routes)
}

struct GrpcService(MediaHandler);

fn meeting(text: &str) -> Result<MeetingId, Status> {
    MeetingId::parse(text).ok_or_else(|| Status::invalid_argument("invalid meeting id"))
}

fn reason_label(reason: MhRejectionReason) -> &'static str {
    match reason {
        MhRejectionReason::Unspecified => "refused",
        MhRejectionReason::AtCapacity => "at_capacity",
        MhRejectionReason::Draining => "draining",
        MhRejectionReason::StaleGeneration => "stale_generation",
    }
}

#[tonic::async_trait]
impl MediaHandlerService for GrpcService {
    async fn register_meeting(
        &self,
        request: Request<RegisterMeetingRequest>,
    ) -> Result<Response<RegisterMeetingResponse>, Status> {
        let request = request.into_inner();
        let owner = (request.mc_id.as_str(), request.mc_grpc_endpoint.as_str());
        let registered = self.0.register(&meeting(&request.meeting_id)?, request.generation, owner);
        metric::registered(registered.err().map_or("accepted", reason_label));
        tracing::info!(target: metric::TARGET, meeting = request.meeting_id, mc = request.mc_id, generation = request.generation, accepted = registered.is_ok(), "meeting registration");
        let mut answer = RegisterMeetingResponse { accepted: registered.is_ok(), ..Default::default() };
        answer.set_rejection_reason(registered.err().unwrap_or(MhRejectionReason::Unspecified));
        Ok(Response::new(answer))
    }

    async fn enforce_mute(
        &self,
        request: Request<EnforceMuteRequest>,
    ) -> Result<Response<EnforceMuteResponse>, Status> {
        let request = request.into_inner();
        let participant = Id::parse(&request.participant_id)
            .ok_or_else(|| Status::invalid_argument("there is no such participant id"))?;
        let mask = MuteMask {
            audio: request.audio_muted,
            video: request.video_muted,
            generation: request.generation,
            epoch: request.mute_epoch,
        };
        let enforced = self.0.enforce(&meeting(&request.meeting_id)?, participant, mask);
        metric::enforced(enforced.err().map_or("enforced", |(_, reason)| reason_label(reason)));
        let (mute_epoch, reason) = match enforced {
            Ok(epoch) => (epoch, MhRejectionReason::Unspecified),
            Err(refused) => refused,
        };
        let mut answer = EnforceMuteResponse { enforced: enforced.is_ok(), mute_epoch, ..Default::default() };
        answer.set_rejection_reason(reason);
        Ok(Response::new(answer))
    }

    async fn release_participant(
        &self,
        _request: Request<ReleaseParticipantRequest>,
    ) -> Result<Response<ReleaseParticipantResponse>, Status> {
        Err(Status::unimplemented("media is not forwarded yet"))
    }

    async fn release_meeting(
        &self,
        request: Request<ReleaseMeetingRequest>,
    ) -> Result<Response<ReleaseMeetingResponse>, Status> {
        let request = request.into_inner();
        let released = self.0.release(&meeting(&request.meeting_id)?, request.generation);
        tracing::info!(target: metric::TARGET, meeting = request.meeting_id, released, "a meeting is over");
        Ok(Response::new(ReleaseMeetingResponse {}))
    }

    async fn route_media(
        &self,
        _request: Request<RouteMediaRequest>,
    ) -> Result<Response<RouteMediaResponse>, Status> {
        Err(Status::unimplemented("media is not forwarded yet"))
    }

    async fn stream_telemetry(
        &self,
        _request: Request<Streaming<TelemetrySample>>,
    ) -> Result<Response<TelemetrySummary>, Status> {
        Err(Status::unimplemented("media is not forwarded yet"))
    }
}
