//! Wire types to domain types and back, once, at the edge.

mod answer;
mod ask;
mod problem;
mod record;
mod view;
mod word;

use std::time::Duration;

use lease::{Error, Generation, Holder, Result, Ttl};

pub(crate) use problem::{rebuild, status};

/// What this crate calls itself in errors of its own.
pub(crate) const ENGINE: &str = "tenure";

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) const fn span(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Zero stands for none.
fn generation(number: u64) -> Result<Option<Generation>> {
    (number != 0).then(|| Generation::new(number)).transpose()
}

/// Zero stands for none.
fn ttl(ms: u32) -> Result<Option<Ttl>> {
    (ms != 0).then(|| Ttl::from_millis(ms.into())).transpose()
}

/// Empty stands for none.
fn holder(name: &str) -> Result<Option<Holder>> {
    (!name.is_empty()).then(|| Holder::new(name)).transpose()
}

/// A part of a request that must be there.
fn needed<T>(part: Option<T>, what: &'static str) -> Result<T> {
    part.ok_or_else(|| Error::invalid(what, "is missing"))
}

/// An answer that this client cannot read: what was asked may well have happened.
fn nonsense(what: &str) -> Error {
    Error::unknown(ENGINE, format!("the server's answer has no readable {what}; is it of another version?"))
}

/// A part of an answer that must be there and valid.
fn readable<T>(part: Option<Result<T>>, what: &str) -> Result<T> {
    part.and_then(Result::ok).ok_or_else(|| nonsense(what))
}
