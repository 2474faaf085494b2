//! Calls without a response: whether they were sent, may be retried, and how to describe the error.

use std::error::Error as StdError;

use tenure_lease::Error;
use tenure_lease_wire::{ENGINE, error_from_status};
use tonic::{Code, ConnectError, Status};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server did not accept it: it did not happen, and any call may be retried.
    NotSent(Error),
    /// It was sent and the connection broke: it may have happened.
    Lost(Error),
    /// The server answered with this error, or the time was up. Not retried.
    Rejected(Error),
}

impl CallError {
    /// A call whose time was up.
    pub(crate) fn timeout() -> Self {
        Self::Rejected(Error::unknown(ENGINE, "no response in time"))
    }

    /// A call whose connection broke.
    pub(crate) fn lost(why: &str) -> Self {
        Self::Lost(Error::unknown(ENGINE, why))
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotSent(error) | CallError::Lost(error) | CallError::Rejected(error) => error,
        }
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        if let Some(error) = error_from_status(&status) {
            return Self::Rejected(error);
        }
        if is_connect_error(&status) {
            let why = format!("cannot connect: {}", describe_causes(&status));
            return Self::NotSent(Error::unavailable(ENGINE, why).because(status));
        }
        if is_refused_stream(&status) {
            let why = "the server accepts no more calls on this connection";
            return Self::NotSent(Error::unavailable(ENGINE, why).because(status));
        }
        let error = Error::unknown(ENGINE, describe_causes(&status)).because(status);
        Self::Lost(error)
    }
}

fn is_connect_error(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// Whether the server refused the HTTP/2 stream, which it may only do before processing it. tonic maps that to this
/// code; a connection that failed its ping has the same code but another message.
fn is_refused_stream(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message().starts_with("h2 protocol error")
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The error with its root cause, which is the most specific.
pub(crate) fn describe_causes(error: &(dyn StdError + 'static)) -> String {
    let first = match error.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => error.to_string(),
    };
    match causes(error).skip(1).last().map(ToString::to_string) {
        Some(last) if last != first => format!("{first}: {last}"),
        _ => first,
    }
}
