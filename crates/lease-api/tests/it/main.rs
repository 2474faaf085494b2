//! The lease service over a real listener: HTTP/JSON, gRPC and the client.

mod bad;
mod client;
mod faults;
mod http;
mod openapi;
mod records;
mod server;
mod sse;
mod waiting;
