//! Calls that belong to moves and drains: to other controllers and to GC.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_meet_rpc::Channel;
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::meeting_migration_service_client::MeetingMigrationServiceClient;
use tenure_meet_wire::internal::{
    AnnounceMigrationRequest, DrainReason as WireDrainReason, McDrained, McDraining, MigrationAssignment,
    MigrationResumedRequest, PrepareMeetingMigrationRequest, RequestTargetRequest,
};

use crate::actor::{
    Announcement, Controllers, Destination, DrainNotice, DrainReason, DrainReport, GcUnavailable, Resumed,
};
use crate::{Peers, metric};

/// Attempts to report the arrival of a meeting, and the pause between them.
const RESUMED: (usize, Duration) = (3, Duration::from_millis(200));

/// The target of an assignment; none if it lacks an id or an endpoint.
pub(crate) fn destination(assignment: MigrationAssignment) -> Option<Destination> {
    let complete = !assignment.target_mc_id.is_empty()
        && !assignment.target_grpc_endpoint.is_empty()
        && !assignment.target_webtransport_endpoint.is_empty();
    complete.then(|| Destination {
        mc_id: assignment.target_mc_id,
        grpc_endpoint: assignment.target_grpc_endpoint,
        webtransport_endpoint: assignment.target_webtransport_endpoint,
        certificates: assignment.certificate_sha256.iter().map(|hash| hash.to_vec()).collect(),
    })
}

fn drain_reason_to_wire(reason: DrainReason) -> WireDrainReason {
    match reason {
        DrainReason::Unspecified => WireDrainReason::Unspecified,
        DrainReason::Maintenance => WireDrainReason::Maintenance,
        DrainReason::ScaleDown => WireDrainReason::ScaleDown,
        DrainReason::Unhealthy => WireDrainReason::Unhealthy,
        DrainReason::VersionUpgrade => WireDrainReason::VersionUpgrade,
    }
}

impl Peers {
    fn controller(&self, endpoint: &str) -> Option<MeetingMigrationServiceClient<Channel>> {
        self.channels.to(endpoint).ok().map(MeetingMigrationServiceClient::new)
    }

    async fn announce_move(self, endpoint: String, announcement: Announcement) -> Option<usize> {
        let request = AnnounceMigrationRequest {
            meeting_id: announcement.meeting.to_string(),
            generation: announcement.generation,
            from_mc_id: self.mc_id.clone(),
            from_grpc_endpoint: self.grpc_endpoint.clone(),
        };
        match self.controller(&endpoint)?.announce_migration(request).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                let reason = answer.rejection_reason();
                if !answer.accepted {
                    tracing::info!(target: metric::TARGET, meeting = %announcement.meeting, endpoint, ?reason, "a controller does not take the meeting");
                }
                answer.accepted.then_some(answer.parked as usize)
            }
            Err(status) => {
                tracing::warn!(target: metric::TARGET, meeting = %announcement.meeting, endpoint, code = ?status.code(), "move not announced");
                None
            }
        }
    }

    async fn prepare_move(self, endpoint: String, announcement: Announcement, last_event: u64) -> bool {
        let request = PrepareMeetingMigrationRequest {
            meeting_id: announcement.meeting.to_string(),
            current_generation: announcement.generation,
            from_mc_id: self.mc_id.clone(),
            last_event_seq: last_event,
        };
        let Some(mut controller) = self.controller(&endpoint) else { return false };
        let answer = controller.prepare_meeting_migration(request).await;
        answer.is_ok_and(|answer| answer.into_inner().accepted)
    }

    async fn report_resumed(self, endpoint: String, resumed: Resumed) -> bool {
        let request = MigrationResumedRequest {
            meeting_id: resumed.meeting.to_string(),
            generation: resumed.generation,
            event_seq: resumed.last_event,
            mc_id: self.mc_id.clone(),
        };
        let (attempts, pause) = RESUMED;
        for _ in 0..attempts {
            let Some(mut controller) = self.controller(&endpoint) else { return false };
            if controller.migration_resumed(request.clone()).await.is_ok() {
                return true;
            }
            self.clock.sleep_until(self.clock.now() + pause).await;
        }
        false
    }

    pub(crate) async fn notify_draining(
        self,
        notice: DrainNotice,
    ) -> Result<HashMap<MeetingId, Destination>, GcUnavailable> {
        let mut request = McDraining {
            mc_id: self.mc_id.clone(),
            meeting_count: notice.meetings.len() as u32,
            deadline: notice.deadline.try_into().ok(),
            meeting_ids: notice.meetings.iter().map(ToString::to_string).collect(),
            ..McDraining::default()
        };
        request.set_reason(drain_reason_to_wire(notice.reason));
        let answer = self.gc().ok_or(GcUnavailable)?.notify_draining(request).await;
        let assignments = answer.map_err(|_| GcUnavailable)?.into_inner().assignments;
        let target = |assignment: MigrationAssignment| {
            Some((MeetingId::parse(&assignment.meeting_id)?, destination(assignment)?))
        };
        Ok(assignments.into_iter().filter_map(target).collect())
    }

    pub(crate) async fn ask_for_target(
        self,
        meeting: MeetingId,
        exclude_mc_ids: Vec<String>,
    ) -> Result<Option<Destination>, GcUnavailable> {
        let (meeting_id, mc_id) = (meeting.to_string(), self.mc_id.clone());
        let request = RequestTargetRequest { meeting_id, mc_id, exclude_mc_ids };
        let answer = self.gc().ok_or(GcUnavailable)?.request_target(request).await;
        Ok(answer.map_err(|_| GcUnavailable)?.into_inner().assignment.and_then(destination))
    }

    pub(crate) async fn notify_drained(self, report: DrainReport) -> Result<(), GcUnavailable> {
        let DrainReport { migrated, closed } = report;
        let request = McDrained { mc_id: self.mc_id.clone(), migrated, closed };
        let answer = self.gc().ok_or(GcUnavailable)?.notify_drained(request).await;
        answer.map(drop).map_err(|_| GcUnavailable)
    }
}

impl Controllers for Peers {
    fn announce(&self, to: &Destination, announcement: Announcement) -> BoxFuture<'static, Option<usize>> {
        Box::pin(self.clone().announce_move(to.grpc_endpoint.clone(), announcement))
    }

    fn prepare(
        &self,
        to: &Destination,
        announcement: Announcement,
        last_event: u64,
    ) -> BoxFuture<'static, bool> {
        Box::pin(self.clone().prepare_move(to.grpc_endpoint.clone(), announcement, last_event))
    }

    fn resumed(&self, previous_endpoint: &str, resumed: Resumed) -> BoxFuture<'static, bool> {
        Box::pin(self.clone().report_resumed(previous_endpoint.to_owned(), resumed))
    }
}
