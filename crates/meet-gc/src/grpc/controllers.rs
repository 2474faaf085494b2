//! The service for meeting controllers.

use std::sync::Arc;

use tenure_lease::{Key, Phase};
use tenure_meet_rpc::Kind;
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::global_controller_service_server::GlobalControllerService;
use tenure_meet_wire::internal::{
    CancelDrainRequest, CancelDrainResponse, ComprehensiveHeartbeatRequest, ControllerCapacity,
    FastHeartbeatRequest, HealthStatus, HeartbeatResponse, McDrained, McDrainedResponse, McDraining,
    McOverloaded, MhReplacement, MigrateMeetings, NotifyMeetingEndedRequest, NotifyMeetingEndedResponse,
    RegisterMcRequest, RegisterMcResponse, ReportMcUnreachableRequest, ReportMcUnreachableResponse,
    RequestMhReplacementRequest, RequestTargetRequest, RequestTargetResponse,
};
use tonic::{Request, Response, Status};

use crate::assign::{Owner, assignments};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::registry::Load;
use crate::reports::Report;
use crate::select::{self, Location};
use crate::{limits, metric};

pub(super) struct ControllerService(pub(super) Arc<GcState>);

/// Merges a heartbeat into the last known load.
fn beaten(last: Load, capacity: Option<ControllerCapacity>, health: i32) -> Load {
    let load = Load { health, ..last };
    match capacity {
        Some(capacity) => Load {
            meetings: capacity.current_meetings,
            max_meetings: capacity.max_meetings,
            participants: capacity.current_participants,
            max_participants: capacity.max_participants,
            ..load
        },
        None => load,
    }
}

impl ControllerService {
    /// Marks a controller as draining: it gets no new meetings.
    async fn draining(&self, mc_id: &str) -> Result<(), ApiError> {
        let health = HealthStatus::Draining.into();
        self.0.report(Kind::Controller, mc_id, |last| Load { health, ..last }).await
    }
}

#[tonic::async_trait]
impl GlobalControllerService for ControllerService {
    async fn register_mc(
        &self,
        request: Request<RegisterMcRequest>,
    ) -> Result<Response<RegisterMcResponse>, Status> {
        let request = request.into_inner();
        let load = Load {
            health: HealthStatus::Pending.into(),
            max_meetings: request.max_meetings,
            max_participants: request.max_participants,
            ..Load::default()
        };
        self.0.register(Kind::Controller, &request.id, load).await?;
        tracing::info!(mc = request.id, zone = request.zone, "meeting controller registered");
        Ok(Response::new(RegisterMcResponse {
            accepted: true,
            message: String::new(),
            fast_heartbeat_interval_ms: limits::FAST_HEARTBEAT.as_millis() as u32,
            comprehensive_heartbeat_interval_ms: limits::COMPREHENSIVE_HEARTBEAT.as_millis() as u32,
        }))
    }

    async fn fast_heartbeat(
        &self,
        request: Request<FastHeartbeatRequest>,
    ) -> Result<Response<HeartbeatResponse>, Status> {
        let beat = request.into_inner();
        let load = |last| beaten(last, beat.capacity, beat.health);
        self.0.report(Kind::Controller, &beat.controller_id, load).await?;
        Ok(Response::new(HeartbeatResponse { acknowledged: true }))
    }

    async fn comprehensive_heartbeat(
        &self,
        request: Request<ComprehensiveHeartbeatRequest>,
    ) -> Result<Response<HeartbeatResponse>, Status> {
        let beat = request.into_inner();
        let load = |last| Load {
            cpu_percent: beat.cpu_usage_percent,
            memory_percent: beat.memory_usage_percent,
            ..beaten(last, beat.capacity, beat.health)
        };
        self.0.report(Kind::Controller, &beat.controller_id, load).await?;
        Ok(Response::new(HeartbeatResponse { acknowledged: true }))
    }

    async fn notify_meeting_ended(
        &self,
        request: Request<NotifyMeetingEndedRequest>,
    ) -> Result<Response<NotifyMeetingEndedResponse>, Status> {
        let ended = request.into_inner();
        let kept = self.0.by_id(&ended.meeting_id).await?;
        let lease = Key::new(format!("meeting:{}", ended.meeting_id)).map_err(ApiError::from)?;
        let status = self.0.bounded(self.0.options.store.inspect(&lease)).await.map_err(ApiError::from)?;
        // A notification from a former owner is ignored.
        if status.phase != Phase::Held {
            let now = self.0.now_ms();
            self.0.change(kept, |meeting| meeting.active_ms = meeting.active_ms.max(now)).await?;
            tracing::info!(meeting = ended.meeting_id, generation = ended.generation, "meeting ended");
        }
        Ok(Response::new(NotifyMeetingEndedResponse {}))
    }

    async fn request_mh_replacement(
        &self,
        request: Request<RequestMhReplacementRequest>,
    ) -> Result<Response<MhReplacement>, Status> {
        let request = request.into_inner();
        let meeting = MeetingId::parse(&request.meeting_id).ok_or(ApiError::NO_MEETING)?;
        let Owner::There(home) = self.0.owner(meeting.as_str()).await? else {
            return Err(ApiError::Conflict("the meeting has no owner".to_owned()).into());
        };
        let handlers = self.0.nodes(Kind::Handler).await.map_err(ApiError::from)?;
        let near = Location { region: &home.node_info.region, zone: &home.node_info.zone };
        let excluded = [request.failed_mh_ids, request.kept_mh_ids].concat();
        let placement = select::handlers(&handlers, near, &excluded, &mut |n| self.0.below(n));
        let Some(placement) = placement else {
            metric::assigned("no_handler");
            return Err(ApiError::Unavailable("no other media handler is available".to_owned()).into());
        };
        let now = self.0.clock.now();
        let placed = placement.ranked.iter();
        placed.for_each(|handler| self.0.reservations.add(Kind::Handler, &handler.id, now));
        let new_mhs = assignments(&placement);
        Ok(Response::new(MhReplacement { meeting_id: request.meeting_id, new_mhs }))
    }

    /// Marks the controller as draining and names targets for its meetings.
    async fn notify_draining(
        &self,
        request: Request<McDraining>,
    ) -> Result<Response<MigrateMeetings>, Status> {
        let request = request.into_inner();
        if let Err(error) = self.draining(&request.mc_id).await {
            // Its meetings need targets even if it is not registered any more.
            tracing::debug!(mc = request.mc_id, ?error, "draining controller not marked");
        }
        let assignments = self.0.place_drained(&request).await?;
        let placed = assignments.len();
        tracing::info!(mc = request.mc_id, meetings = request.meeting_count, placed, "controller draining");
        Ok(Response::new(MigrateMeetings { assignments }))
    }

    async fn request_target(
        &self,
        request: Request<RequestTargetRequest>,
    ) -> Result<Response<RequestTargetResponse>, Status> {
        let assignment = self.0.place_again(&request.into_inner()).await?;
        Ok(Response::new(RequestTargetResponse { assignment }))
    }

    async fn cancel_drain(
        &self,
        request: Request<CancelDrainRequest>,
    ) -> Result<Response<CancelDrainResponse>, Status> {
        let cancelled = self.0.cancel_drain(&request.into_inner().mc_id).await?;
        Ok(Response::new(CancelDrainResponse { cancelled }))
    }

    async fn notify_drained(
        &self,
        request: Request<McDrained>,
    ) -> Result<Response<McDrainedResponse>, Status> {
        let request = request.into_inner();
        self.draining(&request.mc_id).await?;
        tracing::info!(
            mc = request.mc_id,
            migrated = request.migrated,
            closed = request.closed,
            "controller drained"
        );
        Ok(Response::new(McDrainedResponse {}))
    }

    /// Names targets for some of the candidates. The reported load keeps new meetings away.
    async fn notify_overloaded(
        &self,
        request: Request<McOverloaded>,
    ) -> Result<Response<MigrateMeetings>, Status> {
        let request = request.into_inner();
        self.0.report(Kind::Controller, &request.mc_id, |last| last).await?;
        let assignments = self.0.place_overloaded(&request).await?;
        let (percent, placed) = (request.capacity_percent, assignments.len());
        tracing::warn!(mc = request.mc_id, percent, placed, "controller overloaded");
        Ok(Response::new(MigrateMeetings { assignments }))
    }

    async fn report_mc_unreachable(
        &self,
        request: Request<ReportMcUnreachableRequest>,
    ) -> Result<Response<ReportMcUnreachableResponse>, Status> {
        let request = request.into_inner();
        let report = Report {
            meeting_id: &request.meeting_id,
            mc_id: &request.mc_id,
            token: &request.join_token,
            reason: request.reason(),
            suspect: false,
        };
        let decision = self.0.unreachable(report).await?;
        let (reports, quorum) = (decision.tally.reports, decision.tally.quorum());
        let failover_started = decision.failover_started;
        Ok(Response::new(ReportMcUnreachableResponse { reports, quorum, failover_started }))
    }
}
