//! The lease service over a real listener: HTTP/JSON, gRPC and the client.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod client;
mod conformance;
mod discovery;
mod faults;
mod fencing;
mod foreign_keys;
mod http;
mod invalid;
mod keeper;
mod network;
mod open_by_url;
mod openapi;
mod records;
mod server;
mod slow_disk;
mod sse;
mod unauthenticated;
mod waiting;
