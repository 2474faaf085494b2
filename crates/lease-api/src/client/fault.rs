//! A call that gave no answer: was it sent, may it be sent again, and what to say.

use std::error::Error as StdError;

use lease::Error;
use tonic::{Code, ConnectError, Status};

use crate::convert::{self, ENGINE};

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server did not take it: nothing happened, and any call may be sent again.
    NotSent(Error),
    /// It left and the connection broke: it may have happened.
    Lost(Error),
    /// The server gave this error.
    Answered(Error),
}

impl Fault {
    /// A call whose time was over.
    pub(super) fn late() -> Self {
        Self::Answered(Error::unknown(ENGINE, "no answer in time"))
    }

    /// A call that waited for a connection until its time was over.
    pub(super) fn broken(why: &str) -> Self {
        Self::Lost(Error::unknown(ENGINE, why))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotSent(error) | Fault::Lost(error) | Fault::Answered(error) => error,
        }
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        if let Some(error) = convert::rebuild(&status) {
            return Self::Answered(error);
        }
        if is_connect(&status) {
            let why = format!("cannot connect: {}", chain(&status));
            return Self::NotSent(Error::unavailable(ENGINE, why).because(status));
        }
        if is_refused(&status) {
            let why = "the server takes no more calls on this connection";
            return Self::NotSent(Error::unavailable(ENGINE, why).because(status));
        }
        let error = Error::unknown(ENGINE, chain(&status)).because(status);
        Self::Lost(error)
    }
}

/// Whether the connection could not be made.
fn is_connect(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// Whether the server refused the HTTP/2 stream, which it may only do before looking at it. tonic keeps the
/// reason as this code; a connection found dead by ping has it as well, but not these words.
fn is_refused(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message().starts_with("h2 protocol error")
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The last and most telling cause, after the first words.
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let first = match error.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => error.to_string(),
    };
    match causes(error).skip(1).last().map(ToString::to_string) {
        Some(last) if last != first => format!("{first}: {last}"),
        _ => first,
    }
}
