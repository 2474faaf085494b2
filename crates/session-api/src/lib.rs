//! The session API: `/api/v3/…`.
//!
//! It authenticates and validates an intent, computes its idempotency key, records the session and returns 202. It cannot
//! acquire leases: only the worker does. In phase 1 of the migration it calls an [`Admission`] first, which the binary
//! provides.
//!
//! [`Admission`]: tenure_session::Admission

#![allow(unused_qualifications, reason = "utoipa's macros generate qualified paths")]

mod capacity;
mod channels;
mod clock;
mod error;
mod events;
mod extract;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod heartbeat;
mod hls;
mod ids;
mod intent_body;
mod intents;
mod lan;
mod openapi;
mod options;
mod range;
mod sessions;
mod start;
mod state;
mod stop;
mod telemetry;
mod view;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use lan::LanPolicy;
pub use options::{Channel, Options, Ports, Profiles, secrets};

use state::ApiState;

/// Limits of this crate.
pub mod limits {
    use std::time::Duration;

    /// Largest body of an intent, in bytes.
    pub const BODY: usize = 1 << 20;
    /// Most starts being recorded at once.
    pub const STARTS: usize = 1_024;
    /// Attempts to record a start when another request records the same intent, or no response comes.
    pub const ATTEMPTS: usize = 8;
    /// Default limit of stored sessions.
    pub const MAX_RECORDS: usize = 100_000;
    /// How often stored sessions are counted at half of the limit.
    pub const RECOUNT: Duration = Duration::from_secs(60);
    /// How often stored sessions are counted at the limit.
    pub const RECOUNT_FULL: Duration = Duration::from_secs(1);
    /// How long a port may take to respond.
    pub const PORT: Duration = Duration::from_secs(10);
    /// Shortest interval between two recorded accesses to a playlist.
    pub const TOUCH: Duration = Duration::from_secs(5);
    /// Sessions whose last access is kept in memory.
    pub const TOUCHED: usize = 4_096;
    /// Default page size of a listing.
    pub const PAGE: usize = 100;
}

/// The routes under `/api/v3`. The caller adds the authentication layer.
pub fn routes(ports: Ports, options: Options) -> Router {
    let lan = Arc::new(options.lan.clone());
    let router: Router = api_router().with_state(Arc::new(ApiState::new(ports, options))).split_for_parts().0;
    router.route_layer(from_fn_with_state(lan, lan::guard))
}

/// The OpenAPI description of the routes.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut openapi = api_router().split_for_parts().1;
    openapi::add_common_responses(&mut openapi);
    openapi
}

fn api_router() -> OpenApiRouter<Arc<ApiState>> {
    OpenApiRouter::with_openapi(openapi::Description::openapi())
        .routes(routes!(intents::submit_intent))
        .layer(DefaultBodyLimit::max(limits::BODY))
        .routes(routes!(sessions::list_sessions))
        .routes(routes!(sessions::get_session))
        .routes(routes!(heartbeat::heartbeat))
        .routes(routes!(events::stream_events))
        .routes(routes!(hls::get_file))
        .routes(routes!(channels::list_channels))
}
