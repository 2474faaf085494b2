//! Maps store and record errors to problems with stable codes.

use axum::response::{IntoResponse, Response};
use tenure_lease::{Error, Refusal};
use tenure_service::{Code, Problem};

use crate::TargetError;

/// Why a request failed.
#[derive(Debug)]
pub(super) struct ApiError(pub(super) Problem);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<TargetError> for ApiError {
    fn from(error: TargetError) -> Self {
        Self(Problem::new(Code::INVALID_REQUEST, error.to_string()).with("field", error.field))
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Invalid { .. } => Code::INVALID_REQUEST,
            Error::Refused(Refusal::KeyIsLeased { .. }) => Code::KEY_IS_LEASED,
            Error::Refused(_) => Code::TOO_MANY,
            Error::Unavailable { .. } => Code::UNAVAILABLE,
            Error::Unknown { .. } => Code::UNKNOWN_OUTCOME,
        };
        Self(Problem::new(code, error.to_string()))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}
