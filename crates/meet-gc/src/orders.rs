//! Orders of operators to controllers.

use std::time::Duration;

use tenure_meet_rpc::{Channel, Kind, NodeInfo};
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::{
    CancelDrainRequest, DrainReason, EndMeetingRequest, HealthStatus, MigrateMeetingsRequest,
    MigrationAssignment, RequestDrainRequest,
};
use tonic::{Code, Status};

use crate::assign::{Assignment, Owner};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::registry::Node;
use crate::select;

/// The reason of moves that operators order.
const OPERATOR: &str = "operator";

impl GcState {
    /// Orders the owner of a meeting to move it. Returns the former and the new owner.
    pub(crate) async fn order_operator_move(
        &self,
        id: &str,
        to: Option<&str>,
    ) -> Result<(String, String), ApiError> {
        let meeting = self.by_id(id).await?.meeting;
        let Owner::There(home) = self.owner(&meeting.id).await? else {
            return Err(ApiError::Conflict("no controller runs the meeting".to_owned()));
        };
        let target = self.target(&home, to).await?;
        let (to_mc, info) = (target.id.clone(), target.node_info);
        let assignment = MigrationAssignment {
            meeting_id: meeting.id,
            target_mc_id: target.id,
            certificate_sha256: info.raw_certificates().into_iter().map(Into::into).collect(),
            target_grpc_endpoint: info.grpc_endpoint,
            target_webtransport_endpoint: info.webtransport_endpoint,
        };
        let request = MigrateMeetingsRequest { assignments: vec![assignment], reason: OPERATOR.to_owned() };
        let answer = self.client_of(&home.node_info)?.migrate_meetings(request).await;
        match answer.map_err(|status| refused(&home.mc_id, &status))?.into_inner().accepted {
            0 => Err(ApiError::Conflict(format!(
                "{} refused to move the meeting; it may move already",
                home.mc_id
            ))),
            _ => Ok((home.mc_id, to_mc)),
        }
    }

    /// The named controller, or the best one besides the owner.
    async fn target(&self, home: &Assignment, to: Option<&str>) -> Result<Node, ApiError> {
        let controllers = self.nodes(Kind::Controller).await?;
        let Some(to) = to else {
            let own = [home.mc_id.clone()];
            let region = &home.node_info.region;
            let best = select::controller(&controllers, region, &own, &mut |n| self.below(n)).cloned();
            return best
                .ok_or_else(|| ApiError::Conflict("no other controller can take the meeting".to_owned()));
        };
        if to == home.mc_id {
            return Err(ApiError::Conflict(format!("{to} runs the meeting already")));
        }
        let named = controllers.into_iter().find(|node| node.id == to);
        let named = named.ok_or(ApiError::NotFound("meeting controller not found"))?;
        match named.load.health() {
            HealthStatus::Draining => Err(ApiError::Conflict(format!("{to} drains"))),
            _ => Ok(named),
        }
    }

    /// Ends a meeting. Returns whether a controller ran it.
    pub(crate) async fn order_end(&self, id: &str) -> Result<bool, ApiError> {
        let kept = self.by_id(id).await?;
        let meeting_id = kept.meeting.id.clone();
        let running = match self.owner(&meeting_id).await? {
            Owner::There(home) => {
                let request = EndMeetingRequest { meeting_id };
                let answer = self.client_of(&home.node_info)?.end_meeting(request).await;
                answer.map_err(|status| refused(&home.mc_id, &status))?.into_inner().ended
            }
            Owner::Gone { .. } => {
                let why = "the controller of the meeting is gone, and its lease has not expired yet";
                return Err(ApiError::Unavailable(why.to_owned()));
            }
            Owner::Unowned => false,
        };
        let now = self.now_ms();
        self.change(kept, |meeting| meeting.closed_ms = meeting.closed_ms.or(Some(now))).await?;
        Ok(running)
    }

    /// Orders a controller to drain.
    pub(crate) async fn order_drain(
        &self,
        mc_id: &str,
        reason: DrainReason,
        deadline: Option<Duration>,
    ) -> Result<(), ApiError> {
        let info = self.controller_info(mc_id).await?;
        let deadline = deadline.and_then(|deadline| deadline.try_into().ok());
        let request = RequestDrainRequest { mc_id: mc_id.to_owned(), reason: reason.into(), deadline };
        let answer = self.client_of(&info)?.request_drain(request).await;
        match answer.map_err(|status| refused(mc_id, &status))?.into_inner().accepted {
            true => Ok(()),
            false => Err(ApiError::Conflict(format!("{mc_id} refused to drain; it may drain already"))),
        }
    }

    /// Cancels the drain of a controller.
    pub(crate) async fn order_undrain(&self, mc_id: &str) -> Result<(), ApiError> {
        let info = self.controller_info(mc_id).await?;
        let request = CancelDrainRequest { mc_id: mc_id.to_owned() };
        let answer = self.client_of(&info)?.cancel_drain(request).await;
        match answer.map_err(|status| refused(mc_id, &status))?.into_inner().cancelled {
            true => Ok(()),
            false => Err(ApiError::Conflict(format!("{mc_id} does not drain, or has no meeting left"))),
        }
    }

    async fn controller_info(&self, mc_id: &str) -> Result<NodeInfo, ApiError> {
        let info = self.node_info(Kind::Controller, mc_id).await?;
        info.ok_or(ApiError::NotFound("meeting controller not found"))
    }

    fn client_of(&self, info: &NodeInfo) -> Result<MeetingControllerServiceClient<Channel>, ApiError> {
        let client = self.controller_at(&info.grpc_endpoint);
        client.ok_or_else(|| ApiError::Unavailable("the controller has an invalid endpoint".to_owned()))
    }
}

/// Why a controller did not carry out an order.
fn refused(mc_id: &str, status: &Status) -> ApiError {
    let why = format!("{mc_id}: {}", status.message());
    match status.code() {
        Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted => ApiError::Conflict(why),
        Code::NotFound => ApiError::NotFound("the controller does not run the meeting"),
        Code::InvalidArgument => ApiError::BadRequest(why),
        Code::Unimplemented => ApiError::Unavailable(format!("{mc_id} is of a version that cannot do this")),
        _ => ApiError::Unavailable(why),
    }
}
