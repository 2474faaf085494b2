//! What a controller is to GC.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use meet_rpc::node::{Duty, Listing, Member, Report};
use meet_rpc::{Card, Line};
use meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use meet_wire::internal::{
    ComprehensiveHeartbeatRequest, FastHeartbeatRequest, HeartbeatResponse, RegisterMcRequest,
};
use tonic::Status;

use crate::actor::Controller;
use crate::{Peers, grpc};

/// Processor and memory in use, in percent.
pub type Vitals = dyn Fn() -> (u32, u32) + Send + Sync;

/// A controller in the registry of GC.
pub struct Attendance {
    /// The controller.
    pub controller: Controller,
    /// The way to GC.
    pub peers: Peers,
    /// What it is registered with.
    pub listing: Listing,
    /// How much this process uses.
    pub vitals: Arc<Vitals>,
}

impl Attendance {
    fn gc(&self) -> Result<GlobalControllerServiceClient<Line>, Status> {
        let line = self.peers.lines.to(&self.peers.gc_endpoint);
        line.map(GlobalControllerServiceClient::new)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

fn acknowledged(answer: tonic::Response<HeartbeatResponse>) -> Result<(), Status> {
    if answer.into_inner().acknowledged { Ok(()) } else { Err(Status::unknown("not acknowledged")) }
}

#[async_trait]
impl Member for Attendance {
    fn card(&self) -> Card {
        let most = self.controller.most();
        Card {
            max_meetings: u32::try_from(most.meetings).unwrap_or(u32::MAX),
            max_participants: u32::try_from(most.participants).unwrap_or(u32::MAX),
            ..self.listing.card()
        }
    }

    async fn register(&self, card: &Card) -> Result<Duty, Status> {
        let request = RegisterMcRequest {
            id: self.controller.id().to_owned(),
            region: card.region.clone(),
            grpc_endpoint: card.grpc_endpoint.clone(),
            webtransport_endpoint: card.webtransport_endpoint.clone(),
            max_meetings: card.max_meetings,
            max_participants: card.max_participants,
            zone: card.zone.clone(),
            certificate_sha256: card.raw_certificates().into_iter().map(Into::into).collect(),
            version: card.version.clone(),
        };
        let answer = self.gc()?.register_mc(request).await?.into_inner();
        if !answer.accepted {
            return Err(Status::failed_precondition(answer.message));
        }
        Ok(Duty {
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
                acknowledged(self.gc()?.fast_heartbeat(request).await?)
            }
            Report::Full => {
                let (cpu, memory) = (self.vitals)();
                let request = ComprehensiveHeartbeatRequest {
                    controller_id,
                    capacity,
                    health,
                    cpu_usage_percent: cpu as f32,
                    memory_usage_percent: memory as f32,
                };
                acknowledged(self.gc()?.comprehensive_heartbeat(request).await?)
            }
        }
    }

    async fn stirred(&self) {
        self.controller.drained().await;
    }

    async fn changed(&self, card: &Card) {
        self.listing.changed(card).await;
    }
}
