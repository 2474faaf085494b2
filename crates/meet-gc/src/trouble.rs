//! Why there is no answer, with the stable codes of this service.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use service::{Code, Problem};
use tonic::Status;
use utoipa::ToSchema;

use crate::NotSigned;

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Trouble {
    /// Nobody we know.
    InvalidToken,
    /// Somebody who may not.
    Forbidden(String),
    /// There is no such thing.
    NotFound(&'static str),
    /// Not as things are.
    Conflict(String),
    /// Cannot be meant.
    BadRequest(String),
    /// Too often; again after this.
    TooFast(Duration),
    /// Not now.
    Unavailable(String),
    /// What the server itself refuses before we see it.
    Refused(Problem),
}

/// An error. Programs match on `code`.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingError", example = json!({ "error": { "code": "NOT_FOUND", "message": "there is no such meeting" } }))]
pub(crate) struct ErrorBody {
    error: ErrorWords,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingErrorWords")]
pub(crate) struct ErrorWords {
    /// `INVALID_TOKEN`, `FORBIDDEN`, `NOT_FOUND`, `CONFLICT`, `BAD_REQUEST`, `RATE_LIMIT_EXCEEDED` or `SERVICE_UNAVAILABLE`.
    code: &'static str,
    /// For people.
    message: String,
}

impl Trouble {
    /// There is no such meeting.
    pub(crate) const NO_MEETING: Self = Self::NotFound("there is no such meeting");

    fn status(&self) -> StatusCode {
        match self {
            Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::TooFast(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Refused(problem) => problem.code.status(),
        }
    }

    /// The word for clients and metrics.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::InvalidToken => "INVALID_TOKEN",
            Self::Forbidden(_) => "FORBIDDEN",
            Self::NotFound(_) => "NOT_FOUND",
            Self::Conflict(_) => "CONFLICT",
            Self::BadRequest(_) => "BAD_REQUEST",
            Self::TooFast(_) => "RATE_LIMIT_EXCEEDED",
            Self::Unavailable(_) => "SERVICE_UNAVAILABLE",
            Self::Refused(problem) => problem.code.word(),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::InvalidToken => meet_wire::jwt::JwtError::Malformed.to_string(),
            Self::NotFound(what) => (*what).to_owned(),
            Self::Forbidden(why) | Self::Conflict(why) | Self::BadRequest(why) | Self::Unavailable(why) => {
                why.clone()
            }
            Self::TooFast(_) => "too many requests in too little time; wait a little".to_owned(),
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

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let error = ErrorWords { code: self.word(), message: self.message() };
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

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        match problem.code.status() {
            StatusCode::UNAUTHORIZED => Self::InvalidToken,
            StatusCode::FORBIDDEN => Self::Forbidden(problem.detail),
            StatusCode::BAD_REQUEST => Self::BadRequest(problem.detail),
            _ => Self::Refused(problem),
        }
    }
}

impl From<lease::Error> for Trouble {
    fn from(error: lease::Error) -> Self {
        // What failed inside is for the log, not for the client.
        tracing::warn!(%error, "the store of meetings does not answer");
        match error {
            lease::Error::Unknown { .. } => {
                Self::Unavailable("no answer came from the store; asking again is safe".to_owned())
            }
            lease::Error::Unavailable { .. } => {
                Self::Unavailable("the store cannot answer; nothing happened".to_owned())
            }
            lease::Error::Invalid { .. } | lease::Error::Refused(_) => {
                Self::Refused(Problem::new(Code::INTERNAL, "the server failed while answering"))
            }
        }
    }
}

impl From<NotSigned> for Trouble {
    fn from(error: NotSigned) -> Self {
        match error {
            NotSigned::Invalid(why) => Self::BadRequest(why),
            NotSigned::Unavailable(why) => {
                tracing::error!(why, "no token for a meeting");
                Self::Unavailable("no token can be signed now".to_owned())
            }
        }
    }
}

impl From<Trouble> for Status {
    fn from(trouble: Trouble) -> Self {
        let message = trouble.message();
        match trouble {
            Trouble::InvalidToken => Self::unauthenticated(message),
            Trouble::Forbidden(_) => Self::permission_denied(message),
            Trouble::NotFound(_) => Self::not_found(message),
            Trouble::Conflict(_) => Self::failed_precondition(message),
            Trouble::BadRequest(_) => Self::invalid_argument(message),
            Trouble::TooFast(_) => Self::resource_exhausted(message),
            Trouble::Unavailable(_) => Self::unavailable(message),
            Trouble::Refused(_) => Self::internal(message),
        }
    }
}
