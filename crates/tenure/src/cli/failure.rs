//! The failure of a command, with a hint what to do about it.

use std::io::{self, ErrorKind};

use serde::Serialize;
use tenure_keeper::Error as KeeperError;
use tenure_lease::{Error as StoreError, Refusal};

use super::Screen;

/// The result of a command.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Exit codes. They are stable: scripts read them. Those above 63 are those of `sysexits.h`.
pub(crate) mod exit {
    /// Done.
    pub(crate) const DONE: u8 = 0;
    /// A check failed.
    pub(crate) const FAILED: u8 = 1;
    /// Invalid usage.
    pub(crate) const USAGE: u8 = 2;
    /// The server or store is unavailable.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// An internal error, or one of the operating system.
    pub(crate) const INTERNAL: u8 = 70;
    /// Busy or in conflict; try again later.
    pub(crate) const NOT_NOW: u8 = 75;
    /// The lease was lost.
    pub(crate) const LOST: u8 = 76;
    /// The token does not allow it.
    pub(crate) const PERMISSION: u8 = 77;
}

/// Why a command failed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    #[serde(skip)]
    exit: u8,
    code: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Not reported, because standard output was closed.
    #[serde(skip)]
    silent: bool,
}

impl Failure {
    /// A failure with an exit code and a stable code.
    pub(crate) fn new(exit: u8, code: &'static str, detail: impl Into<String>) -> Self {
        Self { exit, code, detail: detail.into(), hint: None, silent: false }
    }

    /// Invalid usage.
    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self::new(exit::USAGE, "INVALID_REQUEST", detail)
    }

    /// The store or server is unavailable.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(exit::UNAVAILABLE, "UNAVAILABLE", detail)
    }

    /// The token does not allow it.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(exit::PERMISSION, "FORBIDDEN", detail)
            .hint("the token is read from --api-token, TENURE_TOKEN or the data directory of `tenure up`")
    }

    /// An internal error, or one of the operating system.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(exit::INTERNAL, "INTERNAL", detail)
    }

    /// Whether it has this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what was being done.
    pub(crate) fn during(mut self, what: &str) -> Self {
        self.detail = format!("{what}: {}", self.detail);
        self
    }

    /// Replaces the exit code.
    pub(crate) fn exiting(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }

    /// Whether the store or server is unavailable.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.exit == exit::UNAVAILABLE
    }

    /// What went wrong.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// What to do about it.
    pub(crate) fn remedy(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prints it on standard error and returns the exit code.
    pub(crate) fn report(&self, screen: &Screen) -> u8 {
        if self.silent {
            return self.exit;
        }
        if screen.is_json() {
            screen.error_line(&serde_json::to_string(self).unwrap_or_default());
            return self.exit;
        }
        screen.error_line(&format!("{} {}", screen.red("tenure:"), self.detail));
        if let Some(hint) = &self.hint {
            for line in hint.lines() {
                screen.error_line(&format!("        {line}"));
            }
        }
        self.exit
    }
}

/// An error and its causes in one line.
pub(crate) fn describe_error(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::Invalid { what: "credentials", .. } => Self::forbidden(detail),
            StoreError::Invalid { .. } => Self::usage(detail),
            StoreError::Refused(refusal) => refused(&refusal, detail),
            StoreError::Unavailable { .. } => {
                Self::unavailable(detail).hint("the request had no effect; `tenure doctor` checks the store")
            }
            StoreError::Unknown { .. } => Self::new(exit::UNAVAILABLE, "UNKNOWN_OUTCOME", detail)
                .hint("the request may have taken effect: check with `tenure lease get KEY` before retrying"),
        }
    }
}

fn refused(refusal: &Refusal, detail: String) -> Failure {
    match refusal {
        Refusal::TokenSpent => {
            Failure::new(exit::USAGE, "TOKEN_SPENT", detail).hint("omit --token to generate a new one")
        }
        Refusal::TtlOutOfRange { min_ms, max_ms, .. } => {
            Failure::new(exit::USAGE, "TTL_OUT_OF_RANGE", detail)
                .hint(format!("set --ttl to a value from {min_ms}ms to {max_ms}ms"))
        }
        Refusal::TooMany { .. } => Failure::new(exit::NOT_NOW, "TOO_MANY", detail),
        Refusal::KeyIsLeased { .. } => Failure::new(exit::NOT_NOW, "KEY_IS_LEASED", detail),
    }
}

impl From<KeeperError> for Failure {
    fn from(error: KeeperError) -> Self {
        let detail = error.to_string();
        match error {
            KeeperError::Store(error) => error.into(),
            KeeperError::Busy { .. } => Self::new(exit::NOT_NOW, "BUSY", detail),
            KeeperError::Lost { .. } | KeeperError::NotPermitted(_) | KeeperError::Unproven { .. } => {
                Self::new(exit::LOST, "NOT_HELD", detail)
            }
        }
    }
}

/// For standard output: a reader that closes the pipe is not a failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self { exit: exit::DONE, silent: true, ..Self::internal("") },
            _ => Self::internal(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_has_its_exit_code() {
        let unavailable = |why: &str| StoreError::unavailable("redis", why);
        let table: [(StoreError, u8, &str); 6] = [
            (StoreError::invalid("key", "must not be empty"), 2, "INVALID_REQUEST"),
            (Refusal::TokenSpent.into(), 2, "TOKEN_SPENT"),
            (Refusal::TooMany { what: "waiters", limit: 3 }.into(), 75, "TOO_MANY"),
            (unavailable("connection refused"), 69, "UNAVAILABLE"),
            (StoreError::invalid("credentials", "needs lease:admin"), 77, "FORBIDDEN"),
            (StoreError::unknown("redis", "no answer"), 69, "UNKNOWN_OUTCOME"),
        ];
        for (error, exit, code) in table {
            let failure = Failure::from(error);
            assert_eq!((failure.exit, failure.code), (exit, code), "{failure:?}");
        }
    }

    #[test]
    fn a_closed_pipe_is_not_a_failure() {
        let failure = Failure::from(io::Error::from(ErrorKind::BrokenPipe));
        assert!(failure.silent && failure.exit == exit::DONE);
    }
}
