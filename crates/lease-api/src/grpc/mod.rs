//! The service over gRPC: the whole store.

mod keep_alive;
mod leases;
mod records;
mod rights;
mod watch;

use std::sync::Arc;

use lease::Store;
use tonic::service::Routes;

use crate::site::Site;
use crate::wire::leases_server::LeasesServer;
use crate::wire::records_server::RecordsServer;
use crate::{MESSAGE, Options};

/// The routes of `tenure.lease.v1`: the whole store over gRPC, and one keep-alive stream for any number of
/// leases. Expects the authentication layer around it.
///
/// Unlike HTTP/JSON it lets callers with `lease:admin` use the keys of Tenure's own services: this is how a
/// service that runs alone reaches its store.
pub fn grpc(store: Arc<dyn Store>, options: Options) -> axum::Router {
    let site = Site::new(store, options);
    let leases = LeasesServer::new(leases::Service::new(site.clone())).max_decoding_message_size(MESSAGE);
    let records = RecordsServer::new(records::Service::new(site)).max_decoding_message_size(MESSAGE);
    // tonic's own fallback would clash with the one of the router this is merged into.
    Routes::new(leases).add_service(records).prepare().into_axum_router().reset_fallback()
}
