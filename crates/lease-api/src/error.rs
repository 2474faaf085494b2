//! Errors of a request, over HTTP and gRPC.

use axum::response::{IntoResponse, Response};
use prost::Message;
use tenure_lease::Error;
use tenure_lease_wire::{CODE_TRAILER, PROBLEM_TRAILER, proto};
use tenure_service::Problem;
use tonic::metadata::{BinaryMetadataValue, MetadataMap, MetadataValue};
use tonic::{Code as GrpcCode, Status};

use crate::problem::{error_code, problem_from_error};

/// An error of the store, or of a check before it.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The store returned it.
    Store(Error),
    /// The request did not reach the store.
    Request(Problem),
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self::Request(problem)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match self {
            Self::Store(error) => problem_from_error(&error).into_response(),
            Self::Request(problem) => problem.into_response(),
        }
    }
}

impl From<&ApiError> for proto::Problem {
    fn from(error: &ApiError) -> Self {
        match error {
            ApiError::Store(error) => Self::from_error(error_code(error).as_str(), error),
            ApiError::Request(problem) => {
                Self { code: problem.code.as_str().into(), detail: problem.detail.clone(), kind: None }
            }
        }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let code = match &error {
            ApiError::Store(error) => error_code(error),
            ApiError::Request(problem) => problem.code,
        };
        let problem = proto::Problem::from(&error);
        let mut metadata = MetadataMap::with_capacity(2);
        metadata.insert(CODE_TRAILER, MetadataValue::from_static(code.as_str()));
        metadata.insert_bin(PROBLEM_TRAILER, BinaryMetadataValue::from_bytes(&problem.encode_to_vec()));
        Self::with_metadata(GrpcCode::from_i32(code.grpc().into()), problem.detail, metadata)
    }
}

#[cfg(test)]
mod tests {
    use tenure_lease::{Outcome, Refusal};
    use tenure_lease_wire::error_from_status;
    use tenure_service::Code;

    use super::*;

    #[test]
    fn every_error_of_the_store_survives_the_wire() {
        let ttl = Refusal::TtlOutOfRange { asked_ms: 1, engine: "memory", min_ms: 250, max_ms: 9 };
        let errors: [fn(Refusal) -> Error; 7] = [
            |_| Error::invalid("key", "is bad"),
            |_| Refusal::TokenSpent.into(),
            Into::into,
            |_| Refusal::TooMany { what: "waiters on one key", limit: 7 }.into(),
            |_| Refusal::KeyIsLeased { key: "k".into() }.into(),
            |_| Error::unavailable("redis", "läuft nicht"),
            |_| Error::unknown("redis", "went away"),
        ];
        for error in errors.map(|make| make(ttl.clone())) {
            let expected = format!("{error:?}");
            let arrived = error_from_status(&Status::from(ApiError::from(error))).unwrap();
            assert_eq!(format!("{arrived:?}"), expected);
        }
    }

    #[test]
    fn the_code_of_a_problem_says_whether_the_request_may_have_happened() {
        for (code, happened) in [
            (Code::UNAUTHENTICATED, Outcome::NotApplied),
            (Code::RESERVED_KEY, Outcome::NotApplied),
            (Code::SHUTTING_DOWN, Outcome::NotApplied),
            (Code::RATE_LIMITED, Outcome::NotApplied),
            (Code::INTERNAL, Outcome::Indeterminate),
        ] {
            let status = Status::from(ApiError::from(Problem::new(code, "x")));
            assert_eq!(error_from_status(&status).unwrap().outcome(), happened, "{code}");
        }
        assert!(error_from_status(&Status::unavailable("from elsewhere")).is_none());
    }
}
