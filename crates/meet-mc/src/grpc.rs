//! The gRPC services of a controller, for GC and media handlers.

mod migration;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::Generation;
use tenure_meet_rpc::{Gatekeeper, Keyring, ServiceRole};
use tenure_meet_wire::internal::media_coordination_service_server::{
    MediaCoordinationService, MediaCoordinationServiceServer,
};
use tenure_meet_wire::internal::meeting_controller_service_server::{
    MeetingControllerService, MeetingControllerServiceServer,
};
use tenure_meet_wire::internal::meeting_migration_service_server::MeetingMigrationServiceServer;
use tenure_meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, CancelDrainRequest, CancelDrainResponse, ControllerCapacity,
    EndMeetingRequest, EndMeetingResponse, HealthStatus, MediaNotificationResponse, MeetingSpeakers,
    MhAssignment, MhLoadNotification, MhRole, MigrateMeetingsRequest, MigrateMeetingsResponse,
    ParticipantMediaConnected, ParticipantMediaDisconnected, ProbePeerRequest, ProbePeerResponse,
    ProbeRequest, ProbeResponse, RejectionReason, RequestDrainRequest, RequestDrainResponse,
};
use tenure_meet_wire::{Id, MeetingId};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::actor::{Assigned, Assignment, Controller, Rejection};
use crate::meeting::{HandlerInfo, Settings};
use crate::metric;

/// Speakers in one report of a handler.
const MAX_SPEAKERS: usize = 16;
/// Media handlers whose load is kept.
const MAX_LOADS: usize = 1_024;

/// The last reported load of media handlers.
#[derive(Clone, Debug, Default)]
pub struct HandlerLoads(Arc<Mutex<HashMap<String, u32>>>);

impl HandlerLoads {
    fn record(&self, mh_id: &str, percent: u32) {
        let mut loads = self.0.lock();
        if loads.len() < MAX_LOADS || loads.contains_key(mh_id) {
            loads.insert(mh_id.to_owned(), percent);
        }
    }

    /// The last reported load of a handler, in percent.
    pub fn get(&self, mh_id: &str) -> Option<u32> {
        self.0.lock().get(mh_id).copied()
    }
}

#[derive(Clone)]
struct GrpcService {
    controller: Controller,
    timeouts: SeatTimeouts,
    loads: HandlerLoads,
}

/// How long the seat of a disconnected participant is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeatTimeouts {
    /// The seat.
    pub grace: Duration,
    /// The binding token that resumes it.
    pub binding_ttl: Duration,
}

/// The services of a controller, behind the check of service tokens.
pub fn grpc(
    controller: &Controller,
    keyring: Keyring,
    timeouts: SeatTimeouts,
    loads: HandlerLoads,
) -> Routes {
    let face = GrpcService { controller: controller.clone(), timeouts, loads };
    let routes = Routes::new(MeetingControllerServiceServer::new(face.clone()))
        .add_service(MeetingMigrationServiceServer::new(face.clone()))
        .add_service(MediaCoordinationServiceServer::new(face));
    Gatekeeper::new(ServiceRole::Mc, keyring).guard(routes)
}

/// The counts and the capacity of a controller.
pub async fn capacity(controller: &Controller) -> ControllerCapacity {
    let (counts, most) = (controller.counts().await, controller.capacity());
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    ControllerCapacity {
        max_meetings: number(most.meetings),
        current_meetings: number(counts.meetings),
        max_participants: number(most.participants),
        current_participants: number(counts.participants),
    }
}

/// The health of a controller.
pub async fn health(controller: &Controller) -> HealthStatus {
    match () {
        () if controller.is_draining() => HealthStatus::Draining,
        () if !controller.store_available() => HealthStatus::Unhealthy,
        () if controller.is_degraded().await => HealthStatus::Degraded,
        () => HealthStatus::Healthy,
    }
}

fn handler(assignment: MhAssignment, index: usize) -> Option<HandlerInfo> {
    let primary = match assignment.role() {
        MhRole::Primary => true,
        MhRole::Backup => false,
        MhRole::Unspecified => index == 0,
    };
    let valid = !assignment.mh_id.is_empty() && !assignment.grpc_endpoint.is_empty();
    valid.then(|| HandlerInfo {
        id: assignment.mh_id,
        webtransport_endpoint: assignment.webtransport_endpoint,
        grpc_endpoint: assignment.grpc_endpoint,
        primary,
        certificates: assignment.certificate_sha256.iter().map(|hash| hash.to_vec()).collect(),
    })
}

/// The handlers of an assignment; `None` if there is none, or one without id or endpoint.
pub(crate) fn handlers(assignments: Vec<MhAssignment>) -> Option<Vec<HandlerInfo>> {
    let parsed = assignments.into_iter().enumerate().map(|(index, given)| handler(given, index));
    parsed.collect::<Option<Vec<_>>>().filter(|handlers| !handlers.is_empty())
}

impl GrpcService {
    fn assignment(&self, request: AssignMeetingRequest) -> Option<Assignment> {
        let meeting = MeetingId::parse(&request.meeting_id)?;
        let handlers = handlers(request.mh_assignments)?;
        let given = request.settings.unwrap_or_default();
        let defaults = Settings::default();
        let max_participants = match given.max_participants {
            0 => defaults.max_participants,
            most => most,
        };
        let SeatTimeouts { grace, binding_ttl } = self.timeouts;
        let (allow_guests, waiting_room) = (given.allow_guests, given.waiting_room);
        let settings = Settings { max_participants, allow_guests, waiting_room, grace, binding_ttl };
        let instead_of = Generation::new(request.instead_of).ok();
        Some(Assignment { meeting, settings, handlers, instead_of })
    }

    async fn owns(&self, meeting: &str) -> bool {
        match MeetingId::parse(meeting) {
            Some(meeting) => self.controller.owns(&meeting).await,
            None => false,
        }
    }

    async fn notified(
        &self,
        kind: &'static str,
        meeting: &str,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        metric::notified(kind);
        Ok(Response::new(MediaNotificationResponse { acknowledged: self.owns(meeting).await }))
    }
}

#[tonic::async_trait]
impl MeetingControllerService for GrpcService {
    async fn assign_meeting(
        &self,
        request: Request<AssignMeetingRequest>,
    ) -> Result<Response<AssignMeetingResponse>, Status> {
        let mut answer = AssignMeetingResponse::default();
        let assigned = match self.assignment(request.into_inner()) {
            Some(assignment) => Some(self.controller.assign(assignment).await),
            None => None,
        };
        let (status, reason) = match assigned {
            Some(Assigned::Accepted { generation }) => {
                (answer.accepted, answer.generation) = (true, generation);
                ("accepted", RejectionReason::Unspecified)
            }
            None => ("invalid_request", RejectionReason::InvalidRequest),
            Some(Assigned::Rejected(Rejection::AtCapacity)) => ("at_capacity", RejectionReason::AtCapacity),
            Some(Assigned::Rejected(Rejection::Draining)) => ("draining", RejectionReason::Draining),
            Some(Assigned::Rejected(Rejection::Unhealthy)) => ("unhealthy", RejectionReason::Unhealthy),
            Some(Assigned::Rejected(Rejection::AlreadyOwned { owner })) => {
                answer.owner_mc_id = owner.unwrap_or_default();
                ("already_owned", RejectionReason::AlreadyOwned)
            }
        };
        metric::assigned(status);
        answer.set_rejection_reason(reason);
        answer.capacity = Some(capacity(&self.controller).await);
        Ok(Response::new(answer))
    }

    async fn request_drain(
        &self,
        request: Request<RequestDrainRequest>,
    ) -> Result<Response<RequestDrainResponse>, Status> {
        let request = request.into_inner();
        if request.mc_id != self.controller.id() {
            return Err(Status::not_found("this is another controller"));
        }
        let accepted = self.controller.start_drain(migration::drain_order(&request));
        Ok(Response::new(RequestDrainResponse { accepted }))
    }

    async fn cancel_drain(
        &self,
        request: Request<CancelDrainRequest>,
    ) -> Result<Response<CancelDrainResponse>, Status> {
        if request.into_inner().mc_id != self.controller.id() {
            return Err(Status::not_found("this is another controller"));
        }
        let cancelled = self.controller.cancel_drain().await;
        Ok(Response::new(CancelDrainResponse { cancelled }))
    }

    async fn migrate_meetings(
        &self,
        request: Request<MigrateMeetingsRequest>,
    ) -> Result<Response<MigrateMeetingsResponse>, Status> {
        let accepted = self.start_moves(request.into_inner()).await;
        Ok(Response::new(MigrateMeetingsResponse { accepted }))
    }

    async fn end_meeting(
        &self,
        request: Request<EndMeetingRequest>,
    ) -> Result<Response<EndMeetingResponse>, Status> {
        let meeting = MeetingId::parse(&request.into_inner().meeting_id);
        let meeting = meeting.ok_or_else(|| Status::invalid_argument("invalid meeting id"))?;
        match self.controller.end_meeting(&meeting).await {
            None => Ok(Response::new(EndMeetingResponse { ended: false })),
            Some(true) => Ok(Response::new(EndMeetingResponse { ended: true })),
            Some(false) => Err(Status::unavailable("the meeting cannot be ended now; retry")),
        }
    }

    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let held = match MeetingId::parse(&request.into_inner().meeting_id) {
            Some(meeting) => self.controller.held_generation(&meeting).await,
            None => None,
        };
        let mut answer = ProbeResponse {
            mc_id: self.controller.id().to_owned(),
            owns_meeting: held.is_some(),
            boot_id: self.controller.boot_id().to_owned(),
            generation: held.unwrap_or_default(),
            ..ProbeResponse::default()
        };
        answer.set_health(health(&self.controller).await);
        Ok(Response::new(answer))
    }

    async fn probe_peer(
        &self,
        request: Request<ProbePeerRequest>,
    ) -> Result<Response<ProbePeerResponse>, Status> {
        let ProbePeerRequest { grpc_endpoint, meeting_id, .. } = request.into_inner();
        let probe = self.controller.probe_peer(&grpc_endpoint, &meeting_id).await;
        Ok(Response::new(ProbePeerResponse { reached: probe.is_some(), probe }))
    }
}

#[tonic::async_trait]
impl MediaCoordinationService for GrpcService {
    async fn notify_participant_connected(
        &self,
        request: Request<ParticipantMediaConnected>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        self.notified("connected", &request.into_inner().meeting_id).await
    }

    async fn notify_participant_disconnected(
        &self,
        request: Request<ParticipantMediaDisconnected>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        self.notified("disconnected", &request.into_inner().meeting_id).await
    }

    async fn notify_speakers(
        &self,
        request: Request<MeetingSpeakers>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        let request = request.into_inner();
        let ids = request.participant_ids.iter().take(MAX_SPEAKERS).filter_map(|id| Id::parse(id));
        if let Some(meeting) = MeetingId::parse(&request.meeting_id) {
            self.controller.report_speakers(&meeting, ids.collect()).await;
        }
        self.notified("speakers", &request.meeting_id).await
    }

    async fn notify_load(
        &self,
        request: Request<MhLoadNotification>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        metric::notified("load");
        let load = request.into_inner();
        self.loads.record(&load.mh_id, load.capacity_percent);
        Ok(Response::new(MediaNotificationResponse { acknowledged: true }))
    }
}
