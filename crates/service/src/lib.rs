//! What every process of Tenure needs: settings, authentication, problems and the table of codes, telemetry,
//! the HTTP server, health and shutdown. It knows no domain: nothing here has heard of a lease.

mod caller;
mod code;
mod context;
mod problem;
mod scope;

pub use caller::{Caller, Via};
pub use code::Code;
pub use context::{REQUEST_ID, request_id};
pub use problem::{GRPC_CODE, PROBLEM_JSON, Problem};
pub use scope::{Area, Level, NoScope, Scope, Scopes};
