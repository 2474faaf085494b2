//! Calls to media handlers and to GC.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use tenure_lease::Clock;
use tenure_meet_rpc::{Channel, ChannelPool};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use tenure_meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::{
    CrossRegionPeer, EnforceMuteRequest, EnforceMuteResponse, MediaSeat, MhRejectionReason,
    MhReplacementReason, NotifyMeetingEndedRequest, ProbeRequest, ProbeResponse, RegisterMeetingRequest,
    ReleaseMeetingRequest, ReleaseParticipantRequest, ReleaseReason, RequestMhReplacementRequest,
};
use tenure_meet_wire::media::grant::HandlerKeys;
use tonic::{Code, Status};

use crate::actor::{
    Destination, DrainNotice, DrainReport, GcUnavailable, GlobalController, MediaHandlers, MuteOrder,
    MuteOutcome, ParticipantRelease, RegisterOutcome, Registration, ReplaceReason, Replacement, SeatMask,
    limits,
};
use crate::meeting::{HandlerInfo, LeaveReason};
use crate::{grpc, metric};

/// How long a handler may take to answer.
const ATTEMPT: Duration = Duration::from_secs(3);
/// The pauses between attempts of a call.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// Calls other nodes on behalf of this controller.
#[derive(Clone)]
pub struct Peers {
    /// Connections to other nodes.
    pub channels: ChannelPool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The controller's id.
    pub mc_id: String,
    /// The controller's endpoint for handlers.
    pub grpc_endpoint: String,
    /// The controller's region.
    pub region: String,
    /// GC's endpoint.
    pub gc_endpoint: String,
}

fn seat_to_wire(seat: &SeatMask) -> MediaSeat {
    MediaSeat {
        participant_id: seat.participant.to_string(),
        user_id: seat.user.clone(),
        epoch: seat.epoch,
        may_send_audio: seat.rights.send_audio,
        may_send_video: seat.rights.send_video,
        may_receive: seat.rights.receive,
        audio_muted: seat.audio_muted,
        video_muted: seat.video_muted,
        mute_epoch: seat.mute_epoch,
    }
}

fn release_reason(reason: LeaveReason) -> ReleaseReason {
    match reason {
        LeaveReason::Voluntary => ReleaseReason::Left,
        LeaveReason::Kicked => ReleaseReason::Kicked,
        LeaveReason::Timeout => ReleaseReason::Timeout,
        LeaveReason::MeetingEnded => ReleaseReason::MeetingEnded,
    }
}

/// A later order that arrived first counts as well. A handler that holds no mask although it got one does not know the
/// meeting.
fn mute_outcome(answer: &EnforceMuteResponse, epoch: u64) -> MuteOutcome {
    match answer.rejection_reason() {
        MhRejectionReason::StaleGeneration => MuteOutcome::Failed,
        _ if answer.mute_epoch >= epoch && epoch > 0 => MuteOutcome::Enforced,
        MhRejectionReason::Unspecified if answer.mute_epoch == 0 => MuteOutcome::NotRegistered,
        _ => MuteOutcome::Failed,
    }
}

impl Peers {
    fn handler(&self, handler: &HandlerInfo) -> Option<MediaHandlerServiceClient<Channel>> {
        match self.channels.to(&handler.grpc_endpoint) {
            Ok(line) => Some(MediaHandlerServiceClient::new(line)),
            Err(error) => {
                tracing::warn!(target: metric::TARGET, handler = handler.id, %error, "invalid media handler endpoint");
                None
            }
        }
    }

    pub(crate) fn gc(&self) -> Option<GlobalControllerServiceClient<Channel>> {
        self.channels.to(&self.gc_endpoint).ok().map(GlobalControllerServiceClient::new)
    }

    async fn pause(&self, pause: Duration) {
        self.clock.sleep_until(self.clock.now() + pause).await;
    }

    /// The answer of a call, or an error after [`ATTEMPT`].
    async fn attempt<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Status> {
        tokio::select! {
            biased;
            answer = call => answer.map(tonic::Response::into_inner),
            () = self.pause(ATTEMPT) => Err(Status::deadline_exceeded("no answer")),
        }
    }

    async fn register_once(&self, request: RegisterMeetingRequest, handler: &HandlerInfo) -> RegisterOutcome {
        let Some(mut client) = self.handler(handler) else { return RegisterOutcome::Failed };
        match self.attempt(client.register_meeting(request)).await {
            Ok(answer) if answer.accepted => RegisterOutcome::Accepted,
            Ok(answer) => match answer.rejection_reason() {
                MhRejectionReason::StaleGeneration => RegisterOutcome::Stale,
                _ => RegisterOutcome::Refused,
            },
            Err(status) => {
                tracing::debug!(target: metric::TARGET, handler = handler.id, code = ?status.code(), "media handler registration failed");
                RegisterOutcome::Failed
            }
        }
    }

    /// Registers a meeting at one handler. A refusal is not retried.
    async fn register_at(
        &self,
        request: RegisterMeetingRequest,
        handler: &HandlerInfo,
        attempts: usize,
    ) -> RegisterOutcome {
        let began = self.clock.now();
        let mut outcome = self.register_once(request.clone(), handler).await;
        for pause in PAUSES.into_iter().take(attempts.saturating_sub(1)) {
            if outcome != RegisterOutcome::Failed {
                break;
            }
            self.pause(pause).await;
            outcome = self.register_once(request.clone(), handler).await;
        }
        let status = match outcome {
            RegisterOutcome::Accepted => "success",
            RegisterOutcome::Refused => "refused",
            RegisterOutcome::Stale => "stale",
            RegisterOutcome::Failed => "error",
        };
        metric::registered(status, self.clock.now().since(began));
        if outcome != RegisterOutcome::Accepted {
            tracing::warn!(target: metric::TARGET, meeting = request.meeting_id, handler = handler.id, status, "meeting not registered at media handler");
        }
        outcome
    }

    /// The other handlers of a meeting, which a handler exchanges media with.
    fn other_handlers(
        &self,
        handler: &HandlerInfo,
        handlers: &[(HandlerInfo, HandlerKeys)],
    ) -> Vec<CrossRegionPeer> {
        let others = handlers.iter().map(|(other, _)| other).filter(|other| other.id != handler.id);
        let peer = |other: &HandlerInfo| CrossRegionPeer {
            mh_id: other.id.clone(),
            region: self.region.clone(),
            endpoint: other.webtransport_endpoint.clone(),
            certificate_sha256: other.certificates.iter().map(|hash| hash.clone().into()).collect(),
        };
        others.map(peer).collect()
    }

    async fn register_at_all(self, registration: Registration) -> Vec<RegisterOutcome> {
        let Registration { meeting, generation, handlers, seats, attempts } = registration;
        let seats: Vec<MediaSeat> = seats.iter().map(seat_to_wire).collect();
        let calls = handlers.iter().map(|(handler, keys)| {
            let keys = [Some(&keys.current), keys.previous.as_ref()].into_iter().flatten();
            let request = RegisterMeetingRequest {
                meeting_id: meeting.to_string(),
                mc_id: self.mc_id.clone(),
                mc_grpc_endpoint: self.grpc_endpoint.clone(),
                generation,
                peers: self.other_handlers(handler, &handlers),
                handler_key: keys.map(|key| Bytes::copy_from_slice(key.expose())).collect(),
                lease_ms: limits::HANDLER_LEASE.as_millis() as u32,
                seats: seats.clone(),
            };
            self.register_at(request, handler, attempts)
        });
        join_all(calls).await
    }

    /// Asks GC for handlers in place of others.
    async fn request_replacements(self, replacement: Replacement) -> Option<Vec<HandlerInfo>> {
        let Replacement { meeting, failed, kept, reason } = replacement;
        let reason = match reason {
            ReplaceReason::Refused => MhReplacementReason::CapacityExceeded,
            ReplaceReason::Unreachable => MhReplacementReason::ConnectionFailed,
        };
        let request = RequestMhReplacementRequest {
            meeting_id: meeting.to_string(),
            failed_mh_ids: failed,
            reason: reason.into(),
            kept_mh_ids: kept,
        };
        match self.gc()?.request_mh_replacement(request).await {
            Ok(answer) => grpc::handlers(answer.into_inner().new_mhs),
            Err(status) => {
                tracing::warn!(target: metric::TARGET, %meeting, code = ?status.code(), "media handlers not replaced");
                None
            }
        }
    }

    /// Has a handler enforce the mute of this epoch, or of a later one.
    async fn enforce_mute_at(&self, request: EnforceMuteRequest, handler: &HandlerInfo) -> MuteOutcome {
        let mut pauses = PAUSES.into_iter();
        loop {
            if let Some(mut client) = self.handler(handler) {
                match self.attempt(client.enforce_mute(request.clone())).await {
                    Ok(answer) => return mute_outcome(&answer, request.mute_epoch),
                    Err(status) if status.code() == Code::NotFound => return MuteOutcome::NotRegistered,
                    Err(status) => {
                        tracing::debug!(target: metric::TARGET, handler = handler.id, code = ?status.code(), "mute not delivered to media handler");
                    }
                }
            }
            match pauses.next() {
                Some(pause) => self.pause(pause).await,
                None => return MuteOutcome::Failed,
            }
        }
    }

    async fn enforce_mute_at_all(self, order: MuteOrder) -> Vec<MuteOutcome> {
        let request = EnforceMuteRequest {
            participant_id: order.participant.to_string(),
            audio_muted: order.mutes.audio_host,
            video_muted: order.mutes.video_host,
            meeting_id: order.meeting.to_string(),
            generation: order.generation,
            mute_epoch: order.mutes.epoch,
        };
        join_all(order.handlers.iter().map(|handler| self.enforce_mute_at(request.clone(), handler))).await
    }

    async fn release_participant_at(&self, request: ReleaseParticipantRequest, handler: &HandlerInfo) {
        let mut pauses = PAUSES.into_iter();
        while let Some(mut client) = self.handler(handler) {
            match self.attempt(client.release_participant(request.clone())).await {
                Ok(_) => return,
                Err(status) if matches!(status.code(), Code::NotFound | Code::Unimplemented) => return,
                Err(status) => {
                    tracing::debug!(target: metric::TARGET, handler = handler.id, code = ?status.code(), "participant not released at media handler");
                }
            }
            match pauses.next() {
                Some(pause) => self.pause(pause).await,
                None => return,
            }
        }
    }

    async fn release_participant_at_all(self, release: ParticipantRelease) {
        let request = ReleaseParticipantRequest {
            meeting_id: release.meeting.to_string(),
            participant_id: release.participant.to_string(),
            epoch: release.epoch,
            generation: release.generation,
            reason: release_reason(release.reason).into(),
        };
        let calls =
            release.handlers.iter().map(|handler| self.release_participant_at(request.clone(), handler));
        join_all(calls).await;
    }

    async fn release_at_all(self, meeting: MeetingId, generation: u64, handlers: Vec<HandlerInfo>) {
        let calls = handlers.iter().filter_map(|handler| self.handler(handler)).map(|mut client| {
            let request = ReleaseMeetingRequest { meeting_id: meeting.to_string(), generation };
            async move { client.release_meeting(request).await }
        });
        for answer in join_all(calls).await {
            if let Err(status) = answer {
                tracing::debug!(target: metric::TARGET, %meeting, code = ?status.code(), "meeting not released at media handler");
            }
        }
    }

    async fn notify_meeting_ended(self, meeting: MeetingId, generation: u64) {
        let request = NotifyMeetingEndedRequest {
            meeting_id: meeting.to_string(),
            region: self.region.clone(),
            generation,
        };
        for pause in [Some(PAUSES[0]), Some(PAUSES[1]), None] {
            let Some(mut gc) = self.gc() else { return };
            match (gc.notify_meeting_ended(request.clone()).await, pause) {
                (Ok(_), _) => return,
                (Err(_), Some(pause)) => self.pause(pause).await,
                (Err(status), None) => {
                    tracing::warn!(target: metric::TARGET, %meeting, code = ?status.code(), "end of the meeting not reported to GC");
                }
            }
        }
    }
}

impl MediaHandlers for Peers {
    fn register(&self, registration: Registration) -> BoxFuture<'static, Vec<RegisterOutcome>> {
        Box::pin(self.clone().register_at_all(registration))
    }

    fn enforce_mute(&self, order: MuteOrder) -> BoxFuture<'static, Vec<MuteOutcome>> {
        Box::pin(self.clone().enforce_mute_at_all(order))
    }

    fn release_participant(&self, release: ParticipantRelease) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().release_participant_at_all(release))
    }

    fn replace(&self, replacement: Replacement) -> BoxFuture<'static, Option<Vec<HandlerInfo>>> {
        Box::pin(self.clone().request_replacements(replacement))
    }

    fn release(
        &self,
        meeting: &MeetingId,
        generation: u64,
        handlers: &[HandlerInfo],
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().release_at_all(meeting.clone(), generation, handlers.to_vec()))
    }
}

impl GlobalController for Peers {
    fn meeting_ended(&self, meeting: &MeetingId, generation: u64) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().notify_meeting_ended(meeting.clone(), generation))
    }

    fn probe_controller(
        &self,
        grpc_endpoint: &str,
        meeting_id: &str,
    ) -> BoxFuture<'static, Option<ProbeResponse>> {
        let (channel, clock) = (self.channels.to(grpc_endpoint), self.clock.clone());
        let request = ProbeRequest { meeting_id: meeting_id.to_owned() };
        Box::pin(async move {
            let mut client = MeetingControllerServiceClient::new(channel.ok()?);
            tokio::select! {
                biased;
                answer = client.probe(request) => answer.ok().map(tonic::Response::into_inner),
                () = clock.sleep_until(clock.now() + limits::PROBE) => None,
            }
        })
    }

    fn draining(
        &self,
        notice: DrainNotice,
    ) -> BoxFuture<'static, Result<HashMap<MeetingId, Destination>, GcUnavailable>> {
        Box::pin(self.clone().notify_draining(notice))
    }

    fn request_target(
        &self,
        meeting: &MeetingId,
        excluded: &[String],
    ) -> BoxFuture<'static, Result<Option<Destination>, GcUnavailable>> {
        Box::pin(self.clone().ask_for_target(meeting.clone(), excluded.to_vec()))
    }

    fn drained(&self, report: DrainReport) -> BoxFuture<'static, Result<(), GcUnavailable>> {
        Box::pin(self.clone().notify_drained(report))
    }
}
