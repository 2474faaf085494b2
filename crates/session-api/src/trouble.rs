//! Errors of the ports as problems with stable codes.

use axum::response::{IntoResponse, Response};
use service::{Code, Problem};
use session::{Error, Session, SessionId};

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) struct Trouble(pub(crate) Problem);

impl Trouble {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Problem::new(code, detail))
    }

    /// There is no such session.
    pub(crate) fn missing(id: &SessionId) -> Self {
        Self::new(Code::SESSION_NOT_FOUND, format!("there is no session {id}"))
    }

    /// The session is over.
    pub(crate) fn gone(session: &Session) -> Self {
        let problem = Problem::new(Code::SESSION_GONE, format!("the session is {}", session.state))
            .with("session", session.id.as_str())
            .with("state", session.state.word())
            .with("reason", session.reason.word())
            .with("reason_detail", session.detail.map(session::Detail::word));
        Self(problem)
    }

    /// A refusal of an extractor: what is malformed has one code at this door.
    pub(crate) fn input(problem: Problem) -> Self {
        let malformed = [Code::INVALID_REQUEST, Code::BODY_TOO_LARGE].contains(&problem.code);
        let code = if malformed { Code::INVALID_INPUT } else { problem.code };
        Self(Problem { code, ..problem })
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match &error {
            Error::Invalid { field, .. } => {
                Self(Problem::new(Code::INVALID_INPUT, error.to_string()).with("field", *field))
            }
            // What failed inside is for the log, not for the client.
            Error::Unavailable(why) => {
                tracing::warn!(why, "the sessions cannot be reached");
                Self::new(Code::V3_UNAVAILABLE, "the sessions cannot be reached; nothing happened")
            }
            Error::Unknown(why) => {
                tracing::warn!(why, "no answer about a session");
                Self::new(Code::SERVICE_UNAVAILABLE, "no answer came; asking again is safe")
            }
        }
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}
