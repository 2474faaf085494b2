//! What went wrong, where, and what to do about it.

use std::io::{self, ErrorKind};

use lease::{Error as StoreError, Refusal};
use lease_keeper::Error as KeeperError;
use serde::Serialize;

use super::Screen;

/// The result of a command.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Exit codes. They are stable: scripts read them. Those above 63 are those of `sysexits.h`.
pub(crate) mod exit {
    /// Done.
    pub(crate) const DONE: u8 = 0;
    /// A check failed.
    pub(crate) const FAILED: u8 = 1;
    /// The request cannot be meant.
    pub(crate) const USAGE: u8 = 2;
    /// The server or store does not answer.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// Our own fault, or the operating system's.
    pub(crate) const INTERNAL: u8 = 70;
    /// Somebody or something is in the way now.
    pub(crate) const NOT_NOW: u8 = 75;
    /// It was held and is not held any more.
    pub(crate) const LOST: u8 = 76;
    /// The token does not allow it.
    pub(crate) const PERMISSION: u8 = 77;
}

/// Why a command did not do what it was asked.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    #[serde(skip)]
    exit: u8,
    code: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Nobody reads what we say any more: not worth a word.
    #[serde(skip)]
    silent: bool,
}

impl Failure {
    /// A failure with a stable word and an exit code.
    pub(crate) fn new(exit: u8, code: &'static str, detail: impl Into<String>) -> Self {
        Self { exit, code, detail: detail.into(), hint: None, silent: false }
    }

    /// The request cannot be meant.
    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self::new(exit::USAGE, "INVALID_REQUEST", detail)
    }

    /// The store or server does not answer.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(exit::UNAVAILABLE, "UNAVAILABLE", detail)
    }

    /// The token does not allow it.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(exit::PERMISSION, "FORBIDDEN", detail)
            .hint("the token comes from --api-token, TENURE_TOKEN or the data directory of `tenure up`")
    }

    /// Our own fault, or the operating system's.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(exit::INTERNAL, "INTERNAL", detail)
    }

    /// Whether it has this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// The same failure, with what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure, saying first what was being done.
    pub(crate) fn during(mut self, what: &str) -> Self {
        self.detail = format!("{what}: {}", self.detail);
        self
    }

    /// The same failure with another exit code.
    pub(crate) fn exiting(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }

    /// Whether the store or server did not answer.
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

    /// Says it on standard error and answers with the exit code.
    pub(crate) fn tell(&self, screen: &Screen) -> u8 {
        if self.silent {
            return self.exit;
        }
        if screen.is_json() {
            screen.complain(&serde_json::to_string(self).unwrap_or_default());
            return self.exit;
        }
        screen.complain(&format!("{} {}", screen.red("tenure:"), self.detail));
        if let Some(hint) = &self.hint {
            for line in hint.lines() {
                screen.complain(&format!("        {line}"));
            }
        }
        self.exit
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let words = error.to_string();
        match error {
            StoreError::Invalid { what: "credentials", .. } => Self::forbidden(words),
            StoreError::Invalid { .. } => Self::usage(words),
            StoreError::Refused(refusal) => refused(&refusal, words),
            StoreError::Unavailable { .. } => {
                Self::unavailable(words).hint("nothing happened; `tenure doctor` says what is wrong")
            }
            StoreError::Unknown { .. } => Self::new(exit::UNAVAILABLE, "UNKNOWN_OUTCOME", words)
                .hint("it may have happened: look with `tenure lease get KEY` before doing it again"),
        }
    }
}

fn refused(refusal: &Refusal, words: String) -> Failure {
    match refusal {
        Refusal::TokenSpent => {
            Failure::new(exit::USAGE, "TOKEN_SPENT", words).hint("leave --token out to have one made")
        }
        Refusal::TtlOutOfRange { min_ms, max_ms, .. } => Failure::new(exit::USAGE, "TTL_OUT_OF_RANGE", words)
            .hint(format!("give --ttl a value from {min_ms}ms to {max_ms}ms")),
        Refusal::TooMany { .. } => Failure::new(exit::NOT_NOW, "TOO_MANY", words),
        Refusal::KeyIsLeased { .. } => Failure::new(exit::NOT_NOW, "KEY_IS_LEASED", words),
    }
}

impl From<KeeperError> for Failure {
    fn from(error: KeeperError) -> Self {
        let words = error.to_string();
        match error {
            KeeperError::Store(error) => error.into(),
            KeeperError::Busy { .. } => Self::new(exit::NOT_NOW, "BUSY", words),
            KeeperError::Lost { .. } | KeeperError::NotSafe(_) | KeeperError::Unproven { .. } => {
                Self::new(exit::LOST, "NOT_HELD", words)
            }
        }
    }
}

/// Of standard output: a reader that has seen enough is no failure.
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
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let failure = Failure::from(io::Error::from(ErrorKind::BrokenPipe));
        assert!(failure.silent && failure.exit == exit::DONE);
    }
}
