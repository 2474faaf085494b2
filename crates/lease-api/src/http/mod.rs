//! The service over HTTP/JSON, and its OpenAPI description.

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

mod acquire;
mod body;
mod history;
mod list;
mod one;
mod openapi;
mod records;
mod release;
mod renew;
mod revoke;
mod scope;
mod transfer;
mod watch;

use std::sync::Arc;

use tenure_lease::Store;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::body::{ReignBody, StatusBody, state};
use crate::Options;
use crate::service::LeaseService;

/// The routes under `/v1/leases` and `/v1/records`, and their OpenAPI description. Expects the authentication layer
/// around them.
pub fn http(store: Arc<dyn Store>, options: Options) -> (axum::Router, utoipa::openapi::OpenApi) {
    let service = LeaseService::new(store, options);
    let capabilities = service.capabilities;
    let (router, mut openapi) = OpenApiRouter::with_openapi(openapi::Description::openapi())
        .routes(routes!(acquire::acquire))
        .routes(routes!(renew::renew))
        .routes(routes!(release::release))
        .routes(routes!(transfer::transfer))
        .routes(routes!(revoke::revoke))
        .routes(routes!(list::list))
        .routes(routes!(one::one))
        .routes(routes!(history::history))
        .routes(routes!(watch::watch))
        .routes(routes!(records::write, records::read))
        .with_state(service)
        .split_for_parts();
    openapi::complete(&mut openapi, &capabilities);
    (router, openapi)
}
