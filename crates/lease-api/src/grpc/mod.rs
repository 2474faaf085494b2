//! The service over gRPC: the whole store.

mod access;
mod keep_alive;
mod leases;
mod records;
mod watch;

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use tenure_lease::Store;
use tenure_service::Caller;
use tonic::service::Routes;

use crate::service::LeaseService;
use tenure_lease_wire::MAX_MESSAGE_BYTES;
use tenure_lease_wire::proto::leases_server::LeasesServer;
use tenure_lease_wire::proto::records_server::RecordsServer;

use crate::Options;

/// The routes of `tenure.lease.v1`: the whole store over gRPC, with one keep-alive stream for any number of leases.
/// Expects the authentication layer around it.
///
/// Unlike HTTP/JSON it allows callers with `lease:admin` to use the keys of Tenure's own services, so that a service in
/// a process of its own can use this store.
pub fn grpc(store: Arc<dyn Store>, options: Options) -> axum::Router {
    let service = LeaseService::new(store, options);
    let leases = LeasesServer::new(leases::LeasesRpc::new(service.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let records =
        RecordsServer::new(records::RecordsRpc::new(service)).max_decoding_message_size(MAX_MESSAGE_BYTES);
    // tonic's own fallback would clash with the one of the router this is merged into.
    let router = Routes::new(leases).add_service(records).prepare().into_axum_router().reset_fallback();
    router.route_layer(middleware::from_fn(require_caller))
}

/// Rejects calls without valid credentials before their messages are read: a message may have megabytes.
async fn require_caller(_caller: Caller, request: Request, next: Next) -> Response {
    next.run(request).await
}
