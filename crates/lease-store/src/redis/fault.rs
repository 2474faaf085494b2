//! Why a call to the server has no answer.

use lease::{Error, Refusal};
use redis::RedisError;

/// The engine's name in errors and capabilities.
pub(super) const ENGINE: &str = "redis";

/// A call without an answer. Cheap to copy to every request that shared the call.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Whether the request may have reached the server.
    pub(super) sent: bool,
    /// Why, in words for an operator.
    pub(super) why: String,
}

/// What to do about an error of the server or of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// The script is not loaded; it did not run.
    Load,
    /// The server refused before running anything: ask it again soon.
    Again,
    /// The same, but another server may be the right one by now.
    Reconnect,
    /// The connection is gone and the request may have been applied.
    Broken,
    /// Asking again will not help, and nothing happened.
    Hopeless,
    /// The server reported something unexpected; part of it may have happened.
    Strange,
}

/// Sorts an error by what to do about it.
pub(super) fn remedy(error: &RedisError) -> Remedy {
    match error.code() {
        Some("NOSCRIPT") => Remedy::Load,
        Some("LOADING" | "BUSY" | "NOREPLICAS" | "TRYAGAIN" | "MASTERDOWN") => Remedy::Again,
        Some("READONLY") => Remedy::Reconnect,
        Some("OOM" | "NOAUTH" | "WRONGPASS" | "NOPERM" | "MISCONF") => Remedy::Hopeless,
        _ if error.is_io_error() || error.is_connection_dropped() || error.is_timeout() => Remedy::Broken,
        // A refusal inside a script carries the code in its text.
        _ => match error.to_string() {
            text if text.contains("READONLY") => Remedy::Reconnect,
            text if text.contains("MISCONF") || text.contains("OOM command") => Remedy::Hopeless,
            _ => Remedy::Strange,
        },
    }
}

/// Says an error in words for an operator.
pub(super) fn words(error: &RedisError) -> String {
    match error.code() {
        Some("OOM") => "the server is out of memory (maxmemory) and refuses writes".to_owned(),
        Some("NOAUTH" | "WRONGPASS") => {
            "the server wants a user and password: redis://USER:PASSWORD@HOST".to_owned()
        }
        Some("LOADING") => "the server is still loading its data".to_owned(),
        Some("READONLY") => "the server is a replica and takes no writes".to_owned(),
        Some("NOREPLICAS") => "the server has too few replicas to take writes".to_owned(),
        _ => error.to_string(),
    }
}

impl Fault {
    /// A request that never left.
    pub(super) fn unsent(why: impl Into<String>) -> Self {
        Self { sent: false, why: why.into() }
    }

    /// A request that may have been applied.
    pub(super) fn sent(why: impl Into<String>) -> Self {
        Self { sent: true, why: why.into() }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault.sent {
            true => Self::unknown(ENGINE, fault.why),
            false => Self::unavailable(ENGINE, fault.why),
        }
    }
}

/// An answer that the scripts never give.
pub(super) fn strange(what: &str) -> Error {
    Error::unknown(ENGINE, format!("the server gave an answer that is none: {what}"))
}

/// Too many of something.
pub(super) fn too_many(what: &'static str, limit: usize) -> Error {
    Refusal::TooMany { what, limit }.into()
}
