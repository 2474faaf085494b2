//! The gRPC service of a handler, for meeting controllers.

use std::time::Duration;

use tenure_meet_rpc::{Gatekeeper, ServiceRole};
use tenure_meet_wire::internal::media_handler_service_server::{
    MediaHandlerService, MediaHandlerServiceServer,
};
use tenure_meet_wire::internal::{
    CrossRegionPeer, EnforceMuteRequest, EnforceMuteResponse, MediaSeat, MhRejectionReason,
    RegisterMeetingRequest, RegisterMeetingResponse, ReleaseMeetingRequest, ReleaseMeetingResponse,
    ReleaseParticipantRequest, ReleaseParticipantResponse, ReleaseReason, RouteMediaRequest,
    RouteMediaResponse, TelemetrySample, TelemetrySummary,
};
use tenure_meet_wire::media::grant::{HandlerKey, HandlerKeys};
use tenure_meet_wire::{CloseCode, Id, MeetingId};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::registry::{HandlerPeer, MediaRights, MuteMask, Owner, RegisteredSeat, Registration};
use crate::{MediaHandler, limits, metric};

/// The service of a handler, behind the check of service tokens.
pub fn grpc(handler: &MediaHandler) -> Routes {
    let routes = Routes::new(MediaHandlerServiceServer::new(GrpcService(handler.clone())));
    Gatekeeper::new(ServiceRole::Mh, handler.options().keyring.clone()).guard(routes)
}

struct GrpcService(MediaHandler);

fn meeting(text: &str) -> Result<MeetingId, Status> {
    MeetingId::parse(text).ok_or_else(|| Status::invalid_argument("invalid meeting id"))
}

fn participant(text: &str) -> Result<Id, Status> {
    Id::parse(text).ok_or_else(|| Status::invalid_argument("there is no such participant id"))
}

fn reason_label(reason: MhRejectionReason) -> &'static str {
    match reason {
        MhRejectionReason::Unspecified => "refused",
        MhRejectionReason::AtCapacity => "at_capacity",
        MhRejectionReason::Draining => "draining",
        MhRejectionReason::StaleGeneration => "stale_generation",
    }
}

fn seat(seat: &MediaSeat, generation: u64) -> Result<RegisteredSeat, Status> {
    Ok(RegisteredSeat {
        participant: participant(&seat.participant_id)?,
        epoch: seat.epoch,
        mask: MuteMask {
            audio: seat.audio_muted,
            video: seat.video_muted,
            generation,
            epoch: seat.mute_epoch,
        },
        rights: MediaRights {
            send_audio: seat.may_send_audio,
            send_video: seat.may_send_video,
            receive: seat.may_receive,
        },
    })
}

fn keys(keys: &[impl AsRef<[u8]>]) -> Result<Option<HandlerKeys>, Status> {
    let mut keys = keys.iter().map(|key| {
        HandlerKey::from_bytes(key.as_ref())
            .ok_or_else(|| Status::invalid_argument("a handler key has 32 bytes"))
    });
    let Some(current) = keys.next().transpose()? else { return Ok(None) };
    Ok(Some(HandlerKeys { current, previous: keys.next().transpose()? }))
}

fn peer(peer: &CrossRegionPeer) -> HandlerPeer {
    HandlerPeer {
        id: peer.mh_id.clone(),
        endpoint: peer.endpoint.clone(),
        certificates: peer.certificate_sha256.iter().map(|hash| hash.to_vec()).collect(),
    }
}

fn registration(request: &RegisterMeetingRequest) -> Result<Registration, Status> {
    if request.seats.len() > limits::PARTICIPANTS {
        return Err(Status::invalid_argument("there are too many seats"));
    }
    let lease = match request.lease_ms {
        0 => limits::LEASE,
        millis => Duration::from_millis(millis.into()),
    };
    let seats = request.seats.iter().map(|it| seat(it, request.generation)).collect::<Result<_, _>>()?;
    let owner = Owner {
        generation: request.generation,
        mc_id: request.mc_id.clone(),
        mc_endpoint: request.mc_grpc_endpoint.clone(),
    };
    if request.peers.len() > limits::PEERS {
        return Err(Status::invalid_argument("there are too many handlers"));
    }
    let peers = request.peers.iter().map(peer).collect();
    Ok(Registration { owner, keys: keys(&request.handler_key)?, lease, seats, peers })
}

#[tonic::async_trait]
impl MediaHandlerService for GrpcService {
    async fn register_meeting(
        &self,
        request: Request<RegisterMeetingRequest>,
    ) -> Result<Response<RegisterMeetingResponse>, Status> {
        let request = request.into_inner();
        let registration = registration(&request)?;
        let registered = self.0.register(&meeting(&request.meeting_id)?, registration).await;
        metric::registered(registered.err().map_or("accepted", reason_label));
        tracing::debug!(target: metric::TARGET, meeting = request.meeting_id, mc = request.mc_id, generation = request.generation, accepted = registered.is_ok(), "meeting registration");
        let mut answer = RegisterMeetingResponse { accepted: registered.is_ok(), ..Default::default() };
        answer.set_rejection_reason(registered.err().unwrap_or(MhRejectionReason::Unspecified));
        Ok(Response::new(answer))
    }

    async fn enforce_mute(
        &self,
        request: Request<EnforceMuteRequest>,
    ) -> Result<Response<EnforceMuteResponse>, Status> {
        let request = request.into_inner();
        let participant = participant(&request.participant_id)?;
        let mask = MuteMask {
            audio: request.audio_muted,
            video: request.video_muted,
            generation: request.generation,
            epoch: request.mute_epoch,
        };
        let clock = &self.0.options().clock;
        let began = clock.now();
        let enforced = self.0.enforce(&meeting(&request.meeting_id)?, participant, mask).await;
        let label = enforced.err().map_or("enforced", |(_, reason)| reason_label(reason));
        metric::enforced(label, clock.now().since(began));
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
        request: Request<ReleaseParticipantRequest>,
    ) -> Result<Response<ReleaseParticipantResponse>, Status> {
        let request = request.into_inner();
        let code = match request.reason() {
            ReleaseReason::Kicked => CloseCode::Kicked,
            _ => CloseCode::Done,
        };
        let (meeting, participant) = (meeting(&request.meeting_id)?, participant(&request.participant_id)?);
        let version = (request.epoch, request.generation);
        let released = self.0.release_participant(&meeting, participant, version, code);
        let mut answer = ReleaseParticipantResponse { released: released.is_ok(), ..Default::default() };
        answer.set_rejection_reason(released.err().unwrap_or(MhRejectionReason::Unspecified));
        Ok(Response::new(answer))
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
        Err(Status::unimplemented("participants choose their subscriptions themselves"))
    }

    async fn stream_telemetry(
        &self,
        _request: Request<Streaming<TelemetrySample>>,
    ) -> Result<Response<TelemetrySummary>, Status> {
        Err(Status::unimplemented("participants report on their control stream"))
    }
}
