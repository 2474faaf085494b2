//! The calls that move meetings: between controllers, and from GC.

use std::time::Duration;

use tenure_meet_rpc::history::MoveReason;
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::meeting_migration_service_server::MeetingMigrationService;
use tenure_meet_wire::internal::{
    AnnounceMigrationRequest, DrainReason as WireDrainReason, MigrateMeetingsRequest, MigrationAccepted,
    MigrationResumedRequest, MigrationResumedResponse, PrepareMeetingMigrationRequest, RejectionReason,
    RequestDrainRequest,
};
use tonic::{Request, Response, Status};

use super::GrpcService;
use crate::actor::{Announced, Arriving, DrainOrder, DrainReason, Rejection, Resumed};
use crate::move_calls::destination;

/// How long a drain may take if its order names no deadline.
const DEADLINE: Duration = Duration::from_secs(60);
/// Meetings in one order to move.
const MAX_MOVES: usize = 1_000;

pub(super) fn rejection_to_wire(rejection: &Rejection) -> RejectionReason {
    match rejection {
        Rejection::AtCapacity => RejectionReason::AtCapacity,
        Rejection::Draining => RejectionReason::Draining,
        Rejection::Unhealthy => RejectionReason::Unhealthy,
        Rejection::AlreadyOwned { .. } => RejectionReason::AlreadyOwned,
    }
}

pub(super) fn drain_order(request: &RequestDrainRequest) -> DrainOrder {
    let reason = match request.reason() {
        WireDrainReason::Unspecified => DrainReason::Unspecified,
        WireDrainReason::Maintenance => DrainReason::Maintenance,
        WireDrainReason::ScaleDown => DrainReason::ScaleDown,
        WireDrainReason::Unhealthy => DrainReason::Unhealthy,
        WireDrainReason::VersionUpgrade => DrainReason::VersionUpgrade,
    };
    let deadline = request.deadline.and_then(|deadline| Duration::try_from(deadline).ok());
    DrainOrder { deadline: deadline.filter(|deadline| !deadline.is_zero()).unwrap_or(DEADLINE), reason }
}

/// The reason of an order of GC.
fn move_reason(reason: &str) -> MoveReason {
    match reason {
        "overload" => MoveReason::Overload,
        "unreachable" => MoveReason::Unreachable,
        "drain" => MoveReason::Drain,
        _ => MoveReason::Operator,
    }
}

fn meeting_id(text: &str) -> Result<MeetingId, Status> {
    MeetingId::parse(text).ok_or_else(|| Status::invalid_argument("invalid meeting id"))
}

impl GrpcService {
    /// Starts the moves; returns how many began. A meeting without a named target goes where GC says.
    pub(super) async fn start_moves(&self, request: MigrateMeetingsRequest) -> u32 {
        let (reason, mut accepted) = (move_reason(&request.reason), 0);
        for assignment in request.assignments.into_iter().take(MAX_MOVES) {
            let Some(meeting) = MeetingId::parse(&assignment.meeting_id) else { continue };
            let began = self.controller.start_move(&meeting, destination(assignment), reason).await;
            accepted += u32::from(began);
        }
        accepted
    }
}

#[tonic::async_trait]
impl MeetingMigrationService for GrpcService {
    async fn announce_migration(
        &self,
        request: Request<AnnounceMigrationRequest>,
    ) -> Result<Response<MigrationAccepted>, Status> {
        let request = request.into_inner();
        let arriving = Arriving {
            meeting: meeting_id(&request.meeting_id)?,
            generation: request.generation,
            from_mc: request.from_mc_id,
            from_endpoint: request.from_grpc_endpoint,
            timeouts: self.timeouts,
        };
        let mut answer = MigrationAccepted { meeting_id: request.meeting_id, ..MigrationAccepted::default() };
        match self.controller.announce(arriving).await {
            Announced::Accepted { parked } => {
                (answer.accepted, answer.parked) = (true, u32::try_from(parked).unwrap_or(u32::MAX));
            }
            Announced::Rejected(rejection) => answer.set_rejection_reason(rejection_to_wire(&rejection)),
        }
        Ok(Response::new(answer))
    }

    async fn prepare_meeting_migration(
        &self,
        request: Request<PrepareMeetingMigrationRequest>,
    ) -> Result<Response<MigrationAccepted>, Status> {
        let request = request.into_inner();
        let meeting = meeting_id(&request.meeting_id)?;
        let (generation, last_event) = (request.current_generation, request.last_event_seq);
        let accepted = self.controller.is_prepared(&meeting, generation, last_event).await;
        let mut answer = MigrationAccepted { meeting_id: request.meeting_id, accepted, ..Default::default() };
        if !accepted {
            answer.set_rejection_reason(RejectionReason::InvalidRequest);
        }
        Ok(Response::new(answer))
    }

    async fn migration_resumed(
        &self,
        request: Request<MigrationResumedRequest>,
    ) -> Result<Response<MigrationResumedResponse>, Status> {
        let request = request.into_inner();
        let resumed = Resumed {
            meeting: meeting_id(&request.meeting_id)?,
            generation: request.generation,
            last_event: request.event_seq,
        };
        self.controller.on_resumed(resumed).await;
        Ok(Response::new(MigrationResumedResponse {}))
    }
}
