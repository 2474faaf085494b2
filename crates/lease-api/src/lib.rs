//! The lease service over HTTP/JSON and gRPC, and the Rust client.
//!
//! [`http`] and [`grpc`] serve one store; both expect the authentication layer of [`service`] around them and
//! take whatever comes in as remote. [`Client`] is the same store on the other side of the network: keepers,
//! gates and slots work over it unchanged.

mod client;
mod convert;
mod feed;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod grpc;
mod http;
mod options;
mod problem;
mod reserved;
mod site;
mod trouble;
mod wire;

pub use client::{Client, Dial};
pub use grpc::grpc;
pub use http::{ReignBody, StatusBody, http, state};
pub use options::Options;

/// Largest gRPC message, either way: the largest commit with its keys, or the largest page.
pub(crate) const MESSAGE: usize = 8 << 20;
