//! The door to sessions: `/api/v3/…`.
//!
//! It authenticates, validates, computes the idempotency key, records, publishes and answers 202. It has no way to a
//! lease: what becomes of a recorded wish is the worker's, and in phase 1 of the migration an [`Admission`] that the
//! binary hands in is asked before.
//!
//! [`Admission`]: session::Admission

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

mod channels;
mod clock;
mod describe;
mod events;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gate;
mod heartbeat;
mod hls;
mod ids;
mod intents;
mod lan;
mod meter;
mod options;
mod range;
mod room;
mod sessions;
mod site;
mod start;
mod stop;
mod trouble;
mod view;
mod wish;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use lan::{Cidr, Lan, NoNetwork};
pub use options::{Channel, Options, Ports, Profiles, secrets};

use site::Site;

/// Bounds of this crate, by name.
pub mod limits {
    use std::time::Duration;

    /// Bytes of an intent.
    pub const BODY: usize = 1 << 20;
    /// Starts that are being recorded at once.
    pub const STARTS: usize = 1_024;
    /// How often a start looks again because somebody else recorded the same wish, or no answer came.
    pub const ATTEMPTS: usize = 8;
    /// Sessions that are kept, unless told.
    pub const KEPT: usize = 100_000;
    /// How often kept sessions are counted when half of the places are taken.
    pub const RECOUNT: Duration = Duration::from_secs(60);
    /// How often they are counted when all are.
    pub const RECOUNT_FULL: Duration = Duration::from_secs(1);
    /// How long a port may take to answer.
    pub const PORT: Duration = Duration::from_secs(10);
    /// How often access to a playlist is noted, at most.
    pub const TOUCH: Duration = Duration::from_secs(5);
    /// Sessions whose last access is remembered.
    pub const TOUCHED: usize = 4_096;
    /// Sessions of a page, unless told.
    pub const PAGE: usize = 100;
    /// Addresses in `X-Forwarded-For`.
    pub const HOPS: usize = 32;
}

/// The routes under `/api/v3`. Expects the authentication layer around them.
pub fn routes(ports: Ports, options: Options) -> Router {
    let lan = Arc::new(options.lan.clone());
    let router: Router = described().with_state(Arc::new(Site::new(ports, options))).split_for_parts().0;
    router.route_layer(from_fn_with_state(lan, lan::guard))
}

/// The description of the routes.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut openapi = described().split_for_parts().1;
    describe::complete(&mut openapi);
    openapi
}

fn described() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::with_openapi(describe::Description::openapi())
        .routes(routes!(intents::intend))
        .layer(DefaultBodyLimit::max(limits::BODY))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::one))
        .routes(routes!(heartbeat::beat))
        .routes(routes!(events::events))
        .routes(routes!(hls::file))
        .routes(routes!(channels::channels))
}
