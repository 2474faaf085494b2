//! The gRPC services for the other roles.

mod controllers;
mod handlers;

use tenure_meet_rpc::{Gatekeeper, ServiceRole};
use tenure_meet_wire::internal::global_controller_service_server::GlobalControllerServiceServer;
use tenure_meet_wire::internal::media_handler_registry_service_server::MediaHandlerRegistryServiceServer;
use tonic::service::Routes;

use crate::Gc;

/// The services of a global controller, behind their gatekeeper.
pub fn grpc(gc: &Gc) -> Routes {
    let controllers = GlobalControllerServiceServer::new(controllers::ControllerService(gc.state.clone()));
    let handlers = MediaHandlerRegistryServiceServer::new(handlers::HandlerService(gc.state.clone()));
    let routes = Routes::new(controllers).add_service(handlers);
    Gatekeeper::new(ServiceRole::Gc, gc.state.options.keys.clone()).guard(routes)
}
