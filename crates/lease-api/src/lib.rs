//! The lease service over HTTP/JSON and gRPC, and the Rust client.
//!
//! [`http`] and [`grpc`] serve one store; both expect the authentication layer of [`service`] around them and
//! take whatever comes in as remote. [`Client`] is the same store on the other side of the network: keepers,
//! gates and slots work over it unchanged.

mod client;
mod convert;
mod problem;
mod stream;
mod wire;

pub use client::{Client, Dial};

/// Largest gRPC message, either way: the largest commit with its keys, or the largest page.
pub(crate) const MESSAGE: usize = 8 << 20;
