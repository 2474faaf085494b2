//! What a handler is to GC.

use async_trait::async_trait;
use meet_rpc::Card;
use meet_rpc::node::{Duty, Listing, Member, Report};
use meet_wire::internal::RegisterMhRequest;
use meet_wire::internal::media_handler_registry_service_client::MediaHandlerRegistryServiceClient;
use tonic::Status;

use crate::Handler;

/// A handler in the registry of GC.
pub struct Attendance {
    /// The handler.
    pub handler: Handler,
    /// What it is registered with.
    pub listing: Listing,
    /// Where GC is.
    pub gc_endpoint: String,
}

impl Attendance {
    fn gc(&self) -> Result<MediaHandlerRegistryServiceClient<meet_rpc::Line>, Status> {
        let line = self.handler.options().lines.to(&self.gc_endpoint);
        line.map(MediaHandlerRegistryServiceClient::new)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

#[async_trait]
impl Member for Attendance {
    fn card(&self) -> Card {
        Card { max_streams: self.handler.options().max_streams, ..self.listing.card() }
    }

    async fn register(&self, card: &Card) -> Result<Duty, Status> {
        let request = RegisterMhRequest {
            handler_id: self.handler.id().to_owned(),
            region: card.region.clone(),
            webtransport_endpoint: card.webtransport_endpoint.clone(),
            grpc_endpoint: card.grpc_endpoint.clone(),
            max_streams: card.max_streams,
            zone: card.zone.clone(),
            certificate_sha256: card.raw_certificates().into_iter().map(Into::into).collect(),
        };
        let answer = self.gc()?.register_mh(request).await?.into_inner();
        if !answer.accepted {
            return Err(Status::failed_precondition(answer.message));
        }
        Ok(Duty { fast: std::time::Duration::from_millis(answer.load_report_interval_ms.into()), full: None })
    }

    async fn report(&self, _report: Report) -> Result<(), Status> {
        self.gc()?.send_load_report(self.handler.report()).await.map(|_| ())
    }

    async fn stirred(&self) {
        self.handler.stirred().await;
    }

    async fn changed(&self, card: &Card) {
        self.listing.changed(card).await;
    }
}
