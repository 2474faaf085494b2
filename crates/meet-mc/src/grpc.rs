//! What other parts of the service ask of a controller.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use meet_rpc::{Gatekeeper, Keyring, Part};
use meet_wire::MeetingId;
use meet_wire::internal::media_coordination_service_server::{
    MediaCoordinationService, MediaCoordinationServiceServer,
};
use meet_wire::internal::meeting_controller_service_server::{
    MeetingControllerService, MeetingControllerServiceServer,
};
use meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, ControllerCapacity, HealthStatus, MediaNotificationResponse,
    MhAssignment, MhLoadNotification, MhRole, MigrateMeetingsRequest, MigrateMeetingsResponse,
    ParticipantMediaConnected, ParticipantMediaDisconnected, ProbeRequest, ProbeResponse, RejectionReason,
    RequestDrainRequest, RequestDrainResponse,
};
use parking_lot::Mutex;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::actor::{Assigned, Assignment, Controller, Rejection};
use crate::meeting::{Handler, Settings};
use crate::metric;

/// Media handlers whose load is remembered.
const LOADS: usize = 1_024;

/// The load of media handlers, as they last said.
#[derive(Clone, Debug, Default)]
pub struct Loads(Arc<Mutex<HashMap<String, u32>>>);

impl Loads {
    fn note(&self, mh_id: &str, percent: u32) {
        let mut loads = self.0.lock();
        if loads.len() < LOADS || loads.contains_key(mh_id) {
            loads.insert(mh_id.to_owned(), percent);
        }
    }

    /// What a handler last said, in percent.
    pub fn of(&self, mh_id: &str) -> Option<u32> {
        self.0.lock().get(mh_id).copied()
    }
}

#[derive(Clone)]
struct Face {
    controller: Controller,
    times: Times,
    loads: Loads,
}

/// How long what is lost is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// The seat of somebody who dropped.
    pub grace: Duration,
    /// The proof of that seat.
    pub binding_ttl: Duration,
}

/// The services of a controller, behind its gatekeeper.
pub fn grpc(controller: &Controller, keyring: Keyring, times: Times, loads: Loads) -> Routes {
    let face = Face { controller: controller.clone(), times, loads };
    let routes = Routes::new(MeetingControllerServiceServer::new(face.clone()))
        .add_service(MediaCoordinationServiceServer::new(face));
    Gatekeeper::new(Part::Mc, keyring).guard(routes)
}

/// How much a controller has and may have, for those who choose one.
pub async fn capacity(controller: &Controller) -> ControllerCapacity {
    let (counts, most) = (controller.counts().await, controller.most());
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    ControllerCapacity {
        max_meetings: number(most.meetings),
        current_meetings: number(counts.meetings),
        max_participants: number(most.participants),
        current_participants: number(counts.participants),
    }
}

/// How a controller is, for those who choose one.
pub async fn health(controller: &Controller) -> HealthStatus {
    match () {
        () if controller.is_draining() => HealthStatus::Draining,
        () if !controller.store_is_there() => HealthStatus::Unhealthy,
        () if controller.is_degraded().await => HealthStatus::Degraded,
        () => HealthStatus::Healthy,
    }
}

fn handler(assignment: MhAssignment, index: usize) -> Option<Handler> {
    let primary = match assignment.role() {
        MhRole::Primary => true,
        MhRole::Backup => false,
        MhRole::Unspecified => index == 0,
    };
    let named = !assignment.mh_id.is_empty() && !assignment.grpc_endpoint.is_empty();
    named.then(|| Handler {
        id: assignment.mh_id,
        webtransport_endpoint: assignment.webtransport_endpoint,
        grpc_endpoint: assignment.grpc_endpoint,
        primary,
        certificates: assignment.certificate_sha256.iter().map(|hash| hash.to_vec()).collect(),
    })
}

/// The handlers of an assignment; none unless each has a name and an endpoint, and there is one at least.
pub(crate) fn handlers(assignments: Vec<MhAssignment>) -> Option<Vec<Handler>> {
    let parsed = assignments.into_iter().enumerate().map(|(index, given)| handler(given, index));
    parsed.collect::<Option<Vec<_>>>().filter(|handlers| !handlers.is_empty())
}

impl Face {
    fn assignment(&self, request: AssignMeetingRequest) -> Option<Assignment> {
        let meeting = MeetingId::parse(&request.meeting_id)?;
        let handlers = handlers(request.mh_assignments)?;
        let given = request.settings.unwrap_or_default();
        let whole = Settings::default();
        let max_participants = match given.max_participants {
            0 => whole.max_participants,
            most => most,
        };
        let Times { grace, binding_ttl } = self.times;
        let settings = Settings { max_participants, allow_guests: given.allow_guests, grace, binding_ttl };
        Some(Assignment { meeting, settings, handlers })
    }

    async fn owns(&self, meeting: &str) -> bool {
        match MeetingId::parse(meeting) {
            Some(meeting) => self.controller.owns(&meeting).await,
            None => false,
        }
    }

    async fn heard(
        &self,
        kind: &'static str,
        meeting: &str,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        metric::notified(kind);
        Ok(Response::new(MediaNotificationResponse { acknowledged: self.owns(meeting).await }))
    }
}

#[tonic::async_trait]
impl MeetingControllerService for Face {
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

    /// There is no migration yet, so a drain on demand would throw everybody out: it is refused.
    async fn request_drain(
        &self,
        _request: Request<RequestDrainRequest>,
    ) -> Result<Response<RequestDrainResponse>, Status> {
        Ok(Response::new(RequestDrainResponse { accepted: false }))
    }

    /// There is no migration yet: none of the meetings is moved.
    async fn migrate_meetings(
        &self,
        _request: Request<MigrateMeetingsRequest>,
    ) -> Result<Response<MigrateMeetingsResponse>, Status> {
        Ok(Response::new(MigrateMeetingsResponse { accepted: 0 }))
    }

    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let mut answer = ProbeResponse {
            mc_id: self.controller.id().to_owned(),
            owns_meeting: self.owns(&request.into_inner().meeting_id).await,
            ..ProbeResponse::default()
        };
        answer.set_health(health(&self.controller).await);
        Ok(Response::new(answer))
    }
}

#[tonic::async_trait]
impl MediaCoordinationService for Face {
    async fn notify_participant_connected(
        &self,
        request: Request<ParticipantMediaConnected>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        self.heard("connected", &request.into_inner().meeting_id).await
    }

    async fn notify_participant_disconnected(
        &self,
        request: Request<ParticipantMediaDisconnected>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        self.heard("disconnected", &request.into_inner().meeting_id).await
    }

    async fn notify_load(
        &self,
        request: Request<MhLoadNotification>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        metric::notified("load");
        let load = request.into_inner();
        self.loads.note(&load.mh_id, load.capacity_percent);
        Ok(Response::new(MediaNotificationResponse { acknowledged: true }))
    }
}
