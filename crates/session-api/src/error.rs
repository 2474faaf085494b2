//! Errors of the API as problem details with stable codes.

use axum::response::{IntoResponse, Response};
use tenure_service::{Code, Problem};
use tenure_session::{Error, Session, SessionId};

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) Problem);

impl ApiError {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Problem::new(code, detail))
    }

    /// The session does not exist.
    pub(crate) fn session_not_found(id: &SessionId) -> Self {
        Self::new(Code::SESSION_NOT_FOUND, format!("session {id} does not exist"))
    }

    /// The session has ended.
    pub(crate) fn session_gone(session: &Session) -> Self {
        let problem = Problem::new(Code::SESSION_GONE, format!("the session is {}", session.state))
            .with("session", session.id.as_str())
            .with("state", session.state.as_str())
            .with("reason", session.reason.as_str())
            .with("reason_detail", session.detail.map(tenure_session::Detail::as_str));
        Self(problem)
    }

    /// Maps a rejection of an extractor: malformed requests have a single code in this API.
    pub(crate) fn invalid_input(problem: Problem) -> Self {
        let malformed = [Code::INVALID_REQUEST, Code::BODY_TOO_LARGE].contains(&problem.code);
        let code = if malformed { Code::INVALID_INPUT } else { problem.code };
        Self(Problem { code, ..problem })
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match &error {
            Error::Invalid { field, .. } => {
                Self(Problem::new(Code::INVALID_INPUT, error.to_string()).with("field", *field))
            }
            // Internal details go to the log, not to the client.
            Error::Unavailable(why) => {
                tracing::warn!(why, "session store unavailable");
                Self::new(Code::V3_UNAVAILABLE, "the session store is unavailable; the request had no effect")
            }
            Error::Unknown(why) => {
                tracing::warn!(why, "no response from the session store");
                Self::new(
                    Code::SERVICE_UNAVAILABLE,
                    "no response from the session store; the request is safe to retry",
                )
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}
