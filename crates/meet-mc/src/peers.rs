//! The way to media handlers and to GC, over lines.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use lease::Clock;
use meet_rpc::{Line, Lines};
use meet_wire::MeetingId;
use meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use meet_wire::internal::{
    EnforceMuteRequest, MhRejectionReason, MhReplacementReason, NotifyMeetingEndedRequest,
    RegisterMeetingRequest, ReleaseMeetingRequest, RequestMhReplacementRequest,
};

use crate::actor::{Home, MediaPort, MuteOrder};
use crate::meeting::Handler;
use crate::{grpc, metric};

/// The pauses between the tries to tell a handler of a meeting, or of a mute.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// Who this controller is, and how it speaks with others.
#[derive(Clone)]
pub struct Peers {
    /// The lines.
    pub lines: Lines,
    /// Times the pauses.
    pub clock: Arc<dyn Clock>,
    /// The controller's id.
    pub mc_id: String,
    /// Where handlers reach it.
    pub grpc_endpoint: String,
    /// Its region.
    pub region: String,
    /// Where GC is.
    pub gc_endpoint: String,
}

/// What a handler said to a meeting.
enum Taken {
    Yes,
    /// It has no room or goes away.
    Refused,
    /// It knows a newer owner than us.
    Stale,
    /// Nothing, or not as it should.
    Silent,
}

impl Peers {
    fn handler(&self, handler: &Handler) -> Option<MediaHandlerServiceClient<Line>> {
        match self.lines.to(&handler.grpc_endpoint) {
            Ok(line) => Some(MediaHandlerServiceClient::new(line)),
            Err(error) => {
                tracing::warn!(target: metric::TARGET, handler = handler.id, %error, "no way to the media handler");
                None
            }
        }
    }

    fn gc(&self) -> Option<GlobalControllerServiceClient<Line>> {
        self.lines.to(&self.gc_endpoint).ok().map(GlobalControllerServiceClient::new)
    }

    async fn pause(&self, pause: Duration) {
        self.clock.sleep_until(self.clock.now() + pause).await;
    }

    async fn register_once(&self, request: RegisterMeetingRequest, handler: &Handler) -> Taken {
        let Some(mut client) = self.handler(handler) else { return Taken::Silent };
        match client.register_meeting(request).await.map(tonic::Response::into_inner) {
            Ok(answer) if answer.accepted => Taken::Yes,
            Ok(answer) => match answer.rejection_reason() {
                MhRejectionReason::StaleGeneration => Taken::Stale,
                _ => Taken::Refused,
            },
            Err(status) => {
                tracing::debug!(target: metric::TARGET, handler = handler.id, code = ?status.code(), "a media handler was not told");
                Taken::Silent
            }
        }
    }

    /// Tells one handler of a meeting, up to three times. A refusal is an answer and is not asked for again.
    async fn register_at(&self, request: RegisterMeetingRequest, handler: &Handler) -> Taken {
        let began = self.clock.now();
        let mut taken = self.register_once(request.clone(), handler).await;
        for pause in PAUSES {
            if !matches!(taken, Taken::Silent) {
                break;
            }
            self.pause(pause).await;
            taken = self.register_once(request.clone(), handler).await;
        }
        let status = match taken {
            Taken::Yes => "success",
            Taken::Refused => "refused",
            Taken::Stale => "stale",
            Taken::Silent => "error",
        };
        metric::registered(status, self.clock.now().since(began));
        if !matches!(taken, Taken::Yes) {
            tracing::warn!(target: metric::TARGET, meeting = request.meeting_id, handler = handler.id, status, "a media handler did not take the meeting");
        }
        taken
    }

    /// Others, when none of these took the meeting.
    async fn replacement(
        &self,
        meeting: &MeetingId,
        failed: &[Handler],
        reason: MhReplacementReason,
    ) -> Option<Vec<Handler>> {
        let request = RequestMhReplacementRequest {
            meeting_id: meeting.to_string(),
            failed_mh_ids: failed.iter().map(|handler| handler.id.clone()).collect(),
            reason: reason.into(),
        };
        match self.gc()?.request_mh_replacement(request).await {
            Ok(answer) => grpc::handlers(answer.into_inner().new_mhs),
            Err(status) => {
                tracing::warn!(target: metric::TARGET, %meeting, code = ?status.code(), "there are no other media handlers");
                None
            }
        }
    }

    async fn register_all(
        self,
        meeting: MeetingId,
        generation: u64,
        handlers: Vec<Handler>,
    ) -> Option<Vec<Handler>> {
        let request = RegisterMeetingRequest {
            meeting_id: meeting.to_string(),
            mc_id: self.mc_id.clone(),
            mc_grpc_endpoint: self.grpc_endpoint.clone(),
            generation,
            peers: Vec::new(),
        };
        let told = join_all(handlers.iter().map(|handler| self.register_at(request.clone(), handler))).await;
        let kept = told.iter().any(|taken| matches!(taken, Taken::Yes | Taken::Stale));
        if kept || handlers.is_empty() {
            return None;
        }
        let reason = match told.iter().any(|taken| matches!(taken, Taken::Refused)) {
            true => MhReplacementReason::CapacityExceeded,
            false => MhReplacementReason::ConnectionFailed,
        };
        self.replacement(&meeting, &handlers, reason).await
    }

    /// Whether a handler holds the mute of this epoch, or a later one.
    async fn enforced_at(&self, request: EnforceMuteRequest, handler: &Handler) -> bool {
        let mut pauses = PAUSES.into_iter();
        loop {
            if let Some(mut client) = self.handler(handler) {
                match client.enforce_mute(request.clone()).await.map(tonic::Response::into_inner) {
                    // A later word of ours that arrived first holds as well.
                    Ok(answer) => {
                        let stale = answer.rejection_reason() == MhRejectionReason::StaleGeneration;
                        return !stale && answer.mute_epoch >= request.mute_epoch && request.mute_epoch > 0;
                    }
                    Err(status) => {
                        tracing::debug!(target: metric::TARGET, handler = handler.id, code = ?status.code(), "a mute was not told");
                    }
                }
            }
            match pauses.next() {
                Some(pause) => self.pause(pause).await,
                None => return false,
            }
        }
    }

    async fn enforce_all(self, order: MuteOrder) -> Vec<String> {
        let request = EnforceMuteRequest {
            participant_id: order.participant.to_string(),
            audio_muted: order.mutes.audio_host,
            video_muted: order.mutes.video_host,
            meeting_id: order.meeting.to_string(),
            generation: order.generation,
            mute_epoch: order.mutes.epoch,
        };
        let told =
            join_all(order.handlers.iter().map(|handler| self.enforced_at(request.clone(), handler))).await;
        let missing = order.handlers.iter().zip(told).filter(|(_, enforced)| !enforced);
        missing.map(|(handler, _)| handler.id.clone()).collect()
    }

    async fn release_all(self, meeting: MeetingId, generation: u64, handlers: Vec<Handler>) {
        let told = handlers.iter().filter_map(|handler| self.handler(handler)).map(|mut client| {
            let request = ReleaseMeetingRequest { meeting_id: meeting.to_string(), generation };
            async move { client.release_meeting(request).await }
        });
        for answer in join_all(told).await {
            if let Err(status) = answer {
                tracing::debug!(target: metric::TARGET, %meeting, code = ?status.code(), "a media handler was not told of the end");
            }
        }
    }

    async fn tell_ended(self, meeting: MeetingId, generation: u64) {
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
                    tracing::warn!(target: metric::TARGET, %meeting, code = ?status.code(), "the end of the meeting was not told");
                }
            }
        }
    }
}

impl MediaPort for Peers {
    fn register(
        &self,
        meeting: &MeetingId,
        generation: u64,
        handlers: &[Handler],
    ) -> BoxFuture<'static, Option<Vec<Handler>>> {
        Box::pin(self.clone().register_all(meeting.clone(), generation, handlers.to_vec()))
    }

    fn enforce(&self, order: MuteOrder) -> BoxFuture<'static, Vec<String>> {
        Box::pin(self.clone().enforce_all(order))
    }

    fn release(&self, meeting: &MeetingId, generation: u64, handlers: &[Handler]) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().release_all(meeting.clone(), generation, handlers.to_vec()))
    }
}

impl Home for Peers {
    fn ended(&self, meeting: &MeetingId, generation: u64) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().tell_ended(meeting.clone(), generation))
    }
}
