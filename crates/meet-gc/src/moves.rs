//! Targets for meetings that leave their controller.

use tenure_lease::{Key, Op, Ttl};
use tenure_meet_rpc::Kind;
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::{
    CancelDrainRequest, HealthStatus, McDraining, McOverloaded, MigrationAssignment, RequestTargetRequest,
};

use crate::error::ApiError;
use crate::gc::GcState;
use crate::limits;
use crate::registry::{Load, Node};
use crate::select;

/// Which controllers may take a meeting that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MoveKind {
    /// Its controller drains or failed: any controller that is not nearly full.
    Forced,
    /// Its controller is too full: only controllers with room to spare.
    Rebalance,
}

impl MoveKind {
    const fn limit(self) -> f64 {
        match self {
            Self::Forced => limits::MOVE_FORCED,
            Self::Rebalance => limits::MOVE_REBALANCE,
        }
    }
}

fn assignment(meeting_id: &str, node: &Node) -> MigrationAssignment {
    let certificates = node.node_info.raw_certificates();
    MigrationAssignment {
        meeting_id: meeting_id.to_owned(),
        target_mc_id: node.id.clone(),
        target_grpc_endpoint: node.node_info.grpc_endpoint.clone(),
        target_webtransport_endpoint: node.node_info.webtransport_endpoint.clone(),
        certificate_sha256: certificates.into_iter().map(Into::into).collect(),
    }
}

fn moved_key(meeting_id: &str) -> Result<Key, ApiError> {
    Ok(Key::new(format!("gc:moved:{meeting_id}"))?)
}

impl GcState {
    /// Targets for all meetings of a controller that drains, as far as there are any.
    pub(crate) async fn place_drained(
        &self,
        notice: &McDraining,
    ) -> Result<Vec<MigrationAssignment>, ApiError> {
        let excluded = [notice.mc_id.clone()];
        let meetings: Vec<&str> = notice.meeting_ids.iter().map(String::as_str).collect();
        self.place_all(&meetings, &excluded, MoveKind::Forced).await
    }

    /// Another target for a meeting whose move failed.
    pub(crate) async fn place_again(
        &self,
        request: &RequestTargetRequest,
    ) -> Result<Option<MigrationAssignment>, ApiError> {
        let excluded = [&request.exclude_mc_ids[..], std::slice::from_ref(&request.mc_id)].concat();
        let placed = self.place_all(&[&request.meeting_id], &excluded, MoveKind::Forced).await?;
        Ok(placed.into_iter().next())
    }

    /// Targets for meetings of a controller that is too full. A meeting that moved a moment ago stays.
    pub(crate) async fn place_overloaded(
        &self,
        notice: &McOverloaded,
    ) -> Result<Vec<MigrationAssignment>, ApiError> {
        let mut meetings = Vec::new();
        for candidate in notice.migration_candidates.iter().take(limits::CANDIDATES) {
            let key = moved_key(&candidate.meeting_id)?;
            if self.bounded(self.options.store.get(&key)).await?.is_none() {
                meetings.push(candidate.meeting_id.as_str());
            }
        }
        let placed =
            self.place_all(&meetings, std::slice::from_ref(&notice.mc_id), MoveKind::Rebalance).await?;
        for assignment in &placed {
            let ttl = Some(Ttl::from_millis(limits::MOVED.as_millis() as u64)?);
            let put = Op::Put { key: moved_key(&assignment.meeting_id)?, value: (*b"1").into(), ttl };
            self.bounded(self.options.store.commit(&[put])).await?;
        }
        Ok(placed)
    }

    async fn place_all(
        &self,
        meetings: &[&str],
        excluded: &[String],
        kind: MoveKind,
    ) -> Result<Vec<MigrationAssignment>, ApiError> {
        let mut nodes = self.nodes(Kind::Controller).await?;
        nodes.retain(|node| node.load.health() != HealthStatus::Draining);
        let mut placed = Vec::new();
        for meeting_id in meetings {
            let room: Vec<Node> =
                nodes.iter().filter(|node| node.fill(node.reserved) < kind.limit()).cloned().collect();
            let region = &self.options.rules.region;
            let Some(chosen) = select::controller(&room, region, excluded, &mut |n| self.below(n)) else {
                break;
            };
            self.reservations.add(Kind::Controller, &chosen.id, self.clock.now());
            placed.push(assignment(meeting_id, chosen));
            if let Some(node) = nodes.iter_mut().find(|node| node.id == chosen.id) {
                node.reserved += 1;
            }
        }
        Ok(placed)
    }

    /// Ends the drain of a controller.
    pub(crate) async fn cancel_drain(&self, mc_id: &str) -> Result<bool, ApiError> {
        const UNKNOWN: ApiError = ApiError::NotFound("no such controller");
        let node_info = self.node_info(Kind::Controller, mc_id).await?.ok_or(UNKNOWN)?;
        let channel = self.options.channels.to(&node_info.grpc_endpoint);
        let channel = channel.map_err(|error| ApiError::Unavailable(error.to_string()))?;
        let request = CancelDrainRequest { mc_id: mc_id.to_owned() };
        let answer = MeetingControllerServiceClient::new(channel).cancel_drain(request).await;
        let answer = answer.map_err(|status| ApiError::Unavailable(status.message().to_owned()))?;
        let cancelled = answer.into_inner().cancelled;
        if cancelled {
            let health = HealthStatus::Healthy.into();
            self.report(Kind::Controller, mc_id, |last| Load { health, ..last }).await?;
        }
        Ok(cancelled)
    }
}
