//! Errors over gRPC, so that the client has exactly the error that the store gave.

use lease::{Error, Refusal};
use prost::Message;
use service::{Code, Problem};
use tonic::metadata::{BinaryMetadataValue, MetadataMap, MetadataValue};
use tonic::{Code as Grpc, Status};

use super::{ENGINE, word};
use crate::problem::code;
use crate::wire;
use crate::wire::problem::Kind;

/// The trailer with the stable code, which every service of Tenure sends.
const CODE: &str = "tenure-code";
/// The trailer with a [`wire::Problem`].
const PROBLEM: &str = "tenure-problem-bin";

impl From<&Error> for wire::Problem {
    fn from(error: &Error) -> Self {
        let kind = match error {
            Error::Invalid { what, why } => {
                Kind::Invalid(wire::Invalid { what: (*what).into(), why: why.clone() })
            }
            Error::Refused(Refusal::TokenSpent) => Kind::TokenSpent(wire::TokenSpent {}),
            Error::Refused(Refusal::TtlOutOfRange { asked_ms, engine, min_ms, max_ms }) => {
                let (asked_ms, min_ms, max_ms) = (*asked_ms, *min_ms, *max_ms);
                let engine = (*engine).into();
                Kind::TtlOutOfRange(wire::TtlOutOfRange { asked_ms, engine, min_ms, max_ms })
            }
            Error::Refused(Refusal::TooMany { what, limit }) => {
                Kind::TooMany(wire::TooMany { what: (*what).into(), limit: *limit as u64 })
            }
            Error::Refused(Refusal::KeyIsLeased { key }) => {
                Kind::KeyIsLeased(wire::KeyIsLeased { key: key.clone() })
            }
            Error::Unavailable { engine, why, .. } => {
                Kind::Unavailable(wire::Failure { engine: (*engine).into(), why: why.clone() })
            }
            Error::Unknown { engine, why, .. } => {
                Kind::Unknown(wire::Failure { engine: (*engine).into(), why: why.clone() })
            }
        };
        Self { code: code(error).word().into(), detail: error.to_string(), kind: Some(kind) }
    }
}

impl From<&Problem> for wire::Problem {
    fn from(problem: &Problem) -> Self {
        Self { code: problem.code.word().into(), detail: problem.detail.clone(), kind: None }
    }
}

impl From<wire::Problem> for Error {
    fn from(problem: wire::Problem) -> Self {
        let Some(kind) = problem.kind else { return by_code(&problem.code, problem.detail) };
        match kind {
            Kind::Invalid(wire::Invalid { what, why }) => {
                Self::Invalid { what: word::keep(&what, "request"), why }
            }
            Kind::TokenSpent(_) => Refusal::TokenSpent.into(),
            Kind::TtlOutOfRange(ttl) => Refusal::TtlOutOfRange {
                asked_ms: ttl.asked_ms,
                engine: word::keep(&ttl.engine, ENGINE),
                min_ms: ttl.min_ms,
                max_ms: ttl.max_ms,
            }
            .into(),
            Kind::TooMany(wire::TooMany { what, limit }) => {
                Refusal::TooMany { what: word::keep(&what, "things"), limit: limit as usize }.into()
            }
            Kind::KeyIsLeased(wire::KeyIsLeased { key }) => Refusal::KeyIsLeased { key }.into(),
            Kind::Unavailable(wire::Failure { engine, why }) => {
                Self::unavailable(word::keep(&engine, ENGINE), why)
            }
            Kind::Unknown(wire::Failure { engine, why }) => Self::unknown(word::keep(&engine, ENGINE), why),
        }
    }
}

/// What a code means to a caller of the store when nothing more is known.
fn by_code(word: &str, detail: String) -> Error {
    match word {
        // A reserved key is one that the token does not allow: `lease:admin` may use it.
        "UNAUTHENTICATED" | "FORBIDDEN" | "ORIGIN_REFUSED" | "RESERVED_KEY" => {
            Error::invalid("credentials", detail)
        }
        "RATE_LIMITED" | "UNAVAILABLE" | "SHUTTING_DOWN" => Error::unavailable(ENGINE, detail),
        "INTERNAL" | "UNKNOWN_OUTCOME" | "REQUEST_TIMEOUT" => Error::unknown(ENGINE, detail),
        _ => Error::invalid("request", detail),
    }
}

/// The status that carries an error.
pub(crate) fn status(code: Code, problem: &wire::Problem) -> Status {
    let mut metadata = MetadataMap::with_capacity(2);
    metadata.insert(CODE, MetadataValue::from_static(code.word()));
    metadata.insert_bin(PROBLEM, BinaryMetadataValue::from_bytes(&problem.encode_to_vec()));
    Status::with_metadata(Grpc::from_i32(code.grpc().into()), problem.detail.clone(), metadata)
}

/// The error that a server put on a status; none when the status is not of a Tenure server's making.
pub(crate) fn rebuild(status: &Status) -> Option<Error> {
    let problem = status.metadata().get_bin(PROBLEM).and_then(|value| value.to_bytes().ok());
    if let Some(problem) = problem.and_then(|bytes| wire::Problem::decode(bytes).ok()) {
        return Some(problem.into());
    }
    let word = status.metadata().get(CODE)?.to_str().ok()?;
    Some(by_code(word, status.message().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_arrives_as_it_left() {
        let ttl = Refusal::TtlOutOfRange { asked_ms: 1, engine: "memory", min_ms: 250, max_ms: 9 };
        let errors: [Error; 7] = [
            Error::invalid("key", "is bad"),
            Refusal::TokenSpent.into(),
            ttl.into(),
            Refusal::TooMany { what: "waiters on one key", limit: 7 }.into(),
            Refusal::KeyIsLeased { key: "k".into() }.into(),
            Error::unavailable("redis", "ist läuft nicht"),
            Error::unknown("redis", "went away"),
        ];
        for error in errors {
            let status = status(code(&error), &wire::Problem::from(&error));
            let arrived = rebuild(&status).unwrap();
            assert_eq!(format!("{arrived:?}"), format!("{error:?}"));
        }
    }

    #[test]
    fn a_problem_of_another_layer_says_whether_it_happened() {
        for (code, happened) in [
            (Code::UNAUTHENTICATED, lease::Happened::No),
            (Code::RESERVED_KEY, lease::Happened::No),
            (Code::SHUTTING_DOWN, lease::Happened::No),
            (Code::RATE_LIMITED, lease::Happened::No),
            (Code::INTERNAL, lease::Happened::Maybe),
        ] {
            let status = status(code, &wire::Problem::from(&Problem::new(code, "x")));
            assert_eq!(rebuild(&status).unwrap().happened(), happened, "{code}");
        }
        assert!(rebuild(&Status::unavailable("from elsewhere")).is_none());
    }
}
