//! The registration of a handler at GC.

use async_trait::async_trait;
use tenure_meet_rpc::NodeInfo;
use tenure_meet_rpc::node::{Listing, Member, Report, ReportIntervals};
use tenure_meet_wire::internal::RegisterMhRequest;
use tenure_meet_wire::internal::media_handler_registry_service_client::MediaHandlerRegistryServiceClient;
use tonic::Status;

use crate::MediaHandler;

/// Registers a handler at GC and reports its load.
pub struct HandlerRegistration {
    /// The handler.
    pub handler: MediaHandler,
    /// The registered endpoints and location.
    pub listing: Listing,
    /// GC's endpoint.
    pub gc_endpoint: String,
}

impl HandlerRegistration {
    fn gc(&self) -> Result<MediaHandlerRegistryServiceClient<tenure_meet_rpc::Channel>, Status> {
        let channel = self.handler.options().channels.to(&self.gc_endpoint);
        channel
            .map(MediaHandlerRegistryServiceClient::new)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

#[async_trait]
impl Member for HandlerRegistration {
    fn node_info(&self) -> NodeInfo {
        NodeInfo { max_streams: self.handler.options().max_streams, ..self.listing.node_info() }
    }

    async fn register(&self, node_info: &NodeInfo) -> Result<ReportIntervals, Status> {
        let request = RegisterMhRequest {
            handler_id: self.handler.id().to_owned(),
            region: node_info.region.clone(),
            webtransport_endpoint: node_info.webtransport_endpoint.clone(),
            grpc_endpoint: node_info.grpc_endpoint.clone(),
            max_streams: node_info.max_streams,
            zone: node_info.zone.clone(),
            certificate_sha256: node_info.raw_certificates().into_iter().map(Into::into).collect(),
        };
        let answer = self.gc()?.register_mh(request).await?.into_inner();
        if !answer.accepted {
            return Err(Status::failed_precondition(answer.message));
        }
        Ok(ReportIntervals {
            fast: std::time::Duration::from_millis(answer.load_report_interval_ms.into()),
            full: None,
        })
    }

    async fn report(&self, _report: Report) -> Result<(), Status> {
        self.gc()?.send_load_report(self.handler.load_report()).await.map(|_| ())
    }

    async fn report_due(&self) {
        self.handler.wait_for_load_change().await;
    }

    async fn changed(&self, node_info: &NodeInfo) {
        self.listing.changed(node_info).await;
    }
}
