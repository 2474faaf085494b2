//! Why a call to the server has no result.

use redis::RedisError;
use tenure_lease::{Error, Refusal};

/// The engine's name in errors and capabilities.
pub(super) const ENGINE: &str = "redis";

/// A failed call. Cheap to clone, because requests that shared a call share its failure.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Whether the request may have reached the server.
    pub(super) sent: bool,
    /// Whether the server is run in a way in which it cannot keep leases.
    pub(super) refused: bool,
    /// The reason, for an operator.
    pub(super) why: String,
}

/// What to do about an error of the server or of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// Load the script: it did not run.
    LoadScript,
    /// Retry on the same connection: the server refused before it ran anything.
    Retry,
    /// Retry on a new connection: another server may accept writes by now.
    Reconnect,
    /// The connection is lost and the request may have been applied.
    ConnectionLost,
    /// A retry will not help, and nothing happened.
    GiveUp,
    /// The server reported something unexpected; part of the request may have been applied.
    Unexpected,
}

/// Classifies an error.
pub(super) fn remedy(error: &RedisError) -> Remedy {
    match error.code() {
        Some("NOSCRIPT") => Remedy::LoadScript,
        Some("LOADING" | "BUSY" | "NOREPLICAS" | "TRYAGAIN" | "MASTERDOWN") => Remedy::Retry,
        Some("READONLY") => Remedy::Reconnect,
        Some("OOM" | "NOAUTH" | "WRONGPASS" | "NOPERM" | "MISCONF" | "LAYOUT") => Remedy::GiveUp,
        _ if error.is_io_error() || error.is_connection_dropped() || error.is_timeout() => {
            Remedy::ConnectionLost
        }
        // An error inside a script carries the code in its text.
        _ => match error.to_string() {
            text if text.contains("READONLY") => Remedy::Reconnect,
            text if text.contains("MISCONF") || text.contains("OOM command") => Remedy::GiveUp,
            _ => Remedy::Unexpected,
        },
    }
}

/// Describes an error for an operator.
pub(super) fn describe_error(error: &RedisError) -> String {
    match error.code() {
        Some("OOM") => "the server is out of memory (maxmemory) and refuses writes".to_owned(),
        Some("NOAUTH" | "WRONGPASS") => {
            "the server requires a user and password: redis://USER:PASSWORD@HOST".to_owned()
        }
        Some("LOADING") => "the server is still loading its data".to_owned(),
        Some("READONLY") => "the server is a replica and refuses writes".to_owned(),
        Some("NOREPLICAS") => "the server has too few replicas to accept writes".to_owned(),
        Some("LAYOUT") => {
            let why = error.detail().unwrap_or("the store has another layout");
            format!("{why}; stored layouts are not migrated: use an empty database")
        }
        _ => error.to_string(),
    }
}

impl Fault {
    /// A request that was never sent.
    pub(super) fn unsent(why: impl Into<String>) -> Self {
        Self { sent: false, refused: false, why: why.into() }
    }

    /// A request that may have been applied.
    pub(super) fn sent(why: impl Into<String>) -> Self {
        Self { sent: true, refused: false, why: why.into() }
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

/// A reply that the scripts never give.
pub(super) fn unexpected_reply(what: &str) -> Error {
    Error::unknown(ENGINE, format!("unexpected reply from the server: {what}"))
}

/// Too many of something.
pub(super) fn too_many(what: &'static str, limit: usize) -> Error {
    Refusal::TooMany { what, limit }.into()
}
