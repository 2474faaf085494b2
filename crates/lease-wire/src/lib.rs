//! The gRPC messages of the lease service, and their conversion to domain types and back.
//!
//! The server and the network client share this crate, so that neither compiles the other. [`proto`] is generated from
//! `proto/tenure/lease/v1/lease.proto`; its types go no further than those two crates.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod intern;
mod outcome;
mod problem;
pub mod proto;
mod record;
mod request;
mod state;

use std::time::Duration;

use tenure_lease::{Error, Generation, Holder, Result, Ttl};

pub use problem::{CODE_TRAILER, PROBLEM_TRAILER, error_from_status};

/// The engine that errors of the network client name.
pub const ENGINE: &str = "tenure";

/// The largest message in either direction: the largest commit with its keys, or the largest page.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;

fn to_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

const fn from_micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Zero means none.
fn generation(number: u64) -> Result<Option<Generation>> {
    (number != 0).then(|| Generation::new(number)).transpose()
}

/// Zero means none.
fn ttl(ms: u32) -> Result<Option<Ttl>> {
    (ms != 0).then(|| Ttl::from_millis(ms.into())).transpose()
}

/// Empty means none.
fn holder(name: &str) -> Result<Option<Holder>> {
    (!name.is_empty()).then(|| Holder::new(name)).transpose()
}

/// A required field of a request.
fn required<T>(field: Option<T>, what: &'static str) -> Result<T> {
    field.ok_or_else(|| Error::invalid(what, "is missing"))
}

/// A response that this client cannot read: the call may have happened.
fn unreadable(what: &str) -> Error {
    let why = format!("unexpected response: no readable {what}; does the server have another version?");
    Error::unknown(ENGINE, why)
}

/// A required field of a response.
fn readable<T>(field: Option<Result<T>>, what: &str) -> Result<T> {
    field.and_then(Result::ok).ok_or_else(|| unreadable(what))
}
