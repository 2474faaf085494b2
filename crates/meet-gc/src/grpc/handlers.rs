//! The service for media handlers.

use std::sync::Arc;

use tenure_meet_rpc::Kind;
use tenure_meet_wire::internal::media_handler_registry_service_server::MediaHandlerRegistryService;
use tenure_meet_wire::internal::{
    HealthStatus, MhLoadReport, MhLoadReportResponse, RegisterMhRequest, RegisterMhResponse,
};
use tonic::{Request, Response, Status};

use crate::gc::GcState;
use crate::limits;
use crate::registry::Load;

pub(super) struct HandlerService(pub(super) Arc<GcState>);

#[tonic::async_trait]
impl MediaHandlerRegistryService for HandlerService {
    async fn register_mh(
        &self,
        request: Request<RegisterMhRequest>,
    ) -> Result<Response<RegisterMhResponse>, Status> {
        let request = request.into_inner();
        let health = HealthStatus::Pending.into();
        let load = Load { health, max_streams: request.max_streams, ..Load::default() };
        self.0.register(Kind::Handler, &request.handler_id, load).await?;
        tracing::info!(mh = request.handler_id, zone = request.zone, "media handler registered");
        Ok(Response::new(RegisterMhResponse {
            accepted: true,
            message: String::new(),
            load_report_interval_ms: limits::LOAD_REPORT.as_millis() as u32,
        }))
    }

    async fn send_load_report(
        &self,
        request: Request<MhLoadReport>,
    ) -> Result<Response<MhLoadReportResponse>, Status> {
        let report = request.into_inner();
        let load = |last: Load| Load {
            health: report.health_status,
            streams: report.current_streams,
            max_streams: if report.max_streams == 0 { last.max_streams } else { report.max_streams },
            cpu_percent: report.cpu_percent as f32,
            memory_percent: report.memory_percent as f32,
            ..last
        };
        self.0.report(Kind::Handler, &report.mh_id, load).await?;
        Ok(Response::new(MhLoadReportResponse {}))
    }
}
