//! Why a request has no answer, on either surface.

use axum::response::{IntoResponse, Response};
use lease::Error;
use service::Problem;
use tonic::Status;

use crate::problem::{code, problem};
use crate::{convert, wire};

/// An error of the store, or of what stands before it.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store gave it.
    Store(Error),
    /// The request did not reach the store.
    Door(Problem),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self::Door(problem)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        match self {
            Self::Store(error) => problem(&error).into_response(),
            Self::Door(problem) => problem.into_response(),
        }
    }
}

impl From<&Trouble> for wire::Problem {
    fn from(trouble: &Trouble) -> Self {
        match trouble {
            Trouble::Store(error) => error.into(),
            Trouble::Door(problem) => problem.into(),
        }
    }
}

impl From<Trouble> for Status {
    fn from(trouble: Trouble) -> Self {
        let code = match &trouble {
            Trouble::Store(error) => code(error),
            Trouble::Door(problem) => problem.code,
        };
        convert::status(code, &(&trouble).into())
    }
}
