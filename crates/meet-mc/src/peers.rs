//! Calls to media handlers and to GC.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tenure_lease::Clock;
use tenure_meet_rpc::{Channel, ChannelPool};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use tenure_meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tenure_meet_wire::internal::{
    EnforceMuteRequest, MhRejectionReason, MhReplacementReason, NotifyMeetingEndedRequest,
    RegisterMeetingRequest, ReleaseMeetingRequest, RequestMhReplacementRequest,
};

use crate::actor::{GlobalController, MediaHandlers, MuteOrder};
use crate::meeting::HandlerInfo;
use crate::{grpc, metric};

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

/// The outcome of a registration at a handler.
enum RegisterOutcome {
    Accepted,
    /// The handler is full or draining.
    Refused,
    /// The handler knows a newer owner.
    Stale,
    /// The call failed.
    Failed,
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

    fn gc(&self) -> Option<GlobalControllerServiceClient<Channel>> {
        self.channels.to(&self.gc_endpoint).ok().map(GlobalControllerServiceClient::new)
    }

    async fn pause(&self, pause: Duration) {
        self.clock.sleep_until(self.clock.now() + pause).await;
    }

    async fn register_once(&self, request: RegisterMeetingRequest, handler: &HandlerInfo) -> RegisterOutcome {
        let Some(mut client) = self.handler(handler) else { return RegisterOutcome::Failed };
        match client.register_meeting(request).await.map(tonic::Response::into_inner) {
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

    /// Registers a meeting at one handler, with up to three attempts. A refusal is not retried.
    async fn register_at(&self, request: RegisterMeetingRequest, handler: &HandlerInfo) -> RegisterOutcome {
        let began = self.clock.now();
        let mut outcome = self.register_once(request.clone(), handler).await;
        for pause in PAUSES {
            if !matches!(outcome, RegisterOutcome::Failed) {
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
        if !matches!(outcome, RegisterOutcome::Accepted) {
            tracing::warn!(target: metric::TARGET, meeting = request.meeting_id, handler = handler.id, status, "meeting not registered at media handler");
        }
        outcome
    }

    /// Requests replacements for handlers that all failed.
    async fn request_replacements(
        &self,
        meeting: &MeetingId,
        failed: &[HandlerInfo],
        reason: MhReplacementReason,
    ) -> Option<Vec<HandlerInfo>> {
        let request = RequestMhReplacementRequest {
            meeting_id: meeting.to_string(),
            failed_mh_ids: failed.iter().map(|handler| handler.id.clone()).collect(),
            reason: reason.into(),
            ..RequestMhReplacementRequest::default()
        };
        match self.gc()?.request_mh_replacement(request).await {
            Ok(answer) => grpc::handlers(answer.into_inner().new_mhs),
            Err(status) => {
                tracing::warn!(target: metric::TARGET, %meeting, code = ?status.code(), "media handlers not replaced");
                None
            }
        }
    }

    async fn register_at_all(
        self,
        meeting: MeetingId,
        generation: u64,
        handlers: Vec<HandlerInfo>,
    ) -> Option<Vec<HandlerInfo>> {
        let request = RegisterMeetingRequest {
            meeting_id: meeting.to_string(),
            mc_id: self.mc_id.clone(),
            mc_grpc_endpoint: self.grpc_endpoint.clone(),
            generation,
            ..RegisterMeetingRequest::default()
        };
        let outcomes =
            join_all(handlers.iter().map(|handler| self.register_at(request.clone(), handler))).await;
        let registered = outcomes
            .iter()
            .any(|outcome| matches!(outcome, RegisterOutcome::Accepted | RegisterOutcome::Stale));
        if registered || handlers.is_empty() {
            return None;
        }
        let reason = match outcomes.iter().any(|outcome| matches!(outcome, RegisterOutcome::Refused)) {
            true => MhReplacementReason::CapacityExceeded,
            false => MhReplacementReason::ConnectionFailed,
        };
        self.request_replacements(&meeting, &handlers, reason).await
    }

    /// Whether a handler enforces the mute of this epoch, or of a later one.
    async fn enforce_mute_at(&self, request: EnforceMuteRequest, handler: &HandlerInfo) -> bool {
        let mut pauses = PAUSES.into_iter();
        loop {
            if let Some(mut client) = self.handler(handler) {
                match client.enforce_mute(request.clone()).await.map(tonic::Response::into_inner) {
                    // A later order that arrived first counts as well.
                    Ok(answer) => {
                        let stale = answer.rejection_reason() == MhRejectionReason::StaleGeneration;
                        return !stale && answer.mute_epoch >= request.mute_epoch && request.mute_epoch > 0;
                    }
                    Err(status) => {
                        tracing::debug!(target: metric::TARGET, handler = handler.id, code = ?status.code(), "mute not delivered to media handler");
                    }
                }
            }
            match pauses.next() {
                Some(pause) => self.pause(pause).await,
                None => return false,
            }
        }
    }

    async fn enforce_mute_at_all(self, order: MuteOrder) -> Vec<String> {
        let request = EnforceMuteRequest {
            participant_id: order.participant.to_string(),
            audio_muted: order.mutes.audio_host,
            video_muted: order.mutes.video_host,
            meeting_id: order.meeting.to_string(),
            generation: order.generation,
            mute_epoch: order.mutes.epoch,
        };
        let enforced =
            join_all(order.handlers.iter().map(|handler| self.enforce_mute_at(request.clone(), handler)))
                .await;
        let missing = order.handlers.iter().zip(enforced).filter(|(_, enforced)| !enforced);
        missing.map(|(handler, _)| handler.id.clone()).collect()
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
    fn register(
        &self,
        meeting: &MeetingId,
        generation: u64,
        handlers: &[HandlerInfo],
    ) -> BoxFuture<'static, Option<Vec<HandlerInfo>>> {
        Box::pin(self.clone().register_at_all(meeting.clone(), generation, handlers.to_vec()))
    }

    fn enforce_mute(&self, order: MuteOrder) -> BoxFuture<'static, Vec<String>> {
        Box::pin(self.clone().enforce_mute_at_all(order))
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
}
