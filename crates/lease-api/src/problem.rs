//! The error code and HTTP problem of every store error.

use tenure_lease::{Error, Refusal};
use tenure_service::{Code, Problem};

/// The stable code of an error.
pub(crate) const fn error_code(error: &Error) -> Code {
    match error {
        Error::Invalid { .. } => Code::INVALID_REQUEST,
        Error::Refused(Refusal::TokenSpent) => Code::TOKEN_SPENT,
        Error::Refused(Refusal::TtlOutOfRange { .. }) => Code::TTL_OUT_OF_RANGE,
        Error::Refused(Refusal::TooMany { .. }) => Code::TOO_MANY,
        Error::Refused(Refusal::KeyIsLeased { .. }) => Code::KEY_IS_LEASED,
        Error::Unavailable { .. } => Code::UNAVAILABLE,
        Error::Unknown { .. } => Code::UNKNOWN_OUTCOME,
    }
}

/// The error as an HTTP problem.
pub(crate) fn problem_from_error(error: &Error) -> Problem {
    let problem = Problem::new(error_code(error), error.to_string());
    match error {
        Error::Invalid { what, .. } => problem.with("field", *what),
        Error::Refused(Refusal::TtlOutOfRange { min_ms, max_ms, .. }) => {
            problem.with("min_ttl_ms", *min_ms).with("max_ttl_ms", *max_ms)
        }
        Error::Refused(Refusal::TooMany { limit, .. }) => problem.with("limit", *limit),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_code_and_status() {
        let ttl = Refusal::TtlOutOfRange { asked_ms: 1, engine: "memory", min_ms: 250, max_ms: 9 };
        let table = [
            (Error::invalid("key", "is bad"), "INVALID_REQUEST", 400),
            (Refusal::TokenSpent.into(), "TOKEN_SPENT", 409),
            (ttl.into(), "TTL_OUT_OF_RANGE", 400),
            (Refusal::TooMany { what: "waiters", limit: 1 }.into(), "TOO_MANY", 429),
            (Refusal::KeyIsLeased { key: "k".into() }.into(), "KEY_IS_LEASED", 409),
            (Error::unavailable("redis", "is down"), "UNAVAILABLE", 503),
            (Error::unknown("redis", "went away"), "UNKNOWN_OUTCOME", 504),
        ];
        for (error, word, status) in table {
            let problem = problem_from_error(&error);
            assert_eq!((problem.code.as_str(), problem.code.status().as_u16()), (word, status), "{error}");
        }
    }
}
