//! What every Tenure process needs: settings, authentication, problems and the table of error codes, telemetry, the HTTP
//! server, health and shutdown. It depends on no domain: nothing here knows leases.

mod auth;
mod body;
mod caller;
mod clock;
mod code;
pub mod config;
mod context;
mod crypto;
mod describe;
mod extract;
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    //! Internals that the fuzz targets call.

    use http::{HeaderMap, HeaderValue};

    use crate::context::Context;

    /// The id and the trace of a request with these headers.
    pub fn context(headers: &HeaderMap) -> (String, Option<HeaderValue>) {
        let context = Context::new(headers);
        (context.id().to_owned(), context.traceparent().cloned())
    }
}
mod health;
pub mod net;
mod problem;
mod scope;
mod server;
mod shutdown;
pub mod telemetry;

pub use auth::{
    ADMIN, ApiToken, Auth, AuthLayer, AuthService, Buckets, LOGIN_CODE_LIFE, SESSION_LIFE, TOKEN_FILE,
    TokenError, auth_layer, login_routes,
};
pub use caller::{Caller, Via};
pub use clock::{Clock, ClockControl};
pub use code::Code;
pub use config::Settings;
pub use context::{REQUEST_ID, request_id};
pub use crypto::install_crypto;
pub use describe::{ProblemBody, add_common_responses, add_responses};
pub use extract::{Json, Path, Query};
pub use health::{Readiness, health_routes, health_routes_with, readiness_route};
pub use problem::{GRPC_CODE, PROBLEM_JSON, Problem};
pub use scope::{Area, Level, ParseScopeError, Scope, Scopes};
pub use server::{CertificateError, Server, ServerError};
pub use shutdown::Shutdown;
