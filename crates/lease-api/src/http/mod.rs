//! The service over HTTP/JSON, and its description.

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

mod acquire;
mod describe;
mod gate;
mod history;
mod list;
mod one;
mod records;
mod release;
mod renew;
mod revoke;
mod transfer;
mod view;
mod watch;

use std::sync::Arc;

use lease::Store;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::view::{ReignBody, StatusBody, state};
use crate::Options;
use crate::site::Site;

/// The routes under `/v1/leases` and `/v1/records`, and their description. Expects the authentication layer
/// around them.
pub fn http(store: Arc<dyn Store>, options: Options) -> (axum::Router, utoipa::openapi::OpenApi) {
    let site = Site::new(store, options);
    let capabilities = site.capabilities;
    let (router, mut openapi) = OpenApiRouter::with_openapi(describe::Description::openapi())
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
        .with_state(site)
        .split_for_parts();
    describe::complete(&mut openapi, &capabilities);
    (router, openapi)
}
