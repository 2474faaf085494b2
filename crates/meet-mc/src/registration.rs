//! The registration of a controller at GC.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_meet_rpc::node::{Listing, Member, Report, ReportIntervals};
use tenure_meet_rpc::{Channel, NodeInfo};
use tenure_meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use tenure_meet_wire::internal::{
    ComprehensiveHeartbeatRequest, FastHeartbeatRequest, HeartbeatResponse, RegisterMcRequest,
};
use tonic::Status;

use crate::actor::Controller;
use crate::{Peers, grpc};

/// Measures CPU and memory usage, in percent.
pub type UsageProbe = dyn Fn() -> (u32, u32) + Send + Sync;

/// Registers a controller at GC and reports its load.
pub struct ControllerRegistration {
    /// The controller.
    pub controller: Controller,
    /// Calls GC.
    pub peers: Peers,
    /// The registered endpoints and location.
    pub listing: Listing,
    /// Measures the usage of this process.
    pub usage: Arc<UsageProbe>,
}

impl ControllerRegistration {
    fn gc(&self) -> Result<GlobalControllerServiceClient<Channel>, Status> {
        let line = self.peers.channels.to(&self.peers.gc_endpoint);
        line.map(GlobalControllerServiceClient::new)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

fn check_acknowledged(answer: tonic::Response<HeartbeatResponse>) -> Result<(), Status> {
    if answer.into_inner().acknowledged { Ok(()) } else { Err(Status::unknown("not acknowledged")) }
}

#[async_trait]
impl Member for ControllerRegistration {
    fn node_info(&self) -> NodeInfo {
        let most = self.controller.capacity();
        NodeInfo {
            max_meetings: u32::try_from(most.meetings).unwrap_or(u32::MAX),
            max_participants: u32::try_from(most.participants).unwrap_or(u32::MAX),
            ..self.listing.node_info()
        }
    }

    async fn register(&self, node_info: &NodeInfo) -> Result<ReportIntervals, Status> {
        let request = RegisterMcRequest {
            id: self.controller.id().to_owned(),
            region: node_info.region.clone(),
            grpc_endpoint: node_info.grpc_endpoint.clone(),
            webtransport_endpoint: node_info.webtransport_endpoint.clone(),
            max_meetings: node_info.max_meetings,
            max_participants: node_info.max_participants,
            zone: node_info.zone.clone(),
            certificate_sha256: node_info.raw_certificates().into_iter().map(Into::into).collect(),
            version: node_info.version.clone(),
        };
        let answer = self.gc()?.register_mc(request).await?.into_inner();
        if !answer.accepted {
            return Err(Status::failed_precondition(answer.message));
        }
        Ok(ReportIntervals {
            fast: Duration::from_millis(answer.fast_heartbeat_interval_ms.into()),
            full: Some(Duration::from_millis(answer.comprehensive_heartbeat_interval_ms.into())),
        })
    }

    async fn report(&self, report: Report) -> Result<(), Status> {
        let controller_id = self.controller.id().to_owned();
        let capacity = Some(grpc::capacity(&self.controller).await);
        let health = grpc::health(&self.controller).await.into();
        match report {
            Report::Fast => {
                let request = FastHeartbeatRequest { controller_id, capacity, health };
                check_acknowledged(self.gc()?.fast_heartbeat(request).await?)
            }
            Report::Full => {
                let (cpu, memory) = (self.usage)();
                let request = ComprehensiveHeartbeatRequest {
                    controller_id,
                    capacity,
                    health,
                    cpu_usage_percent: cpu as f32,
                    memory_usage_percent: memory as f32,
                };
                check_acknowledged(self.gc()?.comprehensive_heartbeat(request).await?)
            }
        }
    }

    async fn report_due(&self) {
        self.controller.wait_for_drain().await;
    }

    async fn changed(&self, node_info: &NodeInfo) {
        self.listing.changed(node_info).await;
    }
}
