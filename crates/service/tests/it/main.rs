//! The server over real sockets.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod access;
mod drain;
mod limits;
mod login;
mod problems;
mod protocol;
mod signals;
mod support;
mod tls;
mod traces;
