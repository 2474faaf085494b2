//! The lease service over HTTP/JSON and gRPC.
//!
//! [`http`] and [`grpc`] serve one store. Both expect the authentication layer of [`tenure_service`] around them and
//! treat every claim as remote. The client is the crate `tenure-client`.

mod error;
mod grpc;
mod http;
mod keyspace;
mod options;
mod problem;
mod reserved;
mod service;
mod watch;

pub use grpc::grpc;
pub use http::{ReignBody, StatusBody, http, state};
pub use options::Options;
