//! What the other parts call.

mod controllers;
mod handlers;

use meet_rpc::{Gatekeeper, Part};
use meet_wire::internal::global_controller_service_server::GlobalControllerServiceServer;
use meet_wire::internal::media_handler_registry_service_server::MediaHandlerRegistryServiceServer;
use tonic::service::Routes;

use crate::Gc;

/// The services of a global controller, behind their gatekeeper.
pub fn grpc(gc: &Gc) -> Routes {
    let controllers = GlobalControllerServiceServer::new(controllers::Desk(gc.site.clone()));
    let handlers = MediaHandlerRegistryServiceServer::new(handlers::Desk(gc.site.clone()));
    let routes = Routes::new(controllers).add_service(handlers);
    Gatekeeper::new(Part::Gc, gc.site.options.keys.clone()).guard(routes)
}
