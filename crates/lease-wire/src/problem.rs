//! Errors over gRPC: the client gets exactly the error that the store returned.

use prost::Message;
use tenure_lease::{Error, Refusal};
use tonic::Status;

use crate::proto::problem::Kind;
use crate::{ENGINE, intern, proto};

/// The trailer with the stable error code, which every service of Tenure sends.
pub const CODE_TRAILER: &str = "tenure-code";
/// The trailer with a [`proto::Problem`].
pub const PROBLEM_TRAILER: &str = "tenure-problem-bin";

impl proto::Problem {
    /// The problem for an error of the store, whose stable code is `code`.
    pub fn from_error(code: &str, error: &Error) -> Self {
        let kind = match error {
            Error::Invalid { what, why } => {
                Kind::Invalid(proto::Invalid { what: (*what).into(), why: why.clone() })
            }
            Error::Refused(Refusal::TokenSpent) => Kind::TokenSpent(proto::TokenSpent {}),
            Error::Refused(Refusal::TtlOutOfRange { asked_ms, engine, min_ms, max_ms }) => {
                let (asked_ms, min_ms, max_ms) = (*asked_ms, *min_ms, *max_ms);
                let engine = (*engine).into();
                Kind::TtlOutOfRange(proto::TtlOutOfRange { asked_ms, engine, min_ms, max_ms })
            }
            Error::Refused(Refusal::TooMany { what, limit }) => {
                Kind::TooMany(proto::TooMany { what: (*what).into(), limit: *limit as u64 })
            }
            Error::Refused(Refusal::KeyIsLeased { key }) => {
                Kind::KeyIsLeased(proto::KeyIsLeased { key: key.clone() })
            }
            Error::Unavailable { engine, why, .. } => {
                Kind::Unavailable(proto::Failure { engine: (*engine).into(), why: why.clone() })
            }
            Error::Unknown { engine, why, .. } => {
                Kind::Unknown(proto::Failure { engine: (*engine).into(), why: why.clone() })
            }
        };
        Self { code: code.into(), detail: error.to_string(), kind: Some(kind) }
    }
}

impl From<proto::Problem> for Error {
    fn from(problem: proto::Problem) -> Self {
        let Some(kind) = problem.kind else { return error_from_code(&problem.code, problem.detail) };
        match kind {
            Kind::Invalid(proto::Invalid { what, why }) => {
                Self::Invalid { what: intern::intern(&what, "request"), why }
            }
            Kind::TokenSpent(_) => Refusal::TokenSpent.into(),
            Kind::TtlOutOfRange(ttl) => Refusal::TtlOutOfRange {
                asked_ms: ttl.asked_ms,
                engine: intern::intern(&ttl.engine, ENGINE),
                min_ms: ttl.min_ms,
                max_ms: ttl.max_ms,
            }
            .into(),
            Kind::TooMany(proto::TooMany { what, limit }) => {
                Refusal::TooMany { what: intern::intern(&what, "things"), limit: limit as usize }.into()
            }
            Kind::KeyIsLeased(proto::KeyIsLeased { key }) => Refusal::KeyIsLeased { key }.into(),
            Kind::Unavailable(proto::Failure { engine, why }) => {
                Self::unavailable(intern::intern(&engine, ENGINE), why)
            }
            Kind::Unknown(proto::Failure { engine, why }) => {
                Self::unknown(intern::intern(&engine, ENGINE), why)
            }
        }
    }
}

/// The error for a code without further details.
fn error_from_code(code: &str, detail: String) -> Error {
    match code {
        // A token with `lease:admin` may use reserved keys.
        "UNAUTHENTICATED" | "FORBIDDEN" | "ORIGIN_REFUSED" | "RESERVED_KEY" => {
            Error::invalid("credentials", detail)
        }
        "RATE_LIMITED" | "UNAVAILABLE" | "SHUTTING_DOWN" => Error::unavailable(ENGINE, detail),
        "INTERNAL" | "UNKNOWN_OUTCOME" | "REQUEST_TIMEOUT" => Error::unknown(ENGINE, detail),
        _ => Error::invalid("request", detail),
    }
}

/// The error that a server attached to a status; none if the status does not come from a Tenure server.
pub fn error_from_status(status: &Status) -> Option<Error> {
    let problem = status.metadata().get_bin(PROBLEM_TRAILER).and_then(|value| value.to_bytes().ok());
    if let Some(problem) = problem.and_then(|bytes| proto::Problem::decode(bytes).ok()) {
        return Some(problem.into());
    }
    let code = status.metadata().get(CODE_TRAILER)?.to_str().ok()?;
    Some(error_from_code(code, status.message().into()))
}
