//! The lease service over a real listener: HTTP/JSON, gRPC and the client.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod bad;
mod client;
mod conformance;
mod faults;
mod http;
mod keeper;
mod network;
mod openapi;
mod records;
mod server;
mod sse;
mod waiting;
