//! API errors with their stable codes.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use tenure_service::{Code, Problem};
use tonic::Status;
use utoipa::ToSchema;

use crate::NotSigned;

/// An API error.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ApiError {
    /// Unknown or invalid credentials.
    InvalidToken,
    /// The caller is not allowed to do this.
    Forbidden(String),
    /// The resource does not exist.
    NotFound(&'static str),
    /// The request conflicts with the current state.
    Conflict(String),
    /// The host ended the meeting.
    MeetingEnded,
    /// The request is invalid.
    BadRequest(String),
    /// Rate limited; retry after this time.
    TooFast(Duration),
    /// Temporarily unavailable.
    Unavailable(String),
    /// An error raised by the HTTP server.
    Refused(Problem),
}

/// An error. Clients match on `code`.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingError", example = json!({ "error": { "code": "NOT_FOUND", "message": "meeting not found" } }))]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// The error.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingErrorWords")]
pub(crate) struct ErrorDetail {
    /// `INVALID_TOKEN`, `FORBIDDEN`, `NOT_FOUND`, `CONFLICT`, `MEETING_ENDED`, `BAD_REQUEST`, `RATE_LIMIT_EXCEEDED` or `SERVICE_UNAVAILABLE`.
    code: &'static str,
    /// A message for humans.
    message: String,
}

impl ApiError {
    /// The meeting does not exist.
    pub(crate) const NO_MEETING: Self = Self::NotFound("meeting not found");

    fn status(&self) -> StatusCode {
        match self {
            Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) | Self::MeetingEnded => StatusCode::CONFLICT,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::TooFast(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Refused(problem) => problem.code.status(),
        }
    }

    /// The code, for clients and metrics.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::InvalidToken => "INVALID_TOKEN",
            Self::Forbidden(_) => "FORBIDDEN",
            Self::NotFound(_) => "NOT_FOUND",
            Self::Conflict(_) => "CONFLICT",
            Self::MeetingEnded => "MEETING_ENDED",
            Self::BadRequest(_) => "BAD_REQUEST",
            Self::TooFast(_) => "RATE_LIMIT_EXCEEDED",
            Self::Unavailable(_) => "SERVICE_UNAVAILABLE",
            Self::Refused(problem) => problem.code.as_str(),
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Self::InvalidToken => tenure_meet_wire::jwt::JwtError::Malformed.to_string(),
            Self::NotFound(what) => (*what).to_owned(),
            Self::MeetingEnded => "the host ended the meeting; it opens again when the host joins".to_owned(),
            Self::Forbidden(why) | Self::Conflict(why) | Self::BadRequest(why) | Self::Unavailable(why) => {
                why.clone()
            }
            Self::TooFast(_) => "too many requests; retry later".to_owned(),
            Self::Refused(problem) => problem.detail.clone(),
        }
    }

    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::TooFast(wait) => Some(wait.as_millis().div_ceil(1_000).max(1) as u64),
            Self::Unavailable(_) => Some(1),
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = ErrorDetail { code: self.as_str(), message: self.message() };
        let mut response = (self.status(), axum::Json(ErrorBody { error })).into_response();
        let headers = response.headers_mut();
        if self.status() == StatusCode::UNAUTHORIZED {
            let ask = HeaderValue::from_static("Bearer realm=\"tenure\", error=\"invalid_token\"");
            headers.insert(header::WWW_AUTHENTICATE, ask);
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        match problem.code.status() {
            StatusCode::UNAUTHORIZED => Self::InvalidToken,
            StatusCode::FORBIDDEN => Self::Forbidden(problem.detail),
            StatusCode::BAD_REQUEST => Self::BadRequest(problem.detail),
            _ => Self::Refused(problem),
        }
    }
}

impl From<tenure_lease::Error> for ApiError {
    fn from(error: tenure_lease::Error) -> Self {
        // Internal details go to the log, not to the client.
        tracing::warn!(%error, "meeting store failed");
        match error {
            tenure_lease::Error::Unknown { .. } => {
                Self::Unavailable("the store did not respond; retrying is safe".to_owned())
            }
            tenure_lease::Error::Unavailable { .. } => {
                Self::Unavailable("the store is unavailable; nothing was changed".to_owned())
            }
            tenure_lease::Error::Invalid { .. } | tenure_lease::Error::Refused(_) => {
                Self::Refused(Problem::new(Code::INTERNAL, "internal error"))
            }
        }
    }
}

impl From<NotSigned> for ApiError {
    fn from(error: NotSigned) -> Self {
        match error {
            NotSigned::Invalid(why) => Self::BadRequest(why),
            NotSigned::Unavailable(why) => {
                tracing::error!(why, "cannot sign a meeting token");
                Self::Unavailable("token signing is unavailable".to_owned())
            }
        }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let message = error.message();
        match error {
            ApiError::InvalidToken => Self::unauthenticated(message),
            ApiError::Forbidden(_) => Self::permission_denied(message),
            ApiError::NotFound(_) => Self::not_found(message),
            ApiError::Conflict(_) | ApiError::MeetingEnded => Self::failed_precondition(message),
            ApiError::BadRequest(_) => Self::invalid_argument(message),
            ApiError::TooFast(_) => Self::resource_exhausted(message),
            ApiError::Unavailable(_) => Self::unavailable(message),
            ApiError::Refused(_) => Self::internal(message),
        }
    }
}
